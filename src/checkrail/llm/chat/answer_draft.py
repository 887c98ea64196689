"""An answer of OpenAI's chat API, whole or in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.llm.answer_errors import ErrorAnswer, InvalidAnswer, missing_end
from checkrail.llm.answer_fields import count_in, counts_in, list_in, object_in, text_in
from checkrail.llm.conversation import is_parts, text_of
from checkrail.llm.stop_reasons import read_stop_reason
from checkrail.llm.tool_arguments import read_calls

REASONING = ("reasoning_content", "reasoning")
"""What endpoints call a model's thoughts, where they let us see them."""


class OpenAIDraft:
    """An answer on its way. A refusal is its text, and `refusal` its stop reason."""

    def __init__(self, model: str) -> None:
        self.usage: dict[str, Any] | None = None
        self._model = model
        self._stop = ""
        self._refused = False
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[_ToolCallDraft] = []
        self._by_index: dict[Any, _ToolCallDraft] = {}

    def read_whole(self, answer: Mapping[str, Any]) -> AssistantMessage:
        """Read an answer that came at once."""
        choice = self._find_choice(answer)
        if choice is None:
            raise InvalidAnswer("it has no choices")
        if choice.get("message") is None:
            raise InvalidAnswer("its choice has no message")
        self._read_choice(choice, "message")
        return self._build_message()

    def add(self, piece: Mapping[str, Any]) -> str:
        """Read a piece of a stream, and return the text in it."""
        choice = self._find_choice(piece)
        return self._read_choice(choice, "delta") if choice is not None else ""

    def finish(self) -> AssistantMessage:
        """Return the answer, if the stream came to its end."""
        if not self._stop:
            raise missing_end(begun=any((*self._texts, *self._thoughts, *self._calls)))
        return self._build_message()

    def _find_choice(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.usage = usage_of(answer.get("usage")) or self.usage
        if answer.get("error"):
            raise ErrorAnswer(answer["error"])
        self._model = text_in(answer.get("model"), "its model") or self._model
        choices = list_in(answer.get("choices"), "its choices")
        found = (object_in(choice, "a choice") for choice in choices)
        return next((choice for choice in found if not choice.get("index")), None)

    def _read_choice(self, choice: Mapping[str, Any], where: str) -> str:
        said = object_in(choice.get(where), f"the {where} of its choice")
        refusal = text_in(self._find_refusal(said), "its refusal")
        text = _content_text(said.get("content")) + refusal
        thoughts = (text_in(said.get(name), "its reasoning") for name in REASONING)
        self._texts.append(text)
        self._thoughts.append(next(filter(None, thoughts), ""))
        self._refused = self._refused or bool(refusal)
        self._stop = text_in(choice.get("finish_reason"), "its finish reason") or self._stop
        for position, piece in enumerate(list_in(said.get("tool_calls"), "its tool calls")):
            self._find_call(object_in(piece, "a tool call"), position).add(piece)
        return text

    def _find_refusal(self, said: Mapping[str, Any]) -> Any:
        return said.get("refusal")

    def _find_call(self, piece: Mapping[str, Any], position: int) -> _ToolCallDraft:
        """Find the call that a piece belongs to; not every endpoint numbers them, or rightly."""
        index = piece.get("index", position)
        known = self._by_index.get(index)
        if known is None or piece.get("id") not in (None, "", known.id):
            known = self._by_index[index] = _ToolCallDraft()
            self._calls.append(known)
        return known

    def _build_message(self) -> AssistantMessage:
        calls, metadata = read_calls(call.to_tuple() for call in self._calls)
        if thoughts := "".join(self._thoughts):
            metadata["reasoning"] = thoughts
        stop = read_stop_reason("refusal" if self._refused else self._stop, calls=bool(calls))
        text = "".join(self._texts)
        return AssistantMessage(text, calls, self._model, self.usage, stop, metadata)


class _ToolCallDraft:
    """A tool call whose arguments are still coming."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: dict[str, Any] | None = None
        self.texts: list[str] = []

    def add(self, piece: Mapping[str, Any]) -> None:
        function = object_in(piece.get("function"), "the function of a tool call")
        self.id = self.id or text_in(piece.get("id"), "the id of a tool call")
        self.name = self.name or text_in(function.get("name"), "the name of a tool")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some endpoints have parsed them already
            self.arguments = arguments
        else:
            self.texts.append(text_in(arguments, "the arguments of a tool call"))

    def to_tuple(self) -> tuple[str, str, Any]:
        if not self.name:
            raise InvalidAnswer("it calls a tool without a name")
        return self.id, self.name, "".join(self.texts) or self.arguments or ""


def usage_of(given: Any) -> dict[str, Any] | None:
    """Count tokens as every model here does: those read from a cache are part of the input."""
    given = given if isinstance(given, Mapping) else {}
    sent, answered = (count_in(given.get(f"{name}_tokens")) for name in ("prompt", "completion"))
    total = count_in(given.get("total_tokens")) or sent + answered
    counted = {"input_tokens": sent, "output_tokens": answered, "total_tokens": total}
    details = {
        "input_tokens_details": counts_in(given.get("prompt_tokens_details")),
        "output_tokens_details": counts_in(given.get("completion_tokens_details")),
    }
    return counted | {name: found for name, found in details.items() if found} if total else None


def _content_text(content: Any) -> str:
    return text_of(content) if is_parts(content) else text_in(content or None, "its content")
