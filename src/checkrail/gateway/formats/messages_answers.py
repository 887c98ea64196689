"""Answers of the messages API: read for hooks, and written after them."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkrail.agent.messages import UNPARSED
from checkrail.agent.models.anthropic_answer import AnthropicDraft
from checkrail.agent.models.sdk_errors import ErrorAnswer, InvalidAnswer
from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, plain
from checkrail.gateway.formats.arguments import in_one_way
from checkrail.gateway.formats.base import Body
from checkrail.gateway.formats.endings import counts_differ, messages_usage, stop_reason
from checkrail.gateway.formats.messages_blocks import Placed, block_of, placed_parts, woven
from checkrail.gateway.formats.other_fields import find_others, with_others
from checkrail.gateway.formats.provider_errors import WRONG, unreadable

DETAILS = "stop_details"
OF_ANSWER = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage", DETAILS}
    | {"container", "context_management"}
)


def read_answer(body: Body) -> AssistantMessage:
    """Read an answer that came at once. Raises `UnreadableError`."""
    try:
        return _read(body)
    except WRONG as error:
        raise unreadable("answer", error) from error


def _read(body: Body) -> AssistantMessage:
    if body.get("type") == "error":
        raise ErrorAnswer(body.get("error"))
    content = body.get("content")
    if isinstance(content, list) and not all(isinstance(block, dict) for block in content):
        raise InvalidAnswer("a block of its content should be an object")
    answer = AnthropicDraft("").whole(body)
    if others := find_others(body, OF_ANSWER):
        answer = dataclasses.replace(answer, metadata={**answer.metadata, **others})
    uses = [block for block in body["content"] if block.get("type") == "tool_use"]
    return in_one_way(answer, [use.get("input") for use in uses])


def write_answer(body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
    """Write an answer that hooks changed."""
    return written_answer(body, before, after)[0]


def written_answer(
    body: Body, before: AssistantMessage, after: AssistantMessage
) -> tuple[Body, list[Placed]]:
    """Write an answer that hooks changed, and say where its blocks stood."""
    blocks = placed_blocks(body["content"], before, after)
    written = with_others(body, before, after)
    written["content"] = [placed.block for placed in blocks]
    if after.model != before.model and after.model:
        written["model"] = after.model
    if counts_differ(before.usage, after.usage):
        written["usage"] = (body.get("usage") or {}) | messages_usage(after.usage)
    calls = bool(after.tool_calls)
    if after.stop_reason != before.stop_reason:
        written["stop_reason"] = stop_reason(after.stop_reason, calls=calls)
    elif calls != bool(before.tool_calls):
        written["stop_reason"] = stop_reason(body.get("stop_reason"), calls=calls)
    details = after.metadata.get(DETAILS)
    if details != before.metadata.get(DETAILS):
        written[DETAILS] = thaw(details)
    return written, blocks


def placed_blocks(
    content: Sequence[Mapping[str, Any]], before: AssistantMessage, after: AssistantMessage
) -> list[Placed]:
    """Return the blocks that are left of an answer, and where they stood."""
    came = [Placed(block, place) for place, block in enumerate(content)]
    said = [placed for placed in came if placed.block.get("type") != "tool_use"]
    uses = [placed for placed in came if placed.block.get("type") == "tool_use"]
    calls = _calls(uses, before, after)
    if after.content == before.content:
        return woven(said, calls)
    told = [one for one in said if one.block.get("type") != "text" or one.block.get("text")]
    if isinstance(before.content, str):
        return woven(_texts(told, after.content), calls)
    return woven(placed_parts(told, before.content, after.content), calls)


def _texts(came: list[Placed], after: Any) -> list[Placed]:
    """Write the texts of an answer that hooks saw as one."""
    if not isinstance(after, str):
        before = [{"type": "text", "text": placed.block["text"]} for placed in came]
        return placed_parts(came, before, after)
    texts = spread([placed.block["text"] for placed in came], after)
    if not came:
        return [Placed(block_of(after), None)] if after else []
    return [
        placed if text == placed.block["text"] else Placed(_retold(placed, text), placed.origin)
        for placed, text in zip(came, texts, strict=True)
        if text
    ]


def _retold(placed: Placed, text: str) -> dict[str, Any]:
    kept = {name: value for name, value in placed.block.items() if name != "citations"}
    cites = "citations" in placed.block
    return kept | {"text": text} | ({"citations": None} if cites else {})


def spread(texts: Sequence[str], after: str) -> list[str]:
    """Divide a text among those that were one: those at its start and its end stay as they are."""
    found = [""] * len(texts)
    start, end = 0, len(texts)
    while start < end and after.startswith(texts[start]):
        found[start] = texts[start]
        after = after[len(texts[start]) :]
        start += 1
    while end > start and after.endswith(texts[end - 1]):
        end -= 1
        found[end] = texts[end]
        after = after[: len(after) - len(texts[end])]
    if start < end:
        found[start] = after
    elif start > 0:
        found[start - 1] += after
    elif found:
        found[0] = after + found[0]
    return found


def _calls(
    uses: list[Placed], before: AssistantMessage, after: AssistantMessage
) -> Iterator[Placed]:
    places = {call.id: place for place, call in enumerate(before.tool_calls)}
    then, now = (message.metadata.get(UNPARSED) or {} for message in (before, after))
    for call in after.tool_calls:
        place = places.get(call.id)
        if place is None:
            yield Placed(new_use(call), None)
            continue
        was, block = before.tool_calls[place], uses[place].block
        texts = then.get(call.id), now.get(call.id)
        if (was.name, was.args, texts[0]) != (call.name, call.args, texts[1]):
            text = texts[1] if was.args == call.args else None
            given = plain(call.args) if text is None else text
            block = {**block, "name": call.name, "input": given}
        yield Placed(block, uses[place].origin)


def new_use(call: ToolCall) -> dict[str, Any]:
    """Write a call of which there is no block yet."""
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": plain(call.args)}


def new_answer(message: AssistantMessage, request: ModelRequest) -> Body:
    """Write an answer that no model gave."""
    given: Any = message.content
    parts = ([given] if given else []) if isinstance(given, str) else given
    calls = [new_use(call) for call in message.tool_calls]
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": message.model or request.model or "",
        "content": [*map(block_of, parts), *calls],
        "stop_reason": stop_reason(message.stop_reason, calls=bool(calls)),
        "stop_sequence": None,
        "usage": messages_usage(message.usage),
    }
