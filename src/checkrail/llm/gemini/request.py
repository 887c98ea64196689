"""Requests of the Gemini API, shown to hooks as those of the messages API are.

Contents are turns there, and parts are blocks. What hooks change is written as in that API, and
what came of it is put back; a content or a part that they left alone stays as it came.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest
from checkrail.llm.conversation import Message
from checkrail.llm.gemini.names import (
    CONTENT,
    DECLARATION,
    PART,
    TOOL,
    TOP,
    objects_in,
    rename_fields,
    rename_settings,
)
from checkrail.llm.gemini.parts import (
    SIGNATURE,
    Block,
    CallIds,
    Part,
    show_part,
    write_part,
    write_response,
)
from checkrail.llm.messages.request import read_request as read_messages_request
from checkrail.llm.messages.request import write_request as write_messages_request
from checkrail.llm.request_fields import freeze_request
from checkrail.llm.wire_format import Body, UnreadableError

ROLES = {"model": "assistant", "function": "user"}
WITHIN = "generateContentRequest"
"""Where a request to count tokens may have a whole request."""

SETTINGS = ("generationConfig", "safetySettings", "toolConfig")
APART = frozenset({"contents", "systemInstruction", "tools", "model"})
NOT_OURS = frozenset({"messages", "system", "stream"})

Memory = Mapping[str, Part]
"""Calls of earlier answers within this call, by their ids, as the API wrote them."""


class ShownRequest:
    """A request, and how it looks in the messages API."""

    def __init__(self, given: Body, model: str | None, *, stream: bool) -> None:
        outer = rename_fields(given, TOP)
        inner = outer.get(WITHIN)
        if inner is not None and (not isinstance(inner, Mapping) or outer.get("contents")):
            raise UnreadableError(f"`{WITHIN}` should be an object, and the only request")
        self.outer = None if inner is None else outer
        self.body = outer if inner is None else rename_fields(inner, TOP)
        if named := NOT_OURS & self.body.keys():
            raise UnreadableError(f"`{min(named)}` is no field of this API")
        self.ids = CallIds()
        self.contents: dict[int, Part] = {}
        self.parts: dict[int, Part] = {}
        self.results: dict[str, Part] = {}
        self.called: dict[str, Message] = {}
        self.shown = self._show(model, stream=stream)

    def _show(self, model: str | None, *, stream: bool) -> Body:
        body = self.body
        shown: Body = {name: value for name, value in body.items() if name not in APART}
        shown |= {name: rename_settings(body[name]) for name in SETTINGS if name in body}
        shown |= {"model": model, "stream": stream}
        if (system := body.get("systemInstruction")) is not None:
            if not isinstance(system, Mapping):
                raise UnreadableError("`systemInstruction` should be an object")
            shown["system"] = self._show_content(system)["content"]
            others = _system_fields(system)
            shown |= {"systemInstruction": others} if others else {}
        shown["messages"] = [
            self._show_content(content) for content in objects_in(body.get("contents"), "contents")
        ]
        if body.get("tools") is not None:
            shown["tools"] = _show_tools(body["tools"])
        return shown

    def note_calls(self, messages: Sequence[Message]) -> None:
        """Note the calls that hooks, or hidden rounds, brought into the conversation."""
        for message in messages:
            for call in message.get("tool_calls") or ():
                self.called[str(call.get("id"))] = call

    def _show_content(self, given: Part) -> Body:
        content = rename_fields(given, CONTENT)
        if "content" in content or not isinstance(content.get("role"), str | None):
            raise UnreadableError("a content should have a role and parts")
        role = content.get("role") or "user"
        if role == "model":
            self.ids.begin_turn()
        blocks = []
        for part in objects_in(content.get("parts"), "parts"):
            block = show_part(part, self.ids)
            self.parts[id(block)] = part
            if block["type"] == "tool_result":
                self.results[block["tool_use_id"]] = rename_fields(part, PART)
            blocks.append(block)
        others = {name: value for name, value in content.items() if name not in CONTENT}
        turn = {"role": ROLES.get(role, role), "content": blocks, **others}
        self.contents[id(turn)] = given
        return turn


def _system_fields(given: Part) -> Body:
    """Return what an instruction has beside its parts, and a role that says something."""
    content = rename_fields(given, CONTENT)
    usual = content.get("role") in (None, "user", "system")
    apart = ("parts", "role") if usual else ("parts",)
    return {name: value for name, value in content.items() if name not in apart}


def read_request(given: Body, model: str | None, *, stream: bool) -> ModelRequest:
    """Read a request; `raw` is the body. Raises `UnreadableError`."""
    shown = ShownRequest(given, model, stream=stream)
    request = read_messages_request(shown.shown)
    if shown.outer is not None:
        others = {name: value for name, value in shown.outer.items() if name != WITHIN}
        request = dataclasses.replace(request, params={**request.params, **others})
    return dataclasses.replace(request, raw=freeze_request(given))


def write_request(
    given: Body, before: ModelRequest, after: ModelRequest, memory: Memory, *, stream: bool
) -> Body:
    """Write what hooks changed in a request."""
    shown = ShownRequest(given, before.model, stream=stream)
    changed = write_messages_request(shown.shown, before, after)
    body = shown.body
    written = {name: changed[name] for name in changed if name not in (*APART, *NOT_OURS)}
    if "model" in body:
        written["model"] = body["model"] if after.model == before.model else f"models/{after.model}"
    shown.note_calls(after.messages)
    written["contents"] = [_write_content(shown, turn, memory) for turn in changed["messages"]]
    if all(changed.get(name) == shown.shown.get(name) for name in ("system", "systemInstruction")):
        written |= {name: body[name] for name in ("systemInstruction",) if name in body}
    elif changed.get("system"):
        others = changed.get("systemInstruction") or {}
        written["systemInstruction"] = _write_system(shown, changed["system"], others)
    if changed.get("tools") == shown.shown.get("tools"):
        written |= {name: body[name] for name in ("tools",) if name in body}
    elif changed.get("tools"):
        written["tools"] = _write_tools(changed["tools"], body.get("tools"))
    else:
        written.pop("toolConfig", None)
    if shown.outer is None:
        return written
    outer = {name: written.pop(name, value) for name, value in shown.outer.items()}
    return {**outer, WITHIN: written}


def _write_content(shown: ShownRequest, turn: Body, memory: Memory) -> Any:
    if (came := shown.contents.get(id(turn))) is not None:
        return came
    role = "model" if turn["role"] == "assistant" else turn["role"]
    others = {name: value for name, value in turn.items() if name not in ("role", "content")}
    return {"role": role, "parts": _write_parts(shown, turn["content"], memory), **others}


def _write_system(shown: ShownRequest, system: Any, others: Part) -> Body:
    came = objects_in(shown.body.get("systemInstruction"), "systemInstruction")
    role = {name: given[name] for given in came[:1] for name in ("role",) if name in given}
    return thaw({**role, **others, "parts": _write_parts(shown, system, {})})  # type: ignore[no-any-return]


def _write_parts(shown: ShownRequest, content: Any, memory: Memory) -> list[Any]:
    blocks: list[Block] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    written = (_write_block(shown, block, memory) for block in blocks)
    return [part for part in written if part is not None]


def _write_block(shown: ShownRequest, block: Block, memory: Memory) -> Any:
    if (came := shown.parts.get(id(block))) is not None:
        return came
    if block.get("type") == "tool_result":
        id_of_call = str(block.get("tool_use_id"))
        called = shown.called.get(id_of_call, {}).get("function") or {}
        known_name = called.get("name") or _name_in(memory, id_of_call)
        name = shown.ids.name_of(id_of_call) or str(known_name)
        return write_response(block, shown.results.get(id_of_call), name)
    written = write_part(block)
    if written is not None and block.get("type") == "tool_use":
        for calls in (memory, shown.called):
            if SIGNATURE in (known := calls.get(str(block.get("id")), {})):
                written.setdefault(SIGNATURE, known[SIGNATURE])
    return thaw(written)


def _name_in(memory: Memory, id: str) -> str:
    call = memory.get(id, {}).get("functionCall")
    return str(call.get("name")) if isinstance(call, Mapping) else ""


_FUNCTIONS = "functionDeclarations"
_SCHEMAS = ("parametersJsonSchema", "parameters")
"""Where a function's parameters are described: in JSON schema, or in a part of OpenAPI's."""

_NO_PARAMETERS = {"type": "object", "properties": {}}


def _show_tools(given: Any) -> list[Body]:
    """Return tools as the messages API has them, each for itself. Raises `UnreadableError`."""
    found: list[Body] = []
    for each in objects_in(given, "tools"):
        for name, value in rename_fields(each, TOOL).items():
            if name == _FUNCTIONS:
                functions = objects_in(value, name)
                found += [_show_function(rename_fields(item, DECLARATION)) for item in functions]
            else:
                found.append({"type": name, name: value})
    return found


def _show_function(function: Body) -> Body:
    schema = next((function[name] for name in _SCHEMAS if function.get(name) is not None), None)
    others = {name: value for name, value in function.items() if name not in _SCHEMAS}
    return {**others, "input_schema": _NO_PARAMETERS if schema is None else schema}


def _write_tools(tools: Sequence[Mapping[str, Any]], given: Any) -> list[Body]:
    """Write tools; `given` are those that came, whose parameters stay where they were."""
    came = [
        rename_fields(item, DECLARATION)
        for each in objects_in(given, "tools")
        for item in objects_in(rename_fields(each, TOOL).get(_FUNCTIONS), _FUNCTIONS)
    ]
    functions: list[Body] = []
    found: list[Body] = []
    for tool in tools:
        if "input_schema" not in tool:
            found.append({name: value for name, value in tool.items() if name != "type"})
            continue
        if not functions:
            found.append({_FUNCTIONS: functions})
        functions.append(_write_function(tool, came))
    return found


def _write_function(tool: Mapping[str, Any], came: Sequence[Body]) -> Body:
    was = next((item for item in came if item.get("name") == tool.get("name")), {})
    schema = next((name for name in _SCHEMAS if was.get(name) is not None), None)
    others = {name: value for name, value in tool.items() if name not in ("type", "input_schema")}
    if schema is None and tool["input_schema"] == _NO_PARAMETERS:
        return others
    return {**others, schema or _SCHEMAS[0]: tool["input_schema"]}
