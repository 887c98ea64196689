"""Redaction that is taken back: placeholders go to the model, and secrets stand there again later.

What was found once is a secret everywhere. A model may have a secret put into a command, and would
read it in the result, beside no name that tells what it is.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from checkrail.llm.json_strings import (
    Change,
    JsonString,
    is_json_container,
    iter_strings,
    rewrite_strings,
)
from checkrail.llm.patterns import OwnPatterns, Search, build_search
from checkrail.llm.scrubber import AT_ONCE, BINARY, KEPT, WEIGHT, is_encoded
from checkrail.llm.secret_vault import Needle, SecretVault, escape_text
from checkrail.llm.secrets import Mask, Span, is_secret
from checkrail.llm.walk import Paths, rewrite_texts
from checkrail.recent import RecentEntries
from checkrail.turns import Steps, finish_steps

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


_SAMPLE = "[redacted:{kind}-xxxxxxxxxxxxxxxx]"
_SHORT = 8
_A_TEXT = 50
_FEW = 20
"""So many secrets are looked for in a text in about the time that all patterns take."""

Found = Mapping[str, tuple[str, frozenset[str]]]
"""The secrets in a text by what stands for them, and where they may be put back."""

NOTHING: Found = {}


class MaskedText(NamedTuple):
    """What became of a text, None if it stayed as it was, and the secrets in it.

    All secrets were looked for that the vault knew in this `version`.
    """

    text: str | None
    found: Found = NOTHING
    version: int = 0

    @property
    def weight(self) -> int:
        """How many characters it keeps."""
        return len(self.text or "") + sum(len(secret) for secret, _ in self.found.values())


class ReversibleScrubber:
    """Puts placeholders over what is found in texts, and remembers what became of each text.

    `targets` says where what it finds may be put back.
    """

    def __init__(
        self, kinds: Iterable[str], patterns: Mapping[str, str], targets: Collection[str]
    ) -> None:
        self._kinds = [*kinds]
        self._own = OwnPatterns(patterns, _SAMPLE)
        self._targets = frozenset(targets)
        self._memory = MaskedTexts()

    def scrub(self, value: Any, vault: SecretVault, paths: Paths | None = None) -> Steps[Any]:
        """Return a value with placeholders over what was found, or the same if nothing was.

        What is found late in it may stand early in it: then all of it is gone through again. If it
        has more secrets than the vault keeps, that would never end: the third time is the last.
        """
        known: dict[tuple[str, bool], MaskedText] = {}
        for _ in range(3):
            version = vault.version
            going = _Round(self, vault, known)
            changed = rewrite_texts(value, going.change, paths)
            if not going.unread and vault.version == version:
                return changed
            yield from going.read_rest()
        return rewrite_texts(value, _Round(self, vault, known, is_last=True).change, paths)

    def find(self, vault: SecretVault, text: str, *, written: bool) -> MaskedText | None:
        """Return what became of a text, if it is known."""
        known = self._memory.find(vault, text, written=written)
        if known is not None:
            _learn(vault, known.found)
        return known

    def mask(
        self, vault: SecretVault, text: str, known: MaskedText | None, *, written: bool
    ) -> Steps[MaskedText]:
        """Mask a text, which may be `written` in JSON, or go on from what is known of it."""
        masked = known
        if masked is None:
            masked = yield from self._mask_found(vault, text, written=written)
            _learn(vault, masked.found)
        if masked.version < vault.version:
            masked = yield from self._mask_known(vault, text, masked, written=written)
            _learn(vault, masked.found)
        self._memory.store(vault, text, masked, written=written)
        return masked

    def skip(self, vault: SecretVault, text: str) -> MaskedText:
        """Remember that nothing is to be looked for in a text."""
        skipped = MaskedText(None, version=sys.maxsize)
        self._memory.store(vault, text, skipped, written=False)
        return skipped

    def mask_named(self, vault: SecretVault, text: str) -> str:
        """Mask a text that is a secret because of its name."""
        pieces = self._cut_named(vault, text)
        _learn(vault, _found_in(vault, pieces, {}, self._targets))
        return join_pieces(pieces)

    def is_named_secret(self, key: str | None, text: str) -> bool:
        """Return whether a text is a secret because of its name."""
        return key is not None and "secrets" in self._kinds and is_secret(key, text)

    def _cut_named(self, vault: SecretVault, text: str) -> list[Piece]:
        if vault.is_own(text):
            return [Piece(text, text)]
        return [Piece(vault.placeholder_for("secrets", vault.expand(text)), text)]

    def _mask_found(self, vault: SecretVault, text: str, *, written: bool) -> Steps[MaskedText]:
        """Look for what the patterns find."""

        def cut_string(string: JsonString) -> Steps[list[Piece]]:
            if self.is_named_secret(string.field, string.text):
                return self._cut_named(vault, string.text)
            return (yield from self._cut_text(vault, string.text))

        if written:
            new, pieces = yield from _mask_json(vault, text, cut_string)
        else:
            pieces = yield from self._cut_text(vault, text)
            new = join_pieces(pieces)
        found = _found_in(vault, pieces, {}, self._targets)
        return MaskedText(new if found else None, found)

    def _cut_text(self, vault: SecretVault, text: str) -> Steps[list[Piece]]:
        pieces = split_restored(vault, text) or split_text(vault, text)
        for kind in self._kinds:
            build = functools.partial(build_search, kind)
            pieces = yield from cut_by_search(vault, pieces, kind, build)
        for name, find in self._own.finders():
            spans = yield from find(join_pieces(pieces))
            pieces = cut_by_spans(vault, pieces, name, spans)
        return pieces

    def _mask_known(
        self, vault: SecretVault, text: str, masked: MaskedText, *, written: bool
    ) -> Steps[MaskedText]:
        """Look for the secrets that became known since a text was masked."""
        version, so_far = vault.version, text if masked.text is None else masked.text
        needles = vault.needles_since(masked.version)

        def cut_string(string: JsonString) -> Steps[list[Piece]]:
            return cut_known(vault, string.text, needles)

        if written:
            new, pieces = yield from _mask_json(vault, so_far, cut_string)
        else:
            pieces = yield from cut_known(vault, so_far, needles)
            new = join_pieces(pieces)
        targets = {needle.placeholder: needle.targets for needle in needles}
        found = {**_found_in(vault, pieces, targets), **masked.found}
        return MaskedText(new if found else None, found, version)


def build_reversible(
    kinds: Iterable[str], patterns: Mapping[str, str], restore: str | Collection[str] | None
) -> ReversibleScrubber | None:
    """Return the scrubber whose work is taken back where `restore` says; None: nowhere."""
    if restore is None:
        return None
    targets = [restore] if isinstance(restore, str) else restore
    return ReversibleScrubber(kinds, patterns, targets)


def _mask_json(
    vault: SecretVault, text: str, cut_string: Callable[[JsonString], Steps[list[Piece]]]
) -> Steps[tuple[str, list[Piece]]]:
    """Cut the texts within JSON; return that as it is now, and the pieces."""
    strings: list[tuple[JsonString, list[Piece]]] = []
    for string in iter_strings(text):
        pieces = yield from cut_string(string)
        whole = string.is_number and any(piece.is_new for piece in pieces)
        named = vault.placeholder_for("number", string.text) if whole else ""
        strings.append((string, [Piece(named, string.text)] if whole else pieces))
    changes = ((string, [*find_changes(pieces)]) for string, pieces in strings)
    return rewrite_strings(text, changes), [piece for _, pieces in strings for piece in pieces]


def _found_in(
    vault: SecretVault,
    pieces: Iterable[Piece],
    known: Mapping[str, frozenset[str]],
    targets: frozenset[str] = frozenset(),
) -> Found:
    """Return what was taken out of a text; `targets` are those of who found what is not known."""
    return {
        piece.now: (vault.expand(piece.was), known.get(piece.now, targets))
        for piece in pieces
        if piece.was is not None and piece.is_new
    }


def _learn(vault: SecretVault, found: Found) -> None:
    for placeholder, (secret, targets) in found.items():
        vault.learn(placeholder, secret, targets)


class _Round:
    """One walk through a value. What would hold up others is `unread`, and left for later."""

    def __init__(
        self,
        scrubber: ReversibleScrubber,
        vault: SecretVault,
        known: dict[tuple[str, bool], MaskedText],
        *,
        is_last: bool = False,
    ) -> None:
        self.unread: dict[tuple[str, bool], MaskedText | None] = {}
        self._scrubber = scrubber
        self._vault = vault
        self._known = known
        self._room = AT_ONCE
        self._is_last = is_last

    def change(self, key: str | None, text: str) -> str:
        """Return what is to stand in place of a text."""
        if self._scrubber.is_named_secret(key, text):
            return self._scrubber.mask_named(self._vault, text)
        place, known = self._find(key, text)
        if known is None and key in BINARY and is_encoded(text):
            known = self._scrubber.skip(self._vault, text)
        if known is None or (known.version < self._vault.version and not self._is_last):
            self._room -= self._cost(text, known)
            if self._room < 0 and not self._is_last:
                self.unread[place] = known
                return text
            known = finish_steps(self._mask(place, known))
        self._known[place] = known
        return text if known.text is None else known.text

    def _find(self, key: str | None, text: str) -> tuple[tuple[str, bool], MaskedText | None]:
        """Return a text and whether it is written in JSON, and what is known of it."""
        for written in (True, False) if key == "arguments" else (False,):
            place = (text, written)
            known = self._known.get(place) or self._scrubber.find(
                self._vault, text, written=written
            )
            if known is not None or (written and is_json_container(text)):
                return place, known
        return (text, False), None

    def read_rest(self) -> Steps[None]:
        """Read what is left, in slices."""
        room = 0
        for place, known in self.unread.items():
            room -= self._cost(place[0], known)
            if room < 0:
                yield None
                room = AT_ONCE
            self._known[place] = yield from self._mask(place, known)

    def _mask(self, place: tuple[str, bool], known: MaskedText | None) -> Steps[MaskedText]:
        return self._scrubber.mask(self._vault, place[0], known, written=place[1])

    def _cost(self, text: str, known: MaskedText | None) -> int:
        searches = (known is None) + (self._vault.version - (known.version if known else 0)) / _FEW
        return int((len(text) + _A_TEXT) * searches)


class MaskedTexts:
    """Remembers what became of texts, for each vault, by digests that its key makes."""

    def __init__(self, kept: int = KEPT, weight: int = WEIGHT) -> None:
        self._texts: RecentEntries[MaskedText] = RecentEntries(kept)
        self._most = weight
        self._weight = 0

    def find(self, vault: SecretVault, text: str, *, written: bool) -> MaskedText | None:
        """Return what became of a text, if it is known."""
        if len(text) < _SHORT:
            return None
        found: MaskedText | None = self._texts.get(_digest(vault, text, written=written))
        return found

    def store(self, vault: SecretVault, text: str, masked: MaskedText, *, written: bool) -> None:
        """Remember what became of a text."""
        if len(text) < _SHORT or masked.weight > self._most:
            return
        for gone in self._texts.put(_digest(vault, text, written=written), masked):
            self._weight -= gone.weight
        self._weight += masked.weight
        while self._weight > self._most:
            self._weight -= self._texts.pop_oldest().weight


def _digest(vault: SecretVault, text: str, *, written: bool) -> bytes:
    data = text.encode(errors="surrogatepass")
    person = b"written" if written else b"text"
    return blake2b(data, key=vault.key, person=person, digest_size=16).digest()
