"""Answers of the Gemini API: read for hooks, and written after them.

All candidates are seen. Where there are several, the content is parts that tell their `choice`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.answer_errors import ErrorAnswer, InvalidAnswer
from checkrail.llm.answer_fields import count_in, list_in, object_in, text_in
from checkrail.llm.gemini.parts import (
    MADE,
    SIGNATURE,
    Block,
    CallIds,
    merge_texts,
    show_part,
    write_part,
)
from checkrail.llm.messages.answer_draft import says_something
from checkrail.llm.messages.blocks import PlacedBlock, to_block
from checkrail.llm.messages.response import build_tool_use, place_blocks
from checkrail.llm.other_fields import (
    ITEM_FIELDS,
    find_other_fields,
    item_fields_of,
    rewrite_fields,
    with_call_fields,
    write_other_fields,
)
from checkrail.llm.provider_errors import WRONG, unreadable_error
from checkrail.llm.stop_reasons import counts_differ, read_stop_reason
from checkrail.llm.tool_arguments import read_calls
from checkrail.llm.wire_format import Body, UnreadableError

OF_ANSWER = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId", "createTime"})
OF_CANDIDATE = frozenset(
    {"content", "finishReason", "index", "tokenCount", "avgLogprobs", "logprobsResult"}
)
OF_CONTENT = frozenset({"parts", "role"})
OF_TEXT = ("avgLogprobs", "logprobsResult", "citationMetadata", "groundingMetadata")
"""What is about a text as it was, and says too much if that was changed."""

OF_USE = frozenset({"type", "id", "name", "input", "choice"})
PIECES = ("partialArgs", "willContinue")
"""Arguments of a call that come in pieces: whoever joins them sees what no hook has seen."""

STOPS = {
    "content_filter": "SAFETY",
    "length": "MAX_TOKENS",
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
}
"""What this API calls our stop reasons; all others are STOP."""


def read_answer(body: Body) -> AssistantMessage:
    """Read an answer that came at once. Raises `UnreadableError`."""
    try:
        return _read_message(body)
    except UnreadableError:
        raise
    except WRONG as error:
        raise unreadable_error("answer", error) from error


def _read_message(body: Body) -> AssistantMessage:
    if body.get("error"):
        raise ErrorAnswer(body["error"])
    candidates = find_candidates(body)
    if not candidates and not body.get("promptFeedback"):
        raise InvalidAnswer("it has no candidates")
    blocks = show_blocks(candidates)
    uses = [block for block in blocks if block["type"] == "tool_use"]
    calls, metadata = read_calls(_call_of(use) for use in uses)
    reason = candidates[0].get("finishReason") if candidates else "content_filter"
    answer = AssistantMessage(
        content=_show_content(blocks, several=len(candidates) > 1),
        tool_calls=calls,
        model=text_in(body.get("modelVersion"), "its model") or None,
        usage=usage_of(body.get("usageMetadata")),
        stop_reason=read_stop_reason(reason, calls=bool(calls)),
        metadata=metadata | find_other_fields(body, OF_ANSWER) | _candidate_fields(candidates),
    )
    beside = ({name: use[name] for name in use if name not in OF_USE} for use in uses)
    return with_call_fields(answer, beside)


def find_candidates(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the candidates of an answer."""
    listed = list_in(body.get("candidates"), "its candidates")
    return [object_in(candidate, "a candidate") for candidate in listed]


def show_blocks(candidates: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the parts of all candidates as blocks; of several, each tells which it is of."""
    found: list[Block] = []
    for place, candidate in enumerate(candidates):
        choice = {"choice": place} if len(candidates) > 1 else {}
        for part in parts_of(candidate):
            call = part.get("functionCall")
            if isinstance(call, Mapping) and any(call.get(name) for name in PIECES):
                raise InvalidAnswer("it calls a tool with arguments in pieces")
            block = show_part(part, CallIds())
            if block["type"] == "tool_result":
                raise InvalidAnswer("it has the result of a tool")
            found.append({**block, **choice})
    return merge_texts(found)


def parts_of(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a candidate; one that was withheld has none."""
    content = object_in(candidate.get("content"), "the content of a candidate")
    parts = list_in(content.get("parts"), "the parts of a candidate")
    return [object_in(part, "a part") for part in parts]


def _call_of(use: Block) -> tuple[str, str, Any]:
    name = text_in(use["name"], "the name of a tool")
    if not name:
        raise InvalidAnswer("it calls a tool without a name")
    given = str(use["id"])
    return (
        (f"{MADE}{secrets.token_hex(8)}" if given.startswith(MADE) else given),
        name,
        use["input"],
    )


def _show_content(blocks: Sequence[Block], *, several: bool) -> str | list[Any]:
    """Return what an answer says: one text, unless there is more than that."""
    said = [block for block in blocks if block["type"] != "tool_use" and says_something(block)]
    plain = all(block.keys() <= {"type", "text", SIGNATURE} for block in said)
    if plain and not several:
        return "".join(block["text"] for block in said)
    return said


def _candidate_fields(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, candidate in enumerate(candidates):
        content = object_in(candidate.get("content"), "the content of a candidate")
        others = read_candidate_fields(candidate)
        beside = find_other_fields(content, OF_CONTENT).values()
        found |= {str(place): others | {"content": dict(*beside)} for _ in beside}
        if others:
            found.setdefault(str(place), others)
    return {ITEM_FIELDS: found} if found else {}


def read_candidate_fields(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a candidate has beside its content, if there is any text in it."""
    return dict(*find_other_fields(candidate, OF_CANDIDATE).values())


def usage_of(given: Any) -> dict[str, Any] | None:
    """Count tokens as every model here does: thoughts are output, results of tools are input."""
    counts = given if isinstance(given, Mapping) else {}
    read = {name: count_in(counts.get(f"{name}TokenCount")) for name in COUNTS}
    sent, answered = read["prompt"] + read["toolUsePrompt"], read["candidates"] + read["thoughts"]
    if not sent + answered:
        return None
    total = count_in(counts.get("totalTokenCount")) or sent + answered
    counted = {"input_tokens": sent, "output_tokens": answered, "total_tokens": total}
    cached, thought = read["cachedContent"], read["thoughts"]
    details = {
        "input_tokens_details": {"cached_tokens": cached} if cached else {},
        "output_tokens_details": {"reasoning_tokens": thought} if thought else {},
    }
    return counted | {name: found for name, found in details.items() if found}


COUNTS = ("prompt", "toolUsePrompt", "candidates", "thoughts", "cachedContent")


def write_usage(usage: Mapping[str, Any] | None) -> Body:
    """Write usage as this API does."""
    told = usage or {}
    sent, answered = count_in(told.get("input_tokens")), count_in(told.get("output_tokens"))
    cached = count_in((told.get("input_tokens_details") or {}).get("cached_tokens"))
    thought = count_in((told.get("output_tokens_details") or {}).get("reasoning_tokens"))
    written = {"promptTokenCount": sent, "candidatesTokenCount": max(0, answered - thought)}
    written["totalTokenCount"] = count_in(told.get("total_tokens")) or sent + answered
    more = {"cachedContentTokenCount": cached, "thoughtsTokenCount": thought}
    return written | {name: count for name, count in more.items() if count}


def write_stop(reason: str | None) -> str:
    """Write a stop reason as this API does."""
    return STOPS.get(reason or "", "STOP")


def write_answer(body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
    """Write an answer that hooks changed.

    Where there are more candidates than one and hooks gave one text, the others are left out.
    """
    written = write_other_fields(body, before, after)
    if after.model != before.model and after.model:
        written["modelVersion"] = after.model
    if counts_differ(before.usage, after.usage):
        written["usageMetadata"] = write_usage(after.usage)
    candidates: Sequence[Mapping[str, Any]] = find_candidates(body)
    blocks = show_blocks(candidates)
    placed = place_blocks(blocks, before, after)
    if not candidates and placed:
        candidates = [{"content": {"role": "model"}, "index": 0}]
        written.pop("promptFeedback", None)
    one_text = len(candidates) > 1 and isinstance(after.content, str)
    stop = None if after.stop_reason == before.stop_reason else write_stop(after.stop_reason)
    for place, candidate in enumerate(candidates[:1] if one_text else candidates):
        came = [block for block in blocks if block.get("choice", 0) == place]
        own = [one for one in placed if one_text or one.block.get("choice", 0) == place]
        fields = (item_fields_of(message, place) for message in (before, after))
        target = _write_candidate(candidate, came, _settle_signatures(own, blocks), *fields)
        if stop is not None and place == 0:
            target["finishReason"] = stop
        written.setdefault("candidates", [])
        written["candidates"] = [*written["candidates"][:place], target]
    return written


def _write_candidate(
    candidate: Mapping[str, Any],
    came: Sequence[Block],
    blocks: Sequence[Block],
    was: Mapping[str, Any],
    now: Mapping[str, Any],
) -> Body:
    beside = [dict(fields.get("content") or {}) for fields in (was, now)]
    outer = [{name: fields[name] for name in fields if name != "content"} for fields in (was, now)]
    target = rewrite_fields(candidate, *outer)
    content = rewrite_fields(object_in(candidate.get("content"), "its content"), *beside)
    if [*blocks] != [*came]:
        written = (write_part(_without_choice(block)) for block in blocks)
        content = {**content, "parts": [thaw(part) for part in written if part is not None]}
        content.setdefault("role", "model")
        if not _text_of(blocks).startswith(_text_of(came)):
            for name in OF_TEXT:
                target.pop(name, None)
        target.pop("logprobsResult", None)
    return {**target, "content": content}


def _without_choice(block: Block) -> Block:
    return {name: value for name, value in block.items() if name != "choice"}


def _text_of(blocks: Iterable[Block]) -> str:
    return "".join(str(block.get("text")) for block in blocks if block.get("type") == "text")


def _settle_signatures(placed: Sequence[PlacedBlock], came: Sequence[Block]) -> list[Block]:
    """Return blocks without signatures that hooks changed.

    Of calls that are made together the first one alone is signed: if that is left out, the next
    one has its signature, for without any the model's API refuses the conversation.
    """
    kept = {one.origin for one in placed}
    orphans = [
        block[SIGNATURE]
        for place, block in enumerate(came)
        if block["type"] == "tool_use" and SIGNATURE in block and place not in kept
    ]
    found: list[Block] = []
    for one in placed:
        was = came[one.origin] if one.origin is not None else {}
        block = {**one.block}
        if block.get(SIGNATURE) != was.get(SIGNATURE):
            block.pop(SIGNATURE, None)
        if block.get("type") == "tool_use" and orphans:
            block.setdefault(SIGNATURE, orphans.pop(0))
        found.append(block)
    return found


def build_answer(message: AssistantMessage, request: ModelRequest) -> Body:
    """Write an answer that came from no model."""
    given: Any = message.content
    parts = ([given] if given else []) if isinstance(given, str) else given
    blocks = [*map(to_block, parts), *map(build_tool_use, message.tool_calls)]
    written = [part for block in blocks if (part := write_part(block)) is not None]
    content = {"parts": written or [{"text": ""}], "role": "model"}
    stop = write_stop(message.stop_reason)
    return {
        "candidates": [{"content": content, "finishReason": stop, "index": 0}],
        "usageMetadata": write_usage(message.usage),
        "modelVersion": message.model or request.model or "",
        "responseId": secrets.token_hex(12),
    }
