"""`RunHooks`: functions that watch runs and may refuse them, and see only a `RunContext`."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack, overload

from checkrail.engine.binding import is_async_callable
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.event import Event
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.outcomes import Outcome, RejectRun
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.registry import HookRegistry
from checkrail.styles.run_context import RunContext, run_context

if TYPE_CHECKING:
    from checkrail.styles.options import RunHookOptions

log = logging.getLogger("checkrail")

DEFAULT_RUN_TIMEOUT = 10.0

RunHook = Callable[[RunContext], object]
H = TypeVar("H", bound=RunHook)


class Declared(NamedTuple):
    """One function as it was decorated."""

    fn: RunHook
    point: HookPoint
    options: RunHookOptions


class RunHooks:
    """Hooks around a run: `@hooks.before_run`, `@hooks.after_run`, `@hooks.on_run_error`.

    They observe and gate: `raise hooks.RejectRun(...)` in `before_run` refuses the run, and what
    a function returns is ignored.
    """

    RejectRun = RejectRun

    def __init__(self) -> None:
        self._declared: list[Declared] = []

    @overload
    def before_run(self, fn: H, /) -> H: ...
    @overload
    def before_run(self, /, **options: Unpack[RunHookOptions]) -> Callable[[H], H]: ...
    def before_run(self, fn: Any = None, /, **options: Any) -> Any:
        """Call a function when a run is requested; one that fails or is late refuses the run."""
        return self._add(HookPoint.BEFORE_RUN, fn, {"lane": Lane.GATE, **options})

    @overload
    def after_run(self, fn: H, /) -> H: ...
    @overload
    def after_run(self, /, **options: Unpack[RunHookOptions]) -> Callable[[H], H]: ...
    def after_run(self, fn: Any = None, /, **options: Any) -> Any:
        """Call a function when a run has succeeded or was interrupted."""
        return self._add(HookPoint.AFTER_RUN, fn, options)

    @overload
    def on_run_error(self, fn: H, /) -> H: ...
    @overload
    def on_run_error(self, /, **options: Unpack[RunHookOptions]) -> Callable[[H], H]: ...
    def on_run_error(self, fn: Any = None, /, **options: Any) -> Any:
        """Call a function when a run has failed, was cancelled, or took too long."""
        return self._add(HookPoint.ON_RUN_ERROR, fn, options)

    def specs(self, timeout: float = DEFAULT_RUN_TIMEOUT) -> list[HookSpec]:
        """Give the hooks in the order of their registration, each with a name of its own."""
        found: dict[str, HookSpec] = {}
        for declared in self._declared:
            spec = _spec(declared, timeout)
            name = _free(spec.name, found)
            found[name] = dataclasses.replace(spec, name=name)
        return [*found.values()]

    def register(
        self,
        registry: HookRegistry,
        timeout: float = DEFAULT_RUN_TIMEOUT,
    ) -> list[HookSpec]:
        """Put the hooks into a registry."""
        return [registry.register(spec) for spec in self.specs(timeout)]

    def _add(self, point: HookPoint, fn: Any, options: Any) -> Any:
        if fn is None:
            return lambda given: self._add(point, given, options)
        declared = Declared(fn, point, options)
        spec = _spec(declared, DEFAULT_RUN_TIMEOUT)
        _check_parameters(spec.name, fn)
        self._declared.append(declared)
        return fn


def _spec(declared: Declared, timeout: float) -> HookSpec:
    options: Any = {"timeout": timeout, **declared.options}
    spec = declare(declared.fn, (declared.point,), **options)
    return dataclasses.replace(spec, fn=_adapted(declared.fn, spec.name))


def _check_parameters(name: str, fn: RunHook) -> None:
    try:
        signature = inspect.signature(fn)
    except ValueError:  # some functions written in C do not tell
        return
    try:
        signature.bind(None)
    except TypeError:
        problem = f"a run hook is given only its context, but its parameters are {signature}"
        raise HookRefusedError(name, problem, "Take (ctx)") from None


def _free(name: str, taken: Iterable[str]) -> str:
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _adapted(fn: Callable[[RunContext], Any], name: str) -> Callable[[Event[Any]], Any]:
    """Make a hook of a run hook: it gets the context alone, and never says anything."""

    def call(event: Event[Any]) -> Awaitable[None] | None:
        answer = fn(run_context(event))
        if inspect.isawaitable(answer):
            return _awaited(answer, name)
        _ignored(answer, name)
        return None

    async def call_async(event: Event[Any]) -> None:
        _ignored(await fn(run_context(event)), name)

    return call_async if is_async_callable(fn) else call


async def _awaited(answer: Awaitable[object], name: str) -> None:
    _ignored(await answer, name)


def _ignored(answer: object, name: str) -> None:
    """Drop what a run hook returned, but not silently if it looks like a decision."""
    if isinstance(answer, (Outcome, RejectRun)):
        told = type(answer).__name__
        log.warning("run hook %r returned %s, which is ignored: raise RejectRun", name, told)
