"""Server-sent events: their frames, and a run's stored events as the LangGraph API names them.

Every event carries the number of the stored event that it comes from, so that a client that was
cut off names the last one it has. Where one stored event becomes several, only the last of them
carries the number: what was cut in the middle is sent again as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from checkrail.server.streams.modes import parse_stream_modes
from checkrail.server.streams.partials import Partials
from checkrail.server.streams.subgraphs import Subgraphs
from checkrail.server.streams.tools import ToolNames
from checkrail.store.events import RunEvent

HEARTBEAT = b": heartbeat\n\n"
"""Keeps a connection open; clients leave comments out."""

CONTENT_TYPE = "text/event-stream"

PIECE_BYTES = 64 * 1024
"""What is sent at once: from here on, whoever does not read holds up what comes after it."""

_BREAKS = str.maketrans("\r\n\0", "   ")  # a name with one of these would end its field
_ALWAYS = frozenset({"metadata", "error"})
_STATEFUL = frozenset({"messages", "tools", "lifecycle"})


class SseEvent(NamedTuple):
    """One server-sent event. `data` is anything that JSON can hold, or bytes that are JSON."""

    id: str | None
    name: str
    data: Any


def encode_frame(id: str | None, name: str, data: Any) -> bytes:
    """Encode one server-sent event."""
    body = data if isinstance(data, bytes) else orjson.dumps(data)
    number = b"" if id is None else b"id: " + id.encode() + b"\n"
    title = name.translate(_BREAKS).encode()
    return number + b"event: " + title + b"\ndata: " + body + b"\n\n"


def join_frames(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join frames to pieces that are large enough to be sent at once, and not much larger."""
    piece = bytearray()
    for each in frames:
        piece += each
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


class SseView:
    """Turn the stored events of one run, given in order, into the events of its stream.

    It has no event for the run's end, as LangGraph's own server has none: the stream ends.
    Without `metadata` it has no event that names the run, for a client that knows it already.
    `after` is the last number that the client has: events up to it are taken in and not sent.
    A view that is `stateful` has to be given the run from its beginning all the same.
    """

    def __init__(
        self,
        modes: Sequence[str] | None,
        *,
        subgraphs: bool = False,
        after: int = 0,
        metadata: bool = True,
    ) -> None:
        self.modes = frozenset(parse_stream_modes(modes))
        self.always = _ALWAYS if metadata else _ALWAYS - {"metadata"}
        self.subgraphs = subgraphs
        self.after = after
        self.stateful = not self.modes.isdisjoint(_STATEFUL)
        self._partials = Partials()
        self._tools = ToolNames()
        self._lives = Subgraphs()

    def feed(self, event: RunEvent) -> list[SseEvent]:
        """Take in one stored event, and yield what a client gets for it."""
        found = [*self._events_for(event)]
        if not found or event.seq <= self.after:
            return []
        last = len(found) - 1
        number = str(event.seq)
        return [
            SseEvent(number if at == last else None, name, data)
            for at, (name, data) in enumerate(found)
        ]

    def _events_for(self, event: RunEvent) -> Iterator[tuple[str, Any]]:
        if "lifecycle" in self.modes:
            yield from self._lifecycle_events(event)
        if event.event in self.always:
            yield event.event, event.raw
        elif self.subgraphs or not event.ns:
            yield from self._mode_events(event)

    def _lifecycle_events(self, event: RunEvent) -> Iterator[tuple[str, Any]]:
        for ns, data in self._lives.feed(event):
            yield "lifecycle", {**data, "namespace": list(ns)}

    def _mode_events(self, event: RunEvent) -> Iterator[tuple[str, Any]]:
        if event.event == "messages":
            yield from self._message_events(event)
        elif event.event == "tools" and "tools" in self.modes:
            yield _event_name("tools", event.ns), self._tools.to_older_form(event.data)
        elif event.event in self.modes and event.event != "lifecycle":
            yield _event_name(event.event, event.ns), event.raw

    def _message_events(self, event: RunEvent) -> Iterator[tuple[str, Any]]:
        if "messages-tuple" in self.modes:
            yield _event_name("messages", event.ns), event.raw
        elif "messages" in self.modes:
            message, metadata = event.data
            for name, data in self._partials.feed(message, metadata):
                yield _event_name(name, event.ns), data


def _event_name(mode: str, ns: Sequence[str]) -> str:
    return "|".join((mode, *ns))
