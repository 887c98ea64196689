"""Answers of chat models, in every form they come in, and written anew where hooks changed them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from checkrail.adapters.langchain.usage import model_in, used_by
from checkrail.agent.messages import unparsed_in
from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage, plain

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


class Whole:
    """Answers that come at once: a chat result, with one generation or several."""

    def answers(self, pieces: list[Any]) -> list[list[Any]]:
        """Return each answer as the messages it is made of."""
        return [[_told(one)] for result in pieces for one in result.generations]

    def calls_tools(self, piece: Any) -> bool:
        """Return whether a piece is a part of a tool call."""
        return bool(piece)

    def given(self, pieces: list[Any]) -> Any:
        """Give back what came, as the caller expects it."""
        return pieces[0]

    def kept(self, given: Any) -> Any:
        """Return what was given back in a form that can be kept."""
        return [[_kept(one) for one in given.generations], given.llm_output]

    def again(self, kept: Any) -> Any:
        """Give back what was kept."""
        generations = [ChatGeneration(message=m, generation_info=info) for m, info in kept[0]]
        return ChatResult(generations=generations, llm_output=kept[1])

    def changed(self, pieces: list[Any], made: Mapping[int, AIMessage]) -> Any:
        """Give back what came with some answers written anew."""
        (result,) = pieces or [ChatResult(generations=[ChatGeneration(message=made[0])])]
        new = [
            ChatGeneration(message=made[place]) if place in made else one
            for place, one in enumerate(result.generations)
        ]
        output = {key: value for key, value in (result.llm_output or {}).items() if _keeps(key)}
        return ChatResult(generations=new, llm_output=output)


class Chunks:
    """Answers that come as a stream of chunks."""

    def answers(self, pieces: list[Any]) -> list[list[Any]]:
        """Return the one answer as the chunks it is made of."""
        return [[_told(piece) for piece in pieces]] if pieces else []

    def calls_tools(self, piece: Any) -> bool:
        """Return whether a chunk is a part of a tool call."""
        message = piece.message
        parts = message.content if isinstance(message.content, list) else ()
        kinds = {part.get("type") for part in parts if isinstance(part, Mapping)}
        return bool(getattr(message, "tool_call_chunks", ())) or not CALLING.isdisjoint(kinds)

    def given(self, pieces: list[Any]) -> Any:
        """Give back what came."""
        return pieces

    def kept(self, given: Any) -> Any:
        """Return what was given back in a form that can be kept."""
        return [_kept(piece) for piece in given]

    def again(self, kept: Any) -> Any:
        """Give back what was kept."""
        return [ChatGenerationChunk(message=m, generation_info=info) for m, info in kept]

    def changed(self, pieces: list[Any], made: Mapping[int, AIMessage]) -> Any:
        """Return the answer as one chunk."""
        return [ChatGenerationChunk(message=_chunk(made[0]))] if 0 in made else pieces


class Events:
    """Answers that come as the events of LangChain's streaming protocol."""

    def answers(self, pieces: list[Any]) -> list[list[Any]]:
        """Return the one answer as the message that the events add up to."""
        from langchain_core.language_models.chat_model_stream import ChatModelStream

        stream = ChatModelStream()
        for event in pieces:
            stream.dispatch(event)
        message = stream.output_message or _cut_off(pieces)
        return [[message]] if pieces else []

    def calls_tools(self, piece: Any) -> bool:
        """Return whether an event may belong to a tool call; they are numbered, so all might."""
        return bool(piece)

    def given(self, pieces: list[Any]) -> Any:
        """Give back what came."""
        return pieces

    def kept(self, given: Any) -> Any:
        """Return what was given back in a form that can be kept."""
        return [*given]

    def again(self, kept: Any) -> Any:
        """Give back what was kept."""
        return kept

    def changed(self, pieces: list[Any], made: Mapping[int, AIMessage]) -> Any:
        """Return the answer as events of its own."""
        from langchain_core.language_models._compat_bridge import message_to_events

        if 0 not in made:
            return pieces
        named = next((event.get("id") for event in pieces if event.get("id")), None)
        return message_to_events(made[0], message_id=named)


Form = Whole | Chunks | Events


def pieces_of(form: Form, given: Any) -> list[Any]:
    """Return what was given back as the pieces in which it came."""
    return [given] if isinstance(form, Whole) else [*given]


def _cut_off(events: list[Any]) -> AIMessage:
    """Return what is known of an answer that has not come to its end: what it has used."""
    used = [event["usage"] for event in events if event.get("usage")]
    return AIMessage("", usage_metadata=used[-1] if used else None)


def _kept(one: Any) -> list[Any]:
    """Give a generation without its class, which nobody could read again."""
    return [one.message, one.generation_info]


def _told(one: Any) -> Any:
    """Return a message with all that was told beside it."""
    info = getattr(one, "generation_info", None)
    if not info:
        return one.message
    metadata = {**info, **one.message.response_metadata}
    return one.message.model_copy(update={"response_metadata": metadata})


def answering(pieces: Sequence[Any], name: str) -> str:
    """Return which model has answered."""
    return model_in(piece.response_metadata for piece in pieces) or name


def remade(pieces: Sequence[Any], answer: AssistantMessage) -> AIMessage:
    """Write an answer anew, as hooks left it; nothing else of what it said is kept."""
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
        response_metadata=_metadata(pieces),
    )


def _metadata(pieces: Sequence[Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for piece in pieces:
        kept |= {key: value for key, value in piece.response_metadata.items() if _keeps(key)}
    return {key: value for key, value in kept.items() if isinstance(value, str | int | float)}


def _keeps(key: str) -> bool:
    return key in KEPT


def _chunk(message: AIMessage) -> AIMessageChunk:
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return AIMessageChunk(
        content=message.content,
        tool_call_chunks=[
            {
                "name": call["name"],
                "args": _text(call["args"]),
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


def _text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(plain(args), ensure_ascii=False)
