"""`RunHooks`: functions that watch runs and may refuse them, and see only a `RunContext`."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack, overload

from checkrail.engine.callables import is_async_callable
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.event import Event
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.outcomes import Outcome, Reject, RejectRun
from checkrail.engine.points import ALIASES, Decision, HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.styles.run_context import RunContext, event_fields, run_context, value_at

if TYPE_CHECKING:
    from checkrail.engine.verdict import Verdict
    from checkrail.styles.decorator_types import RunHookOptions

log = logging.getLogger("checkrail")

DEFAULT_RUN_TIMEOUT = 10.0

RunHook = Callable[[RunContext], object]
H = TypeVar("H", bound=RunHook)


class DeclaredHook(NamedTuple):
    """One function as it was decorated."""

    fn: RunHook
    point: HookPoint
    options: RunHookOptions


class RunHooks:
    """Hooks around a run: `@hooks.before_run`, `@hooks.after_run`, `@hooks.on_run_error`.

    They observe and gate: `raise hooks.RejectRun(...)` in `before_run` refuses the run, and no
    later function is called. What a function returns is ignored.
    """

    RejectRun = RejectRun

    def __init__(self, *sets: RunHooks) -> None:
        """Make a set of hooks, with those of other sets in it, in their order."""
        own = [each._declared for each in sets]  # noqa: SLF001 - of its own kind
        self._declared: list[DeclaredHook] = [hook for declared in own for hook in declared]

    if not TYPE_CHECKING:  # a type checker knows what is here

        def __getattr__(self, name: str) -> Any:
            """Say where the hooks of other points go."""
            told = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in (*HookPoint, *ALIASES):
                told += ": it has before_run, after_run and on_run_error. Other points are `Hooks`'"
            raise AttributeError(told, name=name, obj=self)

    @overload
    def before_run(self, fn: H, /) -> H: ...
    @overload
    def before_run(self, /, **options: Unpack[RunHookOptions]) -> Callable[[H], H]: ...
    def before_run(self, fn: Any = None, /, **options: Any) -> Any:
        """Call a function when a run is requested; one that fails or is late refuses the run."""
        return self._add(HookPoint.BEFORE_RUN, fn, options)

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
        """Return the hooks in the order of their registration, each with a name of its own."""
        return _build_specs(self._declared, timeout, _adapt_hook)

    def register(
        self,
        registry: HookRegistry,
        timeout: float = DEFAULT_RUN_TIMEOUT,
    ) -> list[HookSpec]:
        """Put the hooks into a registry."""
        return [registry.register(spec) for spec in self.specs(timeout)]

    async def fire_before_run(self, ctx: RunContext, timeout: float = DEFAULT_RUN_TIMEOUT) -> None:
        """Call the `before_run` hooks on a context, as a server does; for unit tests.

        Raise what refuses the run: a hook's `RejectRun`, one with status 504 for a hook that is
        late, or whatever else a hook raised.
        """
        trial = _Trial(ctx)
        verdict = await trial.fire(HookPoint.BEFORE_RUN, self._declared, timeout)
        if verdict.decision is not Decision.CONTINUE:
            raise trial.refusal(verdict)

    async def fire_after_run(self, ctx: RunContext, timeout: float = DEFAULT_RUN_TIMEOUT) -> None:
        """Call the `after_run` hooks on a context; their errors are logged, not raised."""
        await _Trial(ctx).fire(HookPoint.AFTER_RUN, self._declared, timeout)

    async def fire_on_run_error(
        self, ctx: RunContext, timeout: float = DEFAULT_RUN_TIMEOUT
    ) -> None:
        """Call the `on_run_error` hooks on a context; their errors are logged, not raised."""
        await _Trial(ctx).fire(HookPoint.ON_RUN_ERROR, self._declared, timeout)

    def _add(self, point: HookPoint, fn: Any, options: Any) -> Any:
        if fn is None:
            return lambda given: self._add(point, given, options)
        declared = DeclaredHook(fn, point, options)
        [spec] = _build_specs([declared], DEFAULT_RUN_TIMEOUT, _adapt_hook)
        _check_parameters(spec.name, fn)
        self._declared.append(declared)
        return fn


class _Trial:
    """Hooks that the engine calls on a context that somebody made."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._raised: dict[str, BaseException] = {}

    async def fire(
        self, point: HookPoint, hooks: Iterable[DeclaredHook], timeout: float
    ) -> Verdict:
        """Return the verdict of the hooks at a point."""
        here = [each for each in hooks if each.point is point]
        registry = HookRegistry()
        registry.swap(_build_specs(here, timeout, self._adapt))
        verdict = await registry.fire(point, value_at(point, self._ctx), **event_fields(self._ctx))
        await registry.aclose()
        return verdict

    def refusal(self, verdict: Verdict) -> BaseException:
        """Return what a hook raised to refuse the run, or an equivalent rejection."""
        raised = self._raised.get(verdict.hook or "")
        if isinstance(raised, Reject) or (raised is not None and verdict.code == "hook_error"):
            return raised
        return RejectRun(verdict.reason, verdict.status or 500)

    def _adapt(self, fn: Callable[[RunContext], Any], name: str) -> Callable[[Event[Any]], Any]:
        """Return a run hook as a hook, and note what it raises."""

        def call(ctx: RunContext) -> object:
            with self._note_errors(name):
                answer = fn(ctx)
            return call_async(ctx, answer) if inspect.isawaitable(answer) else answer

        async def call_async(ctx: RunContext, answer: Any = None) -> object:
            with self._note_errors(name):
                return await (fn(ctx) if answer is None else answer)

        noted = call_async if is_async_callable(fn) else call
        return _adapt_hook(noted, name, lambda _event: self._ctx)

    @contextmanager
    def _note_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._raised[name] = error
            raise


Adapt = Callable[[RunHook, str], Callable[[Event[Any]], Any]]
"""Makes a hook of a run hook with a name."""


def _build_specs(hooks: Iterable[DeclaredHook], timeout: float, adapt: Adapt) -> list[HookSpec]:
    found: dict[str, HookSpec] = {}
    for each in hooks:
        options: Any = {"timeout": timeout, **each.options}
        spec = declare(each.fn, (each.point,), **options)
        name = _unused_name(spec.name, found)
        found[name] = dataclasses.replace(spec, name=name, fn=adapt(each.fn, name))
    return [*found.values()]


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


def _unused_name(name: str, taken: Iterable[str]) -> str:
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _adapt_hook(
    fn: Callable[[RunContext], Any],
    name: str,
    context_of: Callable[[Event[Any]], RunContext] = run_context,
) -> Callable[[Event[Any]], Any]:
    """Return a run hook as a hook: it gets the context alone, and never decides anything."""

    def call(event: Event[Any]) -> Awaitable[None] | None:
        answer = fn(context_of(event))
        if inspect.isawaitable(answer):
            return _await_and_ignore(answer, name)
        _ignore_answer(answer, name)
        return None

    async def call_async(event: Event[Any]) -> None:
        _ignore_answer(await fn(context_of(event)), name)

    return call_async if is_async_callable(fn) else call


async def _await_and_ignore(answer: Awaitable[object], name: str) -> None:
    _ignore_answer(await answer, name)


def _ignore_answer(answer: object, name: str) -> None:
    """Drop what a run hook returned, but not silently if it looks like a decision."""
    if isinstance(answer, (Outcome, RejectRun)):
        told = type(answer).__name__
        log.warning("run hook %r returned %s, which is ignored: raise RejectRun", name, told)
