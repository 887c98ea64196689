"""`Hooks`: a decorator for every point, bare or with options."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.outcomes import Outcome
from checkrail.engine.registry import HookRegistry
from checkrail.styles.fluent import On, on

if TYPE_CHECKING:
    from checkrail.engine.values import RunError, RunResult, Session
    from checkrail.styles import decorator_types as types
    from checkrail.styles.options import DecoratorOptions, RegistryOptions

Answer = Outcome | None | Awaitable[Outcome | None]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Answer])


class At:
    """Registers functions at one point; called with options, it keeps them for the function."""

    def __init__(self, registry: HookRegistry, point: str, options: DecoratorOptions) -> None:
        self._registry = registry
        self._point = point
        self._options = options

    def __call__(self, fn: Any = None, /, **options: Any) -> Any:
        """Register a function and give it back unchanged, or take options for the next one."""
        options = {**self._options, **options}
        if fn is None:
            return At(self._registry, self._point, options)  # type: ignore[arg-type]
        self._registry.register(_declared(fn, (self._point,), options))
        return fn


class Decorator(Generic[T]):
    """Declares the decorator of the point that it is named after; `T` is what that accepts."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._point = name

    @overload
    def __get__(self, hooks: None, owner: type) -> Self: ...
    @overload
    def __get__(self, hooks: Hooks, owner: type) -> T: ...
    def __get__(self, hooks: Hooks | None, owner: type) -> Self | T:
        return self if hooks is None else cast("T", At(hooks.registry, self._point, {}))


class Hooks:
    """Hooks written as functions: `@hooks.before_run`, `@hooks.before_tool_call(tools=["x"])`.

    They go to `registry`, a new one unless it is given.
    """

    on_session_start: Decorator[types.Opening] = Decorator()
    before_inbound: Decorator[types.Receiving] = Decorator()
    before_run: Decorator[types.Admitting] = Decorator()
    on_run_start: Decorator[types.Starting] = Decorator()
    before_llm_call: Decorator[types.BeforeModel] = Decorator()
    after_llm_call: Decorator[types.AfterModel] = Decorator()
    before_tool_call: Decorator[types.BeforeTool] = Decorator()
    after_tool_call: Decorator[types.AfterTool] = Decorator()
    on_tool_error: Decorator[types.AfterTool] = Decorator()
    before_final_response: Decorator[types.AfterModel] = Decorator()
    query_end: Decorator[types.Ending] = Decorator()
    on_result: Decorator[types.Resulting] = Decorator()
    before_outbound: Decorator[types.Sending] = Decorator()
    after_run: Decorator[types.Watching[RunResult]] = Decorator()
    on_run_error: Decorator[types.Watching[RunError]] = Decorator()
    on_session_end: Decorator[types.Watching[Session]] = Decorator()

    pre_request: Decorator[types.BeforeModel] = Decorator()
    post_response: Decorator[types.AfterModel] = Decorator()
    pre_tool_call: Decorator[types.BeforeTool] = Decorator()
    before_tool_execution: Decorator[types.BeforeTool] = Decorator()
    on_tool_call: Decorator[types.BeforeTool] = Decorator()
    post_tool_call: Decorator[types.AfterTool] = Decorator()
    after_tool_execution: Decorator[types.AfterTool] = Decorator()
    transform_response: Decorator[types.AfterModel] = Decorator()
    on_error: Decorator[types.Watching[RunError]] = Decorator()
    on_run_finish: Decorator[types.Watching[RunResult | RunError]] = Decorator()
    on_timeout: Decorator[types.Watching[RunError]] = Decorator()

    def __init__(
        self,
        registry: HookRegistry | None = None,
        **options: Unpack[RegistryOptions],
    ) -> None:
        if registry is not None and options:
            told = ", ".join(options)
            raise TypeError(f"Hooks was given a registry: say {told} where that one is made")
        self.registry = HookRegistry(**options) if registry is None else registry

    def hook(self, *points: str, **options: Unpack[DecoratorOptions]) -> Callable[[F], F]:
        """Decorate one function for several points."""

        def decorate(fn: F) -> F:
            self.registry.register(_declared(fn, points, {**options}))
            return fn

        return decorate

    def on(self, point: str) -> On:
        """Say it in words: `hooks.on(point).when(condition).handle(...)`."""
        return on(self.registry, point)


def _declared(fn: Any, points: tuple[str, ...], options: dict[str, Any]) -> HookSpec:
    text = options.get("when")
    if not isinstance(text, str):
        return declare(fn, points, **options)
    from checkrail.actions import compile_expression

    spec = declare(fn, points, **{**options, "when": compile_expression(text, points)})
    return dataclasses.replace(spec, when_text=text)
