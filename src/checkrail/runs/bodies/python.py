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

from checkrail.agent.tools.thread import in_thread
from checkrail.engine.binding import is_async_callable
from checkrail.engine.containment import contain
from checkrail.engine.errors import CheckrailError, error_type
from checkrail.engine.frozen import freeze, thaw
from checkrail.engine.values import User, plain
from checkrail.runs import jsons
from checkrail.runs.bodies.asked import InvalidParameters
from checkrail.runs.live import EventLimitError
from checkrail.runs.work import Done, Work

CONTEXT = "context"
"""The name of the parameter that is given the context of a run."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class NotJson(CheckrailError):
    """A function returned what no JSON can say."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What a function is told of the run that it carries out, in a parameter named `context`.

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
    _telling: _Telling = field(repr=False)

    def emit(self, data: Any) -> None:
        """Tell something on the way: whoever follows the run sees it as a `custom` event."""
        self._telling.tell(data)


async def run_callable(work: Work, fn: Callable[..., Any]) -> Done:
    """Call a function with a run's parameters; what it returns is the output.

    Beside `context` it takes either one parameter, which is given all of them as they are, or
    several, which are given them by their names; so does one that comes behind a `*`. Async
    functions are awaited. Others run in a thread of their own: cancelled, nobody waits for it any
    more, and what it still returns or tells is dropped.
    """
    telling = _Telling(work)
    try:
        call = _bound(fn, thaw(work.parameters), _context(work, telling))
        output = await _called(call, is_async=is_async_callable(fn))
        telling.check()
        return Done(_plain(output, fn), usage=dict(work.used))
    except EventLimitError:
        raise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _failed(work, f"{_name(fn)} was cancelled from within", "CancelledError")
    except Exception as error:  # noqa: BLE001 - it is the user's, and may raise anything
        telling.check()
        kind = type(error).__name__
        return _failed(work, str(error) or kind, kind)
    except BaseException as error:
        if (ordinary := contain(error)) is error:
            raise
        return _failed(work, f"{_name(fn)} {ordinary}", error_type(ordinary))
    finally:
        telling.close()


async def _called(call: Callable[[], Any], *, is_async: bool) -> Any:
    result = call() if is_async else await in_thread(call)
    return await result if inspect.isawaitable(result) else result


def _failed(work: Work, error: str, kind: str) -> Done:
    return Done(usage=dict(work.used), error=error, error_type=kind)


def _context(work: Work, telling: _Telling) -> AgentContext:
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


def _bound(fn: Callable[..., Any], given: Any, context: AgentContext) -> Callable[[], Any]:
    """Give a function with what it is to be called with."""
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
        bound = _by_names(fn, signature, takes, given, own)
    else:
        values = own | dict.fromkeys(takes, given)
        bound.arguments = {name: values[name] for name in signature.parameters}
    return functools.partial(fn, *bound.args, **bound.kwargs)


def _by_names(
    fn: Callable[..., Any],
    signature: inspect.Signature,
    takes: Mapping[str, inspect.Parameter],
    given: Any,
    own: Mapping[str, Any],
) -> inspect.BoundArguments:
    if not isinstance(given, dict) or not own.keys().isdisjoint(given):
        problem = f"{_name(fn)} takes its parameters by their names, {', '.join(takes)}"
        remedy = f"send an object without {CONTEXT!r}, or have it take one parameter for all"
        raise InvalidParameters(f"{problem}: {remedy}")
    try:
        return signature.bind(**given, **own)
    except TypeError as error:
        problem = f"{_name(fn)} takes {', '.join(takes)}, and cannot be called with what was sent"
        raise InvalidParameters(f"{problem}: {error}") from None


def _plain(output: Any, fn: Callable[..., Any]) -> Any:
    """Return what was returned as JSON data, or say what of it is none."""

    def refuse(value: Any) -> NoReturn:
        problem = f"{_name(fn)} returned data of type {type(value).__qualname__}, which is no JSON"
        raise NotJson(f"{problem}: return text, numbers, lists and dicts, or a dataclass")

    try:
        return plain(output, refuse)
    except RecursionError:
        problem = f"{_name(fn)} returned a {type(output).__qualname__} that contains itself"
        raise NotJson(f"{problem}, which is no JSON: return a tree of data") from None


def _name(fn: Any) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


class _Telling:
    """Takes what a function tells, from whichever thread, until nobody listens any more."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._closed = False
        self._error: EventLimitError | None = None

    def tell(self, data: Any) -> None:
        """Tell something, as it is now; that it was too much may show only the next time."""
        self.check()
        if threading.get_ident() == self._thread:
            self._tell(data)
        elif not self._closed:  # nobody waits for the loop here, which may be waiting for us
            self._loop.call_soon_threadsafe(self._tell_later, jsons.jsonable(data))

    def check(self) -> None:
        """Raise that more was told than may be, whatever the function made of it."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Listen no more."""
        self._closed = True

    def _tell_later(self, data: Any) -> None:
        with suppress(EventLimitError):  # it is kept, and raised where it can be seen
            self._tell(data)

    def _tell(self, data: Any) -> None:
        if self._closed:
            return
        try:
            self._work.emit("custom", (), data)
        except EventLimitError as error:
            self._error = error
            raise
