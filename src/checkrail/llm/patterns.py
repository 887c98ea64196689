"""What is not for everybody's eyes: secrets, and how e-mail addresses and card numbers look.

Every pattern takes a time that grows with the text and no faster: what repeats is bounded,
possessive, or cannot begin inside itself. No group is possessive, only what takes one character:
with a possessive group, `re` loses its place in the text until Python 3.11.5.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from checkrail.llm.secrets import Mask, Span, mask_secrets
from checkrail.regex import Regex, compile_pattern
from checkrail.turns import Steps, finish_steps

_INLINE = 16_000
_PORTION = 16_000
_OVERLAP = 8_000
_CUT = 200

LABEL = "[redacted:{kind}]"

Search = Callable[[str], Steps[str]]
"""Masks what it finds in a text."""

Finder = Callable[[str], Steps[list[Span]]]
"""Finds where something stands in a text."""

_A_TEXT = 50
"""Every text costs as much as so many characters, however short it is."""


KINDS = ("secrets", "email", "card")
"""What there are patterns for."""

PATTERNS: dict[str, re.Pattern[str]] = {
    "email": re.compile(
        r"(?<![\w.%+-])(?!git@)[\w.%+-]{1,64}+@(?!\dx\.)"
        r"(?:[^\W_](?:[\w-]{0,62}[^\W_])?\.){1,8}(?:xn--[\w-]{0,58}[^\W_]|[^\W\d_]{2,24})",
    ),
    "card": re.compile(
        r"(?<![0-9])(?:[2-6][0-9]{3}([ .-])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{1,3})?"
        r"|3[0-9]{3}[ .-][0-9]{6}[ .-][0-9]{4,5}|[2-6][0-9]{12,18})(?![0-9])",
    ),
}
"""How each kind looks that a pattern can tell; a card number also has to be of a known make and
pass Luhn's check."""

_MAKES = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|3[47][0-9]{13}"  # American Express
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}"  # Diners Club
    r"|(?:6[0-9]|35|5[06-8])[0-9]{14,17}",  # Discover, UnionPay, JCB, Maestro
)
_DOUBLED = {str(digit): sum(divmod(2 * digit, 10)) for digit in range(10)}


def scrub_text(text: str, kinds: Iterable[str] = KINDS, label: str = LABEL) -> str:
    """Return a text with secrets and other private data masked."""
    for search in build_steps(kinds, label):
        text = finish_steps(search(text))
    return text


def build_steps(kinds: Iterable[str], label: str = LABEL) -> list[Search]:
    """Return what masks these kinds in a text, one after the other."""
    return [build_search(kind, _label_mask(label.replace("{kind}", kind))) for kind in kinds]


def _label_mask(label: str) -> Mask:
    return lambda _found: label


class OwnPatterns:
    """Masks what patterns of files find, by the names of what that is."""

    def __init__(self, patterns: Mapping[str, str], label: str) -> None:
        self._patterns = [(compile_pattern(patterns[name]), name) for name in patterns]
        self._labels = {name: label.replace("{kind}", name) for name in patterns}
        self._label_size = len(label)

    def mask(self, text: str) -> Steps[str]:
        """Mask a text; what would take long goes to a thread."""
        room = _INLINE
        for number, (pattern, name) in enumerate(self._patterns):
            # A pattern also searches the labels of those before it, and each find takes its time.
            room -= _work_of(pattern, text)
            if room < 0:
                return (yield functools.partial(self._mask_rest, text, number))  # type: ignore[no-any-return]
            text = pattern.sub(self._labels[name], text)
        return text

    def _mask_rest(self, text: str, first: int) -> str:
        for pattern, name in self._patterns[first:]:
            text = pattern.sub(self._labels[name], text)
        return text

    def finders(self) -> Iterator[tuple[str, Finder]]:
        """Yield what finds the matches of each pattern, after the name of what they are."""
        for pattern, name in self._patterns:
            yield name, functools.partial(self._find, pattern)

    def _find(self, pattern: Regex, text: str) -> Steps[list[Span]]:
        work = functools.partial(self._find_all, pattern, text)
        return (yield work) if _work_of(pattern, text) > _INLINE else work()

    def _find_all(self, pattern: Regex, text: str) -> list[Span]:
        return [*pattern.iter_spans(text, self._label_size)]


def _work_of(pattern: Regex, text: str) -> int:
    return (len(text) + _A_TEXT) * (4 + pattern.size // 100)


def build_search(kind: str, mask: Mask) -> Search:
    """Return what masks one kind in a text."""
    if kind == "secrets":
        return lambda text: mask_secrets(text, mask)
    pattern = PATTERNS[kind]
    if kind == "card":
        return lambda text: _mask_cards(text, mask)
    return lambda text: _mask_matches(pattern, mask, text)


def _mask_matches(pattern: re.Pattern[str], mask: Mask, text: str) -> Steps[str]:
    """Put masks over all matches in a text; a long one is searched by portions.

    No other thread runs while `re` searches, so it is not to search for long. A match that reaches
    over its portion is found whole.
    """
    done: list[str] = []
    at = kept = 0
    size = len(text)
    while at < size:
        end = min(at + _PORTION, size)
        seen = min(end + _OVERLAP, size)
        after = end
        for found in pattern.finditer(text, at, seen):
            if found.start() >= end:
                break
            whole = (seen < size and pattern.match(text, found.start())) or found
            done += [text[kept : whole.start()], mask(whole[0])]
            kept = whole.end()
            after = max(end, kept)
            if kept != found.end():
                break
        at = after
        if at < size:
            yield None
    return "".join([*done, text[kept:]]) if done else text


def _mask_cards(text: str, mask: Mask) -> Steps[str]:
    """Take out card numbers: of a card's length and make-up, and with the right check digit."""
    search, done, start = PATTERNS["card"].search, [], 0
    at = 0
    while at < len(text):
        portion = at + _PORTION
        found = search(text, at, portion + _CUT)
        if found is None or found.start() >= portion:
            at = portion
            if at < len(text):
                yield None
            continue
        end = _card_end(found)
        at = end or found.start() + 1
        if end:
            done += [text[start : found.start()], mask(text[found.start() : end])]
            start = end
    return "".join([*done, text[start:]]) if done else text


def _card_end(found: re.Match[str]) -> int:
    """Find where the card number ends; what looks like its last group may be something else."""
    whole = found[0]
    for number in (whole, whole[:19] if found[1] else ""):
        if is_card(number):
            return found.start() + len(number)
    return 0


def is_card(number: str) -> bool:
    """Return whether this is a card number: of a known make and length, with its check digit."""
    digits = re.sub("[ .-]", "", number)
    if _MAKES.fullmatch(digits) is None:
        return False
    doubled = sum(map(_DOUBLED.__getitem__, digits[-2::-2]))
    return (doubled + sum(map(int, digits[::-2]))) % 10 == 0
