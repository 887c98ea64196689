"""What a rule's `redact` takes out of a value, with the patterns of the built-in hook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.actions.errors import ActionError
from checkrail.actions.paths import Path, concrete
from checkrail.builtin.patterns import inline_characters, is_secret, scrubber
from checkrail.builtin.redact import PATTERNS
from checkrail.builtin.walk import rewritten, within
from checkrail.engine.errors import suggestion
from checkrail.regex import PatternError, compile_pattern

MASK = "[redacted]"
_WORD = re.compile(r"[a-z_]+")
_SLASHED = re.compile(r"/.+/", re.DOTALL)


class Redactor:
    """Puts a mask over what its patterns find, in the whole value or beneath some paths."""

    __slots__ = ("_by_name", "_clean", "_fields", "_inline", "_mask")

    def __init__(
        self,
        patterns: Iterable[str],
        mask: str = MASK,
        fields: Sequence[Path] = (),
    ) -> None:
        kinds, own = _sorted_out(patterns)
        self._inline = inline_characters(own.values(), mask)
        self._clean = scrubber(kinds, own, mask)
        self._by_name = "secrets" in kinds
        self._mask = mask.replace("{kind}", "secrets")
        self._fields = tuple(fields)

    def __call__(self, value: Any, *, inline: bool = False) -> Any:
        """Return the value with what was found masked, or the same object if nothing was.

        What is too much to be searched `inline` raises `TooLargeError`.
        """
        change = within(self._inline, self._change) if inline else self._change
        if not self._fields:
            return rewritten(value, change)
        paths = (concrete(value, path) for path in self._fields)
        return rewritten(value, change, tuple(path for path in paths if path))

    def _change(self, key: str | None, text: str) -> str:
        named = self._by_name and key is not None and is_secret(key, text)
        changed = self._mask if named else self._clean(text)
        return text if changed == text else changed


def _sorted_out(patterns: Iterable[str]) -> tuple[list[str], Mapping[str, str]]:
    """Tell the names of built-in patterns from regular expressions."""
    kinds: list[str] = []
    own: dict[str, str] = {}
    for pattern in patterns:
        if _WORD.fullmatch(pattern):
            kinds.append(_known(pattern))
        else:
            own[f"pattern {len(own) + 1}"] = _expression(pattern)
    return kinds, own


def _known(name: str) -> str:
    if name in PATTERNS:
        return name
    problem = f"there is no built-in pattern {name!r}{suggestion(name, PATTERNS)}"
    remedy = f"There are: {', '.join(PATTERNS)}. For the word itself write /{name}/"
    raise ActionError(problem, remedy)


def _expression(pattern: str) -> str:
    """Check a regular expression; it may stand between slashes, as matchers want it."""
    text = pattern[1:-1] if _SLASHED.fullmatch(pattern) else pattern
    try:
        empty = compile_pattern(text).fullmatch("")
    except PatternError as error:
        problem = f"{pattern!r} is no regular expression here: {error.problem}"
        raise ActionError(problem, error.remedy) from None
    if empty is not None:
        problem = f"the pattern {pattern!r} matches even an empty text"
        raise ActionError(problem, "Let it ask for at least one character")
    return text
