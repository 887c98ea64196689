"""What a hook is given: the value at its point, and where in the agent's life it stands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from checkrail.engine.errors import suggestion
from checkrail.engine.frozen import FrozenDict, FrozenError
from checkrail.engine.values import User, Value

if TYPE_CHECKING:
    from checkrail.engine.points import HookPoint
    from checkrail.engine.verdict import Verdict

V_co = TypeVar("V_co", covariant=True)

NO_CONFIG: Mapping[str, Any] = FrozenDict({})


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
        return Context(**bound)


def _user(given: Any) -> User | None:
    if isinstance(given, str):
        return User(identity=given)
    if isinstance(given, Mapping):
        return User(**given)
    return given  # type: ignore[no-any-return]


class EventDraft(Generic[V_co]):
    """An event while it is being made; a hook only ever sees the frozen `Event`."""

    __slots__ = ("_at", "config", "context", "original", "point", "value", "verdict")

    point: HookPoint
    value: V_co
    original: V_co
    config: Mapping[str, Any]
    context: Context
    verdict: Verdict | None
    _at: float


class Event(EventDraft[V_co]):
    """One event at one point. It never changes after a hook has seen it."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"an event is frozen: {name!r} cannot be set. Return Continue(value) instead"
        raise FrozenError(message)

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Event({self.point}, {self.value!r})"

    @property
    def timestamp(self) -> float:
        """When the point was reached, in seconds since the epoch."""
        return wall(self._at)

    @property
    def session_id(self) -> str | None:
        """The session that this belongs to."""
        return self.context.session_id

    @property
    def thread_id(self) -> str | None:
        """The conversation that this belongs to."""
        return self.context.thread_id

    @property
    def run_id(self) -> str | None:
        """The run that this belongs to."""
        return self.context.run_id

    @property
    def parent_run_id(self) -> str | None:
        """The run that started this run."""
        return self.context.parent_run_id

    @property
    def agent_name(self) -> str | None:
        """The agent at work."""
        return self.context.agent_name

    @property
    def assistant_id(self) -> str | None:
        """The assistant, as the LangGraph API names an agent with its config."""
        return self.context.assistant_id

    @property
    def request_id(self) -> str | None:
        """The request that this belongs to."""
        return self.context.request_id

    @property
    def tool_call_id(self) -> str | None:
        """The tool call that this belongs to."""
        return self.context.tool_call_id

    @property
    def user(self) -> User | None:
        """Who is acting."""
        return self.context.user

    @property
    def model(self) -> str | None:
        """The model at work: the value's own, else the context's."""
        return getattr(self.value, "model", None) or self.context.model

    @property
    def provider(self) -> str | None:
        """The model's provider: the value's own, else the context's."""
        return getattr(self.value, "provider", None) or self.context.provider

    @property
    def attempt(self) -> int:
        """Which attempt of the run this is, from 1."""
        return self.context.attempt

    @property
    def iteration(self) -> int | None:
        """Which iteration of the agent loop this is."""
        return self.context.iteration

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the caller added."""
        return self.context.metadata


def variant(event: EventDraft[Any], **changes: Any) -> Event[Any]:
    """Give an event like this one, with some fields set anew."""
    draft: EventDraft[Any] = EventDraft()
    for name in EventDraft.__slots__:
        setattr(draft, name, changes[name] if name in changes else getattr(event, name))
    draft.__class__ = Event
    return draft  # type: ignore[return-value]
