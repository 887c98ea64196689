"""Conditions as text: `when: tool_call.args.amount > 1000`, in CEL.

The language is the Common Expression Language, see https://cel.dev. Its package is imported when
the first expression is compiled.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any

from checkrail.actions.errors import ActionError
from checkrail.actions.expression_check import check_types
from checkrail.actions.expression_fields import (
    Advice,
    field_names,
    find_membership_advice,
    in_text,
    kind_of,
)
from checkrail.actions.expression_limits import (
    FOR_TEXT,
    InputBudget,
    Meter,
    MisfitError,
    check_shape,
    check_text,
    literal_patterns,
    weight_of,
    with_guards,
    with_limits,
)
from checkrail.actions.expression_names import (
    LIBRARIES,
    TEXT_FUNCTIONS,
    Token,
    Use,
    find_uses,
    tokenize_expression,
)
from checkrail.actions.wire import wire_value
from checkrail.engine.errors import suggestion
from checkrail.engine.event import Event
from checkrail.engine.points import CONTRACTS, Contract, find_places
from checkrail.engine.text import text_of
from checkrail.engine.values import ModelRequest, Value
from checkrail.regex import PatternError, compile_pattern
from checkrail.turns import run_in_turn

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
    "new_messages",
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

_METHODS = ("contains", "endsWith", "matches", "startsWith")

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
Binder = Callable[[Event[Any], InputBudget], Any]
"""Makes the value of a name from an event."""

_SYNTAX = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)")


class Expression:
    """A compiled condition; call it with an event.

    `advice` says what in it is no mistake, but hardly what was meant.
    """

    __slots__ = (
        *("_binders", "_functions", "_limited", "_program", "_texts", "_weight"),
        *("advice", "text"),
    )

    def __init__(
        self,
        text: str,
        program: cel.Program,
        binders: Mapping[str, Binder],
        functions: Mapping[str, Callable[..., Any]],
        *,
        weight: int,
        limited: bool,
        texts: bool,
        advice: tuple[Advice, ...],
    ) -> None:
        self.text = text
        self.advice = advice
        self._program = program
        self._binders = dict(binders)
        self._functions = dict(functions)
        self._weight = weight
        self._texts = texts
        self._limited = limited or bool(functions)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __call__(self, event: Event[Any]) -> bool | Awaitable[bool]:
        """Say whether the condition holds; what took long is told after others had their turn."""
        return run_in_turn(lambda: self._evaluate(event))

    def _evaluate(self, event: Event[Any]) -> bool:
        names = self._bind_names(event)
        meter = Meter() if self._limited else None
        try:
            known = names
            if meter is not None:
                known = _import_cel().Context(names, meter.build_functions(self._functions))
            answer = self._program.execute(known)
        except Exception as error:
            if meter is not None and meter.problem is not None:
                raise _limit_error(self.text, event, meter.problem) from None
            raise _evaluation_error(self.text, event, names, error) from error
        if meter is not None and meter.problem is not None:
            raise _limit_error(self.text, event, meter.problem)
        if answer is True or answer is False:
            return answer
        problem = f"the expression {self.text!r} gave {kind_of(answer)}, not true or false"
        remedy = "Compare it with something, as in x == 1 or size(x) > 0"
        raise ActionError(problem, remedy, public="its condition is neither true nor false")

    def _bind_names(self, event: Event[Any]) -> dict[str, Any]:
        room = InputBudget(self._weight, texts=self._texts)
        try:
            return {name: bind(event, room) for name, bind in self._binders.items()}
        except ActionError as error:
            raise _limit_error(self.text, event, error) from None


def compile_expression(text: str, points: Iterable[str] = ()) -> Expression:
    """Compile a condition, or refuse it; only the names that it uses are made for each event.

    With `points` given, a name that exists at none of them is refused too.
    """
    check_text(text)
    program = _compile_text(text)
    words = tokenize_expression(text)
    check_shape(text, words)
    _check_methods(text, words)
    _check_patterns(text, words)
    found = list(find_uses(text))
    library = _load_functions()
    called = _namespaced_functions(found, library)
    plain_calls = set(program.functions()) - {name.rpartition(".")[2] for name in called}
    for name in sorted(plain_calls):
        _check_function(text, name, library)
    called |= plain_calls & library.keys()
    contracts = _contracts_of(points)
    known = _names_at(contracts)
    read = _read_names(text, program.variables(), found, known, contracts)
    advice = check_types(text, read, contracts) + find_membership_advice(text, found)
    guarded = with_guards(text, words)
    guarded_words = tokenize_expression(guarded)
    written = with_limits(guarded, guarded_words)
    return Expression(
        text,
        program if written == text else _compile_text(written),
        {name: _build_binder(name, members) for name, members in read.items()},
        {name: library[name] for name in called},
        weight=weight_of(guarded_words),
        limited=written != guarded,
        texts=any(word.text == "text" for word in words),
        advice=advice,
    )


def _load_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions of the library; `contains` is left to the language, for texts alone."""
    _import_cel()
    from cel.stdlib import STDLIB_FUNCTIONS

    own = {name: call for name, call in STDLIB_FUNCTIONS.items() if name != "contains"}
    return {**own, "text": text_of}


def _check_patterns(text: str, words: list[Token]) -> None:
    """Refuse a pattern that stands in the expression and cannot be one."""
    for literal in literal_patterns(words):
        try:
            compile_pattern(_import_cel().compile(literal).execute({}))
        except PatternError as error:
            problem = f"the expression {text!r} has a pattern that cannot be: {error.problem}"
            raise ActionError(problem, error.remedy) from None


def _import_cel() -> Any:
    try:
        if "cel" not in sys.modules:
            _import_without_command_line()
        import cel
    except ImportError as error:
        problem = "expressions need the package common-expression-language, which is not installed"
        raise ActionError(problem, 'Run: pip install "checkrail[config]"') from error
    return cel


def _import_without_command_line() -> None:
    """Import the language's package, but not its shell, whose own imports take twice as long.

    The package imports `cel.cli` and does nothing with it, so an empty module stands for it
    meanwhile. A version that needs its shell is imported again by the caller, as it is.
    """
    shell = ModuleType("cel.cli")
    sys.modules.setdefault(shell.__name__, shell)
    with suppress(ImportError, AttributeError):
        import cel

        if cel.cli is shell:
            del cel.cli
    if sys.modules.get(shell.__name__) is shell:
        del sys.modules[shell.__name__]


def _compile_text(text: str) -> cel.Program:
    try:
        return _import_cel().compile(text)  # type: ignore[no-any-return]
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
        raise ActionError(problem, _suggest_remedy(text)) from None


def _suggest_remedy(text: str) -> str:
    for token in tokenize_expression(text):
        if token.text in ("'", '"'):
            return "A quote is opened and not closed"
        if token.text in _SAID_OTHERWISE:
            return f"In CEL, write {_SAID_OTHERWISE[token.text]} instead of {token.text}"
    return "Expressions are written in CEL, as in: tool_call.args.amount > 1000"


def _check_methods(text: str, words: list[Token]) -> None:
    """Refuse `contains(x, y)`: the language has it as `x.contains(y)` alone."""
    for before, name, after in zip([None, *words], words, words[1:], strict=False):
        is_call = name.text in _METHODS and after.text == "("
        if is_call and (before is None or before.text != "."):
            problem = f"the expression {text!r} calls {name.text} as a function"
            raise ActionError(problem, f"Write it after the text: x.{name.text}(…)")


def _namespaced_functions(found: Iterable[Use], known: Mapping[str, Any]) -> set[str]:
    """Find the functions that are called with their library's name, as in `math.abs(x)`."""
    named = {f"{use.name}.{use.member}" for use in found if use.call}
    return named & known.keys()


def _check_function(text: str, name: str, library: Mapping[str, Any]) -> None:
    if not name.isidentifier() or name in _NATIVE or name in library:
        return
    known = [*_NATIVE, *library]
    problem = f"the expression {text!r} calls {name!r}, which does not exist"
    raise ActionError(f"{problem}{suggestion(name, known)}", f"There are: {_join_names(known)}")


def _contracts_of(points: Iterable[str]) -> list[Contract]:
    found = [CONTRACTS[place.point] for name in points for place in find_places(name)]
    return found or list(CONTRACTS.values())


def _names_at(contracts: Iterable[Contract]) -> dict[str, bool]:
    """Return the names that exist, and whether each exists at one of these points."""
    contracts = [*contracts]
    here = {contract.wire for contract in contracts}
    here |= {
        name
        for item in contracts
        for name in SENDER_NAMES
        if name in getattr(item.value, "__slots__", ())
    }
    others = [*(contract.wire for contract in CONTRACTS.values()), *SENDER_NAMES]
    known = dict.fromkeys(EVENT_NAMES, True) | {name: name in here for name in others}
    return known | {"new_messages": any(item.value is ModelRequest for item in contracts)}


def _read_names(
    text: str,
    variables: Iterable[str],
    found: list[Use],
    known: Mapping[str, bool],
    contracts: list[Contract],
) -> dict[str, set[str] | None]:
    """Return the names to be made, each with the fields that are read of it; None for all."""
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
            _refuse_name(text, use, known, contracts)
        if use.member is None or use.call:
            read[use.name] = None
        elif (members := read.setdefault(use.name, set())) is not None:
            members.add(use.member)
    return read


def _is_language(use: Use) -> bool:
    """Return whether a name is CEL's own: a type, or a library in front of its function."""
    if use.call and use.name in LIBRARIES:
        return True
    return _stands_alone(use.name)


@functools.lru_cache(maxsize=256)
def _stands_alone(name: str) -> bool:
    try:
        _import_cel().compile(name).execute({})
    except RuntimeError:
        return False
    return True


def _refuse_name(text: str, use: Use, known: Mapping[str, bool], contracts: list[Contract]) -> None:
    here = sorted(name for name, exists in known.items() if exists)
    where = f"line {use.line}, column {use.column}"
    if use.name in _SAID_OTHERWISE:
        near = f" (did you mean {_SAID_OTHERWISE[use.name]!r}?)"
    else:
        near = _field_suggestion(use.name, contracts) or suggestion(use.name, here)
    not_here = " at these points" if use.name in known else ""
    problem = (
        f"the expression {text!r} uses {use.name!r} at {where}, which does not exist{not_here}"
    )
    raise ActionError(f"{problem}{near}", f"Names are: {_join_names(here)}")


def _field_suggestion(name: str, contracts: list[Contract]) -> str:
    """Suggest the field of the value, for a name that is one."""
    for contract in contracts:
        if name in field_names(contract.value):
            holder = "value" if contract.wire == "content" else contract.wire
            return f" (did you mean '{holder}.{name}'?)"
    return ""


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _build_binder(name: str, members: set[str] | None) -> Binder:
    """Return what makes a name's value from an event, and no more of it than is read."""
    if name == "point":
        return lambda event, _room: str(event.point)
    if name == "timestamp":
        return lambda event, _room: datetime.fromtimestamp(event.timestamp, UTC)
    if name in EVENT_NAMES:
        return lambda event, room: _take_part(getattr(event, name), members, room)
    if name in SENDER_NAMES:
        return lambda event, room: room.take_value(getattr(event.value, name, None))

    def bind_wire_value(event: Event[Any], room: InputBudget) -> Any:
        contract = CONTRACTS[event.point]
        if contract.wire != name:
            return None
        return _take_part(wire_value(contract, event.value), members, room)

    return bind_wire_value


def _take_part(value: Any, members: set[str] | None, room: InputBudget) -> Any:
    if members is not None and isinstance(value, Value):
        return room.take_fields(value, members & {*field_names(type(value))})
    if members is not None and isinstance(value, Mapping):
        return {name: room.take_value(value[name]) for name in members if name in value}
    return room.take_value(value)


def _limit_error(text: str, event: Event[Any], error: ActionError) -> ActionError:
    what = "could not be evaluated" if isinstance(error, MisfitError) else "was given up"
    problem = f"the expression {text!r} {what} at {event.point}: {error.problem}"
    public = error.public or "its condition took too much to evaluate"
    return ActionError(problem, error.remedy, public=public)


def _evaluation_error(
    text: str, event: Event[Any], names: Mapping[str, Any], error: Exception
) -> ActionError:
    what = str(error).partition(": the operation is not defined")[0].partition(". Check")[0]
    is_text_call = False
    if isinstance(error, KeyError):
        what = f"there is no key {error}"
    elif what.startswith(_NO_FUNCTION):  # it was known when it was compiled
        function = what.removeprefix(_NO_FUNCTION)
        is_text_call = function.strip("'") in TEXT_FUNCTIONS
        what = f"{function} is not for what it was given"
    problem = f"the expression {text!r} could not be evaluated at {event.point}: {what}"
    remedy = _sought_in_text(text, names) or FOR_TEXT * is_text_call or _GUARD
    return MisfitError(problem, remedy)


def _sought_in_text(text: str, names: Mapping[str, Any]) -> str:
    for use in find_uses(text):
        if use.sought is not None:
            what, where = use.sought
            with suppress(Exception):  # what cannot be read is not what went wrong here
                if isinstance(_import_cel().compile(where).execute(dict(names)), str):
                    return in_text(what, where)
    return ""
