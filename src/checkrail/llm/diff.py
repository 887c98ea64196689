"""Which item of a list was which, before hooks changed the list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import orjson

Alike = Callable[[Any, Any], bool]
"""Says whether one item may be what became of another."""


def match_items(before: Sequence[Any], after: Sequence[Any], alike: Alike) -> list[int | None]:
    """Return, for each item, the place where it stood before; None for one that is new.

    The places only rise. Items that are equal are the same; what stands between two such is paired
    in its order, if it is alike.
    """
    found: list[int | None] = [None] * len(after)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        found[start] = start
        start += 1
    old, new = len(before), len(after)
    while old > start and new > start and before[old - 1] == after[new - 1]:
        old, new = old - 1, new - 1
        found[new] = old
    for place, origin in _match_equal(before[start:old], after[start:new]):
        found[start + place] = start + origin
    _match_similar(before, after, found, alike)
    return found


def _match_equal(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]]:
    """Match items that stayed as they were between others that did not."""
    if len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [(place, place) for place, (old, new) in enumerate(pairs) if old == new]
    places: dict[bytes, list[int]] = defaultdict(list)
    for origin, item in enumerate(before):
        places[_item_key(item)].append(origin)
    found: list[tuple[int, int]] = []
    reached = 0
    for place, item in enumerate(after):
        same = next((one for one in places.get(_item_key(item), ()) if one >= reached), None)
        if same is not None:
            found.append((place, same))
            reached = same + 1
    return found


def _match_similar(
    before: Sequence[Any], after: Sequence[Any], found: list[int | None], alike: Alike
) -> None:
    """Match changed items with those that they are alike to."""
    start = 0
    for place, origin in enumerate(found):
        if origin is not None:
            start = origin + 1
            continue
        end = next((one for one in found[place:] if one is not None), len(before))
        same = next((one for one in range(start, end) if alike(before[one], after[place])), None)
        if same is not None:
            found[place] = same
            start = same + 1


def _item_key(item: Any) -> bytes:
    try:
        return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return repr(item).encode(errors="backslashreplace")
