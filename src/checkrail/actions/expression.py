"""Conditions as text: `when: tool_call.args.amount > 1000`, in CEL.

The language is the Common Expression Language, see https://cel.dev. Its package is imported when
the first expression is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from checkrail.actions.errors import ActionError
from checkrail.actions.fields import check_uses, in_text, kind_of
from checkrail.actions.identifiers import Use, tokens, uses
from checkrail.actions.wire import on_wire
from checkrail.engine.errors import suggestion
from checkrail.engine.event import Event
from checkrail.engine.points import CONTRACTS, Contract, places
from checkrail.engine.values import Value, plain

if TYPE_CHECKING:
    import cel

EVENT_NAMES = (
    "point",
    "value",
    "original",
    "config",
    "attempt",
    "iteration",
    "metadata",
    "user",
    "model",
    "provider",
    "timestamp",
    "session_id",
    "thread_id",
    "run_id",
    "parent_run_id",
    "agent_name",
    "assistant_id",
    "request_id",
    "tool_call_id",
)
SENDER_NAMES = ("channel", "user_id")
"""Fields of a message or session that read well without its name in front."""

_NATIVE = (
    *("bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),
    *("contains", "endsWith", "has", "matches", "size", "startsWith"),
    *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours"),
    *("getMilliseconds", "getMinutes", "getMonth", "getSeconds"),
    *("hasValue", "none", "of", "ofNonZeroValue", "or", "orValue", "value"),
)
"""The functions of the language itself; the package does not list them."""

_SAID_OTHERWISE = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "=": "==",
    "True": "true",
    "False": "false",
    "None": "null",
}
_GUARD = "Guard what may be absent, as in has(x.y) && x.y > 1 or x != null"
_NO_FUNCTION = "Undefined variable or function: "
_SYNTAX = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)")


class Expression:
    """A compiled condition; call it with an event."""

    __slots__ = ("_binders", "_functions", "_program", "text")

    def __init__(
        self,
        text: str,
        program: cel.Program,
        binders: Mapping[str, Callable[[Event[Any]], Any]],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.text = text
        self._program = program
        self._binders = dict(binders)
        self._functions = dict(functions)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __call__(self, event: Event[Any]) -> bool:
        """Say whether the condition holds."""
        names = {name: bind(event) for name, bind in self._binders.items()}
        try:
            known = _cel().Context(names, self._functions) if self._functions else names
            answer = self._program.execute(known)
        except Exception as error:
            raise _failed(self.text, event, names, error) from error
        if answer is True or answer is False:
            return answer
        problem = f"the expression {self.text!r} gave {kind_of(answer)}, not true or false"
        raise ActionError(problem, "Compare it with something, as in x == 1 or size(x) > 0")


def compile_expression(text: str, points: Iterable[str] = ()) -> Callable[[Event[Any]], bool]:
    """Compile a condition, or refuse it; only the names that it uses are made for each event.

    With `points` given, a name that exists at none of them is refused too.
    """
    program = _parsed(text)
    found = list(uses(text))
    from cel.stdlib import STDLIB_FUNCTIONS

    called = _namespaced(found, STDLIB_FUNCTIONS)
    plain_calls = set(program.functions()) - {name.rpartition(".")[2] for name in called}
    for name in sorted(plain_calls):
        _check_function(text, name, STDLIB_FUNCTIONS)
    called |= plain_calls & STDLIB_FUNCTIONS.keys()
    contracts = _contracts(points)
    known = _names_at(contracts)
    read = _read_names(text, program.variables(), found, known)
    check_uses(text, [use for use in found if use.name in read], contracts)
    binders = {name: _binder(name, members) for name, members in read.items()}
    return Expression(text, program, binders, {name: STDLIB_FUNCTIONS[name] for name in called})


def _cel() -> Any:
    try:
        import cel
    except ImportError as error:
        problem = "expressions need the package common-expression-language, which is not installed"
        raise ActionError(problem, 'Run: pip install "checkrail[config]"') from error
    return cel


def _parsed(text: str) -> cel.Program:
    try:
        return _cel().compile(text)  # type: ignore[no-any-return]
    except TypeError:
        problem = f"an expression is a text, not {kind_of(text)}"
        raise ActionError(problem, "Put it in quotes") from None
    except ValueError as error:
        found = _SYNTAX.search(str(error))
        where, what = "", "it cannot be read"
        if found:
            line, column, message = found.groups()
            where, what = f" at line {line}, column {column}", message.partition(" expecting {")[0]
        problem = f"the expression {text!r} is wrong{where}: {what}"
        raise ActionError(problem, _remedy(text)) from None


def _remedy(text: str) -> str:
    for token in tokens(text):
        if token.text in ("'", '"'):
            return "A quote is opened and not closed"
        if token.text in _SAID_OTHERWISE:
            return f"In CEL, write {_SAID_OTHERWISE[token.text]} instead of {token.text}"
    return "Expressions are written in CEL, as in: tool_call.args.amount > 1000"


def _namespaced(found: Iterable[Use], known: Mapping[str, Any]) -> set[str]:
    """Find the functions that are called with their library's name, as in `math.abs(x)`."""
    named = {f"{use.name}.{use.member}" for use in found if use.call}
    return named & known.keys()


def _check_function(text: str, name: str, library: Mapping[str, Any]) -> None:
    if not name.isidentifier() or name in _NATIVE or name in library:
        return
    known = [*_NATIVE, *library]
    problem = f"the expression {text!r} calls {name!r}, which does not exist"
    raise ActionError(f"{problem}{suggestion(name, known)}", f"There are: {_listed(known)}")


def _contracts(points: Iterable[str]) -> list[Contract]:
    found = [CONTRACTS[place.point] for name in points for place in places(name)]
    return found or list(CONTRACTS.values())


def _names_at(contracts: Iterable[Contract]) -> dict[str, bool]:
    """Give the names that exist, and whether each exists at one of these points."""
    contracts = [*contracts]
    here = {contract.wire for contract in contracts}
    here |= {
        name
        for item in contracts
        for name in SENDER_NAMES
        if name in getattr(item.value, "__slots__", ())
    }
    others = [*(contract.wire for contract in CONTRACTS.values()), *SENDER_NAMES]
    return dict.fromkeys(EVENT_NAMES, True) | {name: name in here for name in others}


def _read_names(
    text: str,
    variables: Iterable[str],
    found: list[Use],
    known: Mapping[str, bool],
) -> dict[str, set[str] | None]:
    """Give the names to be made, each with the fields that are read of it; None for all."""
    read: dict[str, set[str] | None] = {}
    named = set(variables)
    for name in sorted(named):
        if name.startswith("."):
            problem = f"the expression {text!r} has a name with a dot in front, {name!r}"
            raise ActionError(problem, "Leave the dot out")
    for use in found:
        if use.name not in named or _is_language(use):
            continue
        if not known.get(use.name):
            _refuse_name(text, use, known)
        if use.member is None or use.call:
            read[use.name] = None
        elif (members := read.setdefault(use.name, set())) is not None:
            members.add(use.member)
    return read


def _is_language(use: Use) -> bool:
    """Say whether a name is CEL's own: a type, or a library in front of its function."""
    if use.call and use.name in ("base64", "lists", "math", "optional", "sets", "strings"):
        return True
    try:
        _cel().compile(use.name).execute({})
    except RuntimeError:
        return False
    return True


def _refuse_name(text: str, use: Use, known: Mapping[str, bool]) -> None:
    here = sorted(name for name, exists in known.items() if exists)
    where = f"line {use.line}, column {use.column}"
    if use.name in _SAID_OTHERWISE:
        near = f" (did you mean {_SAID_OTHERWISE[use.name]!r}?)"
    else:
        near = suggestion(use.name, here)
    not_here = " at these points" if use.name in known else ""
    problem = (
        f"the expression {text!r} uses {use.name!r} at {where}, which does not exist{not_here}"
    )
    raise ActionError(f"{problem}{near}", f"Names are: {_listed(here)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _binder(name: str, members: set[str] | None) -> Callable[[Event[Any]], Any]:
    """Give what makes a name's value from an event, and no more of it than is read."""
    if name == "point":
        return lambda event: str(event.point)
    if name == "timestamp":
        return lambda event: datetime.fromtimestamp(event.timestamp, UTC)
    if name in EVENT_NAMES:
        return lambda event: _part(getattr(event, name), members)
    if name in SENDER_NAMES:
        return lambda event: plain(getattr(event.value, name, None))

    def wired(event: Event[Any]) -> Any:
        contract = CONTRACTS[event.point]
        return _part(on_wire(contract, event.value), members) if contract.wire == name else None

    return wired


def _part(value: Any, members: set[str] | None) -> Any:
    if members is None:
        return plain(value)
    if isinstance(value, Value):
        return {name: plain(getattr(value, name)) for name in members if name in value.__slots__}
    if isinstance(value, Mapping):
        return {name: plain(value[name]) for name in members if name in value}
    return plain(value)


def _failed(
    text: str, event: Event[Any], names: Mapping[str, Any], error: Exception
) -> ActionError:
    what = str(error).partition(": the operation is not defined")[0].partition(". Check")[0]
    if isinstance(error, KeyError):
        what = f"there is no key {error}"
    elif what.startswith(_NO_FUNCTION):  # it was known when it was compiled
        what = f"{what.removeprefix(_NO_FUNCTION)} is not for what it was given"
    problem = f"the expression {text!r} could not be evaluated at {event.point}: {what}"
    return ActionError(problem, _sought_in_text(text, names) or _GUARD)


def _sought_in_text(text: str, names: Mapping[str, Any]) -> str:
    for use in uses(text):
        if use.sought is not None:
            what, where = use.sought
            with suppress(Exception):  # what cannot be read is not what went wrong here
                if isinstance(_cel().compile(where).execute(dict(names)), str):
                    return in_text(what, where)
    return ""
