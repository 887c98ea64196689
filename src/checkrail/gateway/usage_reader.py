"""What an answer used that is passed on unread: only the few pieces that tell it are read."""

from __future__ import annotations

import logging

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.json_bytes import read_object
from checkrail.llm.sse import Piece
from checkrail.llm.wire_format import Format, UnreadableError

log = logging.getLogger("checkrail.gateway")

_TOLD = (b'"usage"', b'"usageMetadata"')
_NOT_TOLD = (b'"usage":null', b'"usage": null')


class UsageReader:
    """Reads the usage of a stream beside whoever passes it on."""

    def __init__(self, format: Format, model: str | None) -> None:
        self._reading = format.open_stream(ModelRequest(model=model, stream=True))
        self._splitter = format.open_splitter()
        self._is_first = True

    def feed(self, chunk: bytes) -> None:
        """Read more of the stream; what cannot be read tells nothing."""
        for piece in self._splitter.feed(chunk):
            if piece.data and (self._is_first or _tells_usage(piece)):
                self._is_first = False
                try:
                    self._reading.read_piece(piece)
                except UnreadableError as error:
                    log.debug("a piece of a stream was not counted: %s", error)

    @property
    def message(self) -> AssistantMessage | None:
        """The answer as far as it was read: without its content."""
        try:
            return self._reading.partial
        except UnreadableError:
            return None


def _tells_usage(piece: Piece) -> bool:
    told = any(mark in piece.data for mark in _TOLD)
    return told and not any(mark in piece.data for mark in _NOT_TOLD)


def read_answer_usage(format: Format, data: bytes) -> AssistantMessage | None:
    """Return an answer that came at once, or None if it is none."""
    try:
        return format.read_answer(read_object(data, "it"))
    except UnreadableError:
        return None
