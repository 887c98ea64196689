"""For those who write hooks: events and values to try them on, and assertions about verdicts."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from checkrail.agent.models.scripted_model import ScriptedModel
from checkrail.engine.asks import Approval, AskHandler, Question
from checkrail.engine.event import Event
from checkrail.engine.frozen import freeze
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import Decision, HookPoint, find_point
from checkrail.engine.records import History, HookRecord, RecordKind
from checkrail.engine.registry import DEFAULT_RUN_RETRIES, HookRegistry
from checkrail.engine.scope import Sink
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
from checkrail.engine.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "RecordingRegistry",
    "ScriptedModel",
    "approve",
    "assert_allowed",
    "assert_blocked",
    "assert_called",
    "assert_changed",
    "capture",
    "deny",
    "event",
    "sample",
    "timeline",
]

T = TypeVar("T")


class RecordingRegistry(HookRegistry):
    """A registry that keeps every record in `records`."""

    def __init__(
        self,
        sink: Sink | Iterable[Sink] = (),
        *,
        ask: AskHandler | None = None,
        history: History = "full",
        max_retries: int = DEFAULT_RUN_RETRIES,
    ) -> None:
        self.records: list[HookRecord] = []
        others = (sink,) if callable(sink) else tuple(sink)
        sinks = (self.records.append, *others)
        super().__init__(sinks, ask=ask, history=history, max_retries=max_retries)

    def clear(self) -> None:
        """Forget the records so far; the hooks stay."""
        self.records.clear()


Told = Verdict | RecordingRegistry | Iterable[HookRecord]
"""Whatever has records to tell of."""


@contextmanager
def capture(registry: HookRegistry) -> Iterator[list[HookRecord]]:
    """Collect the records of what is fired on a registry meanwhile.

    Scopes that were made before have the sinks of then, and are not heard.
    """
    records: list[HookRecord] = []
    sink = records.append
    registry.sinks = (*registry.sinks, sink)
    try:
        yield records
    finally:
        registry.sinks = tuple(other for other in registry.sinks if other is not sink)


async def approve(_question: Question) -> Approval:
    """Answer every question with yes: give it to a registry as `ask`."""
    return Approval(approved=True)


async def deny(_question: Question) -> Approval:
    """Answer every question with no: give it to a registry as `ask`."""
    return Approval(approved=False)


_SAMPLES: dict[HookPoint, Any] = {
    HookPoint.ON_SESSION_START: Session("session-1", "ann", "web"),
    HookPoint.BEFORE_INBOUND: InboundMessage("ann", "web", "What is the weather in Paris?"),
    HookPoint.BEFORE_RUN: freeze({"question": "What is the weather in Paris?"}),
    HookPoint.ON_RUN_START: freeze({"question": "What is the weather in Paris?"}),
    HookPoint.BEFORE_LLM_CALL: ModelRequest(
        model="openai/gpt-5",
        provider="openai",
        messages=[{"role": "user", "content": "What is the weather in Paris?"}],
        tools=[{"type": "function", "function": {"name": "weather", "parameters": {}}}],
    ),
    HookPoint.AFTER_LLM_CALL: AssistantMessage(
        tool_calls=[ToolCall("call-1", "weather", {"city": "Paris"})],
        model="openai/gpt-5",
        usage={"input_tokens": 20, "output_tokens": 10, "total_tokens": 30},
        stop_reason="tool_calls",
    ),
    HookPoint.BEFORE_TOOL_CALL: ToolCall("call-1", "weather", {"city": "Paris"}),
    HookPoint.AFTER_TOOL_CALL: ToolResult("call-1", "weather", "Sunny, 21 degrees"),
    HookPoint.ON_TOOL_ERROR: ToolResult("call-1", "weather", "", is_error=True, error="no network"),
    HookPoint.BEFORE_FINAL_RESPONSE: AssistantMessage("It is sunny in Paris."),
    HookPoint.QUERY_END: AgentResponse(
        "It is sunny in Paris.", stop_reason="answer", finish="stop"
    ),
    HookPoint.ON_RESULT: freeze({"answer": "It is sunny in Paris."}),
    HookPoint.BEFORE_OUTBOUND: OutboundMessage("ann", "web", "It is sunny in Paris."),
    HookPoint.AFTER_RUN: RunResult(output={"answer": "It is sunny in Paris."}),
    HookPoint.ON_RUN_ERROR: RunError(error="no network", error_type="ConnectionError"),
    HookPoint.ON_SESSION_END: Session("session-1", "ann", "web", reason="closed"),
}


def sample(point: str) -> Any:
    """Return a value such as flows through a point."""
    return _SAMPLES[find_point(point)]


def event(
    point: str,
    value: Any = UNSET,
    *,
    config: Mapping[str, Any] | None = None,
    **context: Any,
) -> Event[Any]:
    """Make an event to call a hook with, on a sample value unless one is given.

    The ids, `user`, `model`, `metadata` and so on are given as with `fire`.
    """
    caught: list[Event[Any]] = []
    registry = HookRegistry()
    registry.register(caught.append, find_point(point), name="event", config=config or {})
    given = sample(point) if value is UNSET else value
    _at_once(registry.fire(point, given, **context))
    return caught[0]


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has nothing to wait for, with or without an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("the engine waited for something although the hook did not")


def timeline(told: Told) -> str:
    """Tell, line by line, what each hook did."""
    lines = [_line(record) for record in _records(told) if record.kind is not RecordKind.START]
    return "\n".join(lines) or "  (no hook was called)"


def _records(told: Told) -> tuple[HookRecord, ...]:
    if isinstance(told, (Verdict, RecordingRegistry)):
        told = told.records
    return tuple(told)


def _line(record: HookRecord) -> str:
    did = f"failed ({record.failure}): {record.error}" if record.failure else str(record.decision)
    if record.reason:
        did += f": {record.reason}"
    if record.changed:
        did += " with the value redacted" if record.redacted else f" with {record.after!r}"
    shadow = "in shadow: " if record.shadow else ""
    return f"  {record.point}  {record.lane:<9}  {record.hook}  {shadow}{did}"


def _check(holds: bool, expected: str, verdict: Verdict) -> None:  # noqa: FBT001 - read as a sentence
    if not holds:
        raise AssertionError(f"expected {expected}, but got {verdict!r}:\n{timeline(verdict)}")


def assert_allowed(verdict: Verdict) -> None:
    """Assert that the work goes on."""
    _check(verdict.decision is Decision.CONTINUE, "the work to go on", verdict)


def assert_blocked(
    verdict: Verdict,
    *,
    by: str | None = None,
    reason: str | None = None,
    status: int | None = None,
    code: str | None = None,
) -> None:
    """Assert that the work was refused: by this hook, with this in its reason, and so on."""
    _check(verdict.decision is Decision.BLOCK, "a block", verdict)
    _check(by in (None, verdict.hook), f"a block by {by!r}", verdict)
    _check(reason is None or reason in verdict.reason, f"a reason with {reason!r}", verdict)
    found = f"(it has {verdict.status} and {verdict.code!r})"
    _check(status in (None, verdict.status), f"status {status} {found}", verdict)
    _check(code in (None, verdict.code), f"code {code!r} {found}", verdict)


def assert_changed(
    verdict: Verdict,
    value: Any = UNSET,
    *,
    by: str | None = None,
    **fields: Any,
) -> None:
    """Assert that the value was changed: to this one, by this hook, with these fields."""
    ended = [record for record in verdict.records if record.changed and not record.shadow]
    _check(bool(ended), "the value to be changed", verdict)
    names = [record.hook for record in ended]
    _check(by is None or by in names, f"the value to be changed by {by!r}", verdict)
    if value is not UNSET:
        _check(verdict.value == value, f"the value {value!r} (it is {verdict.value!r})", verdict)
    for name, wanted in fields.items():
        found = _field(verdict.value, name)
        _check(found == wanted, f"{name} to be {wanted!r} (it is {found!r})", verdict)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def assert_called(told: Told, *hooks: str) -> None:
    """Assert that these hooks were called, each as often as it is named, in this order."""
    records = _records(told)
    called = tuple(record.hook for record in records if record.kind is RecordKind.START)
    if called != hooks:
        raise AssertionError(
            f"expected calls of {_names(hooks)}, but got {_names(called)}:\n{timeline(records)}",
        )


def _names(hooks: tuple[str, ...]) -> str:
    return ", ".join(hooks) or "no hook"
