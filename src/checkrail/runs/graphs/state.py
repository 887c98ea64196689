"""A thread's state, as the LangGraph API shows it: read, listed, and written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.runs.graphs.payloads import checkpoint_of, render_interrupts
from checkrail.runs.graphs.requests import build_command
from checkrail.runs.jsons import jsonable

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.pregel import Pregel
    from langgraph.types import PregelTask, StateSnapshot

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

Checkpoint: TypeAlias = Mapping[str, Any]
_COORDINATES = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")


def render_state(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON, without a checkpoint where it has none."""
    here = None if snapshot.created_at is None else checkpoint_of(snapshot.config)
    parent = checkpoint_of(snapshot.parent_config)
    return {
        "values": jsonable(snapshot.values),
        "next": [*snapshot.next],
        "tasks": [_render_task(task) for task in snapshot.tasks],
        "metadata": jsonable(snapshot.metadata),
        "created_at": snapshot.created_at,
        "checkpoint": here,
        "parent_checkpoint": parent,
        "interrupts": render_interrupts(snapshot.interrupts),
        "checkpoint_id": _checkpoint_id(here),
        "parent_checkpoint_id": _checkpoint_id(parent),
    }


def _checkpoint_id(checkpoint: Checkpoint | None) -> str | None:
    return checkpoint.get("checkpoint_id") if checkpoint else None


async def load_state(
    graph: Graph, thread_id: str, checkpoint: Checkpoint | None = None, *, subgraphs: bool = False
) -> dict[str, Any]:
    """Return where a thread stands, or stood at a checkpoint."""
    config = config_at(thread_id, checkpoint)
    return render_state(await graph.aget_state(config, subgraphs=subgraphs))


async def load_history(
    graph: Graph,
    thread_id: str,
    *,
    limit: int = 10,
    before: str | Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[dict[str, Any]]:
    """Return the states that a thread went through, the last one first, or from one of them on."""
    first = checkpoint.get("checkpoint_id") if checkpoint and not before else None
    found = []
    if first:
        found = [render_state(await graph.aget_state(config_at(thread_id, checkpoint)))]
        before, limit = first, limit - 1
    if not limit:
        return found
    states = graph.aget_state_history(
        config_at(thread_id, {**(checkpoint or {}), "checkpoint_id": None}),
        filter=dict(metadata) if metadata else None,
        before=_parse_before(before),
        limit=limit,
    )
    return [*found, *[render_state(snapshot) async for snapshot in states]]


async def update_state(
    graph: Graph,
    thread_id: str,
    values: Any,
    *,
    as_node: str | None = None,
    checkpoint: Checkpoint | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write to a thread's state as if a node had, and return where the new checkpoint is."""
    config = config_at(thread_id, checkpoint, metadata)
    made = await graph.aupdate_state(config, values, as_node=as_node)
    return _render_written(made)


async def apply_supersteps(
    graph: Graph,
    thread_id: str,
    supersteps: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a thread's history from updates, as when a thread is brought from another server."""
    from langgraph.types import StateUpdate

    steps = [
        [StateUpdate(_update_values(update), update.get("as_node")) for update in step["updates"]]
        for step in supersteps
    ]
    made = await graph.abulk_update_state(config_at(thread_id, None, metadata), steps)
    return _render_written(made)


def _render_written(config: RunnableConfig) -> dict[str, Any]:
    """Return where a new checkpoint is, in each of the ways that clients read it."""
    place = checkpoint_of(config)
    return {"checkpoint": place, "configurable": place, "checkpoint_id": _checkpoint_id(place)}


def _update_values(update: Mapping[str, Any]) -> Any:
    command = update.get("command")
    return update.get("values") if command is None else build_command(command)


def _render_task(task: PregelTask) -> dict[str, Any]:
    from langgraph.types import StateSnapshot

    nested = task.state if isinstance(task.state, StateSnapshot) else None
    config: Any = nested.config if nested else task.state
    return {
        "id": task.id,
        "name": task.name,
        "path": jsonable(task.path),
        "error": _render_error(task.error),
        "interrupts": render_interrupts(task.interrupts),
        "checkpoint": checkpoint_of(config),
        "state": render_state(nested) if nested else None,
        "result": jsonable(task.result),
    }


def _render_error(error: Any) -> str | None:
    return error if error is None or isinstance(error, str) else repr(error)


def config_at(
    thread_id: str, checkpoint: Checkpoint | None = None, metadata: Mapping[str, Any] | None = None
) -> RunnableConfig:
    """Return the config that names a thread, or one of its checkpoints."""
    given = checkpoint or {}
    addressed = {key: given[key] for key in _COORDINATES if given.get(key)}
    config: RunnableConfig = {
        "configurable": {"checkpoint_ns": "", **addressed, "thread_id": thread_id}
    }
    if metadata:
        config["metadata"] = dict(metadata)
    return config


def _parse_before(given: str | Mapping[str, Any] | None) -> RunnableConfig | None:
    """Parse the checkpoint to look before: its id, itself, or a config that has it."""
    if not given:
        return None
    if isinstance(given, str):
        return {"configurable": {"checkpoint_id": given}}
    said = given.get("configurable", given)
    return {"configurable": {"checkpoint_id": said.get("checkpoint_id")}}
