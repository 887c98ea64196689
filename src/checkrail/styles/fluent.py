"""The fluent style: `on(point).when(condition).handle(decision=..., value=..., effects=[...])`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

from checkrail.engine.errors import HookRefusedError, suggestion
from checkrail.engine.event import Event
from checkrail.engine.hook import FailureKind, HookSpec, OnError, declare
from checkrail.engine.outcomes import (
    UNSET,
    Ask,
    Block,
    Continue,
    Fail,
    Outcome,
    Replace,
    Retry,
    Stop,
)
from checkrail.engine.points import CONTRACTS, Decision, HookPoint, Lane, find_places
from checkrail.engine.registry import HookRegistry
from checkrail.styles.agent_status import AgentStatus, appended_messages, history_of, status_of

if TYPE_CHECKING:
    from checkrail.engine.hook import HookOptions

HookDecision = Decision
DecisionName = Literal["continue", "block", "ask", "retry", "replace", "stop", "fail"]

Condition = Callable[[AgentStatus], bool | Awaitable[bool]]
Effect = Callable[[AgentStatus], object]

REFUSING = frozenset({Decision.BLOCK, Decision.FAIL, Decision.ASK, Decision.RETRY})
"""What lets nothing pass: a hook that says so and fails must not let it pass either."""

CLOSED: Mapping[FailureKind, OnError] = {
    "error": "block",
    "timeout": "block",
    "unreachable": "block",
}

TAKES_VALUE = frozenset({Decision.CONTINUE, Decision.REPLACE, Decision.STOP})
NEEDS_VALUE = frozenset({Decision.REPLACE, Decision.STOP})
DEFAULT_FEEDBACK = "Your answer was not accepted. Please answer again."


@dataclass(frozen=True, slots=True)
class On:
    """A hook being written: its point, and its conditions."""

    registry: HookRegistry
    point: str
    conditions: tuple[Any, ...] = ()

    def when(self, condition: Condition) -> On:
        """Narrow it to when `condition(status)` holds; said twice, both have to."""
        return dataclasses.replace(self, conditions=(*self.conditions, condition))

    def handle(
        self,
        decision: Decision | DecisionName = Decision.CONTINUE,
        value: Any = UNSET,
        effects: Iterable[Effect] = (),
        *,
        name: str | None = None,
        reason: str = "",
        **options: Unpack[HookOptions],
    ) -> HookSpec:
        """Register it: the effects act on the status, then the value is made, then it decides.

        `value` is given as it is, or by `fn(status, current_value)`. What the effects append to
        the conversation goes with `continue` and `retry`, and is dropped otherwise.
        """
        act = _Action(_parse_decision(name or self.point, decision), value, tuple(effects), reason)
        label = name or self._default_name(act)
        act.check_allowed(label, self.point)
        act.check_value(label)
        _check_callables(label, (*self.conditions, *act.effects))
        if act.effects and options.get("stream", "whole") != "whole":
            remedy = "They would act on every part of an answer: leave `stream` out"
            raise HookRefusedError(label, "it has effects and a window", remedy)
        if act.only_watches(self.point):
            options.setdefault("lane", Lane.OBSERVE)
        if "when" in options:
            raise HookRefusedError(label, "it has a `when` option", "Say it with .when(condition)")
        if act.decision in REFUSING and not options.keys() & {"on_error", "failure_mode"}:
            options["on_error"] = CLOSED
        options["source"] = options.get("source") or _caller_location()
        options["decisions"] = frozenset({act.decision})
        options["when"] = self._build_condition()
        if options.get("mode") == "shadow":
            act = dataclasses.replace(act, effects=())  # a shadow changes nothing
        spec = declare(act.build_hook(), (self.point,), label, target_name=label, **options)
        return self.registry.register(dataclasses.replace(spec, named=name is not None))

    def _default_name(self, act: _Action) -> str:
        for fn in (*self.conditions, act.value, *act.effects):
            told = getattr(fn, "__name__", "<")
            if not told.startswith("<"):
                return str(told).strip("_")
        return f"{act.decision}_{self.point}"

    def _build_condition(self) -> Callable[[Event[Any]], Any] | None:
        conditions = self.conditions
        if not conditions:
            return None

        async def holds(event: Event[Any]) -> bool:
            status = status_of(event)
            for condition in conditions:
                if not await _await_if_needed(condition(status)):
                    return False
            return True

        return holds


@dataclass(frozen=True, slots=True)
class _Action:
    """What a hook of this style does."""

    decision: Decision
    value: Any
    effects: tuple[Any, ...]
    reason: str

    def check_allowed(self, name: str, point: str) -> None:
        """Raise if a point does not allow the decision, whatever else is right or wrong."""
        for place in find_places(point):
            allowed = CONTRACTS[place.point].decisions
            if self.decision not in allowed:
                remedy = f"Allowed are: {', '.join(sorted(allowed))}"
                raise HookRefusedError(name, f"{point} does not allow {self.decision}", remedy)

    def check_value(self, name: str) -> None:
        """Refuse what could never be right."""
        if self.value is UNSET and self.decision in NEEDS_VALUE:
            remedy = "Give `value`: the value itself, or fn(status, current_value)"
            raise HookRefusedError(name, f"{self.decision} has no value", remedy)
        if self.value is not UNSET and self.decision not in TAKES_VALUE:
            remedy = "Say why with `reason`, or change the value with continue"
            raise HookRefusedError(name, f"{self.decision} takes no value", remedy)

    def only_watches(self, point: str) -> bool:
        """Return whether all it can do is act on the status: then nothing has to wait for it."""
        inject = any(CONTRACTS[place.point].inject for place in find_places(point))
        return self.decision is Decision.CONTINUE and self.value is UNSET and not inject

    def leaves_request(self, value: Any, point: str) -> bool:
        """Return whether a value is the guide's at `before_llm_call`: None, so nothing changes."""
        at_request = point == HookPoint.BEFORE_LLM_CALL
        return value is None and at_request and self.decision is Decision.CONTINUE

    def build_hook(self) -> Callable[[Event[Any]], Awaitable[Outcome | None]]:
        """Build the hook."""

        async def hook(event: Event[Any]) -> Outcome | None:
            history = history_of(event)
            status = status_of(event, history)
            for effect in self.effects:
                await _await_if_needed(effect(status))
            value = self.value
            if callable(value):
                value = await _await_if_needed(value(status, event.value))
            if self.leaves_request(value, event.point):
                value = UNSET
            return self.build_outcome(value, appended_messages(status, history))

        return hook

    def build_outcome(self, value: Any, inject: Sequence[Mapping[str, Any]]) -> Outcome | None:
        """Return the decision as an outcome of the engine."""
        match self.decision:
            case Decision.CONTINUE:
                return None if value is UNSET and not inject else Continue(value, inject=inject)
            case Decision.RETRY:
                return Retry(self.reason or DEFAULT_FEEDBACK, inject)
            case Decision.STOP:
                return Stop(value, self.reason)
            case Decision.REPLACE:
                return Replace(value, self.reason)
            case Decision.BLOCK:
                return Block(self.reason)
            case Decision.ASK:
                return Ask(self.reason)
            case Decision.FAIL:
                return Fail(self.reason)


def on(registry: HookRegistry, point: str) -> On:
    """Begin a hook: `on(registry, point).when(condition).handle(...)`."""
    find_places(point)
    return On(registry, point)


def _check_callables(name: str, given: tuple[Any, ...]) -> None:
    for fn in given:
        if not callable(fn):
            problem = f"a condition or effect is {type(fn).__name__}, which cannot be called"
            raise HookRefusedError(name, problem, "Give functions that take the status")


def _parse_decision(name: str, given: str) -> Decision:
    try:
        return Decision(given)
    except ValueError:
        problem = f"there is no decision {given!r}{suggestion(str(given), map(str, Decision))}"
        remedy = f"The decisions are: {', '.join(Decision)}"
        raise HookRefusedError(name, problem, remedy) from None


async def _await_if_needed(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _caller_location() -> str:
    """Return where `handle` was called."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    return "code" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
