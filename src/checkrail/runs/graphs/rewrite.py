"""A thread's last state, written anew: what hooks made of a result, or stopped a run with.

No node and no edge of the graph is asked, and nothing is left to be done next.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.runs.graphs.state import config_at
from checkrail.runs.jsons import jsonable

if TYPE_CHECKING:
    from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
    from langgraph.pregel import Pregel

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

_TASKS = "__pregel_tasks"


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
    graph: Graph, last: Checkpoint, changed: Mapping[str, Any], step: int
) -> Checkpoint:
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
