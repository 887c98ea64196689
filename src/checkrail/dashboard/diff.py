"""What is different between two values, path by path."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["same", "changed", "added", "removed"]

LONG = 40
"""Characters from which texts are compared by their words."""

MOST = 200
"""Rows that are shown; what is left out is counted."""

_ITEMS = 400
_WORDS = 2000
_TEXT = 4000
_NAMES = ("id", "tool_call_id", "call_id", "name")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a text that stayed, came, or went."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One path, with what stood there and what stands there now; None is nothing."""

    path: str
    kind: Kind
    before: str | None
    after: str | None
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Diff:
    """The rows that are shown, and how many more there are."""

    rows: Sequence[Row]
    more: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is different."""
        return all(row.kind == "same" for row in self.rows) and not self.more


def compare(before: Any, after: Any, *, whole: bool = False, most: int = MOST) -> Diff:
    """Return what is different; with `whole` also what is the same."""
    rows: list[Row] = []
    more = 0
    for row in _compare(before, after, ""):
        if not whole and row.kind == "same":
            continue
        if len(rows) < most:
            rows.append(row)
        else:
            more += 1
    return Diff(rows, more)


def _compare(before: Any, after: Any, path: str) -> Iterator[Row]:
    if isinstance(before, Mapping) and isinstance(after, Mapping) and (before or after):
        for key in [*before, *(key for key in after if key not in before)]:
            inner = f"{path}.{key}" if path else str(key)
            yield from _compare(before.get(key, _ABSENT), after.get(key, _ABSENT), inner)
    elif isinstance(before, list) and isinstance(after, list) and (before or after):
        yield from _compare_lists(before, after, path)
    elif before is _ABSENT:
        yield Row(path, "added", None, show(after))
    elif after is _ABSENT:
        yield Row(path, "removed", show(before), None)
    elif type(before) is type(after) and before == after:
        yield Row(path, "same", show(before), show(after))
    else:
        yield _changed(before, after, path)


def _changed(before: Any, after: Any, path: str) -> Row:
    words: tuple[Word, ...] = ()
    if isinstance(before, str) and isinstance(after, str) and len(before) + len(after) > 2 * LONG:
        words = tuple(compare_words(before, after))
    return Row(path, "changed", show(before), show(after), words)


def _compare_lists(before: list[Any], after: list[Any], path: str) -> Iterator[Row]:
    """Compare what stands at the same place once what is alike has been laid side by side."""
    if len(before) + len(after) > _ITEMS:
        pairs: Iterator[tuple[int | None, int | None]] = _pair_by_number(before, after)
    else:
        pairs = _pair_items(before, after)
    for old, new in pairs:
        inner = f"{path}[{new if new is not None else old}]"
        yield from _compare(
            _ABSENT if old is None else before[old], _ABSENT if new is None else after[new], inner
        )


def _pair_by_number(before: list[Any], after: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    for number in range(max(len(before), len(after))):
        yield (
            number if number < len(before) else None,
            number if number < len(after) else None,
        )


def _pair_items(before: list[Any], after: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    marks = [_mark(item) for item in before], [_mark(item) for item in after]
    matcher = difflib.SequenceMatcher(None, *marks, autojunk=False)
    for tag, old, old_end, new, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(range(old, old_end), range(new, new_end), strict=True)
        else:
            yield from _pair_changed(before, after, range(old, old_end), range(new, new_end))


def _pair_changed(
    before: list[Any], after: list[Any], old: range, new: range
) -> Iterator[tuple[int | None, int | None]]:
    """Pair items of one stretch by their names, or, without any, by their order."""
    named = {name: at for at in new if (name := _name_of(after[at])) is not None}
    partner = {
        at: named.pop(name)
        for at in old
        if (name := _name_of(before[at])) is not None and name in named
    }
    free = [at for at in new if at not in partner.values()]
    plain = [at for at in old if at not in partner and _name_of(before[at]) is None]
    nameless = [at for at in free if _name_of(after[at]) is None]
    partner |= dict(zip(plain, nameless, strict=False))
    for at in old:
        yield at, partner.get(at)
    taken = set(partner.values())
    yield from ((None, at) for at in new if at not in taken)


def _mark(item: Any) -> str:
    return json.dumps(item, sort_keys=True, default=str)


def _name_of(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return None
    found = ((key, item[key]) for key in _NAMES if isinstance(item.get(key), str | int))
    return next(found, None)


def compare_words(before: str, after: str) -> Iterator[Word]:
    """Yield the words of both texts, those that are the same once."""
    old, new = re.findall(r"\s+|\w+|[^\w\s]", before), re.findall(r"\s+|\w+|[^\w\s]", after)
    if len(old) + len(new) > _WORDS:
        yield Word("removed", show(before))
        yield Word("added", show(after))
        return
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, begin, stop in matcher.get_opcodes():
        if tag == "equal":
            yield Word("same", "".join(old[start:end]))
            continue
        if start < end:
            yield Word("removed", "".join(old[start:end]))
        if begin < stop:
            yield Word("added", "".join(new[begin:stop]))


def show(value: Any) -> str:
    """Return a value as it stands in JSON, not longer than can be read."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}… ({len(text):,} characters)"
