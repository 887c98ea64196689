"""Rows as clients see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from checkrail.runs import jsons
from checkrail.store.rows import Row


def when(seconds: float | None) -> str | None:
    """Return a time as clients read it."""
    return (
        None
        if seconds is None
        else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    )


def path_of(row: Row) -> str:
    """Return where a run is found."""
    return f"/threads/{row['thread_id']}/runs/{row['run_id']}"


def run_json(row: Row) -> dict[str, Any]:
    """Give a run in the words of both APIs, but for what came of it: see `whole_run_json`.

    `parameters` are what it works with, `original_parameters` what was asked for. Its `scope` is
    for its tools and hooks alone.
    """
    kind, _, needs = (row.get("needs") or "").partition("/")
    tags = needs.rpartition("/")[2]
    original, changed = row["input"], row.get("parameters")
    kwargs = {key: value for key, value in row["kwargs"].items() if key != "modes"}
    return {
        "run_id": row["run_id"],
        "thread_id": row["thread_id"],
        "assistant_id": row["assistant_id"],
        "agent_name": row["agent_name"],
        "created_at": when(row["created_at"]),
        "updated_at": when(row["updated_at"]),
        "started_at": when(row.get("started_at")),
        "ended_at": when(row.get("ended_at")),
        "status": row["status"],
        "phase": row["phase"],
        "blocked_by": row.get("blocked_by"),
        "block_reason": row.get("block_reason"),
        "error": row.get("error"),
        "error_type": row.get("error_type"),
        "attempt": row["attempt"],
        "metadata": row["metadata"],
        "kwargs": {"input": row["input"], **kwargs},
        "multitask_strategy": row["multitask_strategy"],
        "cancel_reason": row.get("cancel_reason"),
        "usage": row.get("usage"),
        "unwound": row.get("unwound"),
        "origin": row["origin"],
        "session_id": row.get("session_id"),
        "parent_run_id": row.get("parent_run_id"),
        "depth": row.get("depth", 0),
        "kind": kind or "graph",
        "demands": tags.split(",") if tags else [],
        "timeout_seconds": row.get("timeout_seconds"),
        "parameters": original if changed is None else changed,
        "original_parameters": original,
    }


def created_run(row: Row) -> Row:
    """Return a run as it was made, for the answer to who asked for it: it may have begun since."""
    if row["status"] != "running":
        return row
    return row | {"status": "pending", "phase": "queued", "started_at": None, "attempt": 0}


def whole_run_json(row: Row) -> dict[str, Any]:
    """Give a run with what came of it: a text, or data, as it always is of a graph."""
    told, output = run_json(row), row.get("output")
    as_text = isinstance(output, str) and told["kind"] != "graph"
    name, other = ("result_text", "result_data") if as_text else ("result_data", "result_text")
    return told | {name: output, other: None}


_OF_CODE = ("error", "unreachable")
"""Failures of hooks whose `error` is what an exception said; other kinds have a text of ours."""


def record_json(record: Mapping[str, Any], *, whole: bool) -> Mapping[str, Any]:
    """Return a hook's record; what an exception of its code said is for who sees it `whole`."""
    kind = record.get("failure")
    if whole or kind not in _OF_CODE:
        return record
    error = f"the hook {record.get('hook')!r} failed ({kind}). Admins can see what its error was"
    return {**record, "error": error}


def session_json(row: Row) -> dict[str, Any]:
    """Return a session."""
    return {
        "session_id": row["session_id"],
        "parent_session_id": row["parent_session_id"],
        "user_id": row["owner"],
        "channel": row["channel"],
        "metadata": row["metadata"],
        "created_at": when(row["created_at"]),
        "updated_at": when(row["updated_at"]),
        "ended_at": when(row["ended_at"]),
        "reason": row["reason"],
    }


def thread_json(row: Row) -> dict[str, Any]:
    """Return a thread."""
    return {
        "thread_id": row["thread_id"],
        "created_at": when(row["created_at"]),
        "updated_at": when(row["updated_at"]),
        "state_updated_at": when(row.get("state_updated_at") or row["updated_at"]),
        "metadata": row["metadata"],
        "status": row["status"],
        "config": {"configurable": {}},
        "values": row.get("values"),
        "interrupts": row.get("interrupts") or {},
        "error": _thread_error(row.get("error")),
    }


def _thread_error(kept: str | None) -> dict[str, str] | None:
    """Return the error of a thread's last run; it is kept as JSON, and was once a mere text."""
    if kept is None:
        return None
    try:
        told = jsons.loads(kept)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"error": "Error", "message": kept}


def assistant_json(row: Row) -> dict[str, Any]:
    """Return an assistant, or a version of one."""
    return {
        "assistant_id": row["assistant_id"],
        "graph_id": row["graph_id"],
        "name": row["name"],
        "description": row["description"],
        "config": row["config"],
        "context": row["context"],
        "metadata": row["metadata"],
        "version": row["version"],
        "created_at": when(row["created_at"]),
        "updated_at": when(row.get("updated_at") or row["created_at"]),
    }


def cron_json(row: Row) -> dict[str, Any]:
    """Return a cron."""
    return {
        "cron_id": row["cron_id"],
        "assistant_id": row["assistant_id"],
        "thread_id": row["thread_id"],
        "on_run_completed": row["on_run_completed"],
        "schedule": row["schedule"],
        "timezone": row["timezone"],
        "enabled": row["enabled"],
        "end_time": when(row["end_at"]),
        "next_run_date": when(row["next_run_at"]),
        "payload": row["payload"],
        "metadata": row["metadata"],
        "user_id": row["owner"],
        "last_error": row["last_error"],
        "created_at": when(row["created_at"]),
        "updated_at": when(row["updated_at"]),
    }


def selected(shown: Mapping[str, Any], select: Sequence[str] | None) -> dict[str, Any]:
    """Give only the fields that were asked for; `values.key` is one value of many."""
    if not select:
        return dict(shown)
    found: dict[str, Any] = {}
    for name in select:
        field, _, key = name.partition(".")
        if not key and field in shown:
            found[field] = shown[field]
        elif key and isinstance(inner := shown.get(field), Mapping) and key in inner:
            found.setdefault(field, {})[key] = inner[key]
    return found
