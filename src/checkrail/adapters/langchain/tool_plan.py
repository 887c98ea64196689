"""What a tool call goes through: its hooks before, the tool, its hooks after."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Generator, Mapping, Sequence
from time import perf_counter
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from checkrail.adapters.langchain.frames import ToolFrame
from checkrail.adapters.langchain.guard import Guard
from checkrail.adapters.langchain.journal import JournalEntry
from checkrail.adapters.langchain.plans import CallStep, FireStep, Plan
from checkrail.adapters.langchain.run_endings import ToolBlocked, build_ending, failure_ending
from checkrail.adapters.langchain.tool_call_hooks import second_half
from checkrail.engine.errors import describe_error
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.values import ToolCall, ToolResult, plain
from checkrail.llm.conversation import content_of, failed_result, is_call, is_parts


class ToolRaised:
    """The exception of a tool: raised again as it was, unless hooks change the result."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def result_of(call: ToolCall, output: Any, duration_ms: float) -> ToolResult:
    """Return what a tool gave back as a `ToolResult`."""
    if isinstance(output, ToolRaised):
        reason = describe_error(output.error)
        return ToolResult(
            call.id, call.name, reason, is_error=True, error=reason, duration_ms=duration_ms
        )
    message = _find_message(output, call.id)
    if message is not None:
        bad, content = message.status == "error", message.content
    else:
        bad, content = False, _update_data(output) if isinstance(output, Command) else output
    error = content if bad and isinstance(content, str) else None
    content = _readable_content(content)
    return ToolResult(
        call.id, call.name, content, is_error=bad, error=error, duration_ms=duration_ms
    )


def _readable_content(content: Any) -> Any:
    if content is None:
        return ""
    return content if isinstance(content, str) or is_parts(content) else plain(content)


def output_of(call: ToolCall, id: str | None, output: Any, result: ToolResult) -> Any:
    """Write a result anew, in the form in which it came; what it came with is not kept.

    Without an id the tool was called by code, which takes what the tool returns, or an exception.
    """
    if id is None and result.is_error:
        raise ToolBlocked(str(result.error or content_of(result)))
    written = None if result.is_error else _rewrite_output(output, call.id, result)
    if written is not None and not isinstance(output, ToolMessage):
        return written
    if id is None:
        return thaw(result.content)
    return _build_tool_message(call, result)


def _build_tool_message(call: ToolCall, result: ToolResult) -> ToolMessage:
    return ToolMessage(
        content=thaw(content_of(result)),
        name=call.name,
        tool_call_id=call.id,
        status="error" if result.is_error else "success",
    )


def _find_message(output: Any, id: str) -> ToolMessage | None:
    """Find the message that answers this call."""
    if isinstance(output, ToolMessage):
        return output
    if isinstance(output, Command):
        return next((said for said in _update_messages(output) if _is_answer_to(said, id)), None)
    if isinstance(output, list):
        found = (
            _find_message(item, id) for item in output if isinstance(item, (ToolMessage, Command))
        )
        return next((message for message in found if message is not None), None)
    return None


def _is_answer_to(said: Any, id: str) -> bool:
    return isinstance(said, ToolMessage) and said.tool_call_id == id


def _update_data(command: Command[Any]) -> Any:
    return command.update if isinstance(command.update, Mapping) else plain(command.update)


def _update_messages(command: Command[Any]) -> Sequence[Any]:
    update = command.update
    said = update.get("messages") if isinstance(update, Mapping) else update
    return said if isinstance(said, (list, tuple)) else [said]


def _rewrite_output(output: Any, id: str, result: ToolResult) -> Any:
    """Return a command, or several outputs, with another message for the model."""
    message = _find_message(output, id)
    if isinstance(output, list):
        return [_rewrite_output(item, id, result) or item for item in output] if message else None
    if isinstance(output, ToolMessage):
        return _with_result(output, result) if output is message else None
    if not isinstance(output, Command):
        return None
    if message is None:
        fits = isinstance(result.content, Mapping) and isinstance(output.update, Mapping)
        return dataclasses.replace(output, update=thaw(result.content)) if fits else None
    said = [
        _with_result(one, result) if one is message else one for one in _update_messages(output)
    ]
    update = {**output.update, "messages": said} if isinstance(output.update, Mapping) else said
    return dataclasses.replace(output, update=update)


def _with_result(message: ToolMessage, result: ToolResult) -> ToolMessage:
    """Write a message anew; an artifact would repeat what hooks have changed."""
    return ToolMessage(
        content=thaw(content_of(result)),
        name=message.name,
        tool_call_id=message.tool_call_id,
        id=message.id,
        status="success",
    )


POINTS = (HookPoint.BEFORE_TOOL_CALL, HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR)


class ToolCallStep(CallStep):
    """A tool call under way."""

    def __init__(self, guard: Guard, tool: Any, given: Any, id: str | None) -> None:
        self.given = given
        self.frame: ToolFrame = ToolFrame(guard, tool, id, given)

    def accept_piece(self, piece: Any) -> bool:
        """Take the result of the tool: only the plan uses it."""
        return piece is not None


def tool_plan(
    guard: Guard, tool: Any, given: Any, id: str | None, slot: JournalEntry | None = None
) -> Plan:
    """Call a tool, if hooks let it be called, and return what they let pass."""
    guard.check_running()
    scope = guard.scope
    if guard.on_tool is None and not any(scope.has(point) for point in POINTS):
        output = yield ToolCallStep(guard, tool, given, id)
        guard.check_running()
        return output
    name = None if slot is None or id is not None else slot.call_name
    return (yield from _ToolCallPlan(guard, tool, given, id, name).plan())


class _ToolCallPlan:
    """The plan of one tool call."""

    def __init__(
        self, guard: Guard, tool: Any, given: Any, id: str | None, name: str | None
    ) -> None:
        self.guard = guard
        self.tool = tool
        self.given = given
        self.id = id
        own = id or f"direct_{name or secrets.token_hex(12)}"
        context = guard.scope.context.run_id or "chat"
        self.call = ToolCall(own, tool.name, plain(_visible_arguments(tool, given)), context)

    def plan(self) -> Plan:
        """Go through all points of the call."""
        output: Any = None
        result = yield from self._fire_before()
        if result is None:
            output, result = yield from self._perform_call()
        shown = result
        for point in (HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR):
            if point is HookPoint.AFTER_TOOL_CALL or result.is_error:
                result = yield from self._fire_after(point, result)
        changed = output is None or not _is_same_result(shown, result)
        return self._finish_call(output, result, changed=changed)

    def _fire_before(self) -> Generator[FireStep | CallStep, Any, ToolResult | None]:
        """Fire `before_tool_call`; return a result in place of the call if it is not made."""
        guard, point = self.guard, HookPoint.BEFORE_TOOL_CALL
        if not guard.scope.has(point):
            return None
        half = second_half(guard.scope, guard.find_reviewed_call(self.call))
        options = {**guard.tool_ids(self.call.id), **half}
        verdict = yield FireStep(guard.scope, point, self.call, options)
        self._accept_call(verdict.subject, verdict.hook)
        if verdict.decision is Decision.FAIL:
            raise guard.end_run(build_ending(verdict, point))
        guard.store_injected([self.call.id], verdict.inject)
        if verdict.decision is Decision.BLOCK:
            return failed_result(self.call, verdict.reason)
        if verdict.decision is Decision.REPLACE:
            return _to_result(self.call, verdict.value)
        return None

    def _accept_call(self, call: ToolCall, hook: str | None) -> None:
        """Go on with the call as hooks left it."""
        point = HookPoint.BEFORE_TOOL_CALL
        if not is_call(call) or call.name != self.call.name:
            problem = f"{self.call.name} is about to be called, and nothing else can be now"
            raise self.guard.end_run(
                failure_ending(f"hooks made another tool call of one: {problem}", point, hook)
            )
        if call.args != self.call.args:
            self.given = _apply_arguments(self.tool, self.given, self.call.args, call.args)
        self.call = dataclasses.replace(call, id=self.call.id)

    def _perform_call(self) -> Generator[FireStep | CallStep, Any, tuple[Any, ToolResult]]:
        self.guard.notify_tool("tool-started", self.call, input=thaw(self.call.args))
        began = perf_counter()
        output: Any
        try:
            output = yield ToolCallStep(self.guard, self.tool, self.given, self.id)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - hooks see whatever a tool raises
            output = ToolRaised(error)
        self.guard.check_running()
        return output, result_of(self.call, output, (perf_counter() - began) * 1000)

    def _fire_after(
        self, point: HookPoint, result: ToolResult
    ) -> Generator[FireStep | CallStep, Any, ToolResult]:
        guard = self.guard
        if not guard.scope.has(point):
            return result
        verdict = yield FireStep(guard.scope, point, result, guard.tool_ids(self.call.id))
        if verdict.decision is Decision.FAIL:
            raise guard.end_run(build_ending(verdict, point))
        guard.store_injected([self.call.id], verdict.inject)
        if verdict.decision is Decision.BLOCK:
            return failed_result(self.call, verdict.reason)
        return _to_result(self.call, verdict.value)

    def _finish_call(self, output: Any, result: ToolResult, *, changed: bool) -> Any:
        if result.is_error:
            message = str(result.error or content_of(result))
            self.guard.notify_tool("tool-error", self.call, message=message)
        if changed:
            output = output_of(self.call, self.id, output, result)
        elif isinstance(output, ToolRaised):
            raise output.error
        if not result.is_error:
            self.guard.notify_tool("tool-finished", self.call, output=output)
        return output


def _to_result(call: ToolCall, result: ToolResult) -> ToolResult:
    return dataclasses.replace(result, id=call.id, name=call.name)


def _is_same_result(ours: ToolResult, theirs: ToolResult) -> bool:
    return (ours.content, ours.is_error, ours.error) == (
        theirs.content,
        theirs.is_error,
        theirs.error,
    )


def _visible_arguments(tool: Any, given: Any) -> Mapping[str, Any]:
    """Return what the model, or whoever calls, has said: not what the graph puts in itself."""
    if isinstance(given, Mapping):
        return tool._filter_injected_args(dict(given))  # type: ignore[no-any-return]  # noqa: SLF001
    return {_only_argument(tool): given}


def _only_argument(tool: Any) -> str:
    try:
        return str(next(iter(tool.args), "input"))
    except Exception:  # noqa: BLE001 - a schema may be anybody's
        return "input"


def _apply_arguments(
    tool: Any, given: Any, shown: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Any:
    """Return a tool's input with other arguments; what hooks left alone is passed on as it came."""
    if isinstance(given, Mapping):
        kept = {name: value for name, value in given.items() if name not in shown}
        same = {name: given[name] for name in shown if wanted.get(name, shown) == shown[name]}
        return kept | thaw(dict(wanted)) | same
    only = wanted.get(_only_argument(tool))
    return only if len(wanted) == 1 and isinstance(only, str) else thaw(dict(wanted))
