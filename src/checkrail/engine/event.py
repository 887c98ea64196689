"""What a hook is given: the value at its point, and where in the agent's life it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from checkrail.engine.errors import suggestion
from checkrail.engine.frozen import FrozenDict, FrozenList, FrozenObject, set_field
from checkrail.engine.values import AssistantMessage, ModelRequest, User, Value

if TYPE_CHECKING:
    from checkrail.engine.dispatch_state import Dispatch
    from checkrail.engine.points import HookPoint
    from checkrail.engine.verdict import Verdict

V_co = TypeVar("V_co", covariant=True)

NO_CONFIG: Mapping[str, Any] = FrozenDict({})

LIVE = "checkrail.live"
"""In the metadata of an event of an agent loop: the loop's own state."""

ORIGINAL = "original_parameters"
"""In the metadata of an event after a run: what was asked for, before hooks changed it."""


@dataclass(frozen=True, slots=True)
class Context(Value):
    """The ids that an event belongs to, and who is acting; absent ones are None."""

    session_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    parent_run_id: str | None = None
    agent_name: str | None = None
    assistant_id: str | None = None
    request_id: str | None = None
    tool_call_id: str | None = None
    user: User | None = None
    model: str | None = None
    provider: str | None = None
    attempt: int = 1
    iteration: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: NO_CONFIG)

    def bind(self, changes: Mapping[str, Any]) -> Context:
        """Return a context with some fields set anew."""
        known = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in changes:
            if name not in known:
                message = f"an event has no field {name!r}{suggestion(name, known)}"
                raise TypeError(message)
        bound = known | dict(changes)
        bound["user"] = _user(bound["user"])
        for name in ("attempt", "iteration"):
            if not isinstance(bound[name], int | None):
                raise TypeError(f"{name} is a whole number, not {type(bound[name]).__name__}")
        return Context(**bound)


def _user(given: Any) -> User | None:
    if isinstance(given, str):
        return User(identity=given)
    if isinstance(given, Mapping):
        return User(**given)
    if given is None or isinstance(given, User):
        return given
    raise TypeError(f"a user is a name, a mapping or a User, not {type(given).__name__}")


def _context_field(name: str, doc: str) -> Any:
    return property(attrgetter(f"_dispatch.scope.context.{name}"), doc=doc)


class Event(FrozenObject, Generic[V_co]):
    """One event at one point. It never changes after a hook has seen it."""

    __slots__ = ("_dispatch", "value")
    frozen_hint = ". Return Continue(value) instead"

    value: V_co
    _dispatch: Dispatch
    config: Mapping[str, Any] = NO_CONFIG
    """The config of the hook that is given this event."""
    verdict: Verdict | None = None
    """What was decided; observers alone see it."""

    def __init__(self, dispatch: Dispatch, value: Any) -> None:
        set_field(self, "_dispatch", dispatch)
        set_field(self, "value", value)

    def __repr__(self) -> str:
        return f"Event({self.point}, {self.value!r})"

    @property
    def point(self) -> HookPoint:
        """The point that was reached."""
        return self._dispatch.chain.point

    @property
    def original(self) -> V_co:
        """The value that was given to this dispatch, or what a redaction left of it."""
        return self._dispatch.original  # type: ignore[no-any-return]

    @property
    def context(self) -> Context:
        """The ids that this belongs to, in one object."""
        return self._dispatch.scope.context

    @property
    def timestamp(self) -> float:
        """When the point was reached, in seconds since the epoch."""
        return self._dispatch.reached_at

    @property
    def model(self) -> str | None:
        """The model at work: a request's own; of an answer, the one that was asked.

        The name under which it answered is `value.model`.
        """
        own, asked = getattr(self.value, "model", None), self.context.model
        return asked or own if isinstance(self.value, AssistantMessage) else own or asked

    @property
    def provider(self) -> str | None:
        """The model's provider: the value's own, else the context's."""
        return getattr(self.value, "provider", None) or self.context.provider

    @property
    def new_messages(self) -> Sequence[Mapping[str, Any]] | None:
        """At `before_llm_call`: the messages that are new since the conversation's last request.

        Until hooks have let a message through, it is new, and all are when hooks change.
        """
        request: Any = self.value
        if not isinstance(request, ModelRequest):
            return None
        return FrozenList(self._dispatch.find_new_messages(request.messages))

    session_id: str | None = _context_field("session_id", "The session that this belongs to.")
    thread_id: str | None = _context_field("thread_id", "The conversation that this belongs to.")
    run_id: str | None = _context_field("run_id", "The run that this belongs to.")
    parent_run_id: str | None = _context_field("parent_run_id", "The run that started this run.")
    agent_name: str | None = _context_field("agent_name", "The agent at work.")
    assistant_id: str | None = _context_field(
        "assistant_id", "The assistant, as the LangGraph API names an agent with its config."
    )
    request_id: str | None = _context_field("request_id", "The request that this belongs to.")
    tool_call_id: str | None = _context_field("tool_call_id", "The tool call that this belongs to.")
    user: User | None = _context_field("user", "Who is acting.")
    attempt: int = _context_field("attempt", "Which attempt of the run this is, from 1.")
    iteration: int | None = _context_field("iteration", "Which iteration of the loop this is.")
    metadata: Mapping[str, Any] = _context_field("metadata", "What the caller added.")

    def with_config(self, config: Mapping[str, Any]) -> Event[V_co]:
        """Return this event as a hook with some config is given it."""
        return DetailedEvent(self._dispatch, self.value, config, self.verdict)


class DetailedEvent(Event[V_co]):
    """An event for a hook with a config, or for an observer."""

    __slots__ = ("config", "verdict")

    def __init__(
        self, dispatch: Dispatch, value: Any, config: Mapping[str, Any], verdict: Verdict | None
    ) -> None:
        super().__init__(dispatch, value)
        set_field(self, "config", config)
        set_field(self, "verdict", verdict)


def dispatch_of(event: Event[Any]) -> Dispatch:
    """Return the dispatch that an event is of, which tells it from other events at its point."""
    return event._dispatch


def notes_of(event: Event[Any]) -> dict[str, Any]:
    """Return what hooks and hosts of one piece of work note for each other, by their names.

    It is shared by all events of that work and is no part of any of them.
    """
    return event._dispatch.scope.notes
