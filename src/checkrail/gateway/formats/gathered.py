"""A streamed answer, gathered from pieces into the one that would have come at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.gateway.formats.base import Body, UnreadableError
from checkrail.gateway.formats.growing import Growing
from checkrail.gateway.formats.provider_errors import WRONG, reported, unreadable


class Gathered(ABC):
    """What has come of an answer, and what of it the caller has; `read` reads a whole one."""

    def __init__(self, read: Callable[[Body], AssistantMessage]) -> None:
        self._read_whole = read
        self._error: Any = None
        self._touched: list[Growing] = []
        self._answer: tuple[Body, AssistantMessage] | None = None

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the answer has come to its end."""

    @abstractmethod
    def _body(self) -> Body:
        """Return what has come as an answer that comes at once."""

    @property
    def message(self) -> AssistantMessage:
        """The answer. Raises `UnreadableError` if there is none."""
        return self._read()[1]

    @property
    def partial(self) -> AssistantMessage:
        """What was read up to now, of an answer that may never end."""
        return self._read_whole(self._whole())

    def passed(self) -> None:
        """Note that the caller has everything that was taken so far."""
        for growing in self._touched:
            growing.settle()
        self._touched.clear()

    def _read(self) -> tuple[Body, AssistantMessage]:
        if self._error is not None:
            raise UnreadableError(reported(self._error))
        if not self.ended:
            raise UnreadableError("the stream of the model ended before its answer did")
        if self._answer is None:
            body = self._whole()
            self._answer = body, self._read_whole(body)
        return self._answer

    def _whole(self) -> Body:
        try:
            return self._body()
        except WRONG as error:
            raise unreadable("stream", error) from error
