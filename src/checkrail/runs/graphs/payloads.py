"""What a graph streams, as JSON: of a run's config only where its checkpoint is, and whose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checkrail.runs.jsons import Fragment, dumps, jsonable

_IDS = ("assistant_id", "graph_id", "run_id", "user_id")


def render_interrupts(interrupts: Iterable[Any]) -> list[dict[str, Any]]:
    """Return interrupts as states and threads have them: a schema for the answer is rare there."""
    return [
        {key: value for key, value in one.items() if key != "response_schema" or value is not None}
        for one in jsonable([*interrupts])
    ]


def render_chunk(mode: str, data: Any) -> Fragment:
    """Return a chunk as its clients see it; a graph may change what it streamed, but not this."""
    if mode == "checkpoints":
        data = _render_checkpoint(data)
    elif mode == "debug" and data["type"] == "checkpoint":
        data = {**data, "payload": _render_checkpoint(data["payload"])}
    return Fragment(dumps(data))


def checkpoint_of(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return where a config's checkpoint is; the rest of a config may hold secrets."""
    if not config:
        return None
    said = config.get("configurable") or {}
    place = {"thread_id": said.get("thread_id"), "checkpoint_ns": said.get("checkpoint_ns", "")}
    return place | {key: said[key] for key in ("checkpoint_id", "checkpoint_map") if said.get(key)}


def _render_checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **data,
        "config": _render_config(data.get("config")),
        "parent_config": _render_config(data.get("parent_config")),
        "checkpoint": checkpoint_of(data.get("config")),
        "parent_checkpoint": checkpoint_of(data.get("parent_config")),
        "tasks": [_render_task(task) for task in data["tasks"]],
    }


def _render_config(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not config:
        return None
    said = config.get("configurable") or {}
    ids = {key: said[key] for key in _IDS if isinstance(said.get(key), str)}
    return {"configurable": {**(checkpoint_of(config) or {}), **ids}}


def _render_task(task: Mapping[str, Any]) -> dict[str, Any]:
    state = task.get("state")
    config = state if isinstance(state, Mapping) else getattr(state, "config", None)
    return {**task, "state": _render_config(config), "checkpoint": checkpoint_of(config)}
