"""Answers of chat models, in every form they come in, and written anew where hooks changed them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from checkrail.adapters.langchain.usage import model_in, used_by
from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage, plain
from checkrail.llm.conversation import unparsed_in

KEPT = frozenset(
    [
        *("model_name", "model", "model_id", "model_provider", "system_fingerprint"),
        *("finish_reason", "stop_reason", "stopReason", "done_reason", "status", "service_tier"),
    ],
)
"""What is kept of an answer's metadata when hooks changed it: the rest may repeat what it said."""

CALLING = frozenset(
    ["tool_use", "tool_call", "tool_call_chunk", "input_json_delta", "function_call"],
)
"""Parts of a stream that belong to a tool call."""


class WholeAnswers:
    """Answers that come at once: a chat result, with one generation or several."""

    def split_answers(self, pieces: list[Any]) -> list[list[Any]]:
        """Return each answer as the messages it is made of."""
        return [[_with_metadata(one)] for result in pieces for one in result.generations]

    def calls_tools(self, piece: Any) -> bool:
        """Return whether a piece is a part of a tool call."""
        return bool(piece)

    def to_output(self, pieces: list[Any]) -> Any:
        """Return the pieces in the form that the caller expects."""
        return pieces[0]

    def to_stored(self, given: Any) -> Any:
        """Return an output in a form that can be stored."""
        return [[_to_pair(one) for one in given.generations], given.llm_output]

    def from_stored(self, kept: Any) -> Any:
        """Return the output that was stored."""
        generations = [ChatGeneration(message=m, generation_info=info) for m, info in kept[0]]
        return ChatResult(generations=generations, llm_output=kept[1])

    def rewrite_answers(self, pieces: list[Any], made: Mapping[int, AIMessage]) -> Any:
        """Return the output with some answers written anew."""
        (result,) = pieces or [ChatResult(generations=[ChatGeneration(message=made[0])])]
        new = [
            ChatGeneration(message=made[place]) if place in made else one
            for place, one in enumerate(result.generations)
        ]
        output = {
            key: value for key, value in (result.llm_output or {}).items() if _is_kept_key(key)
        }
        return ChatResult(generations=new, llm_output=output)


class ChunkedAnswers:
    """Answers that come as a stream of chunks."""

    def split_answers(self, pieces: list[Any]) -> list[list[Any]]:
        """Return the one answer as the chunks it is made of."""
        return [[_with_metadata(piece) for piece in pieces]] if pieces else []

    def calls_tools(self, piece: Any) -> bool:
        """Return whether a chunk is a part of a tool call."""
        message = piece.message
        parts = message.content if isinstance(message.content, list) else ()
        kinds = {part.get("type") for part in parts if isinstance(part, Mapping)}
        return bool(getattr(message, "tool_call_chunks", ())) or not CALLING.isdisjoint(kinds)

    def to_output(self, pieces: list[Any]) -> Any:
        """Return the pieces in the form that the caller expects."""
        return pieces

    def to_stored(self, given: Any) -> Any:
        """Return an output in a form that can be stored."""
        return [_to_pair(piece) for piece in given]

    def from_stored(self, kept: Any) -> Any:
        """Return the output that was stored."""
        return [ChatGenerationChunk(message=m, generation_info=info) for m, info in kept]

    def rewrite_answers(self, pieces: list[Any], made: Mapping[int, AIMessage]) -> Any:
        """Return the answer as one chunk."""
        return [ChatGenerationChunk(message=_to_chunk(made[0]))] if 0 in made else pieces


class EventAnswers:
    """Answers that come as the events of LangChain's streaming protocol."""

    def split_answers(self, pieces: list[Any]) -> list[list[Any]]:
        """Return the one answer as the message that the events add up to."""
        from langchain_core.language_models.chat_model_stream import ChatModelStream

        stream = ChatModelStream()
        for event in pieces:
            stream.dispatch(event)
        message = stream.output_message or _partial_answer(pieces)
        return [[message]] if pieces else []

    def calls_tools(self, piece: Any) -> bool:
        """Return whether an event may belong to a tool call; they are numbered, so all might."""
        return bool(piece)

    def to_output(self, pieces: list[Any]) -> Any:
        """Return the pieces in the form that the caller expects."""
        return pieces

    def to_stored(self, given: Any) -> Any:
        """Return an output in a form that can be stored."""
        return [*given]

    def from_stored(self, kept: Any) -> Any:
        """Return the output that was stored."""
        return kept

    def rewrite_answers(self, pieces: list[Any], made: Mapping[int, AIMessage]) -> Any:
        """Return the answer as events of its own."""
        from langchain_core.language_models._compat_bridge import message_to_events

        if 0 not in made:
            return pieces
        named = next((event.get("id") for event in pieces if event.get("id")), None)
        return message_to_events(made[0], message_id=named)


Form = WholeAnswers | ChunkedAnswers | EventAnswers


def pieces_of(form: Form, given: Any) -> list[Any]:
    """Return what was given back as the pieces in which it came."""
    return [given] if isinstance(form, WholeAnswers) else [*given]


def _partial_answer(events: list[Any]) -> AIMessage:
    """Return what is known of an answer that has not come to its end: what it has used."""
    used = [event["usage"] for event in events if event.get("usage")]
    return AIMessage("", usage_metadata=used[-1] if used else None)


def _to_pair(one: Any) -> list[Any]:
    """Return a generation without its class, which a journal could not read again."""
    return [one.message, one.generation_info]


def _with_metadata(one: Any) -> Any:
    """Return a message with the metadata of its generation."""
    info = getattr(one, "generation_info", None)
    if not info:
        return one.message
    metadata = {**info, **one.message.response_metadata}
    return one.message.model_copy(update={"response_metadata": metadata})


def answering_model(pieces: Sequence[Any], name: str) -> str:
    """Return the name of the model that has answered."""
    return model_in(piece.response_metadata for piece in pieces) or name


def rebuild_message(pieces: Sequence[Any], answer: AssistantMessage) -> AIMessage:
    """Build the message anew from the answer that hooks left; nothing else of it is kept."""
    texts = unparsed_in(answer)
    calls = [call for call in answer.tool_calls if call.args or call.id not in texts]
    broken = [call for call in answer.tool_calls if not call.args and call.id in texts]
    return AIMessage(
        content=thaw(answer.content),
        tool_calls=[
            {"name": call.name, "args": thaw(call.args), "id": call.id, "type": "tool_call"}
            for call in calls
        ],
        invalid_tool_calls=[
            {
                "name": call.name,
                "args": texts[call.id],
                "id": call.id,
                "error": None,
                "type": "invalid_tool_call",
            }
            for call in broken
        ],
        id=next((piece.id for piece in pieces if piece.id), None),
        usage_metadata=used_by(pieces),
        response_metadata=_merge_metadata(pieces),
    )


def _merge_metadata(pieces: Sequence[Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for piece in pieces:
        kept |= {key: value for key, value in piece.response_metadata.items() if _is_kept_key(key)}
    return {key: value for key, value in kept.items() if isinstance(value, str | int | float)}


def _is_kept_key(key: str) -> bool:
    return key in KEPT


def _to_chunk(message: AIMessage) -> AIMessageChunk:
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return AIMessageChunk(
        content=message.content,
        tool_call_chunks=[
            {
                "name": call["name"],
                "args": _arguments_text(call["args"]),
                "id": call["id"],
                "index": place,
                "type": "tool_call_chunk",
            }
            for place, call in enumerate(calls)
        ],
        id=message.id,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
    )


def _arguments_text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(plain(args), ensure_ascii=False)
