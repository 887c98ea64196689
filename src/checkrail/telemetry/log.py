"""Records in the log."""

from __future__ import annotations

import json
import logging
from typing import Any

from checkrail.engine.points import Decision
from checkrail.engine.records import HookRecord, RecordKind


class LogSink:
    """Logs one line for each hook call that has ended.

    A hook that just went on is debug, a decision or a change info, a failure a warning. The same
    fields are on the log record as `checkrail`, for structured handlers.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logger or logging.getLogger("checkrail.records")

    def __call__(self, record: HookRecord) -> None:
        """Log one record, unless it is a start."""
        if record.kind is RecordKind.START:
            return
        level = level_of(record)
        if self.logger.isEnabledFor(level):
            fields = fields_of(record)
            text = " ".join(f"{name}={_format_value(value)}" for name, value in fields.items())
            self.logger.log(level, "%s", text, extra={"checkrail": fields})


def level_of(record: HookRecord) -> int:
    """Return the log level of an ending."""
    if record.failure is not None:
        return logging.WARNING
    passed = record.decision is Decision.CONTINUE and not record.changed
    return logging.DEBUG if passed else logging.INFO


def fields_of(record: HookRecord) -> dict[str, Any]:
    """Return the fields of a line; the values that a hook changed are not among them."""
    told: dict[str, Any] = {
        "event": str(record.kind),
        "hook": record.hook,
        "point": str(record.point),
        "lane": str(record.lane),
        "decision": record.decision and str(record.decision),
        "changed": record.changed or None,
        "shadow": record.shadow or None,
        "failure": record.failure,
        "error": record.error,
        "reason": record.reason or None,
        "duration_ms": round(record.duration_ms or 0.0, 3),
        **record.ids,
    }
    return {name: value for name, value in told.items() if value is not None}


def _format_value(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    plain = text and text.isprintable() and not set(text) & set(' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)
