"""What is wrong with a file: every problem with its place, what was found and what was expected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkrail.actions.fields import kind_of
from checkrail.config.words import meant
from checkrail.engine.errors import CheckrailError, suggestion

Where = tuple[str | int, ...]
"""A place inside a document: the keys and positions that lead to it."""

_PLAIN_KEY = re.compile(r"[\w$-]+")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file."""

    file: str
    line: int | None
    path: str
    found: str
    expected: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = self.found
        # A suggestion says it better than the list of all that would have been right.
        if self.expected and not self.hint.startswith("did you mean"):
            text += f", expected {self.expected}"
        if self.hint:
            text += f" ({self.hint})"
        return f"{place} {self.path}: {text}" if self.path else f"{place}: {text}"


class ConfigError(CheckrailError):
    """A file cannot be used; `problems` has everything that is wrong with it.

    `files` are those that were read or wanted: when one of them changes, it is worth trying again.
    """

    def __init__(self, problems: Iterable[Problem], files: Iterable[Path] = ()) -> None:
        self.problems = tuple(problems)
        self.files = tuple(files)
        super().__init__(self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        return f"{len(self.problems)} problems:{lines}"


class Report:
    """Collects the problems of one file, so that all of them are told at once.

    A `foreign` file was written for another server: what only that one knows is left alone.
    """

    def __init__(self, file: str, lines: Mapping[Where, int] | None = None) -> None:
        self.file = file
        self.lines: Mapping[Where, int] = lines or {}
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.secrets: dict[str, str] = {}
        self.foreign = False
        self.left: list[Where] = []
        self._shared: dict[str, tuple[int, list[Where]]] = {}
        self._parts: list[Report] = []

    def part(self, file: str) -> Report:
        """Return the report of another file that belongs to this one: it is told with it."""
        made = Report(file)
        made.secrets = self.secrets
        self._parts.append(made)
        return made

    def add(
        self,
        where: Where,
        found: str,
        expected: str = "",
        hint: str = "",
        *,
        line: int | None = None,
    ) -> None:
        """Add a problem; one that was told before is not told twice."""
        problem = self._problem(where, found, expected, hint, line)
        if problem not in self.problems:
            self.problems.append(problem)

    def add_shared(self, where: Where, found: str, expected: str, hint: str) -> None:
        """Add a problem that is one for several places: it is told once, and names the others."""
        index, places = self._shared.setdefault(found, (len(self.problems), []))
        if where not in places:
            places.append(where)
        hint = _with_others(hint, places[1:])
        self.problems[index : index + 1] = [self._problem(places[0], found, expected, hint, None)]

    def warn(self, where: Where, found: str, hint: str = "") -> None:
        """Add something that is worth saying but stops nothing."""
        self.warnings.append(self._problem(where, found, "", hint, None))

    def all_warnings(self) -> tuple[Problem, ...]:
        """Return what is worth saying of the file and of its parts."""
        return tuple(warning for each in (self, *self._parts) for warning in each.warnings)

    def leave(self, where: Where) -> None:
        """Note a key that is right in the file, but that nobody here acts on."""
        self.left.append(where)

    def warn_of_left(self) -> None:
        """Name all keys that were left alone in one warning."""
        if self.left:
            keys = ", ".join(
                spelled(where) for where in sorted(self.left, key=lambda w: self.line(w) or 0)
            )
            self.warn((), f"left alone, for nobody here acts on it: {keys}")

    def unknown(
        self,
        where: Where,
        what: str,
        name: str,
        known: Iterable[str],
        also: Iterable[str] = (),
    ) -> None:
        """Add a name that nobody knows, with the one that was probably meant.

        `also` are names that may have been meant, but are not worth listing.
        """
        known = list(known)
        expected = f"one of: {', '.join(known)}" if known else f"a {what}, but there is none"
        hint = meant(name, [*known, *also])
        if not hint and what not in ("key", "word"):  # long names, and few of them: less will do
            hint = suggestion(name, known).strip(" ()")
        self.add(where, f"unknown {what} {name!r}", expected, hint)

    def line(self, where: Where) -> int | None:
        """Find the line of a place, or of the nearest one around it."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where)

    def raise_if_any(self, files: Iterable[Path] = ()) -> None:
        """Raise everything that was found, in the order of the file and then of its parts."""
        reports = (self, *self._parts)
        found = [p for each in reports for p in sorted(each.problems, key=lambda p: p.line or 0)]
        if found:
            raise ConfigError(found, files)

    def _problem(
        self,
        where: Where,
        found: str,
        expected: str,
        hint: str,
        line: int | None,
    ) -> Problem:
        line = self.line(where) if line is None else line
        problem = Problem(self.file, line, spelled(where), found, expected, hint)
        return replace(
            problem,
            found=self._scrubbed(found),
            expected=self._scrubbed(expected),
            hint=self._scrubbed(hint),
        )

    def _scrubbed(self, text: str) -> str:
        return scrubbed(text, self.secrets)


def _with_others(hint: str, others: list[Where]) -> str:
    if not others:
        return hint
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{hint}; it is the same at {spelled(others[0])}{more}".removeprefix("; ")


def scrubbed(text: str, secrets: Mapping[str, str]) -> str:
    """Take the values of variables out again, longest first, wherever the text came from."""
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, secrets[value])
        text = text.replace(json.dumps(value)[1:-1], secrets[value])  # as it stands in JSON
    return text


def spelled(where: Where) -> str:
    """Write a place as people do: `hooks.before_run[0].timeout`."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shortened(step)}]"
    return text


def described(value: Any) -> str:
    """Return what a value is, in the words of the file formats."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {shortened(value)}" if value else "an empty text"
    if isinstance(value, (int, float)):
        return f"the number {shortened(value)}"
    if isinstance(value, list) and not value:
        return "an empty list"
    return kind_of(value)


def shortened(value: Any) -> str:
    """Write a value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
