"""What the gateway has to know of an API: how its requests, answers, streams and errors look.

Hooks see one shape, whatever the API: messages and tools as the chat API of OpenAI has them. A
field that this shape does not know stays where it is, so that it survives being written back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol

from checkrail.engine.errors import CheckrailError
from checkrail.engine.outcomes import is_refusal_status
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.sse import EventSplitter, Piece, Splitter

Body = dict[str, Any]

Kind = Literal["quiet", "text", "tool", "end", "hidden", "error"]
"""What a piece of a stream is about: nothing that is said, a text, a tool call, or the end.

`hidden` is for us alone and not sent on; an `error` is the upstream's own, and the last piece.
"""


class UnreadableError(CheckrailError):
    """What came does not follow its API."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a caller gets instead of an answer.

    HTTP takes no other statuses for a refusal than those from 400 to 599: any other is 500. One
    that is `final` would be the same however often the caller asked again.
    """

    status: int
    message: str
    code: str | None = None
    retry_after: float | None = None
    final: bool = False

    def __post_init__(self) -> None:
        """Leave nothing in it that would cut the connection, or look like success."""
        if not is_refusal_status(self.status):
            object.__setattr__(self, "status", 500)
        message: object = self.message
        if not isinstance(message, str):
            object.__setattr__(self, "message", str(message))


class StreamReader(Protocol):
    """A streamed answer, read as it passes."""

    @property
    def response_id(self) -> str | None:
        """The id by which later requests may name the answer; None where an API has none."""

    @property
    def has_ended(self) -> bool:
        """Whether the answer has come to its end."""

    @property
    def message(self) -> AssistantMessage:
        """What was read: the answer, if it has ended. Raises `UnreadableError` if it is invalid."""

    @property
    def partial(self) -> AssistantMessage:
        """What was read so far, of an answer that was cut off."""

    def read_piece(self, piece: Piece) -> Kind:
        """Read one piece, and return what it is about. Raises `UnreadableError`."""

    def mark_sent(self) -> None:
        """Note that the caller has everything that was read so far."""

    def write_rest(self, after: AssistantMessage) -> Iterable[bytes]:
        """Write the end of the stream for a caller who has what was sent.

        All of it together tells `after`; what was passed is a beginning of that.
        """


class Format(Protocol):
    """One API of a model."""

    @property
    def name(self) -> str:
        """The name of the API."""

    @property
    def path(self) -> str:
        """Where requests go."""

    @property
    def aside(self) -> tuple[str, ...]:
        """Where they go without an answer: to have their tokens counted, or to be compacted."""

    @property
    def model(self) -> str | None:
        """The model, if the path names it."""

    @property
    def no_tokens(self) -> Mapping[str, Any]:
        """What counts the tokens of a request that no model sees."""

    @property
    def stream_type(self) -> bytes:
        """What kind of content a stream is, as its header has it."""

    @property
    def keep_alive(self) -> bytes:
        """What may stand between two pieces of a stream, and means nothing."""

    def open_splitter(self) -> Splitter:
        """Return what cuts a stream into its pieces."""

    def target_path(self, path: str, model: str | None) -> str:
        """Return where a request for a model goes that came to a path."""

    def is_streamed(self, body: Body) -> bool:
        """Return whether a request is for a stream."""

    def read_request(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""

    def write_request(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""

    def request_usage(self, body: Body) -> Body:
        """Return a request whose streamed answer reports its usage; the same if it does anyway."""

    def read_answer(self, body: Body) -> AssistantMessage:
        """Read an answer that came at once. Raises `UnreadableError`."""

    def write_answer(self, body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
        """Write an answer that hooks changed; what they left alone stays as it came."""

    def build_answer(self, message: AssistantMessage, request: ModelRequest) -> Body:
        """Write an answer that came from no model."""

    def build_stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that came from no model as a whole stream."""

    def open_stream(self, request: ModelRequest) -> StreamReader:
        """Return a reader of a streamed answer."""

    def write_error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""

    def write_stream_error(self, refusal: Refusal, *, begun: bool) -> bytes:
        """Write an error that ends a stream, of which pieces were sent if it has `begun`."""

    def relay_stream_error(self, piece: Piece, *, begun: bool) -> bytes:
        """Write the upstream's own error, which ends a stream."""


class EventStreamFormat(ABC):
    """What APIs have in common whose streams are server-sent events.

    Their paths are always the same, and the body of a request names the model.
    """

    model: str | None = None
    no_tokens: Mapping[str, Any] = MappingProxyType({"input_tokens": 0})
    stream_type = b"text/event-stream; charset=utf-8"

    def open_splitter(self) -> Splitter:
        """Return what cuts a stream into its events."""
        return EventSplitter()

    def target_path(self, path: str, model: str | None) -> str:  # noqa: ARG002 - the body names it
        """Return the path as it is."""
        return path

    def is_streamed(self, body: Body) -> bool:
        """Return whether a request is for a stream."""
        return body.get("stream") is True

    @abstractmethod
    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does."""

    def write_stream_error(self, refusal: Refusal, *, begun: bool) -> bytes:  # noqa: ARG002 - events stand for themselves
        """Write an error that ends a stream."""
        return self.error_event(refusal)

    def relay_stream_error(self, piece: Piece, *, begun: bool) -> bytes:  # noqa: ARG002 - the same
        """Return the upstream's own error as it came."""
        return piece.raw
