"""Requests of the Responses API: its items and instructions as messages, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkrail.agent.messages import is_parts, text_of
from checkrail.engine.frozen import thaw
from checkrail.gateway.formats.base import UnreadableError
from checkrail.gateway.formats.responses_calls import (
    ABOUT_ITSELF,
    APPROVAL,
    CUSTOM,
    Calling,
    Item,
    arguments_text,
    call_id,
    calling_for,
    calling_of,
    new_call,
    rewritten,
    tool_of,
)
from checkrail.gateway.formats.responses_parts import MESSAGE_PARTS, item_part, message_part
from checkrail.gateway.formats.responses_results import (
    is_result,
    result_id,
    result_item,
    result_message,
)

Message = Mapping[str, Any]


def messages_of(body: Mapping[str, Any]) -> list[Message]:
    """Read the conversation: the instructions are its first message, each item is another."""
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise UnreadableError("`instructions` of a request to the Responses API is a text")
    first = [] if instructions is None else [{"role": "system", "content": instructions}]
    return [*first, *map(_message, items_of(body))]


def items_of(body: Mapping[str, Any]) -> list[Item]:
    """Return the items of a request; a text is what its user says."""
    given = body.get("input")
    if given is None:
        return []
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if isinstance(given, list) and all(isinstance(item, Mapping) for item in given):
        return given
    raise UnreadableError("`input` of a request to the Responses API is a text or a list of items")


def _message(item: Item) -> Message:
    if _is_message(item):
        return {**item, "content": _shown(item.get("content"))}
    calling = calling_of(item)
    if calling is not None:
        return {"role": "assistant", "content": None, "tool_calls": [_call(item, calling)]}
    if is_result(item):
        return result_message(item)
    by_user = str(item.get("type")).endswith(("_output", "_response"))
    return {"role": "user" if by_user else "assistant", "content": [item]}


def _is_message(item: Item) -> bool:
    return item.get("type") in (None, "message") and isinstance(item.get("role"), str)


def _shown(content: Any) -> Any:
    return [message_part(part) for part in content] if isinstance(content, list) else content


def _call(item: Item, calling: Calling) -> Message:
    function = {"name": tool_of(item, calling), "arguments": arguments_text(item, calling)}
    return {
        **_beside(item, calling),
        "id": call_id(item, calling),
        "type": "custom" if calling is CUSTOM else "function",
        "function": function,
    }


def _beside(item: Item, calling: Calling) -> dict[str, Any]:
    """Return the fields of a call that the shape of a message does not know."""
    known = {"type", "id", "call_id", "name", calling.field}
    fields = ABOUT_ITSELF if calling.style == "fields" else item.keys()
    return {name: item[name] for name in item if name in fields and name not in known}


class InputWriter:
    """Writes a conversation that hooks changed; what they left alone is written as it came."""

    def __init__(self, body: Mapping[str, Any], tools: Sequence[Any]) -> None:
        self._tools = tools
        self._items = items_of(body)
        self._instructions = body.get("instructions")
        self._as_text = isinstance(body.get("input"), str)
        self._left = [(_message(item), item) for item in self._items]
        self._calls = {
            call_id(item, calling): (item, calling)
            for item in self._items
            if (calling := calling_of(item)) is not None
        }
        self._results = {result_id(item): item for item in self._items if is_result(item)}
        self._inner = MESSAGE_PARTS | set(self._part_types())

    def _part_types(self) -> Iterator[str]:
        for item in filter(_is_message, self._items):
            for part in item.get("content") or ():
                if isinstance(part, Mapping):
                    yield str(part.get("type"))

    def write(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Give `instructions` and `input` as they are to be; what is None is to be left out."""
        told, rest = self._split(messages)
        items = [item for message in rest for item in self._items_for(message)]
        given: Any = thaw(items) if items or self._items else None
        if self._as_text and len(items) == 1:
            only = items[0]
            simple = only.keys() == {"role", "content"} and only["role"] == "user"
            given = only["content"] if simple and isinstance(only["content"], str) else given
        return {"instructions": told, "input": given}

    def _split(self, messages: Sequence[Message]) -> tuple[str | None, Sequence[Message]]:
        """Tell instructions apart: the system's texts at the beginning that are no items.

        Instructions are not kept with a stored conversation. A hook that puts its text first, in
        every request, would otherwise fill it with that text.
        """
        told: list[str] = []
        for message in messages:
            content = message.get("content")
            plain = message.keys() == {"role", "content"} and isinstance(content, str)
            if message.get("role") != "system" or not plain:
                break
            first = not told and content == self._instructions
            if not first and any(shown == message for shown, _ in self._left):
                break
            told.append(str(content))
        return ("\n\n".join(told) if told else None), messages[len(told) :]

    def _items_for(self, message: Message) -> list[Item]:
        for position, (shown, item) in enumerate(self._left):
            if shown == message:
                del self._left[position]
                return [item]
        if message.get("role") == "tool":
            return self._result(message)
        calls = message.get("tool_calls") or ()
        return [*self._said(message), *map(self._call, calls)]

    def _result(self, message: Message) -> list[Item]:
        called = str(message.get("tool_call_id") or "")
        _, calling = self._calls.get(called, (None, None))
        return result_item(message, self._results.get(called), calling)

    def _call(self, call: Any) -> Item:
        function = call.get("function") or {}
        own, name = str(call.get("id") or ""), str(function.get("name") or "")
        arguments = function.get("arguments") or ""
        item, calling = self._calls.get(own, (None, None))
        if item is None or calling is None:
            custom = call.get("type") == "custom"
            calling = CUSTOM if custom else calling_for(own, name, self._tools)
            item = new_call(calling, own, name, arguments) | self._label(calling)
            self._calls[own] = item, calling
            return item
        shown = _call(item, calling)
        if call == shown:
            return item
        beside = {
            key: value for key, value in call.items() if key not in ("id", "function", "type")
        }
        gone = _beside(item, calling).keys() - beside.keys()
        kept = {key: value for key, value in item.items() if key not in gone} | beside
        if shown["function"] == function:
            return kept
        return rewritten(kept, calling, name, arguments)

    def _label(self, calling: Calling) -> dict[str, Any]:
        if calling.type != APPROVAL:
            return {}
        tools = (tool for tool in self._tools if isinstance(tool, Mapping))
        labels = (tool.get("server_label") for tool in tools if tool.get("type") == "mcp")
        return {"server_label": next(labels, "")}

    def _said(self, message: Message) -> Iterator[Item]:
        """Write what a message says: parts that are items of their own stand between the others."""
        own = {key: value for key, value in message.items() if key != "tool_calls"}
        content = message.get("content")
        if not is_parts(content):
            if content or not message.get("tool_calls"):
                yield own | {"content": self._content(content, own)}
            return
        for inner, parts in self._runs(content or ()):
            if inner:
                yield own | {"content": self._content(parts, own)}
            else:
                yield from parts

    def _runs(self, parts: Iterable[Any]) -> Iterator[tuple[bool, list[Any]]]:
        run: list[Any] = []
        of_message = True
        for part in parts:
            inner = part["type"] in self._inner
            if run and inner != of_message:
                yield of_message, run
                run = []
            of_message = inner
            run.append(part)
        if run:
            yield of_message, run

    def _content(self, content: Any, message: Message) -> Any:
        if not isinstance(content, list | tuple):
            return text_of(content) if content is None else content
        return [item_part(part, str(message.get("role"))) for part in content]
