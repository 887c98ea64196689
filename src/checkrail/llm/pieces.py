"""Texts cut where something is taken out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from checkrail.llm.json_strings import Change
from checkrail.llm.patterns import Search
from checkrail.llm.secret_vault import Needle, SecretVault, escape_text
from checkrail.llm.secrets import Mask, Span
from checkrail.turns import Steps

_LONG = 20_000
_MANY = 50
"""After so many searches, or one of a long text, others have their turn."""


class Piece(NamedTuple):
    """A piece of a text as it is now, and what it was; None if it may still be cut."""

    now: str
    was: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether something else stood there."""
        return self.was is not None and self.was != self.now


def split_text(vault: SecretVault, text: str) -> list[Piece]:
    """Return a text in pieces, of which the placeholders of the vault stay as they are."""
    parts = enumerate(vault.split(text))
    return [Piece(part, part if place % 2 else None) for place, part in parts]


def split_restored(vault: SecretVault, text: str) -> list[Piece] | None:
    """Return a text in pieces into which secrets were put back, as it was before."""
    before = vault.find_restored(text)
    parts = [] if before is None else vault.split(before)
    for write in (str, escape_text):
        pieces = [
            Piece(part, write(vault.expand(part)) if place % 2 else None)
            for place, part in enumerate(parts)
        ]
        if parts and "".join(now if was is None else was for now, was in pieces) == text:
            return pieces
    return None


def cut_by_search(
    vault: SecretVault, pieces: Sequence[Piece], kind: str, build: Callable[[Mask], Search]
) -> Steps[list[Piece]]:
    """Cut pieces at what a search finds in them."""
    cut: list[Piece] = []
    for piece in pieces:
        if piece.was is not None or not piece.now:
            cut.append(piece)
            continue
        found: list[str] = []

        def mask(secret: str, found: list[str] = found) -> str:
            found.append(secret)
            return vault.placeholder_for(kind, secret)

        masked = yield from build(mask)(piece.now)
        secrets = iter(found)
        parts = enumerate(vault.split(masked) if found else [masked])
        cut += [Piece(part, next(secrets) if place % 2 else None) for place, part in parts]
    return cut


def cut_by_spans(
    vault: SecretVault, pieces: Sequence[Piece], kind: str, spans: Iterable[Span]
) -> list[Piece]:
    """Cut pieces at spans of the text that they are now.

    A span may reach over placeholders, and takes them in whole; within one it means nothing.
    """
    cut: list[Piece] = []
    waiting = [*reversed(pieces)]
    at = 0
    for start, stop in spans:
        while waiting and at + len(waiting[-1].now) <= start:
            cut.append(waiting.pop())
            at += len(cut[-1].now)
        begins = max(start, at)
        if begins >= stop or _is_within(waiting[-1], at, stop):
            continue
        was = ""
        while waiting and at < stop:
            piece = waiting.pop()
            first, last = max(begins - at, 0), stop - at
            at += len(piece.now)
            if piece.was is not None:
                was += piece.was
                continue
            cut.append(Piece(piece.now[:first]))
            was += piece.now[first:last]
            if piece.now[last:]:
                waiting.append(Piece(piece.now[last:]))
                at = stop
        cut.append(Piece(vault.placeholder_for(kind, vault.expand(was)), was))
    return [*cut, *reversed(waiting)]


def _is_within(piece: Piece, at: int, stop: int) -> bool:
    return piece.was is not None and stop <= at + len(piece.now)


def cut_known(vault: SecretVault, text: str, needles: Sequence[Needle]) -> Steps[list[Piece]]:
    """Cut a text at texts that are known, each of which has its placeholder."""
    pieces = split_text(vault, text)
    searched = "\0".join(piece.now for piece in pieces if piece.was is None)
    for number, needle in enumerate(needles):
        if len(text) > _LONG or not number % _MANY:
            yield None
        if needle.text in searched:
            pieces = [one for piece in pieces for one in _cut_piece(piece, needle)]
    return pieces


def _cut_piece(piece: Piece, needle: Needle) -> Iterator[Piece]:
    first, *rest = piece.now.split(needle.text) if piece.was is None else [piece.now]
    yield Piece(first, piece.was)
    for part in rest:
        yield Piece(needle.placeholder, needle.text)
        yield Piece(part)


def join_pieces(pieces: Sequence[Piece]) -> str:
    """Return a text as it is now."""
    return "".join(piece.now for piece in pieces)


def find_changes(pieces: Sequence[Piece]) -> Iterator[Change]:
    """Yield what was taken out of a text, and what came in its place."""
    at = 0
    for piece in pieces:
        end = at + len(piece.now if piece.was is None else piece.was)
        if piece.is_new:
            yield at, end, piece.now
        at = end
