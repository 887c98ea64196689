"""Streams of the Gemini API: read as they pass, and written on where hooks changed the answer."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.answer_errors import InvalidAnswer
from checkrail.llm.answer_fields import object_in
from checkrail.llm.gemini.framing import Framing
from checkrail.llm.gemini.names import DATA, rename_settings
from checkrail.llm.gemini.parts import Part, write_part
from checkrail.llm.gemini.response import (
    OF_ANSWER,
    OF_CANDIDATE,
    OF_CONTENT,
    find_candidates,
    parts_of,
    show_blocks,
    write_answer,
)
from checkrail.llm.json_bytes import read_object
from checkrail.llm.other_fields import EARLIER
from checkrail.llm.provider_errors import WRONG, describe_error, unreadable_error
from checkrail.llm.sse import Piece
from checkrail.llm.stream_reader import BufferedStreamReader, StreamBuffer
from checkrail.llm.unknown_calls import begins_call, has_call
from checkrail.llm.wire_format import Body, Kind, UnreadableError


class GeminiStreamReader(BufferedStreamReader):
    """A streamed answer. It has ended when all its candidates have a finish reason."""

    def __init__(
        self, request: ModelRequest, framing: Framing, read: Callable[[Body], AssistantMessage]
    ) -> None:
        super().__init__(read)
        self._framing = framing
        self._chunks = StreamBuffer()
        self._expected = _candidate_count(request.params)
        self._ended: set[int] = set()
        self._begun: set[int] = set()
        self._withheld = False

    @property
    def has_ended(self) -> bool:
        """Whether the answer has come to its end."""
        if self._error is not None:
            return False
        return self._withheld or (len(self._ended) >= self._expected and self._begun <= self._ended)

    def read_piece(self, piece: Piece) -> Kind:
        """Read one piece. Raises `UnreadableError`."""
        if not piece.data or piece.data.isspace():
            return "quiet"
        if self._error is not None:
            raise UnreadableError("the stream of the model went on after its end")
        self._answer = None
        chunk = read_object(piece.data, "a piece of the model's stream")
        if chunk.get("error"):
            self._error = chunk["error"]
            if chunk.get("candidates"):  # it is passed on unseen, and so must not be an answer too
                raise UnreadableError(describe_error(self._error))
            return "error"
        try:
            return self._read_chunk(chunk)
        except WRONG as error:
            raise unreadable_error("stream", error) from error

    def _read_chunk(self, chunk: Body) -> Kind:
        kind: Kind = "tool" if begins_call(_others(chunk, OF_ANSWER)) else "quiet"
        feedback = object_in(chunk.get("promptFeedback"), "its feedback")
        self._withheld = self._withheld or bool(feedback.get("blockReason"))
        for place, candidate in enumerate(find_candidates(chunk)):
            index = _index_of(candidate, place)
            self._begun.add(index)
            parts = parts_of(candidate)
            if candidate.get("finishReason"):
                self._ended.add(index)
            if _may_call(candidate, parts):
                kind = "tool"
            elif kind != "tool":
                kind = "end" if self.has_ended else "text"
        self._chunks.pieces.append(chunk)
        self._touched.append(self._chunks)
        return "end" if self._withheld and kind != "tool" else kind

    def _build_body(self) -> Body:
        return merge_chunks(self._chunks.pieces)

    def write_rest(self, after: AssistantMessage) -> Iterator[bytes]:
        """Write the end of the stream for a caller who has what was sent: in one piece."""
        body, before = self._read_answer()
        written = write_answer(body, before, after)
        passed = merge_chunks(self._chunks.pieces[: self._chunks.sent])
        sent = {_index_of(one, place): one for place, one in enumerate(find_candidates(passed))}
        candidates = []
        for place, target in enumerate(find_candidates(written)):
            known = sent.get(_index_of(target, place), {})
            content = {**object_in(target.get("content"), "its content")}
            content["parts"] = [*_missing_parts(parts_of(target), parts_of(known))]
            candidates.append(_without_earlier({**target, "content": content}))
        told = _without_earlier(written)
        told |= {"candidates": candidates} if "candidates" in written else {}
        yield self._framing.write(told, begun=self._chunks.begun)
        yield self._framing.write_end()


CALLED = ("functionCall", "function_call", "functionResponse", "function_response")
"""Parts that a client acts on; the last two are refused when the whole answer is read."""


def _may_call(candidate: Mapping[str, Any], parts: Sequence[Part]) -> bool:
    """Return whether a piece has a call, or something else that may be one."""
    content = object_in(candidate.get("content"), "its content")
    beside = [_others(candidate, OF_CANDIDATE), _others(content, OF_CONTENT)]
    beside += [_others(part, DATA) for part in parts]
    called = any(name in part for part in parts for name in CALLED)
    return called or any(map(begins_call, beside)) or has_call(parts)


def _others(given: Mapping[str, Any], known: Container[str]) -> Body:
    return {name: value for name, value in given.items() if name not in known}


def _without_earlier(given: Body) -> Body:
    return {name: value for name, value in given.items() if not name.startswith(EARLIER)}


def merge_chunks(chunks: Sequence[Body]) -> Body:
    """Return the pieces of an answer as one that comes at once."""
    body: Body = {}
    found: dict[int, Body] = {}
    for chunk in chunks:
        _store_fields(body, chunk, OF_ANSWER)
        for place, candidate in enumerate(find_candidates(chunk)):
            target = found.setdefault(_index_of(candidate, place), {})
            parts = [*parts_of(target), *parts_of(candidate)]
            content: Body = dict(object_in(target.get("content"), "its content"))
            given = object_in(candidate.get("content"), "its content")
            _store_fields(content, given, OF_CONTENT)
            _store_fields(target, candidate, OF_CANDIDATE)
            if content or parts:
                target["content"] = content | {"parts": parts}
    if found:
        body["candidates"] = [_with_merged_texts(found[index]) for index in sorted(found)]
    return body


def _store_fields(target: Body, given: Mapping[str, Any], known: frozenset[str]) -> None:
    """Keep the fields of a piece; of an unknown one, its earlier values as well."""
    for name, value in given.items():
        if name in ("candidates", "content", "parts") and name in known:
            continue
        if name in target and target[name] != value and name not in known:
            earlier = f"{EARLIER}{name}"
            target[earlier] = [*target.get(earlier, []), target[name]]
        target[name] = value


def _with_merged_texts(candidate: Body) -> Body:
    if "content" not in candidate:
        return candidate
    parts = [part for block in show_blocks([candidate]) if (part := write_part(block)) is not None]
    return {**candidate, "content": {**candidate["content"], "parts": parts}}


def _missing_parts(parts: Sequence[Part], sent: Sequence[Part]) -> Iterator[Part]:
    """Yield what a caller lacks of parts who has been sent others, which may have been torn."""
    left = [*parts]
    for known in sent:
        if not left:
            return
        if left[0] == known:
            left.pop(0)
        elif isinstance(known.get("text"), str) and isinstance(left[0].get("text"), str):
            text, passed = left[0]["text"], known["text"]
            if bool(known.get("thought")) is not bool(left[0].get("thought")):
                continue
            more = text[len(passed) :] if text.startswith(passed) else ""
            first = left.pop(0)
            if more or first.keys() > known.keys():
                left.insert(0, {**first, "text": more})
    yield from left


def _index_of(candidate: Mapping[str, Any], place: int) -> int:
    index = candidate.get("index", place)
    if not isinstance(index, int):
        raise InvalidAnswer("the index of a candidate should be a number")
    return index


def _candidate_count(params: Mapping[str, Any]) -> int:
    settings = rename_settings(params.get("generationConfig"))
    count = settings.get("candidateCount") if isinstance(settings, Mapping) else None
    return count if isinstance(count, int) and count > 1 else 1
