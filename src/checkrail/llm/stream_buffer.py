"""What comes in pieces, of which a caller may have the first ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

NAMES = frozenset({"id", "type", "role", "index", "name", "object", "format"})
"""Texts that are told again, and do not grow."""


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
