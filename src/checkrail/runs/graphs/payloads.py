"""What a graph streams, as JSON: of a run's config nothing but where its checkpoint is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.runs.jsons import Fragment, dumps


def convert(mode: str, data: Any) -> Fragment:
    """Write a chunk as its clients see it; a graph may change what it streamed, but not this."""
    if mode == "checkpoints":
        data = _checkpoint(data)
    elif mode == "debug" and data["type"] == "checkpoint":
        data = {**data, "payload": _checkpoint(data["payload"])}
    return Fragment(dumps(data))


def checkpoint_of(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Give where a config's checkpoint is; the rest of a config may hold secrets."""
    if not config:
        return None
    said = config.get("configurable") or {}
    return {
        "thread_id": said.get("thread_id"),
        "checkpoint_ns": said.get("checkpoint_ns", ""),
        "checkpoint_id": said.get("checkpoint_id"),
        "checkpoint_map": said.get("checkpoint_map"),
    }


def _checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    here, parent = checkpoint_of(data.get("config")), checkpoint_of(data.get("parent_config"))
    return {
        **data,
        "config": {"configurable": here} if here else None,
        "parent_config": {"configurable": parent} if parent else None,
        "checkpoint": here,
        "parent_checkpoint": parent,
        "tasks": [_task(task) for task in data["tasks"]],
    }


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    state = task.get("state")
    config = state if isinstance(state, Mapping) else getattr(state, "config", None)
    said = {key: value for key, value in task.items() if key != "state"}
    return {**said, "checkpoint": checkpoint_of(config)}
