"""Requests of the Responses API: its items and instructions as messages, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import plain
from checkrail.llm.conversation import is_parts, text_of
from checkrail.llm.json_bytes import to_json_text
from checkrail.llm.responses.parts import MESSAGE_PARTS, show_part, write_part
from checkrail.llm.responses.tool_calls import (
    ABOUT_ITSELF,
    APPROVAL,
    CUSTOM,
    FOUND,
    FUNCTION,
    CallType,
    Item,
    build_call,
    call_id,
    call_type_for,
    find_call_type,
    is_run_by_provider,
    read_arguments_text,
    rewrite_call,
    tool_name,
)
from checkrail.llm.wire_format import UnreadableError

Message = Mapping[str, Any]
SCREENSHOT = "computer_screenshot"
BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB"
    "0C8AAAAASUVORK5CYII="
)
"""An image without anything on it: the API takes nothing else where a screenshot has to be."""


def is_result(item: Item) -> bool:
    """Return whether an item answers a call that the caller was to run."""
    type_ = item.get("type")
    if type_ == FOUND:
        return not is_run_by_provider(item)
    return isinstance(type_, str) and type_.endswith("_call_output")


def result_id(item: Item) -> str:
    """Return the id of the call that an item answers."""
    return str(item.get("call_id") or item.get("id") or "")


def show_result(item: Item) -> Message:
    """Return an answer to a call as the message of a tool."""
    known = ("type", "call_id", _output_field(item["type"]))
    others = {name: item[name] for name in item if name not in known}
    error = {"is_error": True} if _is_error(item) else {}
    said = {"role": "tool", "tool_call_id": result_id(item), "content": _show_output(item)}
    return {**others, **said, **error}


def _output_field(type_: str) -> str:
    return "tools" if type_ == FOUND else "output"


def _show_output(item: Item) -> Any:
    output = item.get(_output_field(item["type"]))
    if output is None:
        return ""
    if isinstance(output, str):
        return output
    if is_parts(output):
        return [show_part(part) for part in output]
    if is_parts([output]):
        return [output]
    return to_json_text(plain(output))


def _is_error(item: Item) -> bool:
    """Return whether the API marks this as an error; most of its items cannot."""
    if item["type"] == "apply_patch_call_output":
        return item.get("status") == "failed"
    if item["type"] != "shell_call_output" or not isinstance(item.get("output"), list):
        return False
    found = [command.get("outcome") for command in item["output"] if isinstance(command, Mapping)]
    outcomes = [outcome for outcome in found if isinstance(outcome, Mapping)]
    return any(
        outcome.get("type") == "timeout" or outcome.get("exit_code") not in (None, 0)
        for outcome in outcomes
    )


def write_result(message: Message, came: Item | None, calling: CallType | None) -> list[Item]:
    """Write the message of a tool as the item that answers its call, and what has to follow it.

    `came` is what it was, if it was there before; otherwise `calling` says what is answered.
    """
    type_ = came["type"] if came else (calling or FUNCTION).output
    own = ("role", "tool_call_id", "content", "is_error")
    others = {name: message[name] for name in message if name not in own}
    called, content = str(message.get("tool_call_id") or ""), message.get("content")
    if calling and calling.type == APPROVAL and not came:
        refused = {"approval_request_id": called, "approve": False, "reason": text_of(content)}
        return [{"type": type_, **refused}]
    item = {**others, "type": type_, _find_id_field(type_, came): called}
    match type_:
        case "computer_call_output":
            return _write_screenshot(item, content)
        case "shell_call_output":
            return [item | {"output": _write_commands(content)}]
        case "tool_search_output":
            return _write_found_tools(item, content)
        case "apply_patch_call_output":
            status = "failed" if message.get("is_error") else "completed"
            return [item | {"status": status, "output": text_of(content)}]
        case "local_shell_call_output":
            return [item | {"output": text_of(content)}]
        case _:
            return [item | {"output": _write_output(content, came)}]


def _find_id_field(type_: str, came: Item | None) -> str:
    if came:
        return "call_id" if came.get("call_id") else "id"
    return "id" if type_ == "local_shell_call_output" else "call_id"


def _write_found_tools(item: Item, content: Any) -> list[Item]:
    found = [*content] if is_parts(content) else []
    told = [] if found or not content else [{"role": "user", "content": text_of(content)}]
    return [{"execution": "client", **item, "tools": found}, *told]


def _write_screenshot(item: Item, content: Any) -> list[Item]:
    parts = content if is_parts(content) else []
    shown = next((part for part in parts if part["type"] == SCREENSHOT), None)
    if shown is not None:
        return [{**item, "output": shown}]
    blank = {**item, "output": {"type": SCREENSHOT, "image_url": BLANK}}
    return [blank, {"role": "user", "content": text_of(content)}]


def _write_commands(content: Any) -> list[Any]:
    text = text_of(content)
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, list):
        return found
    outcome = {"type": "exit", "exit_code": 1}
    return [{"stdout": text, "stderr": "", "outcome": outcome}]


def _write_output(content: Any, came: Item | None) -> Any:
    if is_parts(content):
        return [write_part(part, "tool") for part in content]
    text = text_of(content)
    was = came.get("output") if came else None
    if was is None or isinstance(was, str) or is_parts(was):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_messages(body: Mapping[str, Any]) -> list[Message]:
    """Read the conversation: the instructions are its first message, each item is another."""
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise UnreadableError("`instructions` of a request to the Responses API is a text")
    first = [] if instructions is None else [{"role": "system", "content": instructions}]
    return [*first, *map(_show_item, find_items(body))]


def find_items(body: Mapping[str, Any]) -> list[Item]:
    """Return the items of a request; a text is a message of its user."""
    given = body.get("input")
    if given is None:
        return []
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if isinstance(given, list) and all(isinstance(item, Mapping) for item in given):
        return given
    raise UnreadableError("`input` of a request to the Responses API is a text or a list of items")


def _show_item(item: Item) -> Message:
    if _is_message(item):
        return {**item, "content": _show_content(item.get("content"))}
    calling = find_call_type(item)
    if calling is not None:
        return {"role": "assistant", "content": None, "tool_calls": [_show_call(item, calling)]}
    if is_result(item):
        return show_result(item)
    by_user = str(item.get("type")).endswith(("_output", "_response"))
    return {"role": "user" if by_user else "assistant", "content": [item]}


def _is_message(item: Item) -> bool:
    return item.get("type") in (None, "message") and isinstance(item.get("role"), str)


def _show_content(content: Any) -> Any:
    return [show_part(part) for part in content] if isinstance(content, list) else content


def _show_call(item: Item, calling: CallType) -> Message:
    function = {"name": tool_name(item, calling), "arguments": read_arguments_text(item, calling)}
    return {
        **_other_fields(item, calling),
        "id": call_id(item, calling),
        "type": "custom" if calling is CUSTOM else "function",
        "function": function,
    }


def _other_fields(item: Item, calling: CallType) -> dict[str, Any]:
    """Return the fields of a call that the shape of a message does not know."""
    known = {"type", "id", "call_id", "name", calling.field}
    fields = ABOUT_ITSELF if calling.style == "fields" else item.keys()
    return {name: item[name] for name in item if name in fields and name not in known}


class InputWriter:
    """Writes a conversation that hooks changed; what they left alone is written as it came."""

    def __init__(self, body: Mapping[str, Any], tools: Sequence[Any]) -> None:
        self._tools = tools
        self._items = find_items(body)
        self._instructions = body.get("instructions")
        self._as_text = isinstance(body.get("input"), str)
        self._left = [(_show_item(item), item) for item in self._items]
        self._calls = {
            call_id(item, calling): (item, calling)
            for item in self._items
            if (calling := find_call_type(item)) is not None
        }
        self._results = {result_id(item): item for item in self._items if is_result(item)}
        self._inner = MESSAGE_PARTS | set(self._part_types())

    def _part_types(self) -> Iterator[str]:
        for item in filter(_is_message, self._items):
            for part in item.get("content") or ():
                if isinstance(part, Mapping):
                    yield str(part.get("type"))

    def write(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return `instructions` and `input` as they are to be; what is None is to be left out."""
        told, rest = self._split_instructions(messages)
        items = [item for message in rest for item in self._write_items(message)]
        given: Any = thaw(items) if items or self._items else None
        if self._as_text and len(items) == 1:
            only = items[0]
            simple = only.keys() == {"role", "content"} and only["role"] == "user"
            given = only["content"] if simple and isinstance(only["content"], str) else given
        return {"instructions": told, "input": given}

    def _split_instructions(
        self, messages: Sequence[Message]
    ) -> tuple[str | None, Sequence[Message]]:
        """Split off instructions: the leading system texts that are not items.

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

    def _write_items(self, message: Message) -> list[Item]:
        for position, (shown, item) in enumerate(self._left):
            if shown == message:
                del self._left[position]
                return [item]
        if message.get("role") == "tool":
            return self._write_result(message)
        calls = message.get("tool_calls") or ()
        return [*self._write_message(message), *map(self._write_call, calls)]

    def _write_result(self, message: Message) -> list[Item]:
        called = str(message.get("tool_call_id") or "")
        _, calling = self._calls.get(called, (None, None))
        return write_result(message, self._results.get(called), calling)

    def _write_call(self, call: Any) -> Item:
        function = call.get("function") or {}
        own, name = str(call.get("id") or ""), str(function.get("name") or "")
        arguments = function.get("arguments") or ""
        item, calling = self._calls.get(own, (None, None))
        if item is None or calling is None:
            custom = call.get("type") == "custom"
            calling = CUSTOM if custom else call_type_for(own, name, self._tools)
            item = build_call(calling, own, name, arguments) | self._server_label(calling)
            self._calls[own] = item, calling
            return item
        shown = _show_call(item, calling)
        if call == shown:
            return item
        beside = {
            key: value for key, value in call.items() if key not in ("id", "function", "type")
        }
        gone = _other_fields(item, calling).keys() - beside.keys()
        kept = {key: value for key, value in item.items() if key not in gone} | beside
        if shown["function"] == function:
            return kept
        return rewrite_call(kept, calling, name, arguments)

    def _server_label(self, calling: CallType) -> dict[str, Any]:
        if calling.type != APPROVAL:
            return {}
        tools = (tool for tool in self._tools if isinstance(tool, Mapping))
        labels = (tool.get("server_label") for tool in tools if tool.get("type") == "mcp")
        return {"server_label": next(labels, "")}

    def _write_message(self, message: Message) -> Iterator[Item]:
        """Write the content of a message; parts that are items of their own stand in between."""
        own = {key: value for key, value in message.items() if key != "tool_calls"}
        content = message.get("content")
        if not is_parts(content):
            if content or not message.get("tool_calls"):
                yield own | {"content": self._write_content(content, own)}
            return
        for inner, parts in self._group_parts(content or ()):
            if inner:
                yield own | {"content": self._write_content(parts, own)}
            else:
                yield from parts

    def _group_parts(self, parts: Iterable[Any]) -> Iterator[tuple[bool, list[Any]]]:
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

    def _write_content(self, content: Any, message: Message) -> Any:
        if not isinstance(content, list | tuple):
            return text_of(content) if content is None else content
        return [write_part(part, str(message.get("role"))) for part in content]
