"""What comes in pieces, of which a caller may have the first ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

NAMES = frozenset({"id", "type", "role", "index", "name", "object", "format"})
"""Texts that are told again, and do not grow."""


class Growing:
    """Pieces of one thing. A caller who knows of it (`begun`) has the first ones (`sent`)."""

    __slots__ = ("begun", "pieces", "sent")

    def __init__(self, *pieces: Any) -> None:
        self.pieces: list[Any] = [*pieces]
        self.sent = 0
        self.begun = False

    def settle(self) -> None:
        """Note that the caller has all of it."""
        self.sent = len(self.pieces)
        self.begun = True

    @property
    def text(self) -> str:
        """All of a text."""
        return whole_letters("".join(self.pieces))

    @property
    def passed(self) -> str:
        """What the caller has of a text."""
        return "".join(self.pieces[: self.sent])

    def rest_of(self, text: str) -> str:
        """Give what a caller lacks of a text; nothing, if what they have is no beginning of it."""
        passed = self.passed
        return text[len(passed) :] if text.startswith(passed) else ""


def whole_letters(text: str) -> str:
    """Join letters whose halves came in two pieces, as some endpoints send them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        halves = text.encode("utf-16-le", "surrogatepass")
        return halves.decode("utf-16-le", "surrogatepass" if _torn(halves) else "strict")
    return text


def _torn(halves: bytes) -> bool:
    try:
        halves.decode("utf-16-le")
    except UnicodeDecodeError:
        return True
    return False


def merged(pieces: Sequence[Any], name: str = "") -> Any:
    """Put the pieces of a value together: texts and lists grow, objects are filled."""
    given = [piece for piece in pieces if piece is not None]
    if not given:
        return None
    if all(isinstance(piece, str) for piece in given) and name not in NAMES:
        return whole_letters("".join(given))
    if all(isinstance(piece, dict) for piece in given):
        names = dict.fromkeys(key for piece in given for key in piece)
        return {key: merged([piece.get(key) for piece in given], key) for key in names}
    if all(isinstance(piece, list) for piece in given):
        return _list(item for piece in given for item in piece)
    return given[-1]


def _list(items: Iterable[Any]) -> list[Any]:
    """Put pieces of numbered items together; others follow each other."""
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
    return [merged(pieces) if len(pieces) > 1 else pieces[0] for pieces in found]
