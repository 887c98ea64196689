"""`Hooks`: a decorator for every point, bare or with options."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

from checkrail.engine.errors import suggestion
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.outcomes import Outcome
from checkrail.engine.points import ALIASES, HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.styles.fluent import On, on

if TYPE_CHECKING:
    from checkrail.engine.values import RunError, RunResult, Session
    from checkrail.styles.decorator_types import (
        AfterModelDecorator,
        AfterToolDecorator,
        BeforeModelDecorator,
        BeforeRunDecorator,
        BeforeToolDecorator,
        DecoratorOptions,
        InboundDecorator,
        ObserverDecorator,
        OutboundDecorator,
        QueryEndDecorator,
        RegistryOptions,
        ResultDecorator,
        RunStartDecorator,
        SessionStartDecorator,
    )

Answer = Outcome | None | Awaitable[Outcome | None]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Answer])


class PointDecorator:
    """Registers functions at one point; called with options, it keeps them for the function."""

    def __init__(self, registry: HookRegistry, point: str, options: DecoratorOptions) -> None:
        self._registry = registry
        self._point = point
        self._options = options

    def __call__(self, fn: Any = None, /, **options: Any) -> Any:
        """Register a function and give it back unchanged, or take options for the next one."""
        options = {**self._options, **options}
        if fn is None:
            return PointDecorator(self._registry, self._point, options)  # type: ignore[arg-type]
        self._registry.register(_declare_hook(fn, (self._point,), options))
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
        return self if hooks is None else cast("T", PointDecorator(hooks.registry, self._point, {}))


class Hooks:
    """Hooks written as functions: `@hooks.before_run`, `@hooks.before_tool_call(tools=["x"])`.

    They go to `registry`, a new one unless it is given. Other names of points are decorators, too,
    which no editor offers.
    """

    on_session_start: Decorator[SessionStartDecorator] = Decorator()
    before_inbound: Decorator[InboundDecorator] = Decorator()
    before_run: Decorator[BeforeRunDecorator] = Decorator()
    on_run_start: Decorator[RunStartDecorator] = Decorator()
    before_llm_call: Decorator[BeforeModelDecorator] = Decorator()
    after_llm_call: Decorator[AfterModelDecorator] = Decorator()
    before_tool_call: Decorator[BeforeToolDecorator] = Decorator()
    after_tool_call: Decorator[AfterToolDecorator] = Decorator()
    on_tool_error: Decorator[AfterToolDecorator] = Decorator()
    before_final_response: Decorator[AfterModelDecorator] = Decorator()
    query_end: Decorator[QueryEndDecorator] = Decorator()
    on_result: Decorator[ResultDecorator] = Decorator()
    before_outbound: Decorator[OutboundDecorator] = Decorator()
    after_run: Decorator[ObserverDecorator[RunResult]] = Decorator()
    on_run_error: Decorator[ObserverDecorator[RunError]] = Decorator()
    on_session_end: Decorator[ObserverDecorator[Session]] = Decorator()

    def __init__(
        self,
        registry: HookRegistry | None = None,
        **options: Unpack[RegistryOptions],
    ) -> None:
        if registry is not None and options:
            told = ", ".join(options)
            raise TypeError(f"Hooks was given a registry: say {told} where that one is made")
        self.registry = HookRegistry(**options) if registry is None else registry

    if not TYPE_CHECKING:  # which see the points under their own names

        def __getattr__(self, name: str) -> PointDecorator:
            """Return the decorator of another name of a point."""
            if name in ALIASES:
                return PointDecorator(self.registry, name, {})
            told = suggestion(name, [*HookPoint, "hook", "on"])
            raise AttributeError(f"Hooks has no decorator {name!r}{told}", name=name, obj=self)

    def hook(self, *points: str, **options: Unpack[DecoratorOptions]) -> Callable[[F], F]:
        """Decorate one function for several points."""

        def decorate(fn: F) -> F:
            self.registry.register(_declare_hook(fn, points, {**options}))
            return fn

        return decorate

    def on(self, point: str) -> On:
        """Begin a hook in the fluent style: `hooks.on(point).when(condition).handle(...)`."""
        return on(self.registry, point)


def _declare_hook(fn: Any, points: tuple[str, ...], options: dict[str, Any]) -> HookSpec:
    text = options.get("when")
    if not isinstance(text, str):
        return declare(fn, points, **options)
    from checkrail.actions.expression import compile_expression

    spec = declare(fn, points, **{**options, "when": compile_expression(text, points)})
    return dataclasses.replace(spec, when_text=text)
