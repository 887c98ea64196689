"""A streamed answer, gathered from pieces into the one that would have come at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.llm.provider_errors import WRONG, describe_error, unreadable_error
from checkrail.llm.stream_buffer import StreamBuffer
from checkrail.llm.wire_format import Body, UnreadableError


class BufferedStreamReader(ABC):
    """What has come of an answer, and what of it the caller has; `read` reads a whole one."""

    def __init__(self, read: Callable[[Body], AssistantMessage]) -> None:
        self._read_whole = read
        self._error: Any = None
        self._touched: list[StreamBuffer] = []
        self._answer: tuple[Body, AssistantMessage] | None = None

    @property
    def response_id(self) -> str | None:
        """The id by which later requests may name the answer; these APIs have none."""
        return None

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the answer has come to its end."""

    @abstractmethod
    def _build_body(self) -> Body:
        """Return what has come as an answer that comes at once."""

    @property
    def message(self) -> AssistantMessage:
        """The answer. Raises `UnreadableError` if it is invalid or has not ended."""
        return self._read_answer()[1]

    @property
    def partial(self) -> AssistantMessage:
        """What was read up to now, of an answer that may never end."""
        return self._read_whole(self._build_body_or_raise())

    def mark_sent(self) -> None:
        """Note that the caller has everything that was read so far."""
        for growing in self._touched:
            growing.mark_sent()
        self._touched.clear()

    def _read_answer(self) -> tuple[Body, AssistantMessage]:
        if self._error is not None:
            raise UnreadableError(describe_error(self._error))
        if not self.has_ended:
            raise UnreadableError("the stream of the model ended before its answer did")
        if self._answer is None:
            body = self._build_body_or_raise()
            self._answer = body, self._read_whole(body)
        return self._answer

    def _build_body_or_raise(self) -> Body:
        try:
            return self._build_body()
        except WRONG as error:
            raise unreadable_error("stream", error) from error
