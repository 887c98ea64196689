"""The points: where in an agent's life a hook can stand, and what it may do there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from checkrail.engine.errors import CheckrailError, InvalidOutcomeError, UnknownPointError
from checkrail.engine.frozen import FrozenDict, freeze
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


class HookPoint(StrEnum):
    """A named moment in an agent's life, in the order in which a life goes."""

    ON_SESSION_START = "on_session_start"
    BEFORE_INBOUND = "before_inbound"
    BEFORE_RUN = "before_run"
    ON_RUN_START = "on_run_start"
    BEFORE_LLM_CALL = "before_llm_call"
    AFTER_LLM_CALL = "after_llm_call"
    BEFORE_TOOL_CALL = "before_tool_call"
    AFTER_TOOL_CALL = "after_tool_call"
    ON_TOOL_ERROR = "on_tool_error"
    BEFORE_FINAL_RESPONSE = "before_final_response"
    QUERY_END = "query_end"
    ON_RESULT = "on_result"
    BEFORE_OUTBOUND = "before_outbound"
    AFTER_RUN = "after_run"
    ON_RUN_ERROR = "on_run_error"
    ON_SESSION_END = "on_session_end"


class Decision(StrEnum):
    """What a hook, and in the end a verdict, says."""

    CONTINUE = "continue"
    BLOCK = "block"
    ASK = "ask"
    RETRY = "retry"
    REPLACE = "replace"
    STOP = "stop"
    FAIL = "fail"


class Lane(StrEnum):
    """When a hook runs among those of its point."""

    TRANSFORM = "transform"
    GATE = "gate"
    OBSERVE = "observe"


LOOP_POINTS = frozenset(
    {
        HookPoint.BEFORE_LLM_CALL,
        HookPoint.AFTER_LLM_CALL,
        HookPoint.BEFORE_TOOL_CALL,
        HookPoint.AFTER_TOOL_CALL,
        HookPoint.ON_TOOL_ERROR,
        HookPoint.BEFORE_FINAL_RESPONSE,
    },
)
"""The points inside an agent loop, where messages can be injected."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What flows through a point, and what a hook may do there.

    `value`, `replace` and `stop` are types; `object` stands for any JSON data, None for "not here".
    """

    point: HookPoint
    value: type
    wire: str
    change: bool = False
    block: bool = False
    ask: bool = False
    retry: bool = False
    replace: type | None = None
    stop: type | None = None

    @property
    def decisions(self) -> frozenset[Decision]:
        """The decisions that a hook may return here."""
        allowed = {Decision.CONTINUE}
        if self.block:
            allowed |= {Decision.BLOCK, Decision.FAIL}
        if self.ask:
            allowed.add(Decision.ASK)
        if self.retry:
            allowed.add(Decision.RETRY)
        if self.replace:
            allowed.add(Decision.REPLACE)
        if self.stop:
            allowed.add(Decision.STOP)
        return frozenset(allowed)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes that a hook may stand in here, the default one first."""
        if self.change and self.block:
            return Lane.TRANSFORM, Lane.GATE, Lane.OBSERVE
        if self.change:
            return Lane.TRANSFORM, Lane.OBSERVE
        if self.block:
            return Lane.GATE, Lane.OBSERVE
        return (Lane.OBSERVE,)

    @property
    def inject(self) -> bool:
        """Whether messages can be injected here."""
        return self.point in LOOP_POINTS

    def admit(self, value: Any) -> Any:
        """Freeze a value that is about to flow through the point, or refuse it."""
        if _fits(self.value, value) or (value is None and self.point is HookPoint.QUERY_END):
            return freeze(value)
        message = (
            f"{self.point} carries {_type_name(self.value)}, "
            f"but was fired with {type(value).__name__}: give it the value of that type"
        )
        raise TypeError(message)

    def read_change(self, value: Any, current: Any, *, redacted: bool = False) -> Any:
        """Read a hook's changed value; a text stands for the value's primary text."""
        if isinstance(value, str) and self.value is not object:
            value = _with_text(current, value, self, redacted=redacted)
        if value is None and self.point is HookPoint.QUERY_END:
            return None
        return self._check_type("a changed value", self.value, value)

    def read_result(self, decision: Decision, value: Any, current: Any) -> Any:
        """Read the value that a `replace` or `stop` brings."""
        wanted = self.replace if decision is Decision.REPLACE else self.stop
        if wanted is None:  # pragma: no cover - decisions are checked first
            raise InvalidOutcomeError(decision)
        if isinstance(value, str):
            if wanted is AssistantMessage:
                value = AssistantMessage(content=value)
            elif wanted is ToolResult:
                value = ToolResult(id=current.id, name=current.name, content=value)
        return self._check_type(f"a {decision} value", wanted, value)

    def _check_type(self, what: str, wanted: type, value: Any) -> Any:
        if _fits(wanted, value):
            try:
                return freeze(value)
            except ValueError as error:
                raise InvalidOutcomeError(f"{what} at {self.point}: {error}") from None
        message = f"{what} at {self.point} is {_type_name(wanted)}, not {type(value).__name__}"
        raise InvalidOutcomeError(message)


def _fits(wanted: type, value: Any) -> bool:
    return wanted is object or isinstance(value, wanted)


def _type_name(wanted: type) -> str:
    article = "an" if wanted.__name__[0] in "AEIOU" else "a"
    return "a text" if wanted is str else f"{article} {wanted.__name__}"


def _with_text(current: Any, text: str, contract: Contract, *, redacted: bool) -> Any:
    if isinstance(current, ToolCall):
        return dataclasses.replace(current, args=_arguments(text, contract))
    if current is None:
        return AgentResponse(content=text)
    if isinstance(current, AssistantMessage) and not redacted:
        return dataclasses.replace(current, content=_new_content(current, text))
    if hasattr(current, "content"):
        return dataclasses.replace(current, content=text)
    message = (
        f"a {type(current).__name__} has no primary text: "
        f"at {contract.point} return Continue with a whole {type(current).__name__}"
    )
    raise InvalidOutcomeError(message)


def _new_content(message: AssistantMessage, text: str) -> str | list[Any]:
    """Return the content of an answer that says another text.

    Where the model goes on from it, because it calls tools or paused, its provider wants signed
    thoughts and the like back: they stay where they are. In any other answer only the text is left.
    """
    content = message.content
    goes_on = bool(message.tool_calls) or message.stop_reason == "pause"
    if isinstance(content, str) or not goes_on:
        return text
    others = [part for part in content if not _is_text(part)]
    if not others:
        return text
    spoken = next((n for n, part in enumerate(content) if _is_text(part)), len(others))
    return [*others[:spoken], *([{"type": "text", "text": text}] if text else ()), *others[spoken:]]


def _is_text(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else "text"
    return kind in ("text", "output_text", "refusal")


def _arguments(text: str, contract: Contract) -> dict[str, Any]:
    import json  # slow to import, and most programs never need it

    try:
        args = json.loads(text)
    except ValueError as error:
        message = f"a text given for tool arguments at {contract.point} is not JSON: {error}"
        raise InvalidOutcomeError(message) from None
    if not isinstance(args, dict):
        message = f"tool arguments at {contract.point} are a JSON object, not {type(args).__name__}"
        raise InvalidOutcomeError(message)
    return args


def _contracts() -> dict[HookPoint, Contract]:
    at = HookPoint
    reply = AssistantMessage
    table = [
        _row(at.ON_SESSION_START, Session, "session", "block"),
        _row(at.BEFORE_INBOUND, InboundMessage, "content", "change block ask", stop=str),
        _row(at.BEFORE_RUN, object, "parameters", "change block"),
        _row(at.ON_RUN_START, object, "parameters", "change block ask", replace=object),
        _row(
            at.BEFORE_LLM_CALL,
            ModelRequest,
            "request",
            "change block ask",
            replace=reply,
            stop=reply,
        ),
        _row(at.AFTER_LLM_CALL, reply, "message", "change block ask retry", stop=reply),
        _row(at.BEFORE_TOOL_CALL, ToolCall, "tool_call", "change block ask", replace=ToolResult),
        _row(at.AFTER_TOOL_CALL, ToolResult, "tool_result", "change block"),
        _row(at.ON_TOOL_ERROR, ToolResult, "tool_result", "change block"),
        _row(at.BEFORE_FINAL_RESPONSE, reply, "message", "change block ask retry", stop=reply),
        _row(at.QUERY_END, AgentResponse, "response", "change"),
        _row(at.ON_RESULT, object, "output", "change block ask"),
        _row(at.BEFORE_OUTBOUND, OutboundMessage, "content", "change block ask"),
        _row(at.AFTER_RUN, RunResult, "result"),
        _row(at.ON_RUN_ERROR, RunError, "error"),
        _row(at.ON_SESSION_END, Session, "session"),
    ]
    return {contract.point: contract for contract in table}


def _row(
    point: HookPoint,
    value: type,
    wire: str,
    allows: str = "",
    *,
    replace: type | None = None,
    stop: type | None = None,
) -> Contract:
    said = allows.split()
    return Contract(
        point,
        value,
        wire,
        change="change" in said,
        block="block" in said,
        ask="ask" in said,
        retry="retry" in said,
        replace=replace,
        stop=stop,
    )


CONTRACTS = _contracts()

Guard = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Place:
    """A point as a user named it; `guard` narrows an alias to some of the point's events."""

    point: HookPoint
    declared: str
    guard: Guard | None = None


def _is_success(event: Any) -> bool:
    return bool(event.value.status == "success")


def _is_timeout(event: Any) -> bool:
    return bool(event.value.status == "timeout")


ALIASES: dict[str, tuple[tuple[HookPoint, Guard | None], ...]] = {
    "pre_request": ((HookPoint.BEFORE_LLM_CALL, None),),
    "post_response": ((HookPoint.AFTER_LLM_CALL, None),),
    "pre_tool_call": ((HookPoint.BEFORE_TOOL_CALL, None),),
    "before_tool_execution": ((HookPoint.BEFORE_TOOL_CALL, None),),
    "on_tool_call": ((HookPoint.BEFORE_TOOL_CALL, None),),
    "post_tool_call": ((HookPoint.AFTER_TOOL_CALL, None),),
    "after_tool_execution": ((HookPoint.AFTER_TOOL_CALL, None),),
    "transform_response": ((HookPoint.BEFORE_FINAL_RESPONSE, None),),
    "on_error": ((HookPoint.ON_RUN_ERROR, None),),
    "on_run_finish": ((HookPoint.AFTER_RUN, _is_success), (HookPoint.ON_RUN_ERROR, None)),
    "on_timeout": ((HookPoint.ON_RUN_ERROR, _is_timeout),),
}
"""Other names that users know; some stand for two points, or for some events of one."""

FIRED_AS: dict[str, HookPoint] = {
    **{str(point): point for point in HookPoint},
    **{name: places[0][0] for name, places in ALIASES.items() if places == ((places[0][0], None),)},
}
"""Every name that can be fired; an alias that narrows or doubles a point cannot."""


def find_places(name: str) -> tuple[Place, ...]:
    """Find the points that a name stands for."""
    if name in ALIASES:
        return tuple(Place(point, str(name), guard) for point, guard in ALIASES[name])
    try:
        return (Place(HookPoint(name), str(name)),)
    except ValueError:
        raise UnknownPointError(name, [*HookPoint, *ALIASES]) from None


def find_point(name: str) -> HookPoint:
    """Find the one point that a name stands for."""
    try:
        return FIRED_AS[name]
    except (KeyError, TypeError):
        found = find_places(name)
    known = " or ".join(place.point for place in found)
    message = f"{name!r} can only be registered for: fire {known} instead"
    raise CheckrailError(message)


EXACT_TYPES: dict[HookPoint, type] = {
    point: FrozenDict if contract.value is object else contract.value
    for point, contract in CONTRACTS.items()
}
"""The exact type of a value that needs no further look when a point is fired."""
