"""A text planted somewhere in the data of an API: whoever planted it knows that it is there.

What a test asks with these is never whether a text was found, but whether it got past a rule.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

MARK = "push --force"
"""What is planted. Nothing else here has a dash or its letters in a row."""

CALM = st.sampled_from(["", "a", "see", "done. ", "\n", "é"])
AROUND = st.builds(
    lambda before, after: f"{before}{MARK}{after}",
    st.sampled_from(["", "git ", "é ", "a\n"]),
    st.sampled_from(["", " origin", "\nb", "."]),
)
"""A text with the mark in it."""


def _cut(places: set[int]) -> list[str]:
    edges = [0, *sorted(places), len(MARK)]
    return [MARK[start:end] for start, end in pairwise(edges)]


PIECES = st.sets(st.integers(1, len(MARK) - 1), max_size=3).map(_cut)
"""The mark in pieces: whoever reads them as one text has it again."""

WORDS = st.just(MARK.split(" "))


def parts_of(
    says: Any, silent: list[Any], pieces: st.SearchStrategy[list[str]] = PIECES | WORDS
) -> st.SearchStrategy[list[Any]]:
    """Plant the mark in parts: in one, or in pieces that nothing readable stands between.

    `says` makes a part of a text, `silent` are parts that say nothing.
    """
    quiet = st.sampled_from([*silent, says("")])
    between = st.lists(quiet, max_size=2)
    other = st.lists(CALM.map(says) | quiet, max_size=2)

    @st.composite
    def build(draw: Any) -> list[Any]:
        built = [*draw(other)]
        for number, piece in enumerate(draw(pieces | AROUND.map(lambda text: [text]))):
            built += [*(draw(between) if number else []), says(piece)]
        return [*built, *draw(other)]

    return build()


JSON_CALM = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | CALM,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(CALM, inner, max_size=2),
    max_leaves=4,
)
_OBJECTS = st.dictionaries(CALM, JSON_CALM, max_size=2)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.builds(
        lambda before, item, after: [*before, item, *after],
        st.lists(JSON_CALM, max_size=2),
        inner,
        st.lists(JSON_CALM, max_size=2),
    )
    return lists | st.builds(lambda key, item, rest: {**rest, key: item}, CALM, inner, _OBJECTS)


PLANTED_DATA = st.recursive(
    AROUND
    | st.just(["git", *MARK.split(" ")])
    | st.builds(lambda key, item: {key: item}, AROUND, JSON_CALM)
    | st.builds(lambda part: [part], AROUND.map(lambda text: {"type": "text", "text": text})),
    _around,
    max_leaves=3,
)
"""JSON data with the mark as a text, as words of a command, as a key or as a part."""

ARGUMENTS = st.builds(lambda key, item, rest: {**rest, key: item}, CALM, PLANTED_DATA, _OBJECTS)
"""Arguments of a tool call with the mark somewhere."""


def escaped(data: Any) -> str:
    """Write data as JSON with every letter of the mark as its number, as some models do."""
    return json.dumps(data).replace("force", "\\u0066\\u006f\\u0072\\u0063\\u0065")


WRITTEN = ARGUMENTS.map(json.dumps) | ARGUMENTS.map(escaped)
"""Arguments as their API writes them."""
