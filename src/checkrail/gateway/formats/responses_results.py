"""Items of the Responses API that answer calls of tools, as messages, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkrail.agent.messages import is_parts, text_of
from checkrail.engine.values import plain
from checkrail.gateway.formats.json_bytes import write_text
from checkrail.gateway.formats.responses_calls import (
    APPROVAL,
    FOUND,
    FUNCTION,
    Calling,
    Item,
    runs_at_provider,
)
from checkrail.gateway.formats.responses_parts import item_part, message_part

SCREENSHOT = "computer_screenshot"
BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB"
    "0C8AAAAASUVORK5CYII="
)
"""An image without anything on it: the API takes nothing else where a screenshot has to be."""

Message = Mapping[str, Any]


def is_result(item: Item) -> bool:
    """Return whether an item answers a call that the caller was to run."""
    type_ = item.get("type")
    if type_ == FOUND:
        return not runs_at_provider(item)
    return isinstance(type_, str) and type_.endswith("_call_output")


def result_id(item: Item) -> str:
    """Return the id of the call that an item answers."""
    return str(item.get("call_id") or item.get("id") or "")


def result_message(item: Item) -> Message:
    """Show an answer to a call as the message of a tool."""
    known = ("type", "call_id", _field(item["type"]))
    others = {name: item[name] for name in item if name not in known}
    error = {"is_error": True} if _failed(item) else {}
    said = {"role": "tool", "tool_call_id": result_id(item), "content": _content(item)}
    return {**others, **said, **error}


def _field(type_: str) -> str:
    return "tools" if type_ == FOUND else "output"


def _content(item: Item) -> Any:
    output = item.get(_field(item["type"]))
    if output is None:
        return ""
    if isinstance(output, str):
        return output
    if is_parts(output):
        return [message_part(part) for part in output]
    if is_parts([output]):
        return [output]
    return write_text(plain(output))


def _failed(item: Item) -> bool:
    """Return whether the API marks this as an error; most of its items cannot say so."""
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


def result_item(message: Message, came: Item | None, calling: Calling | None) -> list[Item]:
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
    item = {**others, "type": type_, _id_field(type_, came): called}
    match type_:
        case "computer_call_output":
            return _screenshot(item, content)
        case "shell_call_output":
            return [item | {"output": _commands(content)}]
        case "tool_search_output":
            return _tools(item, content)
        case "apply_patch_call_output":
            status = "failed" if message.get("is_error") else "completed"
            return [item | {"status": status, "output": text_of(content)}]
        case "local_shell_call_output":
            return [item | {"output": text_of(content)}]
        case _:
            return [item | {"output": _output(content, came)}]


def _id_field(type_: str, came: Item | None) -> str:
    if came:
        return "call_id" if came.get("call_id") else "id"
    return "id" if type_ == "local_shell_call_output" else "call_id"


def _tools(item: Item, content: Any) -> list[Item]:
    found = [*content] if is_parts(content) else []
    told = [] if found or not content else [{"role": "user", "content": text_of(content)}]
    return [{"execution": "client", **item, "tools": found}, *told]


def _screenshot(item: Item, content: Any) -> list[Item]:
    parts = content if is_parts(content) else []
    shown = next((part for part in parts if part["type"] == SCREENSHOT), None)
    if shown is not None:
        return [{**item, "output": shown}]
    blank = {**item, "output": {"type": SCREENSHOT, "image_url": BLANK}}
    return [blank, {"role": "user", "content": text_of(content)}]


def _commands(content: Any) -> list[Any]:
    text = text_of(content)
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, list):
        return found
    outcome = {"type": "exit", "exit_code": 1}
    return [{"stdout": text, "stderr": "", "outcome": outcome}]


def _output(content: Any, came: Item | None) -> Any:
    if is_parts(content):
        return [item_part(part, "tool") for part in content]
    text = text_of(content)
    was = came.get("output") if came else None
    if was is None or isinstance(was, str) or is_parts(was):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
