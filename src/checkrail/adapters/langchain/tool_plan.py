"""What a tool call goes through: its hooks before, the tool, its hooks after."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Generator, Mapping
from time import perf_counter
from typing import Any

from langgraph.errors import GraphBubbleUp

from checkrail.adapters.langchain.endings import ending, failing
from checkrail.adapters.langchain.frames import ToolFrame
from checkrail.adapters.langchain.guard import Guard
from checkrail.adapters.langchain.journal import Slot
from checkrail.adapters.langchain.lanes import second_half
from checkrail.adapters.langchain.results import Raised, failed, output_of, result_of
from checkrail.adapters.langchain.steps import Act, Fire, Plan
from checkrail.agent.messages import content_of, is_call
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.values import ToolCall, ToolResult, plain

POINTS = (HookPoint.BEFORE_TOOL_CALL, HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR)


class Called(Act):
    """A tool that is being called."""

    def __init__(self, guard: Guard, tool: Any, given: Any, id: str | None) -> None:
        self.given = given
        self.frame: ToolFrame = ToolFrame(guard, tool, id, given)

    def take(self, piece: Any) -> bool:
        """Take what the tool gave: nobody but the plan has use for it."""
        return piece is not None


def tool_plan(
    guard: Guard, tool: Any, given: Any, id: str | None, slot: Slot | None = None
) -> Plan:
    """Call a tool, if hooks let it be called, and give what they let pass."""
    guard.check()
    scope = guard.scope
    if guard.on_tool is None and not any(scope.has(point) for point in POINTS):
        output = yield Called(guard, tool, given, id)
        guard.check()
        return output
    name = None if slot is None or id is not None else slot.name
    return (yield from _Handling(guard, tool, given, id, name).plan())


class _Handling:
    """One tool call on its way."""

    def __init__(
        self, guard: Guard, tool: Any, given: Any, id: str | None, name: str | None
    ) -> None:
        self.guard = guard
        self.tool = tool
        self.given = given
        self.id = id
        own = id or f"direct_{name or secrets.token_hex(12)}"
        context = guard.scope.context.run_id or "chat"
        self.call = ToolCall(own, tool.name, plain(_arguments(tool, given)), context)

    def plan(self) -> Plan:
        """Go through all points of the call."""
        output: Any = None
        result = yield from self._before()
        if result is None:
            output, result = yield from self._performed()
        shown = result
        for point in (HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR):
            if point is HookPoint.AFTER_TOOL_CALL or result.is_error:
                result = yield from self._seen(point, result)
        changed = output is None or not _same(shown, result)
        return self._ended(output, result, changed=changed)

    def _before(self) -> Generator[Fire | Act, Any, ToolResult | None]:
        """Show the call; give what stands for its result, if it is not to be made."""
        guard, point = self.guard, HookPoint.BEFORE_TOOL_CALL
        if not guard.scope.has(point):
            return None
        scope = second_half(guard.scope, guard.recall(self.call))
        verdict = yield Fire(scope, point, self.call, guard.tool_ids(self.call.id))
        self._take(verdict.subject, verdict.hook)
        if verdict.decision is Decision.FAIL:
            raise guard.end(ending(verdict, point))
        guard.inject([self.call.id], verdict.inject)
        if verdict.decision is Decision.BLOCK:
            return failed(self.call, verdict.reason)
        if verdict.decision is Decision.REPLACE:
            return _of(self.call, verdict.value)
        return None

    def _take(self, call: ToolCall, hook: str | None) -> None:
        """Go on with the call as hooks left it."""
        point = HookPoint.BEFORE_TOOL_CALL
        if not is_call(call) or call.name != self.call.name:
            problem = f"{self.call.name} is about to be called, and nothing else can be now"
            raise self.guard.end(
                failing(f"hooks made another tool call of one: {problem}", point, hook)
            )
        if call.args != self.call.args:
            self.given = _changed(self.tool, self.given, self.call.args, call.args)
        self.call = dataclasses.replace(call, id=self.call.id)

    def _performed(self) -> Generator[Fire | Act, Any, tuple[Any, ToolResult]]:
        self.guard.tell("tool-started", self.call, input=thaw(self.call.args))
        began = perf_counter()
        output: Any
        try:
            output = yield Called(self.guard, self.tool, self.given, self.id)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - hooks see whatever a tool raises
            output = Raised(error)
        self.guard.check()
        return output, result_of(self.call, output, (perf_counter() - began) * 1000)

    def _seen(self, point: HookPoint, result: ToolResult) -> Generator[Fire | Act, Any, ToolResult]:
        guard = self.guard
        if not guard.scope.has(point):
            return result
        verdict = yield Fire(guard.scope, point, result, guard.tool_ids(self.call.id))
        if verdict.decision is Decision.FAIL:
            raise guard.end(ending(verdict, point))
        guard.inject([self.call.id], verdict.inject)
        if verdict.decision is Decision.BLOCK:
            return failed(self.call, verdict.reason)
        return _of(self.call, verdict.value)

    def _ended(self, output: Any, result: ToolResult, *, changed: bool) -> Any:
        if result.is_error:
            message = str(result.error or content_of(result))
            self.guard.tell("tool-error", self.call, message=message)
        if changed:
            output = output_of(self.call, self.id, output, result)
        elif isinstance(output, Raised):
            raise output.error
        if not result.is_error:
            self.guard.tell("tool-finished", self.call, output=output)
        return output


def _of(call: ToolCall, result: ToolResult) -> ToolResult:
    return dataclasses.replace(result, id=call.id, name=call.name)


def _same(ours: ToolResult, theirs: ToolResult) -> bool:
    return (ours.content, ours.is_error, ours.error) == (
        theirs.content,
        theirs.is_error,
        theirs.error,
    )


def _arguments(tool: Any, given: Any) -> Mapping[str, Any]:
    """Return what the model, or whoever calls, has said: not what the graph puts in itself."""
    if isinstance(given, Mapping):
        return tool._filter_injected_args(dict(given))  # type: ignore[no-any-return]  # noqa: SLF001
    return {_only_argument(tool): given}


def _only_argument(tool: Any) -> str:
    try:
        return str(next(iter(tool.args), "input"))
    except Exception:  # noqa: BLE001 - a schema may be anybody's
        return "input"


def _changed(tool: Any, given: Any, shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> Any:
    """Return a tool's input with other arguments; what hooks left alone is passed on as it came."""
    if isinstance(given, Mapping):
        kept = {name: value for name, value in given.items() if name not in shown}
        same = {name: given[name] for name in shown if wanted.get(name, shown) == shown[name]}
        return kept | thaw(dict(wanted)) | same
    only = wanted.get(_only_argument(tool))
    return only if len(wanted) == 1 and isinstance(only, str) else thaw(dict(wanted))
