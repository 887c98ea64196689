"""Rows of crons, as requests make and change them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from checkrail.runs.errors import InvalidError
from checkrail.runs.schedule import next_time
from checkrail.server.bodies import RunOptions
from checkrail.server.routes.cron_bodies import CronChange, NewCron
from checkrail.store.rows import Row


def next_run(row: Mapping[str, Any], now: float) -> float | None:
    """Return when a cron is next; an unreadable schedule is refused, also of one that is off."""
    following = next_time(row["schedule"], row["timezone"], now)
    if following is None or not row["enabled"]:
        return None
    return None if row["end_at"] is not None and following > row["end_at"] else following


def new_row(body: NewCron, value: Mapping[str, Any], now: float) -> Row:
    """Return the row of a cron as the auth handlers left it, without its owner and next time."""
    metadata = value["metadata"] or {}
    stateless = value["thread_id"] is None
    assistant_id = str(value["assistant_id"])
    return {
        "cron_id": str(value["cron_id"]),
        "assistant_id": assistant_id,
        "thread_id": None if stateless else str(value["thread_id"]),
        "schedule": body.schedule,
        "timezone": body.timezone,
        "enabled": body.enabled is not False,
        "on_run_completed": (body.on_run_completed or "delete") if stateless else None,
        "payload": value["payload"] | {"assistant_id": assistant_id, "metadata": metadata},
        "metadata": metadata,
        "end_at": _seconds(body.end_time),
        "last_error": None,
        "created_at": now,
        "updated_at": now,
    }


def _seconds(when: datetime | None) -> float | None:
    return None if when is None else when.timestamp()


def new_times(row: Row, body: CronChange, now: float) -> dict[str, Any]:
    """Return what changes of when a cron runs; what is not touched keeps its next time."""
    told = {"schedule": body.schedule, "timezone": body.timezone, "enabled": body.enabled}
    values: dict[str, Any] = {key: value for key, value in told.items() if value is not None}
    if "end_time" in body.model_fields_set:
        values["end_at"] = _seconds(body.end_time)
    if values:
        values["next_run_at"] = next_run(row | values, now)
    return values


def new_payload(kept: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Put what is named over the options that are kept; input and command are one or the other."""
    other = {"input": "command", "command": "input", "checkpoint_id": "checkpoint"}
    dropped = {other[key] for key in named if key in other}
    dropped |= {"durability"} if "checkpoint_during" in named else set()
    given = {**{key: value for key, value in kept.items() if key not in dropped}, **named}
    try:
        options = RunOptions.model_validate(given).options()
    except ValidationError as error:
        raise InvalidError(f"The cron cannot be changed so: {error.errors()[0]['msg']}") from None
    return options | {"assistant_id": kept["assistant_id"]}
