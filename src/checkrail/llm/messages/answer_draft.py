"""An answer of Anthropic's messages API, whole or in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.llm.answer_errors import ErrorAnswer, InvalidAnswer, missing_end
from checkrail.llm.answer_fields import count_in, counts_in, list_in, object_in, text_in
from checkrail.llm.stop_reasons import read_stop_reason
from checkrail.llm.tool_arguments import json_object, read_calls

GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Which field of a block each kind of piece makes longer."""


class AnthropicDraft:
    """An answer on its way.

    Its content is a text, unless there is more than text and tool calls in it: then it is the
    blocks as they came, so that thinking can be given back with its signature.
    """

    def __init__(self, model: str) -> None:
        self.usage: dict[str, Any] | None = None
        self._model = model
        self._counts: dict[str, Any] = {}
        self._stop = ""
        self._metadata: dict[str, Any] = {}
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._inputs: dict[Any, str] = {}
        self._ended = False

    def read_whole(self, answer: Mapping[str, Any]) -> AssistantMessage:
        """Read an answer that came at once."""
        self._read_start(answer)
        if not isinstance(answer.get("content"), list):
            raise InvalidAnswer("it has no content")
        return self._build_message()

    def add(self, piece: Mapping[str, Any]) -> str:
        """Read an event of a stream, and return the text in it."""
        match piece.get("type"):
            case "message_start":
                self._read_start(object_in(piece.get("message"), "its message"))
            case "content_block_start":
                return self._open_block(piece.get("index"), piece.get("content_block"))
            case "content_block_delta":
                return self._extend_block(
                    piece.get("index"), object_in(piece.get("delta"), "a delta")
                )
            case "message_delta":
                self._count_usage(piece.get("usage"))
                self._read_end(object_in(piece.get("delta"), "a delta"))
            case "message_stop":
                self._ended = True
        return ""

    def finish(self) -> AssistantMessage:
        """Return the answer, if the stream came to its end."""
        if not (self._stop or self._ended):
            raise missing_end(begun=bool(self._blocks))
        return self._build_message()

    def _read_start(self, answer: Mapping[str, Any]) -> None:
        self._count_usage(answer.get("usage"))
        if answer.get("error"):
            raise ErrorAnswer(answer["error"])
        self._model = text_in(answer.get("model"), "its model") or self._model
        self._read_end(answer)
        for index, block in enumerate(list_in(answer.get("content"), "its content")):
            self._open_block(index, block)

    def _read_end(self, told: Mapping[str, Any]) -> None:
        self._stop = text_in(told.get("stop_reason"), "its stop reason") or self._stop
        if told.get("stop_details"):
            self._metadata["stop_details"] = told["stop_details"]

    def _count_usage(self, counts: Any) -> None:
        found = counts.items() if isinstance(counts, Mapping) else ()
        self._counts |= {name: count for name, count in found if count is not None}
        self.usage = usage_of(self._counts)

    def _open_block(self, index: Any, given: Any) -> str:
        block = dict(object_in(given, "a block of its content"))
        block["type"] = kind = text_in(block.get("type"), "the type of a block")
        self._blocks[index] = block
        return text_in(block.get("text"), "a text") if kind == "text" else ""

    def _extend_block(self, index: Any, delta: Mapping[str, Any]) -> str:
        block = self._blocks.get(index)
        if block is None:
            raise InvalidAnswer("a piece of it belongs to no block")
        kind = delta.get("type")
        if kind == "input_json_delta":
            more = text_in(delta.get("partial_json"), "the arguments of a tool call")
            self._inputs[index] = self._inputs.get(index, "") + more
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        elif field := GROWING.get(str(kind)):
            more = text_in(delta.get(field), f"a {field}")
            block[field] = text_in(block.get(field), f"a {field}") + more
            return more if field == "text" else ""
        return ""

    def _build_message(self) -> AssistantMessage:
        uses = [
            (
                text_in(block.get("id"), "the id of a tool call"),
                _tool_name(block),
                self._raw_input(index),
            )
            for index, block in self._blocks.items()
            if block["type"] == "tool_use"
        ]
        calls, metadata = read_calls(uses)
        metadata |= self._metadata
        stop = read_stop_reason(self._stop, calls=bool(calls))
        return AssistantMessage(
            self._build_content(), calls, self._model, self.usage, stop, metadata
        )

    def _build_content(self) -> str | list[dict[str, Any]]:
        parts = [
            {
                name: value
                for name, value in self._with_input(index, block).items()
                if value is not None
            }
            for index, block in self._blocks.items()
            if block["type"] != "tool_use" and says_something(block)
        ]
        if all(part["type"] == "text" and not _has_more(part) for part in parts):
            return "".join(part["text"] for part in parts)
        return parts

    def _with_input(self, index: Any, block: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments to a call of a tool that runs at Anthropic's."""
        if index not in self._inputs:
            return block
        try:
            return block | {"input": json_object(self._inputs[index])}
        except ValueError as error:
            raise InvalidAnswer(f"the arguments of a tool at the provider's: {error}") from error

    def _raw_input(self, index: Any) -> Any:
        return self._inputs.get(index) or self._blocks[index].get("input") or {}


def usage_of(counts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Count tokens as every model here does: those of a cache are part of the input.

    Anthropic counts them apart: `input_tokens` are then all that were sent, and the details say how
    many were read from the cache and how many written to it.
    """
    cached = {
        "cached_tokens": count_in(counts.get("cache_read_input_tokens")),
        "cache_creation_tokens": count_in(counts.get("cache_creation_input_tokens")),
    }
    sent = count_in(counts.get("input_tokens")) + sum(cached.values())
    answered = count_in(counts.get("output_tokens"))
    thought = counts_in(counts.get("output_tokens_details")).get("thinking_tokens")
    counted = {"input_tokens": sent, "output_tokens": answered, "total_tokens": sent + answered}
    details = {
        "input_tokens_details": cached if any(cached.values()) else {},
        "output_tokens_details": {"reasoning_tokens": thought} if thought else {},
        "server_tool_use": counts_in(counts.get("server_tool_use")),
    }
    known = {name: found for name, found in details.items() if found}
    return counted | known if sent + answered else None


def says_something(block: Mapping[str, Any]) -> bool:
    """Return whether a block is more than an empty text."""
    return block.get("type") != "text" or bool(block.get("text")) or _has_more(block)


def _has_more(block: Mapping[str, Any]) -> bool:
    """Return whether a text has something beside it."""
    return any(block[name] for name in block if name not in ("type", "text"))


def _tool_name(block: Mapping[str, Any]) -> str:
    name = text_in(block.get("name"), "the name of a tool")
    if not name:
        raise InvalidAnswer("it calls a tool without a name")
    return name
