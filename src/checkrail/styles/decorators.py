"""`Hooks`: a decorator for every point, bare or with options."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from checkrail.engine.event import Event
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.outcomes import Outcome
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
)
from checkrail.styles.fluent import On, on

if TYPE_CHECKING:
    from checkrail.styles.options import DecoratorOptions, RegistryOptions

Answer = Outcome | None | Awaitable[Outcome | None]

V = TypeVar("V")
A = TypeVar("A", bound=Answer)
F = TypeVar("F", bound=Callable[..., Answer])


class At(Generic[V]):
    """Registers functions at one point; called with options, it keeps them for the function."""

    def __init__(self, registry: HookRegistry, point: str, options: DecoratorOptions) -> None:
        self._registry = registry
        self._point = point
        self._options = options

    @overload
    def __call__(self, fn: Callable[[Event[V], V], A], /) -> Callable[[Event[V], V], A]: ...
    @overload
    def __call__(self, fn: Callable[[Event[V]], A], /) -> Callable[[Event[V]], A]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> At[V]: ...
    def __call__(self, fn: Any = None, /, **options: Any) -> Any:
        """Register a function and give it back unchanged, or take options for the next one."""
        options = {**self._options, **options}
        if fn is None:
            return At(self._registry, self._point, options)  # type: ignore[arg-type]
        self._registry.register(_declared(fn, (self._point,), options))
        return fn


class Decorator(Generic[V]):
    """Declares the decorator of the point that it is named after."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._point = name

    @overload
    def __get__(self, hooks: None, owner: type) -> Self: ...
    @overload
    def __get__(self, hooks: Hooks, owner: type) -> At[V]: ...
    def __get__(self, hooks: Hooks | None, owner: type) -> Self | At[V]:
        return self if hooks is None else At(hooks.registry, self._point, {})


class Hooks:
    """Hooks written as functions: `@hooks.before_run`, `@hooks.before_tool_call(tools=["x"])`.

    They go to `registry`, a new one unless it is given.
    """

    on_session_start = Decorator[Session]()
    before_inbound = Decorator[InboundMessage]()
    before_run = Decorator[Any]()
    on_run_start = Decorator[Any]()
    before_llm_call = Decorator[ModelRequest]()
    after_llm_call = Decorator[AssistantMessage]()
    before_tool_call = Decorator[ToolCall]()
    after_tool_call = Decorator[ToolResult]()
    on_tool_error = Decorator[ToolResult]()
    before_final_response = Decorator[AssistantMessage]()
    query_end = Decorator[AgentResponse | None]()
    on_result = Decorator[Any]()
    before_outbound = Decorator[OutboundMessage]()
    after_run = Decorator[RunResult]()
    on_run_error = Decorator[RunError]()
    on_session_end = Decorator[Session]()

    pre_request = Decorator[ModelRequest]()
    post_response = Decorator[AssistantMessage]()
    pre_tool_call = Decorator[ToolCall]()
    before_tool_execution = Decorator[ToolCall]()
    on_tool_call = Decorator[ToolCall]()
    post_tool_call = Decorator[ToolResult]()
    after_tool_execution = Decorator[ToolResult]()
    transform_response = Decorator[AssistantMessage]()
    on_error = Decorator[RunError]()
    on_run_finish = Decorator[RunResult | RunError]()
    on_timeout = Decorator[RunError]()

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
