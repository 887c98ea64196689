"""A conversation in LangChain's messages, and its answers read back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from checkrail.agent.models.openai_refusals import REFUSAL
from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage
from checkrail.llm.answer_errors import InvalidAnswer, missing_end
from checkrail.llm.chat.answer_draft import REASONING
from checkrail.llm.conversation import text_of
from checkrail.llm.stop_reasons import read_stop_reason
from checkrail.llm.tool_arguments import read_calls
from checkrail.llm.usage import sum_usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall

MODELS = ("model_name", "model", "model_id")
STOPS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
"""What providers call it in the metadata of a response."""

PROVIDER = ("model_provider",)

CALLS = frozenset(
    ["tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call"],
)
"""Parts that say what `tool_calls` says: sent back, they would undo a hook's change of a call."""

PLAIN = frozenset({"type", "text", "id", "index"})
"""What a part may have and still be mere text."""


def langchain_messages(messages: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """Write a conversation in LangChain's messages; parts it does not know are passed on."""
    return [_langchain_message(message) for message in thaw([*messages])]


def _langchain_message(message: dict[str, Any]) -> BaseMessage:
    from langchain_core.messages import AIMessage, convert_to_messages

    if message.pop("is_error", False):
        message["status"] = "error"
    calls = message.get("tool_calls") or ()
    invalid = [call for call in calls if not _has_object(call)]
    if invalid:
        message["tool_calls"] = [call for call in calls if call not in invalid]
    (made,) = convert_to_messages([message])
    if invalid and isinstance(made, AIMessage):
        made.invalid_tool_calls = [_invalid_call(call) for call in invalid]
    return made


def _has_object(call: Mapping[str, Any]) -> bool:
    """Return whether the arguments of a tool call are an object; LangChain reads no others."""
    arguments = call["function"]["arguments"] if "function" in call else call["args"]
    if not isinstance(arguments, str):
        return isinstance(arguments, Mapping)
    try:
        return isinstance(json.loads(arguments, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _invalid_call(call: Mapping[str, Any]) -> InvalidToolCall:
    from langchain_core.messages import InvalidToolCall

    function = call.get("function") or {"name": call.get("name"), "arguments": call.get("args")}
    name, arguments = function["name"], function["arguments"]
    return InvalidToolCall(
        type="invalid_tool_call", id=call.get("id"), name=name, args=arguments, error=None
    )


def check_stream_end(chunks: Sequence[AIMessage]) -> None:
    """Raise `InvalidAnswer` if a provider's stream ended without saying why.

    Integrations name the provider in each chunk, and the stop reason in one of the last. Chat
    models that name no provider, such as fakes, need not give a reason.
    """
    if _find_metadata(chunks, PROVIDER) is not None and _find_metadata(chunks, STOPS) is None:
        raise missing_end(begun=True)


def read_text(chunk: AIMessage) -> str:
    """Return the text of a piece of a stream; that of a refusal counts."""
    return text_of(read_content(chunk.content))  # calls are no text, whatever their ids


def read_answer(pieces: Sequence[AIMessage], model: str) -> AssistantMessage:
    """Read an answer that came as one message, or as the chunks of a stream."""
    answer = _merge_pieces(pieces)
    parts = answer.content if isinstance(answer.content, list) else [answer.content]
    told = {"type": REFUSAL, REFUSAL: answer.additional_kwargs.get(REFUSAL)}  # of the chat API
    if _refusal_in(told):
        parts = [*parts, told]
    read = read_parts if len(pieces) == 1 else read_content  # those of a stream are one text
    content = read(parts, call_ids(answer))
    reason = REFUSAL if any(map(_refusal_in, parts)) else _stop_reason(pieces)
    calls, metadata = read_calls(_iter_calls(answer))
    metadata |= _read_fields(answer)
    stop = read_stop_reason(reason, calls=bool(calls))
    named = _find_metadata(pieces, MODELS) or model
    return AssistantMessage(content, calls, named, usage_of(pieces), stop, metadata)


def _read_fields(answer: AIMessage) -> dict[str, Any]:
    """Return what integrations put beside an answer, as metadata: thoughts, and all others."""
    fields = {name: value for name, value in read_beside(answer).items() if name != REFUSAL}
    thoughts = next((name for name in REASONING if isinstance(fields.get(name), str)), "")
    reasoning = {"reasoning": fields.pop(thoughts)} if thoughts else {}
    return reasoning | ({"fields": fields} if fields else {})


def read_beside(message: BaseMessage) -> dict[str, Any]:
    """Return what a message has beside its content, but not its tool calls a second time."""
    fields = message.additional_kwargs
    return {name: value for name, value in fields.items() if value and name != "tool_calls"}


def call_ids(message: Any) -> set[str | None]:
    """Return the ids of the tool calls in a message."""
    return {call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]}


def _refusal_in(part: Any) -> str:
    """Return the text of a part that is a refusal, in the forms that LangChain gives it."""
    if isinstance(part, dict) and part.get("type") == "non_standard":
        part = part.get("value")
    if not isinstance(part, dict) or part.get("type") != REFUSAL:
        return ""
    refusal = part.get(REFUSAL)
    return refusal if isinstance(refusal, str) else ""


def _stop_reason(pieces: Sequence[AIMessage]) -> str | None:
    """Return the provider's stop reason; the Responses API reports a cut apart from it."""
    reason = _find_metadata(pieces, STOPS)
    if reason != "incomplete":
        return reason
    found = (piece.response_metadata.get("incomplete_details") for piece in reversed(pieces))
    details = next((each for each in found if isinstance(each, Mapping)), {})
    cause = details.get("reason")
    return cause if isinstance(cause, str) else reason


def _merge_pieces(pieces: Sequence[Any]) -> Any:
    from langchain_core.messages import AIMessage

    if not all(isinstance(piece, AIMessage) for piece in pieces):
        raise InvalidAnswer(f"it is no AIMessage, but {type(pieces[0]).__name__}")
    return pieces[0] if len(pieces) == 1 else pieces[0] + [*pieces[1:]]


def usage_of(pieces: Iterable[AIMessage]) -> dict[str, Any] | None:
    """Count the tokens of what came so far, in the words of every model here."""
    usage: dict[str, Any] = {}
    for piece in pieces:
        usage = sum_usage(usage, piece.usage_metadata)
    for name in ("input", "output"):
        if details := usage.pop(f"{name}_token_details", None):
            usage[f"{name}_tokens_details"] = {_usage_name(key): n for key, n in details.items()}
    return usage or None


def _usage_name(name: str) -> str:
    name = "cached" if name == "cache_read" else name
    return name if name.endswith("_tokens") else f"{name}_tokens"


def _find_metadata(pieces: Sequence[AIMessage], names: tuple[str, ...]) -> str | None:
    """Find something in the metadata, the latest word first: added up, it would be repeated."""
    for piece in reversed(pieces):
        found = (piece.response_metadata.get(name) for name in names)
        if told := next((value for value in found if isinstance(value, str) and value), None):
            return told
    return None


def _iter_calls(answer: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the calls as they were written: LangChain completes arguments that a stream cut off."""
    written = getattr(answer, "tool_call_chunks", None)
    for call in written or [*answer.tool_calls, *answer.invalid_tool_calls]:
        yield call["id"] or "", call["name"] or "", call["args"] or {}


def read_content(content: str | list[Any], calls: Collection[str | None] = ()) -> str | list[Any]:
    """Read what an answer says, without the calls of these ids: text, if there is only text."""
    kept = read_parts(content, calls)
    if isinstance(kept, str):
        return kept
    return text_of(kept) if all(_is_text(part) for part in kept) else kept


def read_parts(content: str | list[Any], calls: Collection[str | None]) -> str | list[Any]:
    """Read what a message says, without the calls of these ids.

    Texts stay apart where nobody can tell whether a space is meant between them.
    """
    if isinstance(content, str):
        return content
    parts = [_as_part(part) for part in content]
    kept = [_without_index(part) for part in parts if not _is_call(part, calls)]
    texts = [text for part in kept if _is_text(part) and (text := text_of([part]))]
    is_apart = all(a[-1].isspace() or b[0].isspace() for a, b in pairwise(texts))
    return text_of(kept) if is_apart and all(map(_is_text, kept)) else kept


def _is_call(part: dict[str, Any], calls: Collection[str | None]) -> bool:
    """Return whether a part says what `tool_calls` says; pieces of a stream have no id."""
    own = part.get("call_id") or part.get("id")
    return part.get("type") in CALLS and (not own or own in calls)


def _as_part(part: str | dict[str, Any]) -> dict[str, Any]:
    text = part if isinstance(part, str) else _refusal_in(part)
    return {"type": "text", "text": text} if text or isinstance(part, str) else part


def _without_index(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "index"}


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and {name for name, value in part.items() if value} <= PLAIN
