"""What is wrong with a file: every problem with its place, what was found and what was expected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkrail.actions.expression_fields import kind_of
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


_EXPLAINED = 100
"""How many problems are found at most before what else is unknown is not compared with what is
known: to do that thousands of times takes long, and nobody reads it."""


class Report:
    """Collects the problems of one file, so that all of them are raised at once.

    A `foreign` file was written for another server: what only that one knows is left alone.
    """

    def __init__(self, file: str, lines: Mapping[Where, int] | None = None) -> None:
        self.file = file
        self.lines: Mapping[Where, int] = lines or {}
        self.problems: list[Problem] = []
        self._found: set[Problem] = set()
        self.warnings: list[Problem] = []
        self.notes: list[Problem] = []
        self.secrets: dict[str, str] = {}
        self.foreign = False
        self.left: list[Where] = []
        self._shared: dict[str, tuple[int, list[Where]]] = {}
        self._parts: list[Report] = []

    def add_part(self, file: str) -> Report:
        """Return the report of another file that belongs to this one, and is raised with it."""
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
        """Add a problem, unless it is there already."""
        problem = self._build_problem(where, found, expected, hint, line)
        if problem not in self._found:
            self._found.add(problem)
            self.problems.append(problem)

    def add_shared(self, where: Where, found: str, expected: str, hint: str) -> None:
        """Add a problem of several places: it is listed once, and names the others."""
        index, places = self._shared.setdefault(found, (len(self.problems), []))
        if where not in places:
            places.append(where)
        hint = _add_other_places(hint, places[1:])
        self.problems[index : index + 1] = [
            self._build_problem(places[0], found, expected, hint, None)
        ]

    def warn(self, where: Where, found: str, hint: str = "") -> None:
        """Add a warning, which does not make the file invalid."""
        self.warnings.append(self._build_problem(where, found, "", hint, None))

    def note(self, where: Where, found: str, hint: str) -> None:
        """Add something that is right, but that is said in other words now."""
        problem = self._build_problem(where, found, "", hint, None)
        if problem not in self.notes:
            self.notes.append(problem)

    def all_notes(self) -> tuple[Problem, ...]:
        """Return the notes on the file and on its parts."""
        return tuple(note for each in (self, *self._parts) for note in each.notes)

    def all_warnings(self) -> tuple[Problem, ...]:
        """Return the warnings of the file and of its parts."""
        return tuple(warning for each in (self, *self._parts) for warning in each.warnings)

    def note_unused(self, where: Where) -> None:
        """Note a valid key that has no effect here."""
        self.left.append(where)

    def warn_of_unused(self) -> None:
        """Add one warning that names all keys without an effect."""
        if self.left:
            keys = ", ".join(
                format_path(where)
                for where in sorted(self.left, key=lambda w: self.find_line(w) or 0)
            )
            self.warn((), f"left alone, for nobody here acts on it: {keys}")

    def add_unknown(
        self,
        where: Where,
        what: str,
        name: str,
        known: Iterable[str],
        also: Iterable[str] = (),
    ) -> None:
        """Add an unknown name, with the one that was probably meant.

        `also` are names that may have been meant, but are not worth listing.
        """
        if len(self.problems) >= _EXPLAINED:
            self.add(where, f"unknown {what} {name!r}")
            return
        known = list(known)
        expected = f"one of: {', '.join(known)}" if known else f"a {what}, but there is none"
        hint = suggest_word(name, [*known, *also])
        if not hint and what not in ("key", "word"):  # long names, and few of them: less will do
            hint = suggestion(name, known).strip(" ()")
        self.add(where, f"unknown {what} {name!r}", expected, hint)

    def find_line(self, where: Where) -> int | None:
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

    def _build_problem(
        self,
        where: Where,
        found: str,
        expected: str,
        hint: str,
        line: int | None,
    ) -> Problem:
        line = self.find_line(where) if line is None else line
        problem = Problem(self.file, line, format_path(where), found, expected, hint)
        return replace(
            problem,
            found=self._scrub(found),
            expected=self._scrub(expected),
            hint=self._scrub(hint),
        )

    def _scrub(self, text: str) -> str:
        return scrub_secrets(text, self.secrets)


def _add_other_places(hint: str, others: list[Where]) -> str:
    if not others:
        return hint
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{hint}; it is the same at {format_path(others[0])}{more}".removeprefix("; ")


def scrub_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """Replace the values of variables in a text by their names, longest first."""
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, secrets[value])
        text = text.replace(json.dumps(value)[1:-1], secrets[value])  # as it stands in JSON
    return text


def format_path(where: Where) -> str:
    """Write a place as people do: `hooks.before_run[0].timeout`."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shorten_value(step)}]"
    return text


def describe_value(value: Any) -> str:
    """Return what a value is, in the words of the file formats."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {shorten_value(value)}" if value else "an empty text"
    if isinstance(value, (int, float)):
        return f"the number {shorten_value(value)}"
    if isinstance(value, list) and not value:
        return "an empty list"
    return kind_of(value)


def shorten_value(value: Any) -> str:
    """Return a value as text for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_DOING = (
    "block",
    "ask",
    "retry",
    "fail",
    "replace",
    "stop",
    "set",
    "prepend",
    "append",
    "redact",
    "inject",
)
_MATCHING = ("tools", "agents", "models", "users", "channels", "tags", "when")
_SHORT = 4

OTHER_WORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("action", "actions", "decision", "effect", "outcome", "then"), _DOING),
    **dict.fromkeys(("match", "matcher", "matchers", "matches", "filter", "filters"), _MATCHING),
    **dict.fromkeys(("condition", "conditions", "expression", "if", "only_if", "where"), ("when",)),
    **dict.fromkeys(("tool", "tool_name", "tool_names"), ("tools",)),
    **dict.fromkeys(("agent", "agent_names"), ("agents",)),
    **dict.fromkeys(("model", "model_name", "model_names"), ("models",)),
    **dict.fromkeys(("user", "user_id", "user_ids"), ("users",)),
    **dict.fromkeys(("channel", "channel_name"), ("channels",)),
    **dict.fromkeys(("tag", "label", "labels"), ("tags",)),
    **dict.fromkeys(("deny", "forbid", "message", "reason", "refuse", "reject"), ("block",)),
    **dict.fromkeys(("approve", "confirm"), ("ask", "question")),
    **dict.fromkeys(("cmd", "exec", "run", "script", "shell"), ("command",)),
    **dict.fromkeys(("callable", "file", "func", "handler", "import"), ("path",)),
    **dict.fromkeys(("endpoint", "webhook"), ("url", "http")),
    **dict.fromkeys(("disable", "disabled"), ("enabled", "off")),
    **dict.fromkeys(("on", "enable", "active", "live"), ("enforce",)),
    **dict.fromkeys(("dry-run", "dry_run", "dryrun"), ("mode", "shadow")),
    **dict.fromkeys(("audit", "log", "monitor", "warn"), ("shadow", "observe")),
    **dict.fromkeys(("allow", "ignored", "open", "pass", "skip"), ("continue",)),
    **dict.fromkeys(("close", "closed", "fail", "raise", "stop"), ("block",)),
    **dict.fromkeys(("order", "weight"), ("priority",)),
}
"""What is well known elsewhere; where a word is a key and a value here, the place decides."""


def suggest_word(name: str, known: Iterable[str]) -> str:
    """Return which known words were probably meant, or nothing: only close ones count."""
    known = [str(item) for item in known]
    said = [word for word in OTHER_WORDS.get(name.lower(), ()) if word in known]
    if len(said) > 1:
        return f"did you mean one of: {', '.join(said)}?"
    near = said or _nearest_words(name, known)
    return f"did you mean {near[0]!r}?" if near else ""


def _nearest_words(name: str, known: Iterable[str]) -> list[str]:
    most = 1 if len(name) <= _SHORT else 2
    far = [(edit_distance(name.lower(), word, most), word) for word in known]
    near = min(far, key=lambda item: item[0], default=(most + 1, ""))
    return [near[1]] if near[0] <= most else []


def edit_distance(one: str, other: str, most: int) -> int:
    """Count the letters to add, drop, change or swap with their neighbour, up to `most`."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    older: list[int] = []
    old: list[int] = [*range(len(other) + 1)]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(old[j] + 1, row[-1] + 1, old[j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[j] = min(row[j], older[j - 2] + 1)
        older, old = old, row
    return old[-1]
