"""`require_tools`: no answer before these tools were called."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin, any_of
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Fail, Outcome, Retry
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import AssistantMessage, ToolResult

if TYPE_CHECKING:
    from checkrail.builtin.options import RequireToolsOptions

Requirer = Callable[[Event[Any], Any], Outcome | None]
Call = tuple[str, str]
"""The name of a tool and the id of the call."""


class CallLog:
    """The calls of each run, and which of them went well.

    Beyond `max_runs`, the run that was heard of the longest ago is forgotten.
    """

    def __init__(self, max_runs: int = 10_000) -> None:
        self.max_runs = max_runs
        self._runs: OrderedDict[str, dict[Call, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._runs)

    def add_result(self, run_id: str, result: ToolResult) -> None:
        """Record the result of a call; the latest one counts."""
        with self._lock:
            calls = self._runs.setdefault(run_id, {})
            calls[result.name, result.id] = not result.is_error
            self._runs.move_to_end(run_id)
            while len(self._runs) > self.max_runs:
                self._runs.popitem(last=False)

    def called_tools(self, run_id: str, *, successful: bool) -> frozenset[str]:
        """Return the names of the tools that a run has called, successfully or at all."""
        with self._lock:
            calls = self._runs.get(run_id, {})
            return frozenset(name for (name, _), well in calls.items() if well or not successful)


SHARED = CallLog()
"""What the hooks go by unless told otherwise: in a file, each of their points is its own entry."""


def build(options: RequireToolsOptions, calls: CallLog = SHARED) -> Requirer:
    """Build the hook."""
    tests = {pattern: any_of([pattern]) for pattern in options.tools}

    def require_tools(event: Event[Any], value: Any) -> Outcome | None:
        if isinstance(value, ToolResult):
            if event.run_id is not None:
                calls.add_result(event.run_id, value)
            return None
        if BUILTIN.expect_value(event, value, AssistantMessage).tool_calls:
            return None  # at after_llm_call: no answer yet
        if event.run_id is None:
            reason = "built-in hook 'require_tools' goes by the run: fire its points with a run_id"
            return Fail(reason, "run_id_missing")
        called = calls.called_tools(event.run_id, successful=options.successful)
        missing = [pattern for pattern, test in tests.items() if not any(map(test, called))]
        if not missing or (options.any and len(missing) < len(tests)):
            return None
        return Retry(_feedback_text(options, missing))

    return require_tools


def requirer(config: Mapping[str, Any], *, calls: CallLog) -> Requirer:
    """Build the hook with a log of calls of its own."""
    return build(BUILTIN.parse_options(config), calls)  # type: ignore[arg-type]


def _feedback_text(options: RequireToolsOptions, missing: list[str]) -> str:
    names = (" or " if options.any else " and ").join(map(repr, missing))
    if options.feedback is not None:
        return options.feedback.replace("{tools}", names)
    how = " successfully" if options.successful else ""
    return f"Before you answer, call {names}{how}."


BUILTIN = Builtin(
    name="require_tools",
    summary="sends an answer back to the model until the tools that it needs were called",
    points=(HookPoint.BEFORE_FINAL_RESPONSE, HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR),
    lane=Lane.GATE,
    build=build,
    example={"tools": ["lookup"]},
    together=True,
    reads=(AssistantMessage, ToolResult),
)


def require_tools(event: Event[Any], value: Any) -> Outcome | None:
    """Retry an answer that comes before the required tools were called."""
    return BUILTIN.hook_for(event)(event, value)  # type: ignore[no-any-return]
