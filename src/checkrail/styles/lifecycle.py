"""The lifecycle style: a hook class whose events name what they carry, one type for each point."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.hook import Hook
from checkrail.engine.outcomes import Outcome, Reject
from checkrail.engine.points import HookPoint
from checkrail.engine.text import text_of
from checkrail.engine.values import (
    AssistantMessage,
    InboundMessage,
    OutboundMessage,
    Session,
    ToolCall,
)


@dataclass(frozen=True, slots=True)
class InboundEvent:
    """A user's message is about to be processed."""

    user_id: str | None
    channel: str | None
    content: str
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """A tool is about to be called; `context` is `chat`, or the id of the run that calls it."""

    tool_name: str
    parameters: Mapping[str, Any]
    user_id: str | None
    context: str = "chat"


@dataclass(frozen=True, slots=True)
class OutboundEvent:
    """A reply is about to leave on its channel."""

    user_id: str | None
    channel: str | None
    content: str
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionStartEvent:
    """A session was opened."""

    user_id: str | None
    session_id: str


@dataclass(frozen=True, slots=True)
class SessionEndEvent:
    """A session has ended; the threads are those that belonged to it."""

    user_id: str | None
    session_id: str
    thread_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ResponseTransformEvent:
    """The final response of a turn, before anybody sees it."""

    user_id: str | None
    thread_id: str | None
    response: str


LifecycleEvent = (
    InboundEvent
    | ToolCallEvent
    | OutboundEvent
    | SessionStartEvent
    | SessionEndEvent
    | ResponseTransformEvent
)

READ = (InboundMessage, OutboundMessage, ToolCall, Session, AssistantMessage)
"""The values of which there are events."""


def read_event(event: Event[Any]) -> LifecycleEvent:
    """Return an event in the form of its point, or raise that there is none."""
    value = event.value
    if isinstance(value, (InboundMessage, OutboundMessage)):
        kind = InboundEvent if isinstance(value, InboundMessage) else OutboundEvent
        return kind(value.user_id, value.channel, value.content, value.thread_id)
    if isinstance(value, ToolCall):
        return ToolCallEvent(value.name, value.args, _user_id(event), value.context)
    if isinstance(value, Session):
        if event.point is HookPoint.ON_SESSION_START:
            return SessionStartEvent(value.user_id, value.session_id)
        return SessionEndEvent(value.user_id, value.session_id, value.thread_ids)
    if isinstance(value, AssistantMessage):
        return ResponseTransformEvent(_user_id(event), event.thread_id, _response(value))
    message = f"a lifecycle hook reads no {type(value).__name__}: it has no event for {event.point}"
    raise InvalidOutcomeError(message)


def _user_id(event: Event[Any]) -> str | None:
    return event.user.identity if event.user is not None else None


def _response(message: AssistantMessage) -> str:
    return message.content if isinstance(message.content, str) else text_of(message.content)


Execute = Callable[..., "Outcome | Reject | Awaitable[Outcome | Reject | None] | None"]


class LifecycleHook(Hook):
    """Subclass it and define `execute(self, event, ctx)`: `event` is a `LifecycleEvent`.

    It may return `Reject(reason)` as well as raise it, and fails open unless its `failure_mode`
    says otherwise.
    """

    hook_options: ClassVar[Mapping[str, Any]] = {"failure_mode": "fail_open"}

    def __init_subclass__(cls, **options: Any) -> None:
        """Let the engine call `execute` with the events of this style."""
        super().__init_subclass__(**options)
        if "execute" in vars(cls):
            cls.execute = _adapt_execute(cls.__name__, vars(cls)["execute"])

    def hook_reads(self, _config: Mapping[str, Any]) -> tuple[type, ...]:
        """Return the types of values that it can be called with."""
        return READ


def _adapt_execute(owner: str, execute: Execute) -> Callable[..., Awaitable[Outcome | None]]:
    signature = inspect.signature(execute)
    try:
        signature.bind(None, None, None)
    except TypeError:
        message = (
            f"{owner}.execute has the parameters {signature}: define execute(self, event, ctx)"
        )
        raise TypeError(message) from None

    @functools.wraps(execute)
    async def call(self: LifecycleHook, event: Any, ctx: Any) -> Any:
        if isinstance(event, Event):  # and not what a subclass hands to its base
            event, ctx = read_event(event), event.context
        answer = execute(self, event, ctx)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer.as_block() if isinstance(answer, Reject) else answer

    vars(call)["func"] = execute  # as a partial has it: where the hook stands is shown
    return call
