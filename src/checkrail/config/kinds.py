"""Kinds of values in a file: what fits, and how a message says what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.config.problems import Report, Where, described
from checkrail.engine.hook import FAILURE_KINDS

Check = Callable[[Any, Where, Report], bool]
"""Says whether a value fits its place, and reports it if not."""

Schema = Mapping[str, Any]
"""What a check says in the words of JSON Schema, which may let more pass than the check does."""

_REFERENCE = re.compile(r"[^\s:]+:[\w.]+|[^\s:]+\.py")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value that either fits as a whole or does not."""

    expected: str
    fits: Callable[[Any], bool]
    schema: Schema = field(default_factory=dict)

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report a value that does not fit."""
        if self.fits(value):
            return True
        report.add(where, f"found {described(value)}", self.expected)
        return False


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        """The words, for editors."""
        return {"enum": [str(word) for word in self.words]}

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report a word that is none of them, with the one that was probably meant."""
        if isinstance(value, str) and value not in self.words:
            report.unknown(where, "word", value, self.words)
        elif not isinstance(value, str):
            expected = f"one of: {', '.join(self.words)}"
            report.add(where, f"found {described(value)}", expected)
        return value in self.words if isinstance(value, str) else False


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose members are all of one kind; with `or_one`, also a single member."""

    member: Check
    expected: str
    or_one: bool = False
    most: int | None = None

    @property
    def schema(self) -> Schema:
        """The list, for editors."""
        member = schema_of(self.member)
        many: dict[str, Any] = {"type": "array", "items": member}
        if self.most is not None:
            many["maxItems"] = self.most
        return {"anyOf": [member, many]} if self.or_one else many

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report every member that does not fit."""
        if self.or_one and isinstance(value, str):
            return self.member(value, where, report)
        if not isinstance(value, list):
            report.add(where, f"found {described(value)}", self.expected)
            return False
        if self.most is not None and len(value) > self.most:
            report.add(where, f"a list of {len(value)}", f"{self.most} at most")
            return False
        fits = [self.member(item, (*where, n), report) for n, item in enumerate(value)]
        return all(fits)


def schema_of(check: Check) -> Schema:
    """Return what a check says in the words of JSON Schema; nothing where it says none."""
    schema: Schema = getattr(check, "schema", None) or _OF_FUNCTIONS.get(check, {})
    expected = getattr(check, "expected", "")
    return {"description": expected, **schema} if expected else schema


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TEXT: Schema = {"type": "string", "pattern": r"\S"}
MORE_THAN_0: Schema = {"type": "number", "exclusiveMinimum": 0}

text = Kind("a text", lambda value: isinstance(value, str) and bool(value.strip()), TEXT)
flag = Kind("true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
seconds = Kind(
    "seconds, a number more than 0", lambda value: _is_number(value) and value > 0, MORE_THAN_0
)
whole = Kind("a whole number", _is_whole, {"type": "integer"})
count = Kind(
    "a whole number, 0 or more",
    lambda value: _is_whole(value) and value >= 0,
    {"type": "integer", "minimum": 0},
)
something = Kind("something", lambda value: value is not None)
mapping = Kind("a mapping", lambda value: isinstance(value, dict), {"type": "object"})
patterns = ListOf(text, "a pattern or a list of patterns", or_one=True)
texts = ListOf(text, "a list of texts")
command = ListOf(text, "a program and its arguments, as a list")
behaviour = Choice(("continue", "block", "ignore"))


def secret(value: Any, where: Where, report: Report) -> bool:
    """Let a text pass; what stands in its place is told to nobody."""
    if isinstance(value, str) and value.strip():
        return True
    report.add(where, "found something else", "a text, such as ${NAME}")
    return False


def secrets(value: Any, where: Where, report: Report) -> bool:
    """Let a mapping of texts pass; what its texts are is told to nobody."""
    if not mapping(value, where, report):
        return False
    fits = [secret(item, (*where, key), report) for key, item in value.items()]
    return all(fits)


def anything(_value: Any, _where: Where, _report: Report) -> bool:
    """Let everything pass; somebody else knows more about it."""
    return True


def on_error(value: Any, where: Where, report: Report) -> bool:
    """Check what is to happen on failures, in all or by kind."""
    if not isinstance(value, dict):
        return behaviour(value, where, report)
    fits = True
    for kind, what in value.items():
        if kind not in FAILURE_KINDS:
            report.unknown((*where, kind), "kind of failure", kind, FAILURE_KINDS)
            fits = False
        else:
            fits &= behaviour(what, (*where, kind), report)
    return fits


_OF_FUNCTIONS: Mapping[Check, Schema] = {
    secret: TEXT,
    secrets: {"type": "object", "additionalProperties": TEXT},
    on_error: {
        "anyOf": [
            behaviour.schema,
            {
                "type": "object",
                "properties": dict.fromkeys(FAILURE_KINDS, behaviour.schema),
                "additionalProperties": False,
            },
        ]
    },
}
"""What checks that are functions say to editors."""


def is_reference(value: Any) -> bool:
    """Return whether a value looks like `./file.py:name` or `package.module:name`."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def hook_form(given: Any) -> str:
    """Return how a hook is written, to somebody who wrote something else."""
    if is_reference(given):
        return f"write {{path: {given}}}"
    return "a hook is a mapping, such as {path: ./file.py:function} or {block: the reason}"


def fitting(
    given: Any,
    keys: Mapping[str, Check],
    where: Where,
    report: Report,
    *,
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the members of a mapping that are known and fit; report all others.

    `also` are keys that are right in the file, and read elsewhere.
    """
    if given is None:
        return {}
    if not isinstance(given, dict):
        report.add(where, f"found {described(given)}", "a mapping")
        return {}
    found = {}
    for key, value in given.items():
        if key not in keys:
            report.unknown((*where, key), "key", key, keys, also)
        elif keys[key](value, (*where, key), report):
            found[key] = value
    return found
