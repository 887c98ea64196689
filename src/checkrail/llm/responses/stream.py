"""A streamed answer of the Responses API, read as it passes, and written anew from where it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.llm.json_bytes import read_object, write_json
from checkrail.llm.other_fields import UNKNOWN, write_other_fields
from checkrail.llm.provider_errors import describe_error
from checkrail.llm.responses.events import EventWriter
from checkrail.llm.responses.response import (
    OF_ANSWER,
    OutputChange,
    is_same_answer,
    read_message,
    write_response,
)
from checkrail.llm.responses.stream_draft import OF_EVENTS, Event, ResponseDraft, is_known
from checkrail.llm.sse import Piece
from checkrail.llm.sse import write_event as written_event
from checkrail.llm.unknown_calls import begins_call, has_call
from checkrail.llm.wire_format import Kind, UnreadableError

DONE = b"[DONE]"
"""How other APIs end a stream; some endpoints do so here too."""


class ResponsesStreamReader:
    """A streamed answer, read as it passes."""

    def __init__(self, tools: Sequence[Any] = ()) -> None:
        self._tools = tools
        self._draft = ResponseDraft()
        self._shown = ResponseDraft()
        self._waiting: list[tuple[Piece, Event | None, Kind]] = []
        self._message: AssistantMessage | None = None

    @property
    def response_id(self) -> str | None:
        """The id under which the provider knows it, and the conversation before it."""
        own = self._draft.response.get("id")
        return own if isinstance(own, str) else None

    @property
    def has_ended(self) -> bool:
        """Whether the answer has come to its end."""
        return self._draft.end is not None

    @property
    def message(self) -> AssistantMessage:
        """What was read: the answer, if it has ended. Raises `UnreadableError` if it is invalid."""
        if self._draft.end is None:
            raise UnreadableError("the stream ended before the answer did")
        if self._message is None:
            if self._draft.end.get("type") == "error":
                raise UnreadableError(
                    describe_error(self._draft.end.get("error") or self._draft.end)
                )
            self._message = read_message(self._read_response(), self._read_items())
        return self._message

    @property
    def partial(self) -> AssistantMessage:
        """What was read up to now, of an answer that may never end."""
        response = {**self._read_response(), "status": None, "error": None}
        return read_message(response, self._read_items())

    def _read_response(self) -> Mapping[str, Any]:
        """Return the fields of the answer as a whole, and events that the API does not know."""
        unknown = self._draft.unknown
        events = {UNKNOWN: unknown} if unknown else {}
        return {**self._draft.response, **self._draft.earlier, **events}

    def _read_items(self) -> list[Mapping[str, Any]]:
        return [entry.item for entry in self._draft.entries]

    def read_piece(self, piece: Piece) -> Kind:
        """Read one piece, and return what it is about. Raises `UnreadableError`."""
        event: Event | None = None
        kind: Kind = "quiet"
        data = piece.data.strip()
        if data and data != DONE:
            event = read_object(data, "an event of the stream")
            named = piece.event or ""
            if named.startswith("response.") and named != event.get("type"):
                raise UnreadableError("an event of the stream is named otherwise than its type")
            kind = self._draft.add(event)
            if kind in ("quiet", "text") and _may_call(event):
                kind = "tool"
        self._waiting.append((piece, event, kind))
        return kind

    def mark_sent(self) -> None:
        """Note that the caller has everything that was read so far."""
        for _, event, _ in self._waiting:
            if event is not None:
                self._shown.add(event)
        self._waiting.clear()

    def write_rest(self, after: AssistantMessage) -> Iterable[bytes]:
        """Write the end of the stream for a caller who has what was sent."""
        if is_same_answer(self.message, after):
            return [piece.raw for piece, _, _ in self._waiting]
        return self._write_changed(after)

    def _write_changed(self, after: AssistantMessage) -> Iterator[bytes]:
        waiting = iter(self._waiting)
        for piece, event, kind in waiting:
            if kind != "quiet":
                break
            if event is not None:
                self._shown.add(event)
            yield self._without_removed(piece, event, after)
        if self._shown.end is None:
            yield from self._write_items(after)
        yield from (piece.raw for piece, event, _ in waiting if piece.data and event is None)

    def _without_removed(self, piece: Piece, event: Event | None, after: AssistantMessage) -> bytes:
        """Return an event without content, and without what hooks took out of the answer."""
        response = None if event is None else event.get("response")
        if event is None or not isinstance(response, Mapping):
            return piece.raw
        cleaned = write_other_fields(response, self.message, after)
        beside = event.keys() - OF_EVENTS
        if cleaned == response and not beside:
            return piece.raw
        kept = {name: event[name] for name in event if name not in beside}
        return written_event(write_json({**kept, "response": cleaned}), piece.event or "")

    def _write_items(self, after: AssistantMessage) -> Iterator[bytes]:
        had = self._shown.entries
        known = [entry.item for entry in had]
        change = OutputChange(self._read_items(), self.message, after, self._tools, known)
        output = change.write_items()
        writer = EventWriter(self._shown.number + 1)
        free = max((entry.index for entry in had), default=-1) + 1 - len(had)
        for place, item in enumerate(output):
            if item is not None:
                entry = had[place] if place < len(had) else None
                index = entry.index if entry is not None else free + place
                yield from writer.write_item(index, item, entry)
        told = [item for item in output if item is not None]
        response = write_response(self._draft.response, change, told)
        ending = "incomplete" if response.get("status") == "incomplete" else "completed"
        yield writer.write(f"response.{ending}", response=response)


def _may_call(event: Event) -> bool:
    """Return whether an event has what may be a call, at a place that the API does not know."""
    if not is_known(str(event.get("type"))):
        return has_call(event)
    response = event.get("response")
    if isinstance(response, Mapping):
        fields = {name: response[name] for name in response if name not in OF_ANSWER}
        return bool(fields) and has_call(fields)
    beside = {name: event[name] for name in event.keys() - OF_EVENTS}
    return any(map(begins_call, (event.get("item"), event.get("part"), beside)))
