"""Tool events, as each of the two public forms spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_OLDER = {
    "tool-started": ("on_tool_start", "input"),
    "tool-output-delta": ("on_tool_event", "delta"),
    "tool-finished": ("on_tool_end", "output"),
    "tool-error": ("on_tool_error", "message"),
}
_OLDER_KEYS = {"delta": "data", "message": "error"}


class ToolNames:
    """Remembers which tool a call is of: only the first event of a call names it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def to_older_form(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event as the older API spells it; one that it does not know stays as it is."""
        kind, key = _OLDER.get(str(data.get("event")), ("", ""))
        if not kind:
            return dict(data)
        call = str(data.get("tool_call_id"))
        name = data.get("tool_name")
        if name is not None:
            self._names[call] = name
        told = {"event": kind, "toolCallId": call, "name": self._names.get(call, "")}
        return {**told, _OLDER_KEYS.get(key, key): data.get(key)}


def to_protocol_form(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as the protocol spells it: what a tool emits on the way is text."""
    delta = data.get("delta")
    if delta is None or isinstance(delta, str):
        return dict(data)
    return {**data, "delta": orjson.dumps(delta).decode()}
