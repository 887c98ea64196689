"""Fields: what the names in an expression consist of, where that is known before any event."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from checkrail.actions.expression_names import (
    Use,
)
from checkrail.engine.values import TextValue, Value

_KINDS: dict[type, str] = {
    bool: "true or false",
    str: "a text",
    int: "a number",
    float: "a number",
    datetime: "a time",
    list: "a list",
    tuple: "a list",
    Mapping: "a mapping",
    type(None): "nothing",
    type: "a class",
}


def kind_of(value: Any) -> str:
    """Return the kind of a value, in the words of the file formats where they have one."""
    if inspect.isroutine(value):
        return "a function"
    named = (name for kind, name in _KINDS.items() if isinstance(value, kind))
    return next(named, f"an object of the class {type(value).__name__}")


def in_text(what: str, where: str) -> str:
    """Return how to look for something in a text."""
    return f"`in` is for lists and keys: of a text, write {where}.contains({what})"


def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a value that an expression can read."""
    own: tuple[str, ...] = kind.__slots__ if issubclass(kind, Value) else ()
    return (*own, "text") if issubclass(kind, TextValue) else own


Advice = tuple[str, str]
"""What was found, and what to do about it."""


def find_membership_advice(text: str, found: Iterable[Use]) -> tuple[Advice, ...]:
    """Return advice on `'x' in message.content`: texts refuse it, and no part is ever that text."""
    advice: list[Advice] = []
    for what, where in dict.fromkeys(use.sought for use in found if use.sought is not None):
        is_text = what.startswith(("'", '"')) and f"type({where})" not in text
        if is_text and where.endswith(".content"):
            told = f"`when` looks for {what} in {where}: a text fails it, and parts never hold it"
            holder = where.removesuffix(".content")
            advice.append((told, f"write {holder}.text.contains({what})"))
    return tuple(advice)
