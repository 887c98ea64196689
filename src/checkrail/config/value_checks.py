"""Kinds of values in a file: what fits, and how a message says what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.config.problems import Report, Where, describe_value
from checkrail.engine.hook import FAILURE_KINDS

Check = Callable[[Any, Where, Report], bool]
"""Says whether a value fits its place, and reports it if not."""

Schema = Mapping[str, Any]
"""What a check says in the words of JSON Schema, which may let more pass than the check does."""

_REFERENCE = re.compile(r"[^\s:]+:[\w.]+|[^\s:]+\.py")


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """A check of a value that either fits as a whole or does not."""

    expected: str
    fits: Callable[[Any], bool]
    schema: Schema = field(default_factory=dict)

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report a value that does not fit."""
        if self.fits(value):
            return True
        report.add(where, f"found {describe_value(value)}", self.expected)
        return False


@dataclass(frozen=True, slots=True)
class WordCheck:
    """A check for one of a few words."""

    words: tuple[str, ...]
    older: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The words, for editors."""
        current = {"enum": [str(word) for word in self.words]}
        if not self.older:
            return current
        return {"anyOf": [current, {"enum": [*self.older], "deprecated": True}]}

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report a word that is none of them, with the one that was probably meant."""
        if isinstance(value, str) and value in (*self.words, *self.older):
            return True
        if isinstance(value, str):
            report.add_unknown(where, "word", value, self.words)
        else:
            expected = f"one of: {', '.join(self.words)}"
            report.add(where, f"found {describe_value(value)}", expected)
        return False


@dataclass(frozen=True, slots=True)
class ListCheck:
    """A check of a list whose members are all of one kind; with `or_one`, also a single member."""

    member: Check
    expected: str
    or_one: bool = False
    most: int | None = None

    @property
    def schema(self) -> Schema:
        """The list, for editors."""
        member = find_schema(self.member)
        many: dict[str, Any] = {"type": "array", "items": member}
        if self.most is not None:
            many["maxItems"] = self.most
        return {"anyOf": [member, many]} if self.or_one else many

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report every member that does not fit."""
        if self.or_one and isinstance(value, str):
            return self.member(value, where, report)
        if not isinstance(value, list):
            report.add(where, f"found {describe_value(value)}", self.expected)
            return False
        if self.most is not None and len(value) > self.most:
            report.add(where, f"a list of {len(value)}", f"{self.most} at most")
            return False
        fits = [self.member(item, (*where, n), report) for n, item in enumerate(value)]
        return all(fits)


def find_schema(check: Check) -> Schema:
    """Return the JSON Schema of a check; an empty one where it has none."""
    schema: Schema = getattr(check, "schema", None) or _OF_FUNCTIONS.get(check, {})
    expected = getattr(check, "expected", "")
    return {"description": expected, **schema} if expected else schema


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TEXT: Schema = {"type": "string", "pattern": r"\S"}
MORE_THAN_0: Schema = {"type": "number", "exclusiveMinimum": 0}

text = ValueCheck("a text", lambda value: isinstance(value, str) and bool(value.strip()), TEXT)
flag = ValueCheck("true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
seconds = ValueCheck(
    "seconds, a number more than 0", lambda value: _is_number(value) and value > 0, MORE_THAN_0
)
whole = ValueCheck("a whole number", _is_whole, {"type": "integer"})
count = ValueCheck(
    "a whole number, 0 or more",
    lambda value: _is_whole(value) and value >= 0,
    {"type": "integer", "minimum": 0},
)
something = ValueCheck("something", lambda value: value is not None)
mapping = ValueCheck("a mapping", lambda value: isinstance(value, dict), {"type": "object"})
patterns = ListCheck(text, "a pattern or a list of patterns", or_one=True)
texts = ListCheck(text, "a list of texts")
command = ListCheck(text, "a program and its arguments, as a list")
behaviour = WordCheck(("continue", "block"), older=("ignore",))


def check_secret(value: Any, where: Where, report: Report) -> bool:
    """Accept a text, and keep its value out of all messages."""
    if isinstance(value, str) and value.strip():
        return True
    report.add(where, "found something else", "a text, such as ${NAME}")
    return False


def check_secrets(value: Any, where: Where, report: Report) -> bool:
    """Accept a mapping of texts, and keep their values out of all messages."""
    if not mapping(value, where, report):
        return False
    fits = [check_secret(item, (*where, key), report) for key, item in value.items()]
    return all(fits)


def accept_any(_value: Any, _where: Where, _report: Report) -> bool:
    """Accept everything; another reader checks it."""
    return True


def check_on_error(value: Any, where: Where, report: Report) -> bool:
    """Check the failure policy, for all failures or by kind."""
    if not isinstance(value, dict):
        return behaviour(value, where, report)
    fits = True
    for kind, what in value.items():
        if kind not in FAILURE_KINDS:
            report.add_unknown((*where, kind), "kind of failure", kind, FAILURE_KINDS)
            fits = False
        else:
            fits &= behaviour(what, (*where, kind), report)
    return fits


_OF_FUNCTIONS: Mapping[Check, Schema] = {
    check_secret: TEXT,
    check_secrets: {"type": "object", "additionalProperties": TEXT},
    check_on_error: {
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


def describe_hook_form(given: Any) -> str:
    """Return how a hook is written, for somebody who wrote something else."""
    if is_reference(given):
        return f"write {{path: {given}}}"
    return "a hook is a mapping, such as {path: ./file.py:function} or {block: the reason}"


def read_members(
    given: Any,
    keys: Mapping[str, Check],
    where: Where,
    report: Report,
    *,
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the members of a mapping that are known and valid; report all others.

    `also` are keys that are right in the file, and read elsewhere.
    """
    if given is None:
        return {}
    if not isinstance(given, dict):
        report.add(where, f"found {describe_value(given)}", "a mapping")
        return {}
    found = {}
    for key, value in given.items():
        if key not in keys:
            report.add_unknown((*where, key), "key", key, keys, also)
        elif keys[key](value, (*where, key), report):
            found[key] = value
    return found
