"""Fields: what the names in an expression consist of, where that is known before any event."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, get_type_hints

from checkrail.actions.errors import ActionError
from checkrail.actions.identifiers import Use
from checkrail.engine.errors import suggestion
from checkrail.engine.points import Contract
from checkrail.engine.values import User, Value

_FREE = frozenset({"config", "metadata"})
_TYPES: dict[str, type] = {
    "user": User,
    "attempt": int,
    "iteration": int,
    "timestamp": datetime,
    "content": str,
}
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
_SAID_OTHERWISE = {
    **dict.fromkeys(("tool", "tool_name", "function"), "name"),
    **dict.fromkeys(("arguments", "input", "parameters", "params"), "args"),
    **dict.fromkeys(("id", "name", "user_id"), "identity"),
    **dict.fromkeys(("output", "result", "text"), "content"),
}
"""What fields are called elsewhere, on the wire of a tool call among others."""


def kind_of(value: Any) -> str:
    """Name the kind of a value, in the words of the file formats where they have one."""
    if inspect.isroutine(value):
        return "a function"
    named = (name for kind, name in _KINDS.items() if isinstance(value, kind))
    return next(named, f"an object of the class {type(value).__name__}")


def check_uses(text: str, found: Iterable[Use], contracts: Sequence[Contract]) -> None:
    """Refuse what can be seen to fail at every call: a field that no value has, `in` a text."""
    for use in found:
        kinds = _kinds(use.name, contracts)
        if not kinds or use.call:
            continue
        if use.member is not None and use.member not in _fields(kinds):
            _refuse_field(text, use, kinds)
        if use.sought is not None and _is_text(use, kinds):
            what, where = use.sought
            problem = f"the expression {text!r} looks for {what} in {where}, which is a text"
            raise ActionError(problem, in_text(what, where))


def in_text(what: str, where: str) -> str:
    """Say how to look for something in a text."""
    return f"`in` is for lists and keys: of a text, write {where}.contains({what})"


def _kinds(name: str, contracts: Sequence[Contract]) -> set[type]:
    """Give the types that a name can have at these points; none where any data may stand."""
    if name in _FREE:
        return set()
    if name in _TYPES:
        return {_TYPES[name]}
    whole = name in ("value", "original")
    kinds = {item.value for item in contracts if whole or item.wire == name}
    return set() if object in kinds else kinds or {str}  # the rest are ids and other names


def _fields(kinds: Iterable[type]) -> list[str]:
    known = (kind.__slots__ for kind in kinds if issubclass(kind, Value))
    return list(dict.fromkeys(name for names in known for name in names))


def _is_text(use: Use, kinds: Iterable[type]) -> bool:
    where = use.sought[1] if use.sought else ""
    if where == use.name:
        return {*kinds} == {str}
    if where != f"{use.name}.{use.member}":
        return False
    hints = [get_type_hints(kind).get(use.member or "") for kind in kinds]
    return all(hint in (str, str | None) for hint in hints)


def _refuse_field(text: str, use: Use, kinds: set[type]) -> NoReturn:
    at = f"at line {use.line}, column {use.column}"
    problem = f"the expression {text!r} reads {use.member!r} of {use.name} {at}"
    known = _fields(kinds)
    if not known:
        (kind,) = kinds
        raise ActionError(f"{problem}, which is {_KINDS[kind]} and has no fields", "Leave it out")
    other = _SAID_OTHERWISE.get(str(use.member))
    near = f" (did you mean {other!r}?)" if other in known else suggestion(str(use.member), known)
    remedy = f"Fields of {use.name} are: {', '.join(known)}"
    raise ActionError(f"{problem}, which has no such field{near}", remedy)
