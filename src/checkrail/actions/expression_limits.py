"""What an expression may cost: how large it is, what it is given, and how long it may take.

The language's package has no limits of its own. So its loops are made to look at the clock: before
a condition that has some is compiled for use, `l.all(x, BODY)` becomes
`l.all(x, _tick() ? (BODY) : [][0])`, and once time is up no body is evaluated any more: there is
nothing at `[][0]`, which ends the loop. What is not in a loop is bounded by what it is given: each
name that is read copies its value, so names times parts is what an evaluation costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from time import thread_time
from typing import Any

from checkrail.actions.errors import ActionError
from checkrail.actions.expression_fields import field_names, kind_of
from checkrail.actions.expression_names import MACROS, TEXT_FUNCTIONS, Token, is_index
from checkrail.engine.text import is_message, text_of
from checkrail.engine.values import Value, plain
from checkrail.regex import PatternError, compile_pattern

LONGEST = 8000
DEEPEST = 32
MOST_LOOPS = 3
MOST_SUMS = 12
MOST_PARTS = 50_000
MOST_LEVELS = 120
MOST_CHARACTERS = 2_000_000
MOST_PAIRS = 250_000
MOST_WORK = 1_000_000
"""How many parts may be copied in one evaluation, loops apart."""

_TEXT_PART = 1000
"""So many characters count as one part more."""

SECONDS = 0.05
"""How much CPU time the loops and functions of one evaluation may take together."""

_SPLIT = "Make two hooks of it, or write it in Python"
_LESS = "Look at less of the value, or write the hook in Python"
FOR_TEXT = "text(x) is all text in x, whatever its shape; for an item or a key of x, write y in x"

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class MisfitError(ActionError):
    """A condition failed for what the event holds, which callers may read."""

    def __init__(self, problem: str, remedy: str) -> None:
        public = "its condition does not fit what it was given"
        super().__init__(problem, remedy, public=public)


def check_text(text: Any) -> None:
    """Refuse an expression that is too long to be read."""
    if isinstance(text, str) and len(text) > LONGEST:
        problem = f"an expression of {len(text)} characters; {LONGEST} is the limit"
        raise ActionError(problem, _SPLIT)


def check_shape(text: str, found: list[Token]) -> None:
    """Refuse an expression that nests too deeply, or in which values could grow too fast."""
    shown = repr(text if len(text) <= 80 else f"{text[:77]}...")
    depth = 0
    for token in found:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth > DEEPEST:
            problem = f"the expression {shown} nests deeper than {DEEPEST} parentheses"
            raise ActionError(problem, _SPLIT)
    if (loops := max((loop.depth for loop in _find_loops(found)), default=0)) > MOST_LOOPS:
        problem = f"the expression {shown} has {loops} loops within each other"
        raise ActionError(f"{problem}; {MOST_LOOPS} is the limit", _SPLIT)
    if sum(token.text == "+" for token in found) > MOST_SUMS:
        problem = f"the expression {shown} adds more than {MOST_SUMS} times"
        raise ActionError(problem, _SPLIT)


@dataclass(frozen=True, slots=True)
class _Loop:
    """One loop of an expression: where its body begins and ends, and how deep it stands."""

    body: int
    end: int
    depth: int
    growth: int


def _find_loops(found: list[Token]) -> list[_Loop]:
    loops: list[_Loop] = []
    for index in range(2, len(found)):
        is_call = found[index].text == "(" and found[index - 2].text == "."
        if is_call and found[index - 1].text in MACROS:
            commas, end = _split_arguments(found, index)
            if commas:
                depth = 1 + sum(loop.body <= index < loop.end for loop in loops)
                own = sum(token.text == found[index + 1].text for token in found[commas[0] : end])
                growth = own if found[index - 1].text == "map" else 1
                loops.append(_Loop(commas[0], (*commas[1:], end)[0], depth, max(1, growth)))
    return loops


def weight_of(found: list[Token]) -> int:
    """Return how often an expression may copy what it is given.

    A sum copies both sides, and what `map` makes of each item may be as many copies of it.
    """
    names = sum(token.kind == "name" for token in found)
    sums = sum(token.text == "+" for token in found)
    return (names + sums * sums // 2) * math.prod(loop.growth for loop in _find_loops(found))


def _split_arguments(found: list[Token], index: int) -> tuple[list[int], int]:
    """Find the commas between the arguments of a call, and its closing parenthesis."""
    commas: list[int] = []
    depth = 0
    for at in range(index, len(found)):
        text = found[at].text
        depth += (text in _OPENING) - (text in _CLOSING)
        if not depth:
            return commas, at
        if text == "," and depth == 1:
            commas.append(at)
    return [], len(found)


def with_guards(text: str, found: list[Token]) -> str:
    """Write an expression anew: `has(a.b.c)` is false where `a` or `a.b` is null."""
    insertions: list[tuple[int, int, str]] = []
    for index, (name, call) in enumerate(pairwise(found)):
        if (name.text, call.text) == ("has", "("):
            _, end = _split_arguments(found, index + 1)
            guards = [
                f"{part} != null && " for part in _guarded_prefixes(text, found, index + 2, end)
            ]
            insertions += [(name.start, 0, f"({''.join(guards)}"), (found[end].start, 0, ")")]
    return _with_insertions(text, insertions)


def _guarded_prefixes(text: str, found: list[Token], start: int, end: int) -> Iterable[str]:
    """Return what stands in front of each dot between two places: `a` and `a.b` of `a.b.c`."""
    depth = 0
    for token in found[start:end]:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if token.text == "." and not depth:
            yield text[found[start].start : token.start]


def with_limits(text: str, found: list[Token]) -> str:
    """Write an expression anew: its loops look at the clock, its patterns are RE2's.

    An index from the end, `x[-1]`, becomes a call: the language has none.
    """
    insertions: list[tuple[int, int, str]] = []
    for loop in _find_loops(found):
        insertions.append((found[loop.body].start + 1, 0, " _tick() ? ("))
        insertions.append((found[loop.end].start, 0, ") : [][0]"))
    for dot, name, call in zip(found, found[1:], found[2:], strict=False):
        if (dot.text, name.text, call.text) == (".", "matches", "("):
            insertions.append((name.start, len(name.text), "_matches"))
    for index in range(1, len(found) - 3):
        opening, minus, number, closing = found[index : index + 4]
        is_negative = (minus.text, closing.text) == ("-", "]") and number.text.isdecimal()
        if is_negative and is_index(found, index):
            written = f"._item(-{number.text})"
            insertions.append((opening.start, closing.start + 1 - opening.start, written))
    return _with_insertions(text, insertions)


def _with_insertions(text: str, insertions: list[tuple[int, int, str]]) -> str:
    written, end = [], 0
    for start, length, new in sorted(insertions):
        written += [text[end:start], new]
        end = start + length
    return "".join([*written, text[end:]])


class Meter:
    """What one evaluation may still take; `problem` is the limit that it exceeded."""

    __slots__ = ("_until", "problem")

    def __init__(self) -> None:
        self._until = thread_time() + SECONDS
        self.problem: ActionError | None = None

    def has_time(self) -> bool:
        """Whether there is time left."""
        if self.problem is None and thread_time() > self._until:
            self.problem = ActionError(f"it took longer than {SECONDS:g} s", _LESS)
        return self.problem is None

    def matches(self, text: Any, pattern: Any) -> bool | None:
        """Search a text for a pattern, as `text.matches(pattern)`."""
        if not self.has_time():
            return None
        wrong = [kind_of(given) for given in (text, pattern) if not isinstance(given, str)]
        if wrong:
            problem = f"`matches` is for a text and a pattern, not for {wrong[0]}"
            self.problem = MisfitError(problem, FOR_TEXT)
            return None
        try:
            return compile_pattern(pattern).search(text) is not None
        except PatternError as error:
            self.problem = ActionError(f"{error.problem} in `matches`", error.remedy)
            return None

    def item_at(self, items: Any, index: int) -> Any:
        """Return an item of a list, counted from its end, as `list[-1]`."""
        if isinstance(items, list) and -len(items) <= index < len(items):
            return items[index]
        holder = f"a list of {len(items)}" if isinstance(items, list) else kind_of(items)
        problem = f"there is no item {index} in {holder}"
        self.problem = MisfitError(problem, "Guard it, as in size(x) > 0 && …")
        return None

    def guard_function(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the library that is called only if it will not take too long."""
        size, bounded = _SIZES.get(name), _BOUNDED.get(name, function)

        def call_guarded(*given: Any) -> Any:
            if not self.has_time():
                return None
            if size is not None and _is_too_much(size, given):
                self.problem = ActionError(f"what {name} was given is too much for it", _LESS)
                return None
            if name in TEXT_FUNCTIONS and not isinstance(given[0], str):
                problem = f"`{name}` is for a text, not for {kind_of(given[0])}"
                self.problem = MisfitError(problem, FOR_TEXT)
                return None
            return bounded(*given)

        return call_guarded

    def build_functions(self, library: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
        """Return what an expression calls in one evaluation."""
        own = {name: self.guard_function(name, function) for name, function in library.items()}
        return {**own, "_tick": self.has_time, "_matches": self.matches, "_item": self.item_at}


def _is_too_much(size: Callable[..., tuple[int, int]], given: tuple[Any, ...]) -> bool:
    try:
        found, most = size(*given)
    except (TypeError, AttributeError):
        return False  # which is wrong in any case, and said so
    return found > most


def _replaced_size(text: str, old: str, new: str, *_limit: int) -> tuple[int, int]:
    return len(text) + text.count(old) * len(new), MOST_CHARACTERS


def _joined_size(items: list[str], between: str = "") -> tuple[int, int]:
    return sum(map(len, items)) + len(between) * len(items), MOST_CHARACTERS


def _split_size(text: str, between: str, *_limit: int) -> tuple[int, int]:
    return text.count(between), MOST_PARTS


def _pairs_size(some: list[Any], others: list[Any]) -> tuple[int, int]:
    return len(some) * len(others), MOST_PAIRS


def _text_size(text: Any) -> tuple[int, int]:
    return len(text), MOST_CHARACTERS


_SIZES: dict[str, Callable[..., tuple[int, int]]] = {
    "replace": _replaced_size,
    "join": _joined_size,
    "split": _split_size,
    "lists.range": lambda count: (count, MOST_PARTS),
    "distinct": lambda items: _pairs_size(items, items),
    "sets.contains": _pairs_size,
    "sets.equivalent": _pairs_size,
    "sets.intersects": _pairs_size,
    **dict.fromkeys(("lowerAscii", "upperAscii", "strings.quote", "reverse"), _text_size),
}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in _LOWER}
_BOUNDED: dict[str, Callable[..., Any]] = {
    "lowerAscii": lambda text: text.translate(_LOWER),
    "upperAscii": lambda text: text.translate(_UPPER),
}
"""The same as the library's, which go through a text letter by letter."""


class InputBudget:
    """How much of an event an expression may still get; `weight` is how often it copies it.

    With `texts`, values and messages within what it is given have their `text`.
    """

    __slots__ = ("_left", "_most", "_texts")

    def __init__(self, weight: int, *, texts: bool = False) -> None:
        self._left = self._most = min(MOST_PARTS, max(100, MOST_WORK // max(1, weight)))
        self._texts = texts

    def take_value(self, value: Any, level: int = 0) -> Any:
        """Return a value as plain data, or refuse one that is too large to be looked at."""
        self._left -= 1 + (len(value) // _TEXT_PART if isinstance(value, str) else 0)
        if self._left < 0 or level > MOST_LEVELS:
            problem = f"the value has more than {self._most} parts, too many for it"
            if level > MOST_LEVELS:
                problem = f"the value nests deeper than {MOST_LEVELS} levels"
            raise ActionError(problem, "Name the field of it that the expression is about")
        if isinstance(value, Value):
            names = field_names(type(value)) if self._texts else value.__slots__
            return self.take_fields(value, names, level)
        if isinstance(value, Mapping):
            parts = ((_encodable_text(str(key)), item) for key, item in value.items())
            found = {key: self.take_value(item, level + 1) for key, item in parts}
            if self._texts and is_message(value):
                found["text"] = self.take_value(text_of(value), level + 1)
            return found
        if isinstance(value, (list, tuple)):
            return [self.take_value(item, level + 1) for item in value]
        return _encodable_text(value) if isinstance(value, str) else plain(value)

    def take_fields(self, value: Value, names: Iterable[str], level: int = 0) -> dict[str, Any]:
        """Return some fields of a value as plain data."""
        return {name: self.take_value(getattr(value, name), level + 1) for name in names}


def _encodable_text(text: str) -> str:
    """Return a text that the language can hold: half of a surrogate pair is one character."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def literal_patterns(found: Iterable[Token]) -> list[str]:
    """Find the texts that are written as patterns, as in `x.matches('a+')`."""
    found = [*found]
    return [
        text.text
        for name, call, text, end in zip(found, found[1:], found[2:], found[3:], strict=False)
        if (name.text, call.text, end.text) == ("matches", "(", ")")
        and text.kind in ("raw", "text")
    ]
