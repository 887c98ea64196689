"""Fields: what the names in an expression consist of, where that is known before any event."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from checkrail.actions.errors import ActionError
from checkrail.actions.expression_names import (
    ARGUMENTS,
    CALL,
    OTHER_FUNCTIONS,
    TRUTH_FUNCTIONS,
    Call,
    TextCall,
    Token,
    Use,
)
from checkrail.engine.errors import suggestion
from checkrail.engine.points import Contract
from checkrail.engine.values import TextValue, User, Value

_FREE = frozenset({"config", "metadata"})
_TYPES: dict[str, type] = {
    "user": User,
    "attempt": int,
    "iteration": int,
    "timestamp": datetime,
    "new_messages": list,
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
    **dict.fromkeys(("output", "result"), "content"),
}
"""What fields are called elsewhere, on the wire of a tool call among others."""


def kind_of(value: Any) -> str:
    """Return the kind of a value, in the words of the file formats where they have one."""
    if inspect.isroutine(value):
        return "a function"
    named = (name for kind, name in _KINDS.items() if isinstance(value, kind))
    return next(named, f"an object of the class {type(value).__name__}")


def check_uses(text: str, found: Iterable[Use], contracts: Sequence[Contract]) -> None:
    """Refuse what can be seen to fail at every call: a field that no value has, `in` a text."""
    for use in found:
        kinds = _types_of(use.name, contracts)
        if not kinds or use.call:
            continue
        if use.member is not None and use.member not in _all_field_names(kinds):
            _refuse_field(text, use, kinds)
        if use.sought is not None and _is_text(use, kinds):
            what, where = use.sought
            problem = f"the expression {text!r} looks for {what} in {where}, which is a text"
            raise ActionError(problem, in_text(what, where))
        if use.sought is not None:
            _check_sought(text, use, kinds)
        if use.compared is not None:
            _check_compared(text, use, kinds)


def _check_sought(text: str, use: Use, kinds: set[type]) -> None:
    """Refuse to look for a text where only objects are, or for a key that no value has."""
    what, where = use.sought or ("", "")
    if what[:1] not in ("'", '"'):
        return
    if where == use.name and all(issubclass(kind, Value) for kind in kinds):
        holds = what[1:-1] in _all_field_names(kinds)
    else:
        path = use.name if use.member is None else f"{use.name}.{use.member}"
        types = kinds if use.member is None else _field_types(kinds, use.member)
        holds = path != where or (where != "new_messages" and not all(map(_is_of_objects, types)))
    if not holds:
        problem = f"the expression {text!r} looks for {what} in {where}, which never holds it"
        raise ActionError(
            problem, f"To search all text in it, write text({where}).contains({what})"
        )


def _is_of_objects(kind: Any) -> bool:
    """Return whether a type is a list of objects."""
    items = get_args(kind) if get_origin(kind) in (Sequence, list, tuple) else ()
    types = {get_origin(item) or item for item in items}
    return bool(types) and all(issubclass(item, (Mapping, Value)) for item in types)


def check_calls(text: str, found: Iterable[Call]) -> None:
    """Refuse calls that fail each time, and to compare true or false with anything else."""
    for call in found:
        least, most = ARGUMENTS.get(call.function, (0, call.arguments))
        if not least <= call.arguments <= most:
            many = f"{least}" if least == most else f"{least} to {most}"
            problem = (
                f"the expression {text!r} calls {call.function} with {call.arguments} arguments"
            )
            raise ActionError(problem, f"It takes {many}")
        if call.function in TRUTH_FUNCTIONS and call.compared not in (None, "true", "false"):
            problem = f"the expression {text!r} compares {call.function}(…) with {call.compared}"
            raise ActionError(
                f"{problem}, which it never is", "It is true or false: leave the rest out"
            )


def check_condition(
    text: str, operand: tuple[Token, tuple[str, ...]] | None, contracts: Sequence[Contract]
) -> None:
    """Refuse what is never true or false, such as a text without anything it is compared with."""
    if operand is None:
        return
    first, steps = operand
    types: set[Any] = set()
    if first.kind != "name":
        types = _literal_types(first.text)
    elif steps == (CALL,):
        types = {str} if first.text in OTHER_FUNCTIONS else set()
    elif first.text not in ("true", "false", "null") and len(steps) < 2:
        kinds = _types_of(first.text, contracts)
        is_value = all(issubclass(kind, Value) for kind in kinds)
        types = kinds if not steps else _field_types(kinds, steps[0]) if is_value else set()
    if types and not types & {Any, object, bool}:
        problem = f"the expression {text!r} is no condition: it is never true or false"
        raise ActionError(problem, "Compare it with something, as in x == 1 or size(x) > 0")


def _check_compared(text: str, use: Use, kinds: set[type]) -> None:
    """Refuse to compare what can never be equal to, or less than, what it is compared with."""
    where = use.name if use.member is None else f"{use.name}.{use.member}"
    types = kinds if use.member is None else _field_types(kinds, use.member)
    wanted = _literal_types(str(use.compared))
    if types & {Any, object, *wanted}:
        return
    problem = f"the expression {text!r} compares {where} with {use.compared}, which it never is"
    if names := _all_field_names(kind for kind in types if kind is User):
        raise ActionError(problem, f"Compare one of its fields: {', '.join(names)}")
    kinds_by_type = {**_KINDS, Sequence: "a list"}
    known = {kinds_by_type.get(get_origin(kind) or kind, "an object") for kind in types}
    raise ActionError(problem, f"It is {' or '.join(sorted(known))}")


def _literal_types(literal: str) -> set[type]:
    if literal in ("true", "false"):
        return {bool}
    return {int, float} if literal[0].isdigit() else {str}


def in_text(what: str, where: str) -> str:
    """Return how to look for something in a text."""
    return f"`in` is for lists and keys: of a text, write {where}.contains({what})"


def _types_of(name: str, contracts: Sequence[Contract]) -> set[type]:
    """Return the types that a name can have at these points; none where any data may stand."""
    if name in _FREE:
        return set()
    if name in _TYPES:
        return {_TYPES[name]}
    whole = name in ("value", "original")
    kinds = {item.value for item in contracts if whole or item.wire == name}
    return set() if object in kinds else kinds or {str}  # the rest are ids and other names


def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a value that an expression can read."""
    own: tuple[str, ...] = kind.__slots__ if issubclass(kind, Value) else ()
    return (*own, "text") if issubclass(kind, TextValue) else own


def _all_field_names(kinds: Iterable[type]) -> list[str]:
    return list(dict.fromkeys(name for kind in kinds for name in field_names(kind)))


def _is_text(use: Use, kinds: set[type]) -> bool:
    where = use.sought[1] if use.sought else ""
    if where == use.name:
        return kinds == {str}
    return where == f"{use.name}.{use.member}" and _field_types(kinds, str(use.member)) == {str}


def _field_types(kinds: Iterable[type], member: str) -> set[Any]:
    """Return the types that a field can have, apart from None."""
    hints: set[Any] = set()
    for kind in kinds:
        hint = str if member == "text" else get_type_hints(kind).get(member, Any)
        hints |= {*get_args(hint)} if get_origin(hint) in (Union, UnionType) else {hint}
    return hints - {type(None)}


_DATA = frozenset({"args", "arguments", "content", "input", "output", "parameters"})
"""Fields and values whose shape is up to a model, a tool or a caller."""

Advice = tuple[str, str]
"""What was found, and what to do about it."""


def check_text_calls(
    text: str, found: Iterable[TextCall], contracts: Sequence[Contract]
) -> tuple[Advice, ...]:
    """Refuse text functions on what is never a text; return advice on what may be none."""
    advice: list[Advice] = []
    for call in found:
        types = _receiver_types(call, contracts)
        if not types & {Any, object, str}:
            problem = f"the expression {text!r} calls {call.function} on {call.receiver}"
            remedy = f"Write {_text_call(call)}; for an item or a key, x in {call.receiver}"
            raise ActionError(f"{problem}, which is never a text", remedy)
        is_data = bool(_DATA & {*call.steps}) or (call.name in _DATA and not call.own)
        if is_data and types != {str} and f"type({call.receiver})" not in text:
            told = f"`when` searches {call.receiver} as a text: where it is none, the hook fails"
            advice.append((told, f"write {_text_call(call)}, which searches all text in it"))
    return tuple(dict.fromkeys(advice))


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


def _receiver_types(call: TextCall, contracts: Sequence[Contract]) -> set[Any]:
    """Return the types that what a function is called on can have; Any where it is not known."""
    if not call.steps and call.receiver.startswith(("[", "{")):
        return {list}
    kinds = set() if call.own or call.name is None else _types_of(call.name, contracts)
    if kinds and not call.steps:
        return kinds
    if len(call.steps) == 1 and all(issubclass(kind, Value) for kind in kinds):
        return _field_types(kinds, call.steps[0]) or {Any}
    return {str} if call.steps[-1:] in ((CALL,), ("text",)) else {Any}


def _text_call(call: TextCall) -> str:
    """Return how to search all text of what a text function was called on."""
    if call.steps[-1:] == ("content",) and call.receiver.endswith(".content"):
        return f"{call.receiver.removesuffix('.content')}.text.{call.function}(…)"
    return f"text({call.receiver}).{call.function}(…)"


def _refuse_field(text: str, use: Use, kinds: set[type]) -> NoReturn:
    at = f"at line {use.line}, column {use.column}"
    problem = f"the expression {text!r} reads {use.member!r} of {use.name} {at}"
    known = _all_field_names(kinds)
    if not known:
        (kind,) = kinds
        raise ActionError(f"{problem}, which is {_KINDS[kind]} and has no fields", "Leave it out")
    other = _SAID_OTHERWISE.get(str(use.member))
    near = f" (did you mean {other!r}?)" if other in known else suggestion(str(use.member), known)
    remedy = f"Fields of {use.name} are: {', '.join(known)}"
    raise ActionError(f"{problem}, which has no such field{near}", remedy)
