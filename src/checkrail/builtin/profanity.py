"""`profanity`: masks words that nobody should have to read, or blocks what contains them."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from checkrail.builtin.base import Builtin
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import InboundMessage, OutboundMessage
from checkrail.turns import Steps, finish_steps, run_in_slices

if TYPE_CHECKING:
    from checkrail.builtin.options import ProfanityOptions

WORDS = (
    *("arsehole", "arseholes", "asshole", "assholes", "bastard", "bastards", "bitch", "bitches"),
    *("bollocks", "bullshit", "cunt", "cunts", "dickhead", "dickheads", "fuck*", "motherfuck*"),
    *("shit", "shits", "shitty", "twat", "twats", "wanker", "wankers"),
)
"""What is looked for unless said."""

Answer = Continue | Block | None
Span = tuple[int, int]
Trie = dict[str, "Trie"]
_END, _REST = "end", "rest"
_LETTER = r"[^\W_]"
_INVISIBLE = "Cf"
_WIDTH, _AT_ONCE = 20_000, 1000
"""How many characters are searched, and how many folded, before others may have their turn."""
_MOST_MARKS = 32
"""To bring marks into their order takes the square of how many there are."""
_RARE_LETTERS, _RARE_COUNT = 0x20000, 0xA000
"""Letters of which no text that anybody writes has many."""


def build(
    options: ProfanityOptions,
) -> Callable[[Event[Any], InboundMessage | OutboundMessage], Answer | Awaitable[Answer]]:
    """Build the hook."""
    finder = WordFinder((*(WORDS if options.defaults else ()), *options.words))

    def profanity(
        event: Event[Any], message: InboundMessage | OutboundMessage
    ) -> Answer | Awaitable[Answer]:
        _check_message(event, message)
        return run_in_slices(judge_text(message.content))

    def judge_text(text: str) -> Steps[Answer]:
        spans = yield from finder.find_spans(text)
        if not spans:
            return None
        if options.on_found == "block":
            return Block(options.reason, options.status, "profanity")
        return Continue(_mask_spans(text, spans, options.mask))

    return profanity


def _check_message(event: Event[Any], message: Any) -> None:
    if not isinstance(message, (InboundMessage, OutboundMessage)):
        told = f"built-in hook 'profanity' reads messages of people, which {event.point} has not"
        raise InvalidOutcomeError(f"{told}: register it at {', '.join(BUILTIN.points)}")


def _mask_spans(text: str, spans: Iterable[Span], mask: str) -> str:
    end, pieces = 0, []
    for start, stop in spans:
        pieces += [text[end:start], mask]
        end = stop
    return "".join([*pieces, text[end:]])


class WordFinder:
    """Finds whole words, whatever their case and however their letters are encoded."""

    def __init__(self, words: Sequence[str]) -> None:
        trie: Trie = {}
        for word in words:
            rest = word.endswith("*")
            place = trie
            for letter in fold_text(word.removesuffix("*")).text:
                place = place.setdefault(letter, {})
            place[_REST if rest else _END] = {}
        self._longest = max(len(fold_text(word).text) for word in words)
        self._search = re.compile(rf"(?<!{_LETTER}){_trie_pattern(trie)}(?!{_LETTER})").search

    def find_spans(self, text: str) -> Steps[list[Span]]:
        """Find where such words begin and end in a text, piece by piece."""
        folded = yield from fold_in_steps(text)
        letters, spans = folded.text, []
        at, width = 0, _WIDTH
        while at < len(letters):
            yield None
            end = at + width
            found = self._search(letters, at, end)
            if found is not None and found.end() == end < len(letters):
                at, width = found.start(), width * 2  # the word may go on
                continue
            if found is None:
                at = max(at + 1, end - self._longest) if end < len(letters) else end
            else:
                spans.append((folded.starts[found.start()], folded.ends[found.end() - 1]))
                at = found.end()
            width = _WIDTH
        return spans


def _trie_pattern(trie: Trie) -> str:
    """Return a pattern that reads each letter of a text once, however many words there are."""
    ways = [
        re.escape(letter) + _trie_pattern(rest)
        for letter, rest in trie.items()
        if letter not in (_END, _REST)
    ]
    if _REST in trie:
        ways.append(rf"{_LETTER}*")
    elif _END in trie:
        ways.append("")
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


class FoldedText(NamedTuple):
    """A text as it is compared, and of each of its characters what it was made of."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def fold_text(text: str) -> FoldedText:
    """Fold a text, so that case, width and the ways to encode an accent make no difference.

    What cannot be seen is left out.
    """
    return finish_steps(fold_in_steps(text))


def fold_in_steps(text: str) -> Steps[FoldedText]:
    """Fold a text piece by piece."""
    if text.isascii():
        return FoldedText(text.lower(), range(len(text)), range(1, len(text) + 1))
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for number, (start, end) in enumerate(_split_clusters(text)):
        folded = _fold_cluster(text[start:end])
        pieces.append(folded)
        starts += [start] * len(folded)
        ends += [end] * len(folded)
        if number % _AT_ONCE == 0:
            yield None
    return FoldedText("".join(pieces), starts, ends)


def _split_clusters(text: str) -> Iterator[Span]:
    """Yield where each character begins and ends, with the marks upon it."""
    start = 0
    for end in range(1, len(text)):
        joins = text[end] >= "\u0080" and _is_continuation(text[end])
        if not joins or end - start == _MOST_MARKS:
            yield start, end
            start = end
    yield start, len(text)


@functools.lru_cache(maxsize=4096)
def _is_continuation(letter: str) -> bool:
    """Return whether a character may become one with the character before it."""
    kind = unicodedata.category(letter)
    joins = "\u1160" <= letter <= "\u11ff" or letter in "\uff9e\uff9f"  # Hangul, voiced kana
    return joins or kind.startswith("M") or kind == _INVISIBLE


@functools.lru_cache(maxsize=4096)
def _fold_cluster(cluster: str) -> str:
    seen = "".join(each for each in cluster if unicodedata.category(each) != _INVISIBLE)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
    return "".join(map(_letter_for, folded))


def _letter_for(sign: str) -> str:
    """Return a letter for a mark, such as a vowel sign, so that it counts as part of a word."""
    if not unicodedata.category(sign).startswith("M"):
        return sign
    return chr(_RARE_LETTERS + ord(sign) % _RARE_COUNT)


BUILTIN = Builtin(
    name="profanity",
    summary="masks bad words in messages and replies, or blocks what contains them",
    points=(HookPoint.BEFORE_INBOUND, HookPoint.BEFORE_OUTBOUND),
    lane=Lane.TRANSFORM,
    build=build,
    example={"words": ["darn", "heck*"], "on_found": "mask"},
    reads=(InboundMessage, OutboundMessage),
    closed=True,
)


def profanity(
    event: Event[Any], message: InboundMessage | OutboundMessage
) -> Answer | Awaitable[Answer]:
    """Mask bad words in a message, or block it."""
    return BUILTIN.hook_for(event)(event, message)  # type: ignore[no-any-return]
