"""A streamed answer of the Responses API, read as it passes, and written anew from where it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.gateway.formats.base import Kind, UnreadableError
from checkrail.gateway.formats.json_bytes import read_object, write_json
from checkrail.gateway.formats.other_fields import UNKNOWN, with_others
from checkrail.gateway.formats.provider_errors import reported
from checkrail.gateway.formats.responses_draft import Draft, Event
from checkrail.gateway.formats.responses_events import EventWriter
from checkrail.gateway.formats.responses_output import (
    Changing,
    message_of,
    same,
    written_response,
)
from checkrail.gateway.sse import Piece
from checkrail.gateway.sse import event as written_event

DONE = b"[DONE]"
"""How other APIs end a stream; some endpoints do so here too."""


class ResponsesReading:
    """A streamed answer, read as it passes."""

    def __init__(self, tools: Sequence[Any] = ()) -> None:
        self._tools = tools
        self._draft = Draft()
        self._shown = Draft()
        self._waiting: list[tuple[Piece, Event | None, Kind]] = []
        self._message: AssistantMessage | None = None

    @property
    def ended(self) -> bool:
        """Whether the answer has come to its end."""
        return self._draft.end is not None

    @property
    def message(self) -> AssistantMessage:
        """What was read: the answer, if it has ended. Raises `UnreadableError` if it is none."""
        if self._draft.end is None:
            raise UnreadableError("the stream ended before the answer did")
        if self._message is None:
            if self._draft.end.get("type") == "error":
                raise UnreadableError(reported(self._draft.end.get("error") or self._draft.end))
            self._message = message_of(self._response(), self._items())
        return self._message

    @property
    def partial(self) -> AssistantMessage:
        """What was read up to now, of an answer that may never end."""
        response = {**self._response(), "status": None, "error": None}
        return message_of(response, self._items())

    def _response(self) -> Mapping[str, Any]:
        """Return what is said of the answer as a whole, and events that the API does not know."""
        unknown = self._draft.unknown
        return {**self._draft.response, **({UNKNOWN: unknown} if unknown else {})}

    def _items(self) -> list[Mapping[str, Any]]:
        return [entry.item for entry in self._draft.entries]

    def take(self, piece: Piece) -> Kind:
        """Read one piece, and say what it is about. Raises `UnreadableError`."""
        event: Event | None = None
        kind: Kind = "quiet"
        data = piece.data.strip()
        if data and data != DONE:
            event = read_object(data, "an event of the stream")
            named = piece.event or ""
            if named.startswith("response.") and named != event.get("type"):
                raise UnreadableError("an event of the stream is named otherwise than its type")
            kind = self._draft.add(event)
        self._waiting.append((piece, event, kind))
        return kind

    def passed(self) -> None:
        """Note that the caller has everything that was taken so far."""
        for _, event, _ in self._waiting:
            if event is not None:
                self._shown.add(event)
        self._waiting.clear()

    def rest(self, after: AssistantMessage) -> Iterable[bytes]:
        """Write the end of the stream for a caller who has what was passed."""
        if same(self.message, after):
            return [piece.raw for piece, _, _ in self._waiting]
        return self._changed(after)

    def _changed(self, after: AssistantMessage) -> Iterator[bytes]:
        waiting = iter(self._waiting)
        for piece, event, kind in waiting:
            if kind != "quiet":
                break
            if event is not None:
                self._shown.add(event)
            yield self._without_removed(piece, event, after)
        if self._shown.end is None:
            yield from self._written(after)
        yield from (piece.raw for piece, event, _ in waiting if piece.data and event is None)

    def _without_removed(self, piece: Piece, event: Event | None, after: AssistantMessage) -> bytes:
        """Return an event that says nothing yet, without what hooks took out of the answer."""
        response = None if event is None else event.get("response")
        if event is None or not isinstance(response, Mapping):
            return piece.raw
        cleaned = with_others(response, self.message, after)
        if cleaned == response:
            return piece.raw
        return written_event(write_json({**event, "response": cleaned}), piece.event or "")

    def _written(self, after: AssistantMessage) -> Iterator[bytes]:
        had = self._shown.entries
        known = [entry.item for entry in had]
        change = Changing(self._items(), self.message, after, self._tools, known)
        output = change.output()
        writer = EventWriter(self._shown.number + 1)
        free = max((entry.index for entry in had), default=-1) + 1 - len(had)
        for place, item in enumerate(output):
            if item is not None:
                entry = had[place] if place < len(had) else None
                index = entry.index if entry is not None else free + place
                yield from writer.item(index, item, entry)
        told = [item for item in output if item is not None]
        response = written_response(self._draft.response, change, told)
        ending = "incomplete" if response.get("status") == "incomplete" else "completed"
        yield writer.write(f"response.{ending}", response=response)
