"""Tool calls of the chat API: of functions, of custom tools, and as they were called once.

Hooks see one form, the first. The input of a custom tool is a text: its arguments are `input`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ToolCall, plain
from checkrail.llm.answer_errors import InvalidAnswer
from checkrail.llm.answer_fields import list_in, object_in, text_in
from checkrail.llm.conversation import render_call
from checkrail.llm.json_bytes import to_json_text
from checkrail.llm.other_fields import call_fields_of, rewrite_fields
from checkrail.llm.tool_arguments import json_object, read_calls

Call = Mapping[str, Any]

TWO_KINDS = "a tool call is one of a function and one of a custom tool"

OF_CALL = frozenset({"id", "type", "index", "function"})
OF_FUNCTION = frozenset({"name", "arguments"})

LEGACY = "function_call"
"""The field that one call stood in before there were tools; such a call has no id."""


def show_call(call: Call) -> Call:
    """Return a call of a custom tool as one of a function; `type` still says what it is."""
    custom = call.get("custom")
    if call.get("type") != "custom" or not isinstance(custom, Mapping) or "function" in call:
        return call
    function = {name: value for name, value in custom.items() if name != "input"}
    function["arguments"] = to_json_text({"input": custom.get("input", "")})
    return {**_without_key(call, "custom"), "function": function}


def write_call(call: Call) -> dict[str, Any]:
    """Write a call as the API has it."""
    function = call.get("function")
    if call.get("type") != "custom" or not isinstance(function, Mapping) or "custom" in call:
        return thaw(dict(call))  # type: ignore[no-any-return]
    custom = thaw(_without_key(function, "arguments"))
    custom["input"] = _custom_input(function.get("arguments"))
    return thaw(_without_key(call, "function")) | {"custom": custom}  # type: ignore[no-any-return]


def find_calls(message: Mapping[str, Any]) -> list[Call]:
    """Return the calls in an assistant's message as hooks see them."""
    given = list_in(message.get("tool_calls"), "its tool calls")
    came = [object_in(call, "a tool call") for call in given]
    if any(call.get("function") and call.get("custom") for call in came):
        raise InvalidAnswer(TWO_KINDS)
    calls = [show_call(call) for call in came]
    if legacy := object_in(message.get(LEGACY), "its function call"):
        calls.append({"id": LEGACY, "type": "function", "function": legacy})
    return calls


def parse_calls(calls: Sequence[Call]) -> tuple[list[ToolCall], dict[str, Any]]:
    """Return calls as hooks see them, and metadata for arguments that are not JSON."""
    return read_calls(_parse_call(call) for call in calls)


def _parse_call(call: Call) -> tuple[str, str, Any]:
    function = object_in(call.get("function"), "the function of a tool call")
    name = text_in(function.get("name"), "the name of a tool")
    if not name:
        raise InvalidAnswer("it calls a tool without a name")
    arguments = function.get("arguments")
    if not isinstance(arguments, dict):  # some endpoints have parsed them already
        arguments = text_in(arguments, "the arguments of a tool call")
    return text_in(call.get("id"), "the id of a tool call"), name, arguments


def other_fields(call: Call) -> dict[str, Any]:
    """Return what a call has besides its name and arguments; that of its function is with it."""
    others = {name: value for name, value in call.items() if name not in OF_CALL}
    within = {name: value for name, value in call["function"].items() if name not in OF_FUNCTION}
    return others | ({"function": within} if within else {})


def with_other_fields(call: Call, was: Mapping[str, Any], now: Mapping[str, Any]) -> Call:
    """Write what hooks changed in what a call has besides its name and arguments."""
    if was == now:
        return call
    within = [fields.get("function") for fields in (was, now)]
    inner = [fields if isinstance(fields, Mapping) else {} for fields in within]
    function = rewrite_fields(call["function"], *inner)
    outer = ({name: fields[name] for name in fields if name != "function"} for fields in (was, now))
    return rewrite_fields(call, *outer) | {"function": function}


def rewrite_call(
    call: Call, before: ToolCall, after: ToolCall, texts: tuple[str | None, str | None]
) -> Call:
    """Write what hooks changed in a call; `texts` are arguments that are not JSON, then and now."""
    function = dict(call.get("function") or {})
    if after.name != before.name:
        function["name"] = after.name
    if after.args != before.args or texts[0] != texts[1]:
        keeps_text = texts[1] is not None and after.args == before.args
        function["arguments"] = texts[1] if keeps_text else to_json_text(plain(after.args))
    return call if function == call.get("function") else {**call, "function": function}


def match_calls(
    calls: Sequence[Call], before: AssistantMessage, after: AssistantMessage
) -> list[tuple[int | None, Call]]:
    """Return the calls that are left, each with its place among those that came, or None if new."""
    places = {call.id: place for place, call in enumerate(before.tool_calls)}
    then, now = (_unparsed_arguments(message) for message in (before, after))
    found: list[tuple[int | None, Call]] = []
    for call in after.tool_calls:
        place = places.get(call.id)
        if place is None:
            found.append((None, render_call(call)))
            continue
        texts = (then.get(call.id), now.get(call.id))
        fields = [call_fields_of(message, call.id) for message in (before, after)]
        came = with_other_fields(calls[place], *fields)
        found.append((place, rewrite_call(came, before.tool_calls[place], call, texts)))
    return found


def _unparsed_arguments(message: AssistantMessage) -> Mapping[str, str]:
    found = message.metadata.get(UNPARSED)
    return found if isinstance(found, Mapping) else {}


def _custom_input(arguments: Any) -> str:
    try:
        found = json_object(arguments)
    except ValueError:
        return str(arguments)
    text = found.get("input") if len(found) == 1 else None
    return text if isinstance(text, str) else to_json_text(found)


def _without_key(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != name}
