"""Messages of a conversation, in the shape of the OpenAI chat API, and what keeps them in order."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from checkrail.engine.frozen import freeze
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ToolCall, ToolResult, plain

log = logging.getLogger("checkrail.agent")

Message = Mapping[str, Any]

LONGEST_NAME = 64
LEGAL_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST_NAME}}}")
"""The names of tools that every provider accepts."""

Query = str | Sequence[Any]
"""What a user asks: a text, or parts."""


class ReadOnlyView(Sequence[Any]):
    """A list as others may see it: as it grows, and not to be changed."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]


def freeze_history(history: Iterable[Message]) -> list[Message]:
    """Check and freeze the messages of a conversation."""
    messages: list[Any] = [*history]
    for message in messages:
        if not isinstance(message, Mapping) or "role" not in message:
            told = f"a history is messages such as {user_message('Hello')}, not {message!r}"
            raise TypeError(told)
    return [freeze(message) for message in messages]


def call_ids(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the ids of the tool calls in a conversation."""
    for said_before in messages:
        for call in said_before.get("tool_calls") or ():
            yield call.get("id", "")


def with_call_ids(
    message: AssistantMessage, earlier: Container[str], context: str
) -> AssistantMessage:
    """Return an answer whose tool calls all have ids of their own."""
    if not message.tool_calls:
        return message
    texts = unparsed_in(message)
    calls: dict[str, ToolCall] = {}
    unparsed: dict[str, str] = {}
    for call in message.tool_calls:
        free = (f"{call.id or 'call'}_{number}" for number in count(2 if call.id else 1))
        own = call.id
        if not own or own in calls or own in earlier:
            own = next(name for name in free if name not in calls and name not in earlier)
        same = (call.id, call.context) == (own, context)
        calls[own] = call if same else dataclasses.replace(call, id=own, context=context)
        if call.id in texts:
            unparsed[own] = str(texts[call.id])
    found = [*calls.values()]
    if all(new is old for new, old in zip(found, message.tool_calls, strict=True)):
        return message
    metadata = {**message.metadata, UNPARSED: unparsed} if unparsed else message.metadata
    return dataclasses.replace(message, tool_calls=found, metadata=metadata)


def unparsed_in(message: AssistantMessage) -> Mapping[str, Any]:
    """Return the arguments of an answer's tool calls that are no JSON, by the ids of the calls."""
    given = message.metadata.get(UNPARSED)
    return given if isinstance(given, Mapping) else {}


def find_problems(message: AssistantMessage) -> Iterator[str]:
    """Yield what is malformed in an answer: a model or a hook may return anything."""
    content: Any = message.content
    calls: Any = message.tool_calls
    if not isinstance(content, str | list | tuple):
        yield f"its content is {type(content).__name__}, not a text or parts"
    if not isinstance(calls, list | tuple) or not all(map(is_call, calls)):
        yield "its tool_calls are no list of ToolCall, each with a name and a dict of args"
    others: list[Any] = [message.usage or {}, message.metadata]
    if not all(isinstance(other, Mapping) for other in others):
        yield "its usage or metadata is no mapping"


def is_call(call: Any) -> bool:
    """Return whether this is a tool call with all that one has to have."""
    if not isinstance(call, ToolCall):
        return False
    texts: list[Any] = [call.id, call.name]
    return all(isinstance(text, str) for text in texts) and isinstance(call.args, Mapping)


def user_message(content: Query) -> dict[str, Any]:
    """Return a user's message."""
    if not isinstance(content, str | list | tuple):
        told = f"a query is a text, or a list of parts, not {type(content).__name__}"
        raise TypeError(told)
    return {"role": "user", "content": content}


def assistant_message(message: AssistantMessage) -> dict[str, Any]:
    """Return an answer as a message of the conversation."""
    written: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        written["tool_calls"] = [render_call(call) for call in message.tool_calls]
    return written


def render_call(call: ToolCall) -> dict[str, Any]:
    """Return a tool call as it stands in an assistant's message."""
    arguments = json.dumps(plain(call.args), ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": legal_name(call.name), "arguments": arguments},
    }


def legal_name(name: str) -> str:
    """Return a name that providers accept: a model may invent one that they would refuse."""
    return name if LEGAL_NAME.fullmatch(name) else re.sub(r"[^\w-]", "_", name)[:64] or "unknown"


def failed_result(call: ToolCall, reason: str) -> ToolResult:
    """Return the result of a call that failed or was refused."""
    return ToolResult(call.id, call.name, reason, is_error=True, error=reason)


def tool_message(result: ToolResult) -> dict[str, Any]:
    """Return a tool's result as a message; `is_error` is there only if it is one."""
    written = {"role": "tool", "tool_call_id": result.id, "content": content_of(result)}
    return written | ({"is_error": True} if result.is_error else {})


def content_of(result: ToolResult) -> str | Sequence[Any]:
    """Return a result's content as a model can read it: a text, or parts."""
    content: Any = result.content
    if result.is_error and not content and result.error:
        content = result.error
    if isinstance(content, str):
        return content
    if is_parts(content):
        return [*content]
    return json.dumps(plain(content), ensure_ascii=False)


def is_parts(content: Any) -> bool:
    """Return whether this is a list of content parts, and not just any list."""
    return (
        isinstance(content, (list, tuple))
        and bool(content)
        and all(isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in content)
    )


def text_of(content: Any) -> str:
    """Return the text of a message's content, whatever else is in it."""
    if isinstance(content, str):
        return content
    return "".join(_iter_texts(content or ()))


def _iter_texts(parts: Iterable[Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping) and part.get("type") in ("text", "output_text"):
            yield str(part.get("text", ""))


def without_altered_thoughts(
    message: AssistantMessage, given: AssistantMessage
) -> AssistantMessage:
    """Return an answer without signed thoughts that hooks changed: providers refuse those."""
    if message is given or isinstance(message.content, str):
        return message
    content = _genuine_parts(message.content, _signed_parts([given.content]))
    return message if content is message.content else dataclasses.replace(message, content=content)


def genuine_messages(messages: Sequence[Message], given: Sequence[Message]) -> Sequence[Message]:
    """Return messages of a request without the signed thoughts that hooks changed."""
    if messages is given:
        return messages
    signed = _signed_parts(message.get("content") for message in given)
    return [_with_genuine_parts(message, signed) for message in messages] if signed else messages


def _with_genuine_parts(message: Message, signed: Mapping[str, Any]) -> Message:
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return message
    kept = _genuine_parts(content, signed)
    return message if kept is content else {**message, "content": kept}


def _genuine_parts(parts: Sequence[Any], signed: Mapping[str, Any]) -> Sequence[Any]:
    kept = [part for part in parts if signed.get(_signature(part), part) == part]
    return parts if len(kept) == len(parts) else kept


def _signed_parts(contents: Iterable[Any]) -> dict[str, Any]:
    parts = [part for content in contents if isinstance(content, list | tuple) for part in content]
    return {signature: part for part in parts if (signature := _signature(part))}


def _signature(part: Any) -> str:
    signature = part.get("signature") if isinstance(part, Mapping) else None
    return signature if isinstance(signature, str) else ""


def legal_message(message: Message) -> Message | None:
    """Return a hook's message as the conversation can take it anywhere between two turns."""
    role = message.get("role", "user")
    content, calls = message.get("content"), message.get("tool_calls")
    says = bool(content) and (isinstance(content, str) or is_parts(content))
    if role in ("user", "system", "developer", "assistant") and says and not calls:
        kept = {key: value for key, value in message.items() if key != "tool_calls"}
        return freeze({**kept, "role": role})  # type: ignore[no-any-return]
    log.error("a hook injected a %s message that has no place here: it is left out", role)
    return None


def tool_name(tool: Message) -> str | None:
    """Return the name of a tool in a request; a provider's own tools have none."""
    function = tool.get("function")
    return function.get("name") if isinstance(function, Mapping) else None
