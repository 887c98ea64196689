"""A call of a chat model as the request that hooks see, and what they changed put back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from checkrail.adapters.langchain.model_calls import ModelCall
from checkrail.agent.models.langchain_messages import (
    call_ids,
    langchain_messages,
    read_beside,
    read_parts,
)
from checkrail.engine.frozen import freeze, thaw
from checkrail.engine.values import ModelRequest, plain

ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
HIDDEN = re.compile(r"header|api_?key|secret|authorization|password", re.IGNORECASE)
"""Options that may hold keys: they are sent, but are nothing for hooks and records to see."""

OWN = frozenset({"tools", "run_manager", "model"})
"""Options that a request tells of elsewhere, or not at all."""


class UnfitRequest(Exception):
    """Hooks made a request that this chat model cannot take."""


def request_of(call: ModelCall) -> ModelRequest:
    """Return a call as the request that hooks see."""
    return ModelRequest(
        model=call.name,
        provider=call.provider,
        messages=[render_message(message) for message in call.messages],
        tools=[_render_tool(tool) for tool in call.options.get("tools") or ()],
        params={name: value for name, value in call.options.items() if _is_param(name, value)},
        stream=call.streams,
    )


def _is_param(name: str, value: Any) -> bool:
    return name not in OWN and not HIDDEN.search(name) and (name, value) != ("stop", None)


def render_message(message: BaseMessage) -> dict[str, Any]:
    """Return a message in the form of the OpenAI chat API."""
    role = message.role if isinstance(message, ChatMessage) else message.type
    said: dict[str, Any] = {"role": ROLES.get(role, role), "content": message.content}
    said = read_beside(message) | said
    if message.name:
        said["name"] = message.name
    if isinstance(message, AIMessage):
        said["content"] = read_parts(message.content, call_ids(message))
        if calls := [*message.tool_calls, *message.invalid_tool_calls]:
            said["tool_calls"] = [_render_call(call) for call in calls]
    if isinstance(message, ToolMessage):
        said["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            said["is_error"] = True
    return said


def _render_call(call: Any) -> dict[str, Any]:
    args = call["args"]
    text = args if isinstance(args, str) else json.dumps(plain(args or {}), ensure_ascii=False)
    function = {"name": call["name"] or "", "arguments": text}
    return {"id": call["id"], "type": "function", "function": function}


def _render_tool(tool: Any) -> Any:
    try:
        return convert_to_openai_tool(tool)
    except Exception:  # noqa: BLE001 - a provider's own tools have shapes of their own
        return tool if isinstance(tool, Mapping) else {"type": type(tool).__name__}


def apply_changes(call: ModelCall, shown: ModelRequest, wanted: ModelRequest) -> ModelCall:
    """Return the call as hooks left the request; what they did not change is passed as it came."""
    if wanted.model and wanted.model != shown.model:
        renamed = call.with_model_name(wanted.model)
        if renamed is None:
            raise UnfitRequest(
                f"model {wanted.model!r} was asked for, but {type(call.model).__name__} is bound "
                f"to {call.name!r}: leave the request's model as it is, or block the request",
            )
        call = renamed
    if wanted.messages != shown.messages:
        call = replace(
            call, messages=_apply_messages(call.messages, shown.messages, wanted.messages)
        )
    if wanted.tools != shown.tools or wanted.params != shown.params:
        call = replace(call, options=_apply_options(call, shown, wanted))
    return call


def _apply_messages(
    given: Sequence[Any], shown: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]
) -> list[Any]:
    known = dict(zip(map(id, shown), given, strict=True))
    made: list[Any] = []
    for place, message in enumerate(wanted):
        kept = known.get(id(message))
        if kept is None and place < len(shown) and message == shown[place]:
            kept = given[place]
        made += [kept] if kept is not None else langchain_messages([message])
    return made


def _apply_options(call: ModelCall, shown: ModelRequest, wanted: ModelRequest) -> dict[str, Any]:
    kept = {name: value for name, value in call.options.items() if name not in shown.params}
    options: dict[str, Any] = kept | thaw(dict(wanted.params))
    if wanted.tools != shown.tools:
        options.pop("tools", None)
        if tools := [_apply_tool(call, shown, tool) for tool in wanted.tools]:
            options["tools"] = tools
        else:
            options.pop("tool_choice", None)
    return options


def _apply_tool(call: ModelCall, shown: ModelRequest, tool: Mapping[str, Any]) -> Any:
    """Return a tool as it came, or have the integration write one that is new to it."""
    for known, given in zip(shown.tools, call.options.get("tools") or (), strict=True):
        if known == tool:
            return given
    try:
        return call.model.bind_tools([thaw(tool)]).kwargs["tools"][0]
    except Exception as error:
        name = type(call.model).__name__
        raise UnfitRequest(f"{name} cannot be given the tool that hooks made: {error}") from error


def with_messages(call: ModelCall, added: Sequence[Mapping[str, Any]]) -> ModelCall:
    """Return the call with messages at its end."""
    if not added:
        return call
    return replace(call, messages=[*call.messages, *langchain_messages(freeze([*added]))])
