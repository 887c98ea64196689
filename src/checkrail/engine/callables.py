"""What a callable tells of itself: its name and place, what it takes, and what it may decide."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.outcomes import (
    Ask,
    Block,
    Continue,
    Fail,
    Outcome,
    Reject,
    RejectRun,
    Replace,
    Retry,
    Stop,
)
from checkrail.engine.points import Decision

OUTCOMES: Mapping[str, type[Outcome | Reject]] = {
    kind.__name__: kind
    for kind in (Ask, Block, Continue, Fail, Reject, RejectRun, Replace, Retry, Stop)
}


def callable_name(fn: Any) -> str:
    """Return the name of what is called, or of its type."""
    fn = _called_function(fn)
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


def callable_source(fn: Any) -> str:
    """Return the file and the line of what is called, or `code`."""
    code = getattr(_called_function(fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else "code"


def _called_function(fn: Any) -> Any:
    """Return what a partial, or what is marked like one, calls in the end."""
    while hasattr(fn, "func"):
        fn = fn.func
    return fn


def annotation_of(fn: Any, parameter: inspect.Parameter) -> Any:
    """Return how a parameter is annotated: a type, or the text of one that cannot be found."""
    try:
        hints = typing.get_type_hints(fn if hasattr(fn, "__code__") else fn.__call__)
    except Exception:  # noqa: BLE001 - annotations are the user's, and may name anything
        return parameter.annotation
    return hints.get(parameter.name, parameter.annotation)


def is_async_callable(fn: Any) -> bool:
    """Return whether calling this gives something to await."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None),  # noqa: B004 - the bound method is wanted
    )


def takes_value(fn: Any, name: str) -> bool:
    """Return whether a callable has a second positional parameter; refuse one that fits neither."""
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError):
        return False
    for arguments in ((None, None), (None,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    raise HookRefusedError(
        name,
        f"it cannot be called with an event: its parameters are {signature}",
        "Take (event) or (event, value)",
        "fn",
    )


def annotated_decisions(fn: Any) -> frozenset[Decision]:
    """Find the decisions, beyond going on, that a function's annotation promises."""
    try:
        hint = typing.get_type_hints(getattr(fn, "__func__", fn)).get("return")
    except Exception:  # noqa: BLE001 - annotations are the user's, and may name anything
        return frozenset()
    return frozenset(_decisions_in(hint)) - {Decision.CONTINUE}


def _decisions_in(hint: Any) -> Iterator[Decision]:
    """Yield the decisions that a type names, also inside unions and awaitables."""
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, Outcome):
        if hasattr(kind, "decision"):
            yield kind.decision
        return
    for inner in typing.get_args(hint):
        yield from _decisions_in(inner)


def named_decisions(fn: Any) -> Iterator[Decision]:
    """Guess the decisions of a function by the names that its code uses."""
    fn = inspect.unwrap(_called_function(fn))
    if not hasattr(fn, "__code__") and not hasattr(fn, "__func__"):
        fn = getattr(fn, "__call__", fn)  # noqa: B004 - the bound method is wanted
    fn = getattr(fn, "__func__", fn)
    known = getattr(fn, "__globals__", {})
    for name in _code_names(getattr(fn, "__code__", None)):
        found = known.get(name, OUTCOMES.get(name))
        if isinstance(found, type) and issubclass(found, Reject):
            yield Decision.BLOCK
        elif isinstance(found, type) and issubclass(found, Outcome):
            yield from _decisions_in(found)


def _code_names(code: Any) -> Iterator[str]:
    if isinstance(code, types.CodeType):
        yield from (*code.co_names, *code.co_freevars)
        for inner in code.co_consts:
            yield from _code_names(inner)
