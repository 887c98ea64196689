"""Messages that hooks left, written as the chat API takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.gateway.formats.base import Body, UnreadableError
from checkrail.gateway.formats.chat_calls import LEGACY, wire_call
from checkrail.gateway.formats.top_level import objects_in

Message = Mapping[str, Any]


def calls_in(message: Message) -> list[Any]:
    """Return the calls of a message. Raises `UnreadableError`."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UnreadableError("`tool_calls` of a message should be a list of objects")
    return calls


def function_call_in(message: Message) -> Any:
    """Return the call that a message has in the old way. Raises `UnreadableError`."""
    found = message.get(LEGACY)
    if not isinstance(found, dict | None):
        raise UnreadableError(f"`{LEGACY}` of a message should be an object")
    return found


def legacy_prefix(messages: Iterable[Message]) -> str:
    """Return the beginning of the ids of calls that have none, one that no other id has."""
    taken = [str(call.get("id")) for message in messages for call in calls_in(message)]
    prefix = f"{LEGACY}_"
    while any(other.startswith(prefix) for other in taken):
        prefix += "_"
    return prefix


def written_messages(body: Body, messages: Sequence[Message]) -> list[Body]:
    """Write messages for the API that this body came for."""
    came = objects_in(body, "messages")
    writer = _Writer(
        legacy=legacy_prefix(came),
        custom=_custom(objects_in(body, "tools")),
        names={
            str(call.get("id")): _name(call, "function")
            for message in messages
            for call in message.get("tool_calls") or ()
        },
        marks_errors=any("is_error" in message for message in came),
    )
    return [writer.message(message) for message in messages]


class _Writer:
    """Knows how calls and results are written in one conversation."""

    def __init__(
        self, *, legacy: str, custom: set[str], names: Mapping[str, str], marks_errors: bool
    ) -> None:
        self._legacy = legacy
        self._custom = custom
        self._names = names
        self._marks_errors = marks_errors

    def message(self, message: Message) -> Body:
        written: Body = thaw(dict(message))
        if message.get("role") == "tool":
            return self._result(written)
        if message.get("role") == "assistant" and isinstance(written.get("content"), list):
            written["content"] = _first_choice(written["content"])
        calls = written.get("tool_calls")
        if isinstance(calls, list):
            self._write_calls(written, calls)
        return written

    def _result(self, written: Body) -> Body:
        if not self._marks_errors:  # the API has no such field, and refuses what it does not know
            written.pop("is_error", None)
        called = str(written.get("tool_call_id"))
        if not self._is_legacy(called):
            return written
        del written["tool_call_id"]
        named = {"name": self._names[called]} if called in self._names else {}
        return named | written | {"role": "function"}

    def _write_calls(self, written: Body, calls: list[Any]) -> None:
        legacy = [call for call in calls if self._is_legacy(str(call.get("id")))]
        others = [wire_call(self._typed(call)) for call in calls if call not in legacy]
        if legacy:
            written[LEGACY] = legacy[0]["function"]
        if others or not legacy:
            written["tool_calls"] = others
        else:
            del written["tool_calls"]

    def _typed(self, call: Message) -> Message:
        """Make a call that was added one of a custom tool, if its tool is one."""
        return {**call, "type": "custom"} if _name(call, "function") in self._custom else call

    def _is_legacy(self, id: str) -> bool:
        return id == LEGACY or id.startswith(self._legacy)


def _custom(tools: list[Any]) -> set[str]:
    """Return the names of custom tools that no function has."""
    custom, functions = ({_name(tool, form) for tool in tools} for form in ("custom", "function"))
    return custom - functions - {""}


def _name(given: Message, form: str) -> str:
    """Return the name of a tool or of the tool that a call calls."""
    inner = given.get(form)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else ""


def _first_choice(parts: list[Any]) -> list[Any]:
    """Return the parts of the first choice, of an answer that had several."""
    return [
        {key: part[key] for key in part if key != "choice"} if isinstance(part, dict) else part
        for part in parts
        if not isinstance(part, dict) or part.get("choice") in (None, 0)
    ]
