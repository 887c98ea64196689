"""A Python function as the body of a run."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from checkrail.agent.tools.threads import run_in_thread
from checkrail.engine.callables import is_async_callable
from checkrail.engine.containment import contain
from checkrail.engine.errors import CheckrailError, error_type
from checkrail.engine.frozen import freeze, thaw
from checkrail.engine.values import User, plain
from checkrail.runs import jsons
from checkrail.runs.execute.job import Job, JobResult
from checkrail.runs.execute.live_run import EventLimitError
from checkrail.runs.executors.query import InvalidParameters

CONTEXT = "context"
"""The name of the parameter that is given the context of a run."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class NotJson(CheckrailError):
    """A function returned a value that JSON cannot represent."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The run that a function carries out, in a parameter named `context`.

    `scope` is what whoever started the run gave it; `idempotency_key` tells one attempt from
    another, to whoever is asked to do something once.
    """

    run_id: str
    thread_id: str
    session_id: str | None
    agent_name: str
    attempt: int
    idempotency_key: str
    user: User | None
    scope: Mapping[str, Any]
    _telling: _CustomEvents = field(repr=False)

    def emit(self, data: Any) -> None:
        """Emit data on the way: whoever follows the run sees it as a `custom` event."""
        self._telling.emit(data)


async def run_callable(work: Job, fn: Callable[..., Any]) -> JobResult:
    """Call a function with a run's parameters; what it returns is the output.

    Beside `context` it takes either one parameter, which is given all of them as they are, or
    several, which are given them by their names; so does one that comes behind a `*`. Async
    functions are awaited. Others run in a thread of their own: cancelled, nobody waits for it any
    more, and what it still returns or tells is dropped.
    """
    telling = _CustomEvents(work)
    try:
        call = _bind_arguments(fn, thaw(work.parameters), _build_context(work, telling))
        output = await _call_function(call, is_async=is_async_callable(fn))
        telling.check_limit()
        return JobResult(_to_json(output, fn), usage=dict(work.used))
    except EventLimitError:
        raise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _error_result(
            work, f"{_qualified_name(fn)} was cancelled from within", "CancelledError"
        )
    except Exception as error:  # noqa: BLE001 - it is the user's, and may raise anything
        telling.check_limit()
        kind = type(error).__name__
        return _error_result(work, str(error) or kind, kind)
    except BaseException as error:
        if (ordinary := contain(error)) is error:
            raise
        return _error_result(work, f"{_qualified_name(fn)} {ordinary}", error_type(ordinary))
    finally:
        telling.close()


async def _call_function(call: Callable[[], Any], *, is_async: bool) -> Any:
    result = call() if is_async else await run_in_thread(call)
    return await result if inspect.isawaitable(result) else result


def _error_result(work: Job, error: str, kind: str) -> JobResult:
    return JobResult(usage=dict(work.used), error=error, error_type=kind)


def _build_context(work: Job, telling: _CustomEvents) -> AgentContext:
    return AgentContext(
        run_id=work.run_id,
        thread_id=work.thread_id,
        session_id=work.session_id,
        agent_name=work.agent.name,
        attempt=work.attempt,
        idempotency_key=work.idempotency_key,
        user=work.user,
        scope=freeze(work.context),
        _telling=telling,
    )


def _bind_arguments(fn: Callable[..., Any], given: Any, context: AgentContext) -> Callable[[], Any]:
    """Return a function bound to the arguments that it is called with."""
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError):  # some that are written in C cannot be asked
        return functools.partial(fn, given)
    takes = dict(signature.parameters)
    own: dict[str, Any] = {}
    if CONTEXT in takes and takes[CONTEXT].kind in (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY):
        own[CONTEXT] = context
        del takes[CONTEXT]
    bound = signature.bind_partial()
    if len(takes) > 1 or any(each.kind not in _POSITIONAL for each in takes.values()):
        bound = _bind_by_name(fn, signature, takes, given, own)
    else:
        values = own | dict.fromkeys(takes, given)
        bound.arguments = {name: values[name] for name in signature.parameters}
    return functools.partial(fn, *bound.args, **bound.kwargs)


def _bind_by_name(
    fn: Callable[..., Any],
    signature: inspect.Signature,
    takes: Mapping[str, inspect.Parameter],
    given: Any,
    own: Mapping[str, Any],
) -> inspect.BoundArguments:
    if not isinstance(given, dict) or not own.keys().isdisjoint(given):
        problem = f"{_qualified_name(fn)} takes its parameters by their names, {', '.join(takes)}"
        remedy = f"send an object without {CONTEXT!r}, or have it take one parameter for all"
        raise InvalidParameters(f"{problem}: {remedy}")
    try:
        return signature.bind(**given, **own)
    except TypeError as error:
        name = _qualified_name(fn)
        problem = f"{name} takes {', '.join(takes)}, and cannot be called with what was sent"
        raise InvalidParameters(f"{problem}: {error}") from None


def _to_json(output: Any, fn: Callable[..., Any]) -> Any:
    """Return a result as JSON data, or raise what of it JSON cannot represent."""

    def raise_not_json(value: Any) -> NoReturn:
        kind = type(value).__qualname__
        problem = f"{_qualified_name(fn)} returned data of type {kind}, which is no JSON"
        raise NotJson(f"{problem}: return text, numbers, lists and dicts, or a dataclass")

    try:
        return plain(output, raise_not_json)
    except RecursionError:
        problem = (
            f"{_qualified_name(fn)} returned a {type(output).__qualname__} that contains itself"
        )
        raise NotJson(f"{problem}, which is no JSON: return a tree of data") from None


def _qualified_name(fn: Any) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


class _CustomEvents:
    """Emits what a function hands over, from any thread, until it is closed."""

    def __init__(self, work: Job) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._closed = False
        self._error: EventLimitError | None = None

    def emit(self, data: Any) -> None:
        """Emit data as it is now; that it was too much may show only the next time."""
        self.check_limit()
        if threading.get_ident() == self._thread:
            self._emit_now(data)
        elif not self._closed:  # nobody waits for the loop here, which may be waiting for us
            self._loop.call_soon_threadsafe(self._emit_later, jsons.jsonable(data))

    def check_limit(self) -> None:
        """Raise if more was emitted than is allowed, whatever the function made of it."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Emit nothing any more."""
        self._closed = True

    def _emit_later(self, data: Any) -> None:
        with suppress(EventLimitError):  # it is kept, and raised where it can be seen
            self._emit_now(data)

    def _emit_now(self, data: Any) -> None:
        if self._closed:
            return
        try:
            self._work.emit("custom", (), data)
        except EventLimitError as error:
            self._error = error
            raise
