"""Rows as clients see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from checkrail.runs import jsons
from checkrail.runs.summaries import sum_tokens
from checkrail.store.assistants import Assistant, AssistantVersion
from checkrail.store.crons import Cron
from checkrail.store.deliveries import Delivery
from checkrail.store.messages import Message
from checkrail.store.records import COUNTS
from checkrail.store.run_lists import ListedRun
from checkrail.store.runs import Run
from checkrail.store.sessions import Session
from checkrail.store.threads import Thread


def render_time(seconds: float | None) -> str | None:
    """Return a time as clients read it."""
    return (
        None
        if seconds is None
        else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    )


def run_path(row: Run) -> str:
    """Return where a run is found."""
    return f"/threads/{row.thread_id}/runs/{row.run_id}"


def render_run(row: Run) -> dict[str, Any]:
    """Return a run in the fields of both APIs, but for its result: see `render_ended_run`.

    `parameters` are what it works with, `original_parameters` what was asked for. Its `scope` is
    for its tools and hooks alone.
    """
    kind, _, needs = row.needs.partition("/")
    tags = needs.rpartition("/")[2]
    original, changed = row.input, row.parameters
    kwargs = {key: value for key, value in row.kwargs.items() if key != "modes"}
    return {
        "run_id": row.run_id,
        "thread_id": row.thread_id,
        "assistant_id": row.assistant_id,
        "agent_name": row.agent_name,
        "created_at": render_time(row.created_at),
        "updated_at": render_time(row.updated_at),
        "started_at": render_time(row.started_at),
        "ended_at": render_time(row.ended_at),
        "status": row.status,
        "phase": row.phase,
        "blocked_by": row.blocked_by,
        "block_reason": row.block_reason,
        "error": row.error,
        "error_type": row.error_type,
        "attempt": row.attempt,
        "metadata": row.metadata,
        "kwargs": {"input": row.input, **kwargs},
        "multitask_strategy": row.multitask_strategy,
        "cancel_reason": row.cancel_reason,
        "usage": row.usage,
        "unwound": row.unwound,
        "origin": row.origin,
        "session_id": row.session_id,
        "parent_run_id": row.parent_run_id,
        "agent_version": row.agent_version,
        "depth": row.depth,
        "kind": kind or "graph",
        "demands": tags.split(",") if tags else [],
        "timeout_seconds": row.timeout_seconds,
        "parameters": original if changed is None else changed,
        "original_parameters": original,
        **_render_figures(row),
    }


def _render_figures(row: Run | ListedRun) -> dict[str, Any]:
    """Return who asked for a run and for what, and its figures; costs are known at its end."""
    started = row.started_at
    total = row.total_tokens
    return {
        "user_id": row.owner,
        "summary": row.summary,
        "queued_ms": None if started is None else _to_ms(started - row.created_at),
        "duration_ms": None
        if started is None or row.ended_at is None
        else _to_ms(row.ended_at - started),
        "total_tokens": sum_tokens(row.usage) if total is None else total,
        "cost_usd": row.cost_usd,
        "hooks": {name.removeprefix("hook_"): getattr(row, name) for name in COUNTS},
    }


def _to_ms(seconds: float) -> float:
    return round(max(0.0, seconds) * 1000, 3)


_LISTED = (
    *("run_id", "thread_id", "session_id", "parent_run_id", "agent_name", "status", "phase"),
    *("blocked_by", "block_reason", "error", "error_type", "attempt", "origin"),
)


def render_listed_run(row: ListedRun) -> dict[str, Any]:
    """Return a run as lists show it, without what it was given and what it came to."""
    times = ("created_at", "updated_at", "started_at", "ended_at")
    return {
        **{name: getattr(row, name) for name in _LISTED},
        **{name: render_time(getattr(row, name)) for name in times},
        **_render_figures(row),
    }


def render_created_run(row: Run) -> Run:
    """Return a run as it was created, for who requested it: it may have started since."""
    if row.status != "running":
        return row
    return replace(row, status="pending", phase="queued", started_at=None, attempt=0)


def render_ended_run(row: Run) -> dict[str, Any]:
    """Return a run with its result: a text, or data, as it always is of a graph."""
    told, output = render_run(row), row.output
    as_text = isinstance(output, str) and told["kind"] != "graph"
    name, other = ("result_text", "result_data") if as_text else ("result_data", "result_text")
    return told | {name: output, other: None}


_OF_CODE = ("error", "unreachable")
"""Failures of hooks whose `error` is what an exception said; other kinds have a text of ours."""


def render_record(record: Mapping[str, Any], *, whole: bool) -> Mapping[str, Any]:
    """Return a hook's record; what an exception of its code said is for who sees it `whole`."""
    kind = record.get("failure")
    if whole or kind not in _OF_CODE:
        return record
    error = f"the hook {record.get('hook')!r} failed ({kind}). Admins can see what its error was"
    return {**record, "error": error}


def render_delivery(row: Delivery, *, whole: bool) -> dict[str, Any]:
    """Return what is owed; why a hook's delivery failed is for who sees it `whole`."""
    owed = row.status == "owed"

    def shown(error: str) -> str:
        if row.kind == "webhook" or whole:
            return error
        return f"the {row.kind} failed. Admins can see what its error was"

    error = row.last_error
    return {
        "delivery_id": row.delivery_id,
        "kind": row.kind,
        "status": row.status,
        "attempts": row.attempts,
        "last_error": error and shown(error),
        "target": _delivery_target(row),
        "created_at": render_time(row.created_at),
        "due_at": render_time(row.due_at) if owed else None,
        "ended_at": render_time(row.ended_at),
        "history": [
            {**each, "at": render_time(each["at"]), "error": each["error"] and shown(each["error"])}
            for each in row.history or ()
        ],
    }


def _delivery_target(row: Delivery) -> str | None:
    """Return whom a delivery is for: a host, a hook, or a session; never a path with a secret."""
    payload = row.payload if isinstance(row.payload, Mapping) else {}
    if isinstance(url := payload.get("url"), str):
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")
    if isinstance(hook := payload.get("hook"), str):
        return hook
    return row.session_id or payload.get("session_id")


def render_session(row: Session) -> dict[str, Any]:
    """Return a session."""
    return {
        "session_id": row.session_id,
        "parent_session_id": row.parent_session_id,
        "user_id": row.owner,
        "channel": row.channel,
        "metadata": row.metadata,
        "created_at": render_time(row.created_at),
        "updated_at": render_time(row.updated_at),
        "ended_at": render_time(row.ended_at),
        "reason": row.reason,
    }


def render_message(row: Message) -> dict[str, Any]:
    """Return a message with what became of it."""
    content = row.content
    return {
        "message_id": row.message_id,
        "external_id": row.external_id,
        "channel": row.channel,
        "user_id": row.owner,
        "session_id": row.session_id,
        "thread_id": row.thread_id,
        "run_id": row.run_id,
        "agent_name": row.agent_name,
        "content": content["text"],
        "attachments": [_render_attachment(each) for each in content["attachments"]],
        "metadata": content["metadata"],
        "status": row.status,
        "reply": row.reply,
        "refusal": row.refusal,
        "error": row.error,
        "joined_to": row.joined_to,
        "created_at": render_time(row.created_at),
        "updated_at": render_time(row.updated_at),
        "ended_at": render_time(row.ended_at),
    }


def _render_attachment(attachment: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attachment without what its channel fetches it by."""
    return {key: value for key, value in attachment.items() if key != "reference"}


def render_thread(row: Thread) -> dict[str, Any]:
    """Return a thread."""
    return {
        "thread_id": row.thread_id,
        "created_at": render_time(row.created_at),
        "updated_at": render_time(row.updated_at),
        "state_updated_at": render_time(row.state_updated_at or row.updated_at),
        "metadata": row.metadata,
        "status": row.status,
        "config": {"configurable": {}},
        "values": row.values,
        "interrupts": row.interrupts or {},
        "error": _thread_error(row.error),
    }


def _thread_error(kept: str | None) -> dict[str, str] | None:
    """Return the error of a thread's last run; it is stored as JSON, and was once a mere text."""
    if kept is None:
        return None
    try:
        told = jsons.loads(kept)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"error": "Error", "message": kept}


def render_assistant(row: Assistant | AssistantVersion) -> dict[str, Any]:
    """Return an assistant, or a version of one."""
    return {
        "assistant_id": row.assistant_id,
        "graph_id": row.graph_id,
        "name": row.name,
        "description": row.description,
        "config": row.config,
        "context": row.context,
        "metadata": row.metadata,
        "version": row.version,
        "created_at": render_time(row.created_at),
        "updated_at": render_time(row.updated_at if isinstance(row, Assistant) else row.created_at),
    }


def render_cron(row: Cron) -> dict[str, Any]:
    """Return a cron."""
    return {
        "cron_id": row.cron_id,
        "assistant_id": row.assistant_id,
        "thread_id": row.thread_id,
        "on_run_completed": row.on_run_completed,
        "schedule": row.schedule,
        "timezone": row.timezone,
        "enabled": row.enabled,
        "end_time": render_time(row.end_at),
        "next_run_date": render_time(row.next_run_at),
        "payload": row.payload,
        "metadata": row.metadata,
        "user_id": row.owner,
        "last_error": row.last_error,
        "created_at": render_time(row.created_at),
        "updated_at": render_time(row.updated_at),
    }


def select_fields(shown: Mapping[str, Any], select: Sequence[str] | None) -> dict[str, Any]:
    """Return only the fields that were requested; `values.key` is one value of many."""
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
