"""Answers of the messages API: read for hooks, and written after them."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, plain
from checkrail.llm.answer_errors import ErrorAnswer, InvalidAnswer
from checkrail.llm.argument_checks import check_arguments
from checkrail.llm.messages.answer_draft import AnthropicDraft, says_something
from checkrail.llm.messages.blocks import (
    PlacedBlock,
    merge_blocks,
    place_parts,
    to_block,
)
from checkrail.llm.other_fields import (
    call_fields_of,
    find_other_fields,
    rewrite_fields,
    with_call_fields,
    write_other_fields,
)
from checkrail.llm.provider_errors import WRONG, unreadable_error
from checkrail.llm.stop_reasons import counts_differ, to_messages_usage, to_stop_reason
from checkrail.llm.wire_format import Body

DETAILS = "stop_details"
OF_ANSWER = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage", DETAILS}
    | {"container", "context_management"}
)
OF_USE = frozenset({"type", "id", "name", "input"})


def read_answer(body: Body) -> AssistantMessage:
    """Read an answer that came at once. Raises `UnreadableError`."""
    try:
        return _read_message(body)
    except WRONG as error:
        raise unreadable_error("answer", error) from error


def _read_message(body: Body) -> AssistantMessage:
    if body.get("type") == "error":
        raise ErrorAnswer(body.get("error"))
    content = body.get("content")
    if isinstance(content, list) and not all(isinstance(block, dict) for block in content):
        raise InvalidAnswer("a block of its content should be an object")
    answer = AnthropicDraft("").read_whole(body)
    if others := find_other_fields(body, OF_ANSWER):
        answer = dataclasses.replace(answer, metadata={**answer.metadata, **others})
    uses = [block for block in body["content"] if block.get("type") == "tool_use"]
    beside = ({name: use[name] for name in use if name not in OF_USE} for use in uses)
    answer = with_call_fields(answer, beside)
    return check_arguments(answer, [use.get("input") for use in uses])


def write_answer(body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
    """Write an answer that hooks changed."""
    return write_placed_answer(body, before, after)[0]


def write_placed_answer(
    body: Body, before: AssistantMessage, after: AssistantMessage
) -> tuple[Body, list[PlacedBlock]]:
    """Write an answer that hooks changed, and return where its blocks stood."""
    blocks = place_blocks(body["content"], before, after)
    written = write_other_fields(body, before, after)
    written["content"] = [placed.block for placed in blocks]
    if after.model != before.model and after.model:
        written["model"] = after.model
    if counts_differ(before.usage, after.usage):
        written["usage"] = (body.get("usage") or {}) | to_messages_usage(after.usage)
    calls = bool(after.tool_calls)
    if after.stop_reason != before.stop_reason:
        written["stop_reason"] = to_stop_reason(after.stop_reason, calls=calls)
    elif calls != bool(before.tool_calls) or not (calls or after.content == before.content):
        written["stop_reason"] = to_stop_reason(body.get("stop_reason"), calls=calls)
    details = after.metadata.get(DETAILS)
    if details != before.metadata.get(DETAILS):
        written[DETAILS] = thaw(details)
    return written, blocks


def place_blocks(
    content: Sequence[Mapping[str, Any]], before: AssistantMessage, after: AssistantMessage
) -> list[PlacedBlock]:
    """Return the blocks that are left of an answer, and where they stood."""
    came = [PlacedBlock(block, place) for place, block in enumerate(content)]
    said = [placed for placed in came if placed.block.get("type") != "tool_use"]
    uses = [placed for placed in came if placed.block.get("type") == "tool_use"]
    calls = _place_calls(uses, before, after)
    if after.content == before.content:
        return merge_blocks(said, calls)
    told = [one for one in said if says_something(one.block)]
    if isinstance(before.content, str):
        return merge_blocks(_write_texts(told, after.content), calls)
    return merge_blocks(place_parts(told, before.content, after.content), calls)


def _write_texts(came: list[PlacedBlock], after: Any) -> list[PlacedBlock]:
    """Write the texts of an answer that hooks saw as one."""
    if not isinstance(after, str):
        before = [{"type": "text", "text": placed.block["text"]} for placed in came]
        return place_parts(came, before, after)
    texts = spread_text([placed.block["text"] for placed in came], after)
    if not came:
        return [PlacedBlock(to_block(after), None)] if after else []
    return [
        placed
        if text == placed.block["text"]
        else PlacedBlock(_rewrite_text(placed, text), placed.origin)
        for placed, text in zip(came, texts, strict=True)
        if text
    ]


def _rewrite_text(placed: PlacedBlock, text: str) -> dict[str, Any]:
    kept = {name: value for name, value in placed.block.items() if name != "citations"}
    cites = "citations" in placed.block
    return kept | {"text": text} | ({"citations": None} if cites else {})


def spread_text(texts: Sequence[str], after: str) -> list[str]:
    """Divide a text among those it was joined from; those at its start and end stay as they are."""
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


def _place_calls(
    uses: list[PlacedBlock], before: AssistantMessage, after: AssistantMessage
) -> Iterator[PlacedBlock]:
    places = {call.id: place for place, call in enumerate(before.tool_calls)}
    then, now = (message.metadata.get(UNPARSED) or {} for message in (before, after))
    for call in after.tool_calls:
        place = places.get(call.id)
        if place is None:
            yield PlacedBlock(build_tool_use(call), None)
            continue
        was, block = before.tool_calls[place], uses[place].block
        texts = then.get(call.id), now.get(call.id)
        if (was.name, was.args, texts[0]) != (call.name, call.args, texts[1]):
            text = texts[1] if was.args == call.args else None
            given = plain(call.args) if text is None else text
            block = {**block, "name": call.name, "input": given}
        fields = (call_fields_of(message, call.id) for message in (before, after))
        block = rewrite_fields(block, *fields)
        yield PlacedBlock(block, uses[place].origin)


def build_tool_use(call: ToolCall) -> dict[str, Any]:
    """Write a call of which there is no block yet."""
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": plain(call.args)}


def build_answer(message: AssistantMessage, request: ModelRequest) -> Body:
    """Write an answer that came from no model."""
    given: Any = message.content
    parts = ([given] if given else []) if isinstance(given, str) else given
    calls = [build_tool_use(call) for call in message.tool_calls]
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": message.model or request.model or "",
        "content": [*map(to_block, parts), *calls],
        "stop_reason": to_stop_reason(message.stop_reason, calls=bool(calls)),
        "stop_sequence": None,
        "usage": to_messages_usage(message.usage),
    }
