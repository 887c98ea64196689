"""What a hook is given: the value at its point, and where in the agent's life it stands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from checkrail.engine.errors import suggestion
from checkrail.engine.frozen import FrozenDict, FrozenError
from checkrail.engine.values import AssistantMessage, User, Value

if TYPE_CHECKING:
    from checkrail.engine.dispatch import Dispatch
    from checkrail.engine.points import HookPoint
    from checkrail.engine.verdict import Verdict

V_co = TypeVar("V_co", covariant=True)

NO_CONFIG: Mapping[str, Any] = FrozenDict({})

LIVE = "checkrail.live"
"""In the metadata of an event of an agent loop: the loop's own state."""

ORIGINAL = "original_parameters"
"""In the metadata of an event after a run: what was asked for, before hooks changed it."""


def wall(moment: float) -> float:
    """Turn a reading of the performance counter into seconds since the epoch."""
    return time.time() - (perf_counter() - moment)


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
        """Give a context with some fields set anew."""
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


class EventDraft(Generic[V_co]):
    """An event while it is being made; a hook only ever sees the frozen `Event`."""

    __slots__ = ("_d", "_more", "value")

    value: V_co
    _d: Dispatch
    _more: tuple[Mapping[str, Any], Verdict | None]


class Event(EventDraft[V_co]):
    """One event at one point. It never changes after a hook has seen it."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"an event is frozen: {name!r} cannot be set. Return Continue(value) instead"
        raise FrozenError(message)

    def __delattr__(self, name: str) -> NoReturn:
        message = f"an event is frozen: {name!r} cannot be deleted"
        raise FrozenError(message)

    def __repr__(self) -> str:
        return f"Event({self.point}, {self.value!r})"

    @property
    def point(self) -> HookPoint:
        """The point that was reached."""
        return self._d.chain.point

    @property
    def original(self) -> V_co:
        """The value that was given to this dispatch, or what a redaction left of it."""
        return self._d.original  # type: ignore[no-any-return]

    @property
    def config(self) -> Mapping[str, Any]:
        """The config of the hook that was given this event."""
        return self._more[0]

    @property
    def verdict(self) -> Verdict | None:
        """What was decided; observers alone see it."""
        return self._more[1]

    @property
    def context(self) -> Context:
        """The ids that this belongs to, in one object."""
        return self._d.scope.context

    @property
    def timestamp(self) -> float:
        """When the point was reached, in seconds since the epoch."""
        d = self._d
        if not hasattr(d, "reached"):
            object.__setattr__(d, "reached", wall(d.trace[1]))  # it may be a verdict by now
        return d.reached

    @property
    def session_id(self) -> str | None:
        """The session that this belongs to."""
        return self._d.scope.context.session_id

    @property
    def thread_id(self) -> str | None:
        """The conversation that this belongs to."""
        return self._d.scope.context.thread_id

    @property
    def run_id(self) -> str | None:
        """The run that this belongs to."""
        return self._d.scope.context.run_id

    @property
    def parent_run_id(self) -> str | None:
        """The run that started this run."""
        return self._d.scope.context.parent_run_id

    @property
    def agent_name(self) -> str | None:
        """The agent at work."""
        return self._d.scope.context.agent_name

    @property
    def assistant_id(self) -> str | None:
        """The assistant, as the LangGraph API names an agent with its config."""
        return self._d.scope.context.assistant_id

    @property
    def request_id(self) -> str | None:
        """The request that this belongs to."""
        return self._d.scope.context.request_id

    @property
    def tool_call_id(self) -> str | None:
        """The tool call that this belongs to."""
        return self._d.scope.context.tool_call_id

    @property
    def user(self) -> User | None:
        """Who is acting."""
        return self._d.scope.context.user

    @property
    def model(self) -> str | None:
        """The model at work: a request's own; of an answer, the one that was asked.

        The name under which it answered is `value.model`.
        """
        own, asked = getattr(self.value, "model", None), self._d.scope.context.model
        return asked or own if isinstance(self.value, AssistantMessage) else own or asked

    @property
    def provider(self) -> str | None:
        """The model's provider: the value's own, else the context's."""
        return getattr(self.value, "provider", None) or self._d.scope.context.provider

    @property
    def attempt(self) -> int:
        """Which attempt of the run this is, from 1."""
        return self._d.scope.context.attempt

    @property
    def iteration(self) -> int | None:
        """Which iteration of the agent loop this is."""
        return self._d.scope.context.iteration

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the caller added."""
        return self._d.scope.context.metadata


def notes_of(event: Event[Any]) -> dict[str, Any]:
    """Return what hooks and hosts of one piece of work note for each other, by their names.

    It is shared by all events of that work and is no part of any of them.
    """
    return event._d.scope.notes


NOTHING_MORE: tuple[Mapping[str, Any], None] = (NO_CONFIG, None)


def variant(event: EventDraft[Any], **changes: Any) -> Event[Any]:
    """Give an event like this one, with another value, config or verdict."""
    config, verdict = event._more
    draft: EventDraft[Any] = EventDraft()
    draft.value = changes.get("value", event.value)
    draft._d = event._d
    draft._more = (changes.get("config", config), changes.get("verdict", verdict))
    draft.__class__ = Event
    return draft  # type: ignore[return-value]
