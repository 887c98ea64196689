"""What the gateway has to know of an API: how its requests, answers, streams and errors look.

Hooks see one shape, whatever the API: messages and tools as the chat API of OpenAI has them. A
field that this shape does not know stays where it is, so that it survives being written back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from checkrail.engine.errors import CheckrailError
from checkrail.engine.outcomes import is_refusal_status
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.sse import Piece

Body = dict[str, Any]

Kind = Literal["quiet", "text", "tool", "end", "hidden", "error"]
"""What a piece of a stream is about: nothing that is said, a text, a tool call, or the end.

`hidden` is for us alone and not sent on; an `error` is the upstream's own, and the last piece.
"""


class UnreadableError(CheckrailError):
    """What came is not what its API says it is."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a caller is told instead of an answer.

    HTTP takes no other statuses for a refusal than those from 400 to 599: any other is 500.
    """

    status: int
    message: str
    code: str | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        """Leave nothing in it that would cut the connection, or look like success."""
        if not is_refusal_status(self.status):
            object.__setattr__(self, "status", 500)
        message: object = self.message
        if not isinstance(message, str):
            object.__setattr__(self, "message", str(message))


class Reading(Protocol):
    """A streamed answer, read as it passes."""

    @property
    def ended(self) -> bool:
        """Whether the answer has come to its end."""

    @property
    def message(self) -> AssistantMessage:
        """What was read: the answer, if it has ended. Raises `UnreadableError` if it is none."""

    @property
    def partial(self) -> AssistantMessage:
        """What was read so far, of an answer that was cut off."""

    def take(self, piece: Piece) -> Kind:
        """Read one piece, and say what it is about. Raises `UnreadableError`."""

    def passed(self) -> None:
        """Note that the caller has everything that was taken so far."""

    def rest(self, after: AssistantMessage) -> Iterable[bytes]:
        """Write the end of the stream for a caller who has what was passed.

        All of it together tells `after`; what was passed is a beginning of that.
        """


class Format(Protocol):
    """One API of a model."""

    name: str
    path: str
    aside: tuple[str, ...]
    """Where requests go without an answer: to have their tokens counted, or to be compacted."""
    keep_alive: bytes
    """What may stand between two pieces of a stream, and means nothing."""

    def read(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""

    def write(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""

    def counting(self, body: Body) -> Body:
        """Give a request whose streamed answer tells its usage; the same one if it does anyway."""

    def read_answer(self, body: Body) -> AssistantMessage:
        """Read an answer that came at once. Raises `UnreadableError`."""

    def write_answer(self, body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
        """Write an answer that hooks changed; what they left alone stays as it came."""

    def answer(self, message: AssistantMessage, request: ModelRequest) -> Body:
        """Write an answer that no model gave."""

    def stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that no model gave as a whole stream."""

    def reading(self, request: ModelRequest) -> Reading:
        """Begin to read a streamed answer."""

    def error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""

    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does."""
