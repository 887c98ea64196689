"""The texts within a text of JSON, changed where they stand: all else keeps its very characters.

Long numbers count as texts: an account or a card may be written as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*)"(\s*:)?|-?[0-9]{8,}+[0-9.eE+-]*+', re.DOTALL)
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # two halves of one
    r"|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)


class JsonString(NamedTuple):
    """A text in JSON: as it is written, what it says, where it stands, and the name of its field.

    The name of a field has none itself. What comes in place of a number is a text.
    """

    written: str
    text: str
    start: int
    field: str | None
    is_number: bool = False

    def offsets(self) -> list[int]:
        """Return where each character of what it says is written, and where the last one ends."""
        if "\\" not in self.written:
            return [*range(len(self.written) + 1)]
        found = [match.start() for match in _CHARACTER.finditer(self.written)]
        return [*found, len(self.written)]


Change = tuple[int, int, str]
"""From where to where a text is taken out, and what comes in its place."""


def is_json_container(text: str) -> bool:
    """Return whether a text is a JSON object or list. Raises `RecursionError`: nobody can tell."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def iter_strings(text: str) -> Iterator[JsonString]:
    """Yield the texts in valid JSON."""
    field: str | None = None
    for found in _STRING.finditer(text):
        written = found[1]
        if written is None:
            yield JsonString(found[0], found[0], found.start(), field, is_number=True)
            continue
        said = json.loads(f'"{written}"', strict=False) if "\\" in written else written
        names_field = found[2] is not None
        yield JsonString(written, said, found.start(1), None if names_field else field)
        field = said if names_field else field


def rewrite_strings(text: str, changes: Iterable[tuple[JsonString, Sequence[Change]]]) -> str:
    """Return JSON with parts of its texts changed; what comes in has to need no escapes."""
    done: list[str] = []
    kept = 0
    for string, cuts in changes:
        offsets = string.offsets() if cuts else ()
        for start, stop, new in cuts:
            shown = f'"{new}"' if string.is_number else new
            done += [text[kept : string.start + offsets[start]], shown]
            kept = string.start + offsets[stop]
    return "".join([*done, text[kept:]]) if done else text
