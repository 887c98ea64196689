"""A thread's state, as the LangGraph API shows it: read, listed, and written by hand.

What hooks made of a result, or stopped a run with, is written as a thread's last state: no node
and no edge of the graph is asked, and nothing is left to be done next.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.runs.graphs.payloads import checkpoint_of, render_interrupts
from checkrail.runs.graphs.requests import build_command
from checkrail.runs.jsons import jsonable

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint as StoredCheckpoint
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.pregel import Pregel
    from langgraph.types import PregelTask, StateSnapshot

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

Checkpoint: TypeAlias = Mapping[str, Any]
_COORDINATES = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
_TASKS = "__pregel_tasks"


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


async def rewrite_values(graph: Graph, thread_id: str, values: Any) -> None:
    """Set a thread's state to these values, given as JSON; what they do not change stays itself."""
    saved, now = await _load_latest(graph, thread_id)
    if saved is None:
        return
    told = _to_channels(graph, values)
    changed = {
        name: _revive_value(graph, name, now.get(name), told[name])
        for name in graph.stream_channels_list
        if name in told and told[name] != jsonable(now.get(name))
    }
    await _put_checkpoint(graph, saved, changed)


async def end_with_update(graph: Graph, thread_id: str, update: Mapping[str, Any] | None) -> Any:
    """End a thread's work where it stands, with an update to its state; return its values."""
    saved, now = await _load_latest(graph, thread_id)
    if saved is None:
        return jsonable(dict(update or {}))
    for name, given in (update or {}).items():
        if name in graph.stream_channels_list:
            now[name] = _reduce_channel(graph, name, now, given)
    await _put_checkpoint(graph, saved, now)
    return jsonable((await graph.aget_state(config_at(thread_id))).values)


async def _load_latest(
    graph: Graph, thread_id: str
) -> tuple[CheckpointTuple | None, dict[str, Any]]:
    """Return a thread's last checkpoint, and its values with what finished after it."""
    saver: Any = graph.checkpointer
    saved = await saver.aget_tuple(config_at(thread_id))
    state = await graph.aget_state(config_at(thread_id))
    return saved, _to_channels(graph, state.values)


async def _put_checkpoint(graph: Graph, saved: CheckpointTuple, changed: Mapping[str, Any]) -> None:
    saver: Any = graph.checkpointer
    step = saved.metadata.get("step", -1) + 1
    checkpoint = _next_checkpoint(graph, saved.checkpoint, changed, step)
    config = {"configurable": {**saved.config["configurable"]}, "metadata": {}}
    metadata = {**saved.metadata, "source": "update", "step": step}
    versions = {name: checkpoint["channel_versions"][name] for name in changed}
    await saver.aput(config, checkpoint, metadata, versions)


def _next_checkpoint(
    graph: Graph, last: StoredCheckpoint, changed: Mapping[str, Any], step: int
) -> StoredCheckpoint:
    """Return the checkpoint that follows: nodes have seen everything, so none is next."""
    from langgraph.checkpoint.base import copy_checkpoint
    from langgraph.checkpoint.base.id import uuid6

    saver: Any = graph.checkpointer
    made = copy_checkpoint(last)
    newest = max(made["channel_versions"].values(), default=None)
    version = saver.get_next_version(newest, None)
    made["channel_values"] = {**made["channel_values"], **changed}
    made["channel_values"].pop(_TASKS, None)
    made["channel_versions"] = {**made["channel_versions"], **dict.fromkeys(changed, version)}
    made["versions_seen"] = {
        **made["versions_seen"],
        **{name: dict(made["channel_versions"]) for name in graph.nodes},
    }
    made["updated_channels"] = None
    made["id"] = str(uuid6(clock_seq=step))
    made["ts"] = dt.datetime.now(dt.UTC).isoformat()
    return made


def _to_channels(graph: Graph, values: Any) -> dict[str, Any]:
    """Return values by channel; a graph with one output has them without its name."""
    output = graph.stream_channels_asis
    return {output: values} if isinstance(output, str) else dict(values or {})


def _reduce_channel(graph: Graph, name: str, now: Mapping[str, Any], given: Any) -> Any:
    channel: Any = graph.channels[name]
    empty = channel.copy()
    taken = channel.from_checkpoint(now[name]) if name in now else empty
    taken.update([given])
    return taken.get()


def _revive_value(graph: Graph, name: str, was: Any, told: Any) -> Any:
    """Return JSON as what a node expects: messages, or whatever the channel's type says."""
    from langchain_core.messages import BaseMessage

    if isinstance(was, list) and any(isinstance(item, BaseMessage) for item in was):
        known = [(jsonable(item), item) for item in was]
        return [_revive_message(item, known) for item in told]
    if isinstance(was, BaseMessage):
        return _revive_message(told, [])
    return _validate_as(getattr(graph.channels[name], "ValueType", Any), told)


def _revive_message(told: Any, known: list[tuple[Any, Any]]) -> Any:
    """Return a message that is unchanged as it was, and the others parsed from their JSON."""
    from langchain_core.messages import AnyMessage

    same = next((item for shown, item in known if shown == told), None)
    return _validate_as(AnyMessage, told) if same is None else same


def _validate_as(kind: Any, told: Any) -> Any:
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(kind).validate_python(told)
    except Exception:  # noqa: BLE001 - a type that cannot be made of JSON gets the JSON
        return told
