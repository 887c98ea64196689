"""Tool calls of the chat API: of functions, of custom tools, and as they were called once.

Hooks see one form, the first. The input of a custom tool is a text: its arguments are `input`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkrail.agent.messages import UNPARSED, written_call
from checkrail.agent.models.arguments import json_object, read_calls
from checkrail.agent.models.checked import list_in, object_in, text_in
from checkrail.agent.models.sdk_errors import InvalidAnswer
from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage, ToolCall, plain
from checkrail.gateway.formats.json_bytes import write_text

Call = Mapping[str, Any]

TWO_KINDS = "a tool call is one of a function and one of a custom tool"

LEGACY = "function_call"
"""The field that one call stood in before there were tools; such a call has no id."""


def shown_call(call: Call) -> Call:
    """Show a call of a custom tool as one of a function; `type` still tells that it is none."""
    custom = call.get("custom")
    if call.get("type") != "custom" or not isinstance(custom, Mapping) or "function" in call:
        return call
    function = {name: value for name, value in custom.items() if name != "input"}
    function["arguments"] = write_text({"input": custom.get("input", "")})
    return {**_without(call, "custom"), "function": function}


def wire_call(call: Call) -> dict[str, Any]:
    """Write a call as the API has it."""
    function = call.get("function")
    if call.get("type") != "custom" or not isinstance(function, Mapping) or "custom" in call:
        return thaw(dict(call))  # type: ignore[no-any-return]
    custom = thaw(_without(function, "arguments"))
    custom["input"] = _input(function.get("arguments"))
    return thaw(_without(call, "function")) | {"custom": custom}  # type: ignore[no-any-return]


def calls_of(message: Mapping[str, Any]) -> list[Call]:
    """Return the calls in an assistant's message as hooks see them."""
    given = list_in(message.get("tool_calls"), "its tool calls")
    came = [object_in(call, "a tool call") for call in given]
    if any(call.get("function") and call.get("custom") for call in came):
        raise InvalidAnswer(TWO_KINDS)
    calls = [shown_call(call) for call in came]
    if legacy := object_in(message.get(LEGACY), "its function call"):
        calls.append({"id": LEGACY, "type": "function", "function": legacy})
    return calls


def read(calls: Sequence[Call]) -> tuple[list[ToolCall], dict[str, Any]]:
    """Read calls as hooks judge them, and metadata for arguments that are no JSON."""
    return read_calls(_written(call) for call in calls)


def _written(call: Call) -> tuple[str, str, Any]:
    function = object_in(call.get("function"), "the function of a tool call")
    name = text_in(function.get("name"), "the name of a tool")
    if not name:
        raise InvalidAnswer("it calls a tool without a name")
    arguments = function.get("arguments")
    if not isinstance(arguments, dict):  # some endpoints have parsed them already
        arguments = text_in(arguments, "the arguments of a tool call")
    return text_in(call.get("id"), "the id of a tool call"), name, arguments


def rewritten(
    call: Call, before: ToolCall, after: ToolCall, texts: tuple[str | None, str | None]
) -> Call:
    """Write what hooks changed in a call; `texts` are arguments that are no JSON, then and now."""
    function = dict(call.get("function") or {})
    if after.name != before.name:
        function["name"] = after.name
    if after.args != before.args or texts[0] != texts[1]:
        keeps_text = texts[1] is not None and after.args == before.args
        function["arguments"] = texts[1] if keeps_text else write_text(plain(after.args))
    return call if function == call.get("function") else {**call, "function": function}


def calls_after(
    calls: Sequence[Call], before: AssistantMessage, after: AssistantMessage
) -> list[tuple[int | None, Call]]:
    """Return the calls that are left, each with its place among those that came, or None if new."""
    places = {call.id: place for place, call in enumerate(before.tool_calls)}
    then, now = (_unparsed(message) for message in (before, after))
    found: list[tuple[int | None, Call]] = []
    for call in after.tool_calls:
        place = places.get(call.id)
        if place is None:
            found.append((None, written_call(call)))
            continue
        texts = (then.get(call.id), now.get(call.id))
        found.append((place, rewritten(calls[place], before.tool_calls[place], call, texts)))
    return found


def _unparsed(message: AssistantMessage) -> Mapping[str, str]:
    found = message.metadata.get(UNPARSED)
    return found if isinstance(found, Mapping) else {}


def _input(arguments: Any) -> str:
    try:
        found = json_object(arguments)
    except ValueError:
        return str(arguments)
    text = found.get("input") if len(found) == 1 else None
    return text if isinstance(text, str) else write_text(found)


def _without(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != name}
