"""A streamed answer, gathered from pieces into the one that would have come at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.llm.provider_errors import WRONG, describe_error, unreadable_error
from checkrail.llm.wire_format import Body, UnreadableError

NAMES = frozenset({"id", "type", "role", "index", "name", "object", "format"})
"""Texts that are told again, and do not grow."""


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


class StreamBuffer:
    """Pieces of one thing. A caller who knows of it (`begun`) has the first ones (`sent`)."""

    __slots__ = ("begun", "pieces", "sent")

    def __init__(self, *pieces: Any) -> None:
        self.pieces: list[Any] = [*pieces]
        self.sent = 0
        self.begun = False

    def mark_sent(self) -> None:
        """Note that the caller has all of it."""
        self.sent = len(self.pieces)
        self.begun = True

    @property
    def text(self) -> str:
        """The whole text."""
        return join_surrogates("".join(self.pieces))

    @property
    def sent_text(self) -> str:
        """What the caller has of a text."""
        return "".join(self.pieces[: self.sent])

    def missing_text(self, text: str) -> str:
        """Return what a caller lacks of a text; nothing, if what they have does not begin it."""
        passed = self.sent_text
        return text[len(passed) :] if text.startswith(passed) else ""


def join_surrogates(text: str) -> str:
    """Join characters whose halves came in two pieces, as some endpoints send them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        halves = text.encode("utf-16-le", "surrogatepass")
        return halves.decode("utf-16-le", "surrogatepass" if _is_torn(halves) else "strict")
    return text


def _is_torn(halves: bytes) -> bool:
    try:
        halves.decode("utf-16-le")
    except UnicodeDecodeError:
        return True
    return False


def merge_pieces(pieces: Sequence[Any], name: str = "") -> Any:
    """Return the pieces of a value as one: texts and lists are joined, objects merged."""
    given = [piece for piece in pieces if piece is not None]
    if not given:
        return None
    if all(isinstance(piece, str) for piece in given) and name not in NAMES:
        return join_surrogates("".join(given))
    if all(isinstance(piece, dict) for piece in given):
        names = dict.fromkeys(key for piece in given for key in piece)
        return {key: merge_pieces([piece.get(key) for piece in given], key) for key in names}
    if all(isinstance(piece, list) for piece in given):
        return _merge_lists(item for piece in given for item in piece)
    return given[-1]


def _merge_lists(items: Iterable[Any]) -> list[Any]:
    """Join pieces of numbered items; others follow each other."""
    found: list[list[Any]] = []
    by_index: dict[Any, list[Any]] = {}
    for item in items:
        index = item.get("index") if isinstance(item, dict) else None
        if isinstance(index, int) and index in by_index:
            by_index[index].append(item)
            continue
        found.append([item])
        if isinstance(index, int):
            by_index[index] = found[-1]
    return [merge_pieces(pieces) if len(pieces) > 1 else pieces[0] for pieces in found]
