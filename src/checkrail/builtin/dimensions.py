"""What limits and budgets are counted by: whose, and for what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from checkrail.engine.dispatch_state import hook_at_work
from checkrail.engine.event import Event
from checkrail.engine.values import ToolCall, ToolResult

LONGEST = 500


def _user_id(event: Event[Any]) -> str | None:
    user = event.user
    return user.identity if user is not None else getattr(event.value, "user_id", None)


def _tool_name(event: Event[Any]) -> str | None:
    return event.value.name if isinstance(event.value, (ToolCall, ToolResult)) else None


def _key_id(event: Event[Any]) -> str | None:
    """Return the id of the API key of a request, or what its event has in place of one."""
    extras = {} if event.user is None else event.user.extras
    found = extras.get("key_id") or event.metadata.get("api_key")
    return found if isinstance(found, str) else None


DIMENSIONS: dict[str, Callable[[Event[Any]], str | None]] = {
    "key": _key_id,
    "user": _user_id,
    "agent": lambda event: event.agent_name,
    "tool": _tool_name,
    "session": lambda event: event.session_id,
    "model": lambda event: event.model,
}
"""What can be counted apart; where an event does not say, it counts with all that do not."""


def read_dimensions(event: Event[Any], by: Iterable[str]) -> dict[str, str | None]:
    """Return what an event is counted by."""
    return {name: DIMENSIONS[name](event) for name in by}


def describe_owner(found: Mapping[str, str | None]) -> str:
    """Return whose count it is, for a message; empty if the event does not name anybody."""
    return "".join(f" for {name} {value!r}" for name, value in found.items() if value)


def hook_name() -> str:
    """Return the name of the running hook."""
    bound = hook_at_work()
    return "" if bound is None else bound.spec.name


def hook_key() -> str:
    """Return the level and the name of the running hook, as other processes know it too."""
    bound = hook_at_work()
    return "" if bound is None else bound.key


def counter_key(*parts: Any) -> str:
    """Return a key that is unique to these parts, whatever they contain."""
    written = json.dumps(parts)
    if len(written) <= LONGEST:
        return written
    return "sha256:" + hashlib.sha256(written.encode()).hexdigest()
