"""What a rule's `redact` takes out of a value, with the patterns of the built-in hook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.actions.errors import ActionError
from checkrail.actions.paths import Path
from checkrail.engine.errors import suggestion
from checkrail.engine.event import Event
from checkrail.llm.patterns import KINDS
from checkrail.llm.restoration import find_vault
from checkrail.llm.reversible import build_reversible
from checkrail.llm.scrubber import Scrubber
from checkrail.regex import PatternError, compile_pattern
from checkrail.turns import Steps

MASK = "[redacted]"
_WORD = re.compile(r"[a-z_]+")
_SLASHED = re.compile(r"/.+/", re.DOTALL)


class Redactor:
    """Puts a mask over what its patterns find, in the whole value or beneath some paths."""

    __slots__ = ("_paths", "_reversible", "_scrubber")

    def __init__(
        self,
        patterns: Iterable[str],
        mask: str = MASK,
        fields: Sequence[Path] = (),
        restore: str | Sequence[str] | None = None,
    ) -> None:
        kinds, own = _split_patterns(patterns)
        self._scrubber = Scrubber(kinds, own, mask)
        self._reversible = build_reversible(kinds, own, restore)
        self._paths = tuple(tuple(map(str, path.steps)) for path in fields) or None

    def __call__(self, event: Event[Any], value: Any) -> Steps[Any]:
        """Return the value with what was found masked, or the same object if nothing was."""
        if self._reversible is not None and (vault := find_vault(event)) is not None:
            return self._reversible.scrub(value, vault, self._paths)
        return self._scrubber.scrub(value, self._paths)


def _split_patterns(patterns: Iterable[str]) -> tuple[list[str], Mapping[str, str]]:
    """Separate the names of built-in patterns from regular expressions."""
    kinds: list[str] = []
    own: dict[str, str] = {}
    for pattern in patterns:
        if _WORD.fullmatch(pattern):
            kinds.append(_check_pattern_name(pattern))
        else:
            own[f"pattern {len(own) + 1}"] = _check_expression(pattern)
    return kinds, own


def _check_pattern_name(name: str) -> str:
    if name in KINDS:
        return name
    problem = f"there is no built-in pattern {name!r}{suggestion(name, KINDS)}"
    remedy = f"There are: {', '.join(KINDS)}. For the word itself write /{name}/"
    raise ActionError(problem, remedy)


def _check_expression(pattern: str) -> str:
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
