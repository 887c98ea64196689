"""What the decorator of each point accepts, for type checkers: nothing of this is run.

A hook is a function of the event, or of the event and its value. It may return the decisions that
its point allows, or nothing, and be sync or async; it stays what it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Never, Protocol, Self, TypeAlias, TypedDict, TypeVar, Unpack, overload

from checkrail.engine.asks import AskHandler
from checkrail.engine.event import Event
from checkrail.engine.hook import HookOptions
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Replace, Retry, Stop
from checkrail.engine.records import History
from checkrail.engine.scope import Sink
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    Session,
    ToolCall,
    ToolResult,
)

V = TypeVar("V")
A = TypeVar("A")
D = TypeVar("D")

OfValue: TypeAlias = Callable[[Event[V], V], A]
OfEvent: TypeAlias = Callable[[Event[V]], A]
Answers: TypeAlias = Awaitable[D | None] | D | None
Refusal: TypeAlias = Block | Fail
Reply: TypeAlias = AssistantMessage | str

ObserverAnswer = TypeVar("ObserverAnswer", bound=Answers[Continue[Never]])
SessionStartAnswer = TypeVar("SessionStartAnswer", bound=Answers[Continue[Never] | Refusal])
InboundAnswer = TypeVar(
    "InboundAnswer", bound=Answers[Continue[InboundMessage | str] | Refusal | Ask | Stop[str]]
)
BeforeRunAnswer = TypeVar("BeforeRunAnswer", bound=Answers[Continue[Any] | Refusal])
RunStartAnswer = TypeVar(
    "RunStartAnswer", bound=Answers[Continue[Any] | Refusal | Ask | Replace[Any]]
)
BeforeModelAnswer = TypeVar(
    "BeforeModelAnswer",
    bound=Answers[Continue[ModelRequest] | Refusal | Ask | Replace[Reply] | Stop[Reply]],
)
AfterModelAnswer = TypeVar(
    "AfterModelAnswer", bound=Answers[Continue[Reply] | Refusal | Ask | Retry | Stop[Reply]]
)
BeforeToolAnswer = TypeVar(
    "BeforeToolAnswer",
    bound=Answers[Continue[ToolCall | str] | Refusal | Ask | Replace[ToolResult | str]],
)
AfterToolAnswer = TypeVar("AfterToolAnswer", bound=Answers[Continue[ToolResult | str] | Refusal])
QueryEndAnswer = TypeVar("QueryEndAnswer", bound=Answers[Continue[AgentResponse | str | None]])
ResultAnswer = TypeVar("ResultAnswer", bound=Answers[Continue[Any] | Refusal | Ask])
OutboundAnswer = TypeVar(
    "OutboundAnswer", bound=Answers[Continue[OutboundMessage | str] | Refusal | Ask]
)


class ObserverDecorator(Protocol[V]):
    """The decorator of a point where hooks only watch."""

    @overload
    def __call__(self, fn: OfValue[V, ObserverAnswer], /) -> OfValue[V, ObserverAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[V, ObserverAnswer], /) -> OfEvent[V, ObserverAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class SessionStartDecorator(Protocol):
    """The decorator of `on_session_start`."""

    @overload
    def __call__(
        self, fn: OfValue[Session, SessionStartAnswer], /
    ) -> OfValue[Session, SessionStartAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[Session, SessionStartAnswer], /
    ) -> OfEvent[Session, SessionStartAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class InboundDecorator(Protocol):
    """The decorator of `before_inbound`."""

    @overload
    def __call__(
        self, fn: OfValue[InboundMessage, InboundAnswer], /
    ) -> OfValue[InboundMessage, InboundAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[InboundMessage, InboundAnswer], /
    ) -> OfEvent[InboundMessage, InboundAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class BeforeRunDecorator(Protocol):
    """The decorator of `before_run`."""

    @overload
    def __call__(self, fn: OfValue[Any, BeforeRunAnswer], /) -> OfValue[Any, BeforeRunAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[Any, BeforeRunAnswer], /) -> OfEvent[Any, BeforeRunAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class RunStartDecorator(Protocol):
    """The decorator of `on_run_start`."""

    @overload
    def __call__(self, fn: OfValue[Any, RunStartAnswer], /) -> OfValue[Any, RunStartAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[Any, RunStartAnswer], /) -> OfEvent[Any, RunStartAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class BeforeModelDecorator(Protocol):
    """The decorator of `before_llm_call`."""

    @overload
    def __call__(
        self, fn: OfValue[ModelRequest, BeforeModelAnswer], /
    ) -> OfValue[ModelRequest, BeforeModelAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[ModelRequest, BeforeModelAnswer], /
    ) -> OfEvent[ModelRequest, BeforeModelAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class AfterModelDecorator(Protocol):
    """The decorator of `after_llm_call` and `before_final_response`."""

    @overload
    def __call__(
        self, fn: OfValue[AssistantMessage, AfterModelAnswer], /
    ) -> OfValue[AssistantMessage, AfterModelAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[AssistantMessage, AfterModelAnswer], /
    ) -> OfEvent[AssistantMessage, AfterModelAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class BeforeToolDecorator(Protocol):
    """The decorator of `before_tool_call`."""

    @overload
    def __call__(
        self, fn: OfValue[ToolCall, BeforeToolAnswer], /
    ) -> OfValue[ToolCall, BeforeToolAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[ToolCall, BeforeToolAnswer], /
    ) -> OfEvent[ToolCall, BeforeToolAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class AfterToolDecorator(Protocol):
    """The decorator of `after_tool_call` and `on_tool_error`."""

    @overload
    def __call__(
        self, fn: OfValue[ToolResult, AfterToolAnswer], /
    ) -> OfValue[ToolResult, AfterToolAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[ToolResult, AfterToolAnswer], /
    ) -> OfEvent[ToolResult, AfterToolAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class QueryEndDecorator(Protocol):
    """The decorator of `query_end`."""

    @overload
    def __call__(
        self, fn: OfValue[AgentResponse | None, QueryEndAnswer], /
    ) -> OfValue[AgentResponse | None, QueryEndAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[AgentResponse | None, QueryEndAnswer], /
    ) -> OfEvent[AgentResponse | None, QueryEndAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class ResultDecorator(Protocol):
    """The decorator of `on_result`."""

    @overload
    def __call__(self, fn: OfValue[Any, ResultAnswer], /) -> OfValue[Any, ResultAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[Any, ResultAnswer], /) -> OfEvent[Any, ResultAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class OutboundDecorator(Protocol):
    """The decorator of `before_outbound`."""

    @overload
    def __call__(
        self, fn: OfValue[OutboundMessage, OutboundAnswer], /
    ) -> OfValue[OutboundMessage, OutboundAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[OutboundMessage, OutboundAnswer], /
    ) -> OfEvent[OutboundMessage, OutboundAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class DecoratorOptions(HookOptions, total=False):
    """The options of a hook, with its name; `when` may also be a CEL expression."""

    name: str
    when: Callable[..., Any] | str | None  # type: ignore[misc]


class RegistryOptions(TypedDict, total=False):
    """The options of a registry that a `Hooks` makes itself."""

    sink: Sink | Iterable[Sink] | None
    ask: AskHandler | None
    history: History
    max_retries: int


class RunHookOptions(HookOptions, total=False):
    """The options of a run hook, with its name."""

    name: str
