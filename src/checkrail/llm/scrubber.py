"""Masking what is not for everybody's eyes in whole values, at the cost of what is new in them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from time import thread_time
from typing import Any

from checkrail.llm.patterns import OwnPatterns, build_steps
from checkrail.llm.secrets import is_secret
from checkrail.llm.walk import Paths, rewrite_texts, too_deep
from checkrail.recent import RecentEntries
from checkrail.turns import SOON, Steps

AT_ONCE = 16_000
"""How many characters are searched before others have their turn."""

IN_SIGHT = 400_000
"""How many characters are looked up before others have their turn."""

_A_TEXT = 50
"""Every text costs as much as so many characters, however short it is."""

KEPT = 50_000
"""How many texts are remembered."""

WEIGHT = 32 * 1024 * 1024
"""How many characters of masked texts are kept."""

_SHORT = 32
"""Texts that are searched as quickly as they are looked up."""

_WRITTEN = "arguments"
"""Where a model writes JSON as a text: an escape there would hide what it stands for."""

BINARY = frozenset({"data", "base64", "blob", "file_data", "url", "image_url"})
_ENCODED = re.compile(r"(?:data:[\w.+/;=-]{0,100};base64,)?[A-Za-z0-9+/\r\n]{1000,}+=*", re.ASCII)


def is_encoded(text: str) -> bool:
    """Return whether a text is data in base64, where nothing is looked for."""
    return _ENCODED.fullmatch(text) is not None


class Scrubber:
    """Masks what is found in texts, and remembers what became of each text that it has seen.

    `label` stands in place of what was found; in it `{kind}` names what it was.
    """

    def __init__(self, kinds: Iterable[str], patterns: Mapping[str, str], label: str) -> None:
        kinds = [*kinds]
        self._searches = build_steps(kinds, label)
        self._own = OwnPatterns(patterns, label)
        self._by_name = "secrets" in kinds
        self._hidden = label.replace("{kind}", "secrets")
        self._memory = TextMemory()
        self._written = TextMemory()

    def scrub(self, value: Any, paths: Paths | None = None, zone: str = "data") -> Steps[Any]:
        """Return a value with what was found masked, or the same object if nothing was."""
        walk = _Walk(self)
        changed = rewrite_texts(value, walk.change, paths, zone)
        if not walk.unread:
            return changed
        yield from walk.read_rest()
        return rewrite_texts(value, walk.change, paths, zone)

    def mask_named(self, key: str | None, text: str) -> str | None:
        """Return what stands in place of a text that is a secret because of its name, or None."""
        if not self._by_name or key is None or not is_secret(key, text):
            return None
        return text if text == self._hidden else self._hidden

    def find(self, text: str, *, written: bool) -> str | None:
        """Return what became of a text, if it is known."""
        return (self._written if written else self._memory).find(text)

    def mask(self, text: str, *, written: bool, binary: bool) -> Steps[str]:
        """Mask a text that is not known; it may be `written` in JSON, or `binary` data."""
        if not written:
            return (yield from self._mask(text, binary=binary))
        clean = yield from self._mask(text, binary=False)
        if _parse_json(clean) is None:  # it never was JSON, or a mask stands in place of its signs
            clean = yield from self._mask((yield from self._mask_json(text)), binary=False)
        else:
            clean = yield from self._mask_json(clean)
        clean = text if clean == text else clean
        self._written.store(text, clean)
        return clean

    def _mask_json(self, text: str) -> Steps[str]:
        """Mask what JSON says, however it is written."""
        data = _parse_json(text)
        if data is None or (yield from self.scrub(data, zone="free")) is data:
            return text
        said = yield from self.scrub(json.loads(text), zone="free")
        written = json.dumps(said, ensure_ascii=False)
        return written if _is_unicode(written) else json.dumps(said)

    def _mask(self, text: str, *, binary: bool) -> Steps[str]:
        clean = text
        if not (binary and is_encoded(text)):
            for search in self._searches:
                clean = yield from search(clean)
            clean = yield from self._own.mask(clean)
        clean = text if clean == text else clean
        self._memory.store(text, clean)
        return clean


class _Walk:
    """A walk through a value, and one more once what would hold up others is read."""

    def __init__(self, scrubber: Scrubber) -> None:
        self.unread: list[tuple[str, bool, bool]] = []
        self._scrubber = scrubber
        self._found: dict[tuple[str, bool], str] = {}
        self._room: float = AT_ONCE
        self._in_sight: float = IN_SIGHT
        self._until = thread_time() + SOON

    def change(self, key: str | None, text: str) -> str:
        """Return what is to stand in place of a text."""
        named = self._scrubber.mask_named(key, text)
        if named is not None:
            return named
        written, binary = key == _WRITTEN, key in BINARY
        self._in_sight -= len(text)
        if self._in_sight < 0:  # to look it up takes a digest
            self.unread.append((text, written, binary))
            return text
        known = self._found.get((text, written))
        if known is None:
            known = self._find_or_mask(text, written=written, binary=binary)
            if known is None:
                self.unread.append((text, written, binary))
                return text
            self._found[text, written] = known
        return known

    def _find_or_mask(self, text: str, *, written: bool, binary: bool) -> str | None:
        known = self._scrubber.find(text, written=written)
        if known is not None:
            return known
        self._room -= len(text) + _A_TEXT
        if self._room < 0:
            return None
        known = _finish_at_once(self._scrubber.mask(text, written=written, binary=binary))
        if thread_time() > self._until:  # a short text may take long with many patterns
            self._room = 0
        return known

    def read_rest(self) -> Steps[None]:
        """Read what is left, in slices; the next walk finds all of it."""
        for text, written, binary in self.unread:
            yield None
            if (text, written) in self._found:
                continue
            known = self._scrubber.find(text, written=written)
            if known is None:
                known = yield from self._scrubber.mask(text, written=written, binary=binary)
            self._found[text, written] = known
        self._in_sight = math.inf


def _finish_at_once(work: Steps[str]) -> str | None:
    """Run all of some work, or return None if a thread has to do a part of it."""
    try:
        while (called := next(work)) is None:
            pass
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    del called
    work.close()
    return None


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, so that it can be sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_json(text: str) -> Any:
    """Return the object or list that a text is, or None.

    An object that has a name twice is its pairs: nobody knows which of the two is read. What nests
    too deeply is refused if it has escapes, which may hide anything.
    """
    try:
        data = json.loads(text, object_pairs_hook=_pairs_or_object)
    except RecursionError:
        if "\\" in text:
            raise too_deep() from None
        return None
    except ValueError:
        return None
    return data if isinstance(data, (dict, list)) else None


def _pairs_or_object(pairs: list[tuple[str, Any]]) -> Any:
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else [{name: item} for name, item in pairs]


_UNKNOWN = object()


class TextMemory:
    """Remembers what became of texts: of those that stayed as they were, a digest alone.

    The digest is made with a key of this process, so that nobody can make a text that has the
    digest of another one.
    """

    def __init__(self, kept: int = KEPT, weight: int = WEIGHT) -> None:
        self._key = os.urandom(32)
        self._texts: RecentEntries[str | None] = RecentEntries(kept)
        self._most = weight
        self._weight = 0

    def find(self, text: str) -> str | None:
        """Return what became of a text, if it is known."""
        if len(text) <= _SHORT:
            return None
        found = self._texts.get(self._digest(text), _UNKNOWN)
        return text if found is None else None if found is _UNKNOWN else found

    def store(self, text: str, clean: str) -> None:
        """Remember what became of a text."""
        if len(text) <= _SHORT or len(clean) > self._most:
            return
        for gone in self._texts.put(self._digest(text), None if clean is text else clean):
            self._weight -= len(gone or "")
        self._weight += 0 if clean is text else len(clean)
        while self._weight > self._most:
            self._weight -= len(self._texts.pop_oldest() or "")

    def _digest(self, text: str) -> bytes:
        data = text.encode(errors="surrogatepass")
        return blake2b(data, key=self._key, digest_size=16).digest()
