"""What the decorator of each point accepts, for type checkers: nothing of this is run.

A hook is a function of the event, or of the event and its value. It may return the decisions that
its point allows, or nothing, and be sync or async; it stays what it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Never, Protocol, Self, TypeAlias, TypeVar, Unpack, overload

from checkrail.engine.event import Event
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Replace, Retry, Stop
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
from checkrail.styles.options import DecoratorOptions

V = TypeVar("V")
A = TypeVar("A")
D = TypeVar("D")

OfValue: TypeAlias = Callable[[Event[V], V], A]
OfEvent: TypeAlias = Callable[[Event[V]], A]
Answers: TypeAlias = Awaitable[D | None] | D | None
Refusal: TypeAlias = Block | Fail
Reply: TypeAlias = AssistantMessage | str

WatchingAnswer = TypeVar("WatchingAnswer", bound=Answers[Continue[Never]])
OpeningAnswer = TypeVar("OpeningAnswer", bound=Answers[Continue[Never] | Refusal])
ReceivingAnswer = TypeVar(
    "ReceivingAnswer", bound=Answers[Continue[InboundMessage | str] | Refusal | Ask | Stop[str]]
)
AdmittingAnswer = TypeVar("AdmittingAnswer", bound=Answers[Continue[Any] | Refusal])
StartingAnswer = TypeVar(
    "StartingAnswer", bound=Answers[Continue[Any] | Refusal | Ask | Replace[Any]]
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
EndingAnswer = TypeVar("EndingAnswer", bound=Answers[Continue[AgentResponse | str | None]])
ResultingAnswer = TypeVar("ResultingAnswer", bound=Answers[Continue[Any] | Refusal | Ask])
SendingAnswer = TypeVar(
    "SendingAnswer", bound=Answers[Continue[OutboundMessage | str] | Refusal | Ask]
)


class Watching(Protocol[V]):
    """The decorator of a point where hooks only watch."""

    @overload
    def __call__(self, fn: OfValue[V, WatchingAnswer], /) -> OfValue[V, WatchingAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[V, WatchingAnswer], /) -> OfEvent[V, WatchingAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class Opening(Protocol):
    """The decorator of `on_session_start`."""

    @overload
    def __call__(
        self, fn: OfValue[Session, OpeningAnswer], /
    ) -> OfValue[Session, OpeningAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[Session, OpeningAnswer], /
    ) -> OfEvent[Session, OpeningAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class Receiving(Protocol):
    """The decorator of `before_inbound`."""

    @overload
    def __call__(
        self, fn: OfValue[InboundMessage, ReceivingAnswer], /
    ) -> OfValue[InboundMessage, ReceivingAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[InboundMessage, ReceivingAnswer], /
    ) -> OfEvent[InboundMessage, ReceivingAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class Admitting(Protocol):
    """The decorator of `before_run`."""

    @overload
    def __call__(self, fn: OfValue[Any, AdmittingAnswer], /) -> OfValue[Any, AdmittingAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[Any, AdmittingAnswer], /) -> OfEvent[Any, AdmittingAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class Starting(Protocol):
    """The decorator of `on_run_start`."""

    @overload
    def __call__(self, fn: OfValue[Any, StartingAnswer], /) -> OfValue[Any, StartingAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[Any, StartingAnswer], /) -> OfEvent[Any, StartingAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class BeforeModel(Protocol):
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


class AfterModel(Protocol):
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


class BeforeTool(Protocol):
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


class AfterTool(Protocol):
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


class Ending(Protocol):
    """The decorator of `query_end`."""

    @overload
    def __call__(
        self, fn: OfValue[AgentResponse | None, EndingAnswer], /
    ) -> OfValue[AgentResponse | None, EndingAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[AgentResponse | None, EndingAnswer], /
    ) -> OfEvent[AgentResponse | None, EndingAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class Resulting(Protocol):
    """The decorator of `on_result`."""

    @overload
    def __call__(self, fn: OfValue[Any, ResultingAnswer], /) -> OfValue[Any, ResultingAnswer]: ...
    @overload
    def __call__(self, fn: OfEvent[Any, ResultingAnswer], /) -> OfEvent[Any, ResultingAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...


class Sending(Protocol):
    """The decorator of `before_outbound`."""

    @overload
    def __call__(
        self, fn: OfValue[OutboundMessage, SendingAnswer], /
    ) -> OfValue[OutboundMessage, SendingAnswer]: ...
    @overload
    def __call__(
        self, fn: OfEvent[OutboundMessage, SendingAnswer], /
    ) -> OfEvent[OutboundMessage, SendingAnswer]: ...
    @overload
    def __call__(self, /, **options: Unpack[DecoratorOptions]) -> Self: ...
