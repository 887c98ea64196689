"""Answers of the chat API: read for hooks, and written after them.

All that was said is seen. What is no text and no call is in the metadata: thoughts as `reasoning`,
other fields as `fields`. Where there is more than one choice, the content is parts that tell their
`choice`, and the metadata is by choice. Where a text was changed, what is about it (logprobs,
annotations, audio) is left out.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall
from checkrail.llm.answer_errors import ErrorAnswer, InvalidAnswer
from checkrail.llm.answer_fields import list_in, object_in, text_in
from checkrail.llm.argument_checks import check_arguments
from checkrail.llm.chat.answer_draft import REASONING, usage_of
from checkrail.llm.chat.tool_calls import (
    LEGACY,
    Call,
    find_calls,
    match_calls,
    other_fields,
    parse_calls,
    write_call,
)
from checkrail.llm.conversation import is_parts, render_call, text_of
from checkrail.llm.other_fields import (
    OTHER_FIELDS,
    find_other_fields,
    is_text_key,
    with_call_fields,
    write_other_fields,
)
from checkrail.llm.provider_errors import WRONG, unreadable_error
from checkrail.llm.stop_reasons import (
    counts_differ,
    read_stop_reason,
    to_chat_usage,
    to_finish_reason,
)
from checkrail.llm.wire_format import Body

OF_ANSWER = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier"}
)
OF_CHOICE = frozenset({"index", "message", "delta", "finish_reason", "logprobs"})
KNOWN = frozenset({"role", "content", "refusal", "tool_calls", LEGACY, "audio", *REASONING})
OF_MESSAGE = ("logprobs", "text", "token_ids")
"""What tells the message as it was a second time, its thoughts and calls too."""

OF_TEXT = ("audio", "annotations")
"""What is about the text as it was, and says too much if that was changed."""


@dataclass(slots=True)
class ChoiceContent:
    """The content of one choice, as hooks see it."""

    content: Any = ""
    calls: list[Call] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_answer(body: Body) -> AssistantMessage:
    """Read an answer that came at once. Raises `UnreadableError`."""
    try:
        return _read_message(body)
    except WRONG as error:
        raise unreadable_error("answer", error) from error


def _read_message(body: Body) -> AssistantMessage:
    if body.get("error"):
        raise ErrorAnswer(body["error"])
    choices = find_choices(body)
    if not choices:
        raise InvalidAnswer("it has no choices")
    said = [_read_choice(choice) for choice in choices]
    called = [call for one in said for call in one.calls]
    calls, metadata = parse_calls(called)
    message = object_in(choices[0].get("message"), "its message")
    finish = text_in(choices[0].get("finish_reason"), "its finish reason")
    reason = "refusal" if message.get("refusal") else finish
    answer = AssistantMessage(
        content=said[0].content if len(said) == 1 else _tag_parts(said),
        tool_calls=calls,
        model=text_in(body.get("model"), "its model") or None,
        usage=usage_of(body.get("usage")),
        stop_reason=read_stop_reason(reason, calls=bool(calls)),
        metadata=metadata | _join_metadata(said) | find_other_fields(body, OF_ANSWER),
    )
    answer = with_call_fields(answer, map(other_fields, called))
    return check_arguments(answer, [call["function"].get("arguments") for call in called])


def find_choices(body: Body) -> list[Mapping[str, Any]]:
    """Return the choices of an answer."""
    choices = list_in(body.get("choices"), "its choices")
    return [object_in(choice, "a choice") for choice in choices]


def _read_choice(choice: Mapping[str, Any]) -> ChoiceContent:
    message = object_in(choice.get("message"), "the message of a choice")
    thoughts = [text_in(message.get(name), "its reasoning") for name in REASONING]
    shown = next(filter(None, thoughts), "")
    others = {
        name: value
        for name, value in message.items()
        if (value or is_text_key(name))
        and (name not in KNOWN or (name in REASONING and value != shown))
    }
    metadata = {"reasoning": shown, "fields": others, **find_choice_fields(choice)}
    told = {name: value for name, value in metadata.items() if value}
    return ChoiceContent(_read_content(message), find_calls(message), told)


def find_choice_fields(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a choice has beside its message, except for what repeats the message."""
    known = {*OF_CHOICE, *OF_MESSAGE}
    found = find_other_fields(choice, known).get(OTHER_FIELDS)
    return {"choice_fields": found} if found else {}


def _read_content(message: Mapping[str, Any]) -> Any:
    """Return the content of a message; a refusal counts, and so does the transcript of an audio."""
    content: Any = message.get("content")
    audio = object_in(message.get("audio"), "its audio")
    spoken = text_in(audio.get("transcript"), "the words of its audio")
    others = text_in(message.get("refusal"), "its refusal") + spoken
    if is_parts(content):
        return [*content, {"type": "text", "text": others}] if others else content
    return text_in(content or None, "its content") + others


def _tag_parts(said: list[ChoiceContent]) -> list[Any]:
    parts: list[Any] = []
    for place, one in enumerate(said):
        given = one.content
        own = [{"type": "text", "text": given}] if isinstance(given, str) else given
        parts += [{**part, "choice": place} for part in own if part.get("text") != ""]
    return parts


def _join_metadata(said: list[ChoiceContent]) -> dict[str, Any]:
    if len(said) == 1:
        return dict(said[0].metadata)
    told = {str(place): one.metadata for place, one in enumerate(said) if one.metadata}
    return {"choices": told} if told else {}


def write_answer(body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
    """Write an answer that hooks changed.

    Where there are more choices than one and hooks gave one text, the others are left out.
    """
    written = write_other_fields(body, before, after)
    if after.model != before.model and after.model:
        written["model"] = after.model
    if counts_differ(before.usage, after.usage):
        written["usage"] = (body.get("usage") or {}) | to_chat_usage(after.usage)
    choices = find_choices(body)
    said = [_read_choice(choice) for choice in choices]
    one_text = len(choices) > 1 and isinstance(after.content, str)
    kept = choices[:1] if one_text else choices
    told = _split_by_choice(said, before, after)
    stop = None if after.stop_reason == before.stop_reason else after.stop_reason or "stop"
    written["choices"] = [
        _write_choice(choice, was, now, stop if place == 0 else None)
        for place, (choice, was, now) in enumerate(zip(kept, said, told, strict=False))
    ]
    return written


def _split_by_choice(
    said: list[ChoiceContent], before: AssistantMessage, after: AssistantMessage
) -> list[ChoiceContent]:
    """Return the new content of each choice."""
    owners = [place for place, one in enumerate(said) for _ in one.calls]
    found = [ChoiceContent() for _ in said]
    for place, call in match_calls([call for one in said for call in one.calls], before, after):
        found[owners[place] if place is not None else 0].calls.append(call)
    if len(said) == 1 or isinstance(after.content, str):
        found[0].content, found[0].metadata = after.content, after.metadata
        return found
    metadata = after.metadata.get("choices") or {}
    parts: Sequence[Any] = after.content
    for place, one in enumerate(found):
        own = [part for part in parts if part.get("choice", 0) == place]
        one.content = [{key: part[key] for key in part if key != "choice"} for part in own]
        one.metadata = metadata.get(str(place)) or {}
    return found


def _write_choice(
    choice: Mapping[str, Any], was: ChoiceContent, now: ChoiceContent, stop: str | None
) -> Body:
    message = dict(choice.get("message") or {})
    written = dict(choice) | {"message": message}
    _write_fields(written, was.metadata.get("choice_fields"), now.metadata.get("choice_fields"))
    if not _same_content(was.content, now.content):
        _write_content(message, now.content)
    _write_metadata(message, was.metadata, now.metadata)
    if now.calls != was.calls:
        _write_calls(message, now.calls)
    is_changed = message != (choice.get("message") or {})
    if is_changed:
        written |= {name: None for name in OF_MESSAGE if written.get(name)}
    finish = stop or choice.get("finish_reason")
    if stop or bool(now.calls) != bool(was.calls) or (is_changed and not now.calls):
        finish = to_finish_reason(finish, calls=bool(now.calls))
        old = finish == "tool_calls" and LEGACY in message and "tool_calls" not in message
        written["finish_reason"] = LEGACY if old else finish
    return written


def _same_content(was: Any, now: Any) -> bool:
    return was == now or (isinstance(was, str) and was == text_of(now))


def _write_content(message: Body, content: Any) -> None:
    refused = message.get("refusal") and not message.get("content")
    parts = isinstance(message.get("content"), list) and not isinstance(content, str)
    text = thaw(content) if parts else text_of(content)
    for name in OF_TEXT:
        if message.get(name):
            message[name] = [] if isinstance(message[name], list) else None
    if message.get("refusal"):
        message["refusal"] = None
    message["refusal" if refused and text else "content"] = text or None


def _write_metadata(message: Body, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if (thoughts := now.get("reasoning")) != was.get("reasoning"):
        for name in REASONING:
            if message.get(name) and message[name] == was.get("reasoning"):
                message[name] = thoughts or None
    _write_fields(message, was.get("fields"), now.get("fields"))


def _write_fields(target: Body, was: Any, now: Any) -> None:
    others = now or {}
    for name, value in (was or {}).items():
        if name not in others:
            target.pop(name, None)
        elif others[name] != value and target.get(name):
            target[name] = thaw(others[name])


def _write_calls(message: Body, calls: list[Call]) -> None:
    old = LEGACY in message
    legacy = next((call for call in calls if old and call.get("id") == LEGACY), None)
    if old:
        message.pop(LEGACY)
    if legacy is not None:
        message[LEGACY] = thaw(legacy["function"])
    written = [write_call(call) for call in calls if call is not legacy]
    if written:
        message["tool_calls"] = written
    else:
        message.pop("tool_calls", None)


def build_answer(message: AssistantMessage, request: ModelRequest) -> Body:
    """Write an answer that came from no model."""
    said: Body = {"role": "assistant", "content": text_of(message.content), "refusal": None}
    if thoughts := message.metadata.get("reasoning"):
        said["reasoning_content"] = thoughts
    calls = [_build_call(call, message) for call in message.tool_calls]
    finish = to_finish_reason(message.stop_reason, calls=bool(calls))
    if calls:
        said["content"] = said["content"] or None
        if (request.raw or {}).get("functions") and len(calls) == 1:
            said[LEGACY], finish = calls[0]["function"], LEGACY
        else:
            said["tool_calls"] = calls
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish}
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": message.model or request.model or "",
        "choices": [choice],
        "usage": to_chat_usage(message.usage),
    }


def _build_call(call: ToolCall, message: AssistantMessage) -> Body:
    written = render_call(call)
    unparsed = message.metadata.get(UNPARSED) or {}
    if call.id in unparsed:
        written["function"]["arguments"] = unparsed[call.id]
    return written
