"""The tools that one answer calls: each with its own hooks, side by side, results in order."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from checkrail.agent.events import Emit, ToolFinished, ToolStarted
from checkrail.agent.results import HookFailure, LoopFailure, hook_failure, value_or_fail
from checkrail.agent.snapshot import FinishedToolCall
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError
from checkrail.engine.asks import AnswerLater, midway
from checkrail.engine.errors import describe_error, suggestion
from checkrail.engine.event import LIVE
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ToolCall, ToolResult, plain
from checkrail.llm.conversation import (
    Message,
    assistant_message,
    failed_result,
    is_call,
    is_parts,
    tool_message,
)
from checkrail.llm.timeouts import (
    WorkCancelledItself,
    WorkTimedOut,
    run_with_timeout,
    wait_for_tasks,
)
from checkrail.styles.agent_status import Live

SHOWN = 200
"""How much a model is told of arguments that are no JSON, in characters."""


class ToolCallState:
    """One tool call: the call as hooks left it, its result, and the messages they inject."""

    __slots__ = ("call", "inject", "later", "over", "result", "shown", "unparsed")

    def __init__(self, call: ToolCall, unparsed: str | None) -> None:
        self.call = call
        self.shown = dataclasses.replace(call, args={})  # until the hooks have seen the arguments
        self.unparsed = unparsed
        self.result = failed_result(call, "the run ended before this call had a result")
        self.inject: list[Message] = []
        self.over = False
        self.later: AnswerLater | None = None  # somebody has to be asked first


class ToolCallBatch:
    """The tool calls of one answer, and the results that belong to them."""

    def __init__(
        self,
        message: AssistantMessage,
        tools: Mapping[str, Tool],
        scope: Scope,
        emit: Emit | None,
        *,
        earlier: Sequence[Message],
        unparsed: Mapping[str, str],
        doom: Callable[[], HookFailure | None],
    ) -> None:
        self.message = message
        self.tools = tools
        self.scope = scope
        self.emit = emit
        self.earlier = earlier
        self.doom = doom
        self.handled = [
            ToolCallState(call, None if call.args else unparsed.get(call.id))
            for call in message.tool_calls
        ]

    @property
    def messages(self) -> list[Message]:
        """The answer and its results as messages; calls and arguments are as hooks left them."""
        calls = [handling.shown for handling in self.handled]
        answer = assistant_message(dataclasses.replace(self.message, tool_calls=calls))
        return [answer, *(tool_message(handling.result) for handling in self.handled)]

    @property
    def injected_messages(self) -> list[Message]:
        """The messages that hooks inject after the results."""
        return [message for handling in self.handled for message in handling.inject]

    @property
    def finished_calls(self) -> list[FinishedToolCall]:
        """The calls that have their results."""
        done = [handling for handling in self.handled if handling.over]
        return [FinishedToolCall(each.shown, each.result, each.inject) for each in done]

    def restore_calls(self, over: Iterable[FinishedToolCall]) -> None:
        """Restore calls that were finished before a suspension: they are not made again."""
        known = {each.call.id: each for each in over}
        for handling in self.handled:
            if (each := known.get(handling.call.id)) is not None:
                handling.call = handling.shown = each.call
                handling.result, handling.inject = each.result, [*each.inject]
                handling.over = True

    async def run(self) -> None:
        """Call the tools, all at once. The first failure of the run cancels the others.

        Where somebody has to be asked about one, the others come to their end first.
        """
        tasks = [
            asyncio.create_task(self._handle_call(each)) for each in self.handled if not each.over
        ]
        if tasks:
            await wait_for_tasks(tasks)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
        for handling in self.handled:
            if handling.later is not None:
                raise handling.later

    def _history_for(self, handling: ToolCallState, value: Any) -> list[Message]:
        """Return the conversation as hooks on one call see it: its end is the answer that made it.

        `value` is what hooks see now: a call as those before them left it, or its result.
        """
        calls = [each.call for each in self.handled]
        if isinstance(value, ToolCall):
            calls = [value if each is handling else each.call for each in self.handled]
        return [
            *self.earlier,
            assistant_message(dataclasses.replace(self.message, tool_calls=calls)),
        ]

    def _bind_scope(self, handling: ToolCallState) -> Scope:
        """Return the scope of one call, whose hooks see the conversation up to it."""
        metadata = self.scope.context.metadata
        live = metadata.get(LIVE)
        if isinstance(live, Live):
            history = functools.partial(self._history_for, handling)
            metadata = {**metadata, LIVE: Live(live.agent, live.flags, history)}
        return self.scope.bind(tool_call_id=handling.call.id, metadata=metadata)

    async def _handle_call(self, handling: ToolCallState) -> None:
        at = self._bind_scope(handling)
        try:
            handling.result = await self._produce_result(handling, at)
        except AnswerLater as later:
            handling.later = later
            return
        except LoopFailure as failing:
            handling.result = failed_result(handling.call, str(failing))
            raise
        handling.over = True
        if self.emit is not None:
            self.emit(ToolFinished(handling.result))

    async def _produce_result(self, handling: ToolCallState, at: Scope) -> ToolResult:
        if handling.unparsed is None:
            result = await self._perform_call(handling, at)
        else:
            text = handling.unparsed[:SHOWN]
            result = failed_result(
                handling.call, f"the arguments are no JSON object: {text}".rstrip(": ")
            )
        result = await self._fire_after(handling, at, HookPoint.AFTER_TOOL_CALL, result)
        if result.is_error:
            result = await self._fire_after(handling, at, HookPoint.ON_TOOL_ERROR, result)
        return result

    async def _perform_call(self, handling: ToolCallState, at: Scope) -> ToolResult:
        verdict = await at.fire(HookPoint.BEFORE_TOOL_CALL, handling.call)
        call: ToolCall = verdict.subject
        if not is_call(call):
            problem = "it needs a name and a dict of args"
            raise hook_failure(
                f"hooks left a tool call that cannot be made: {problem}", verdict.hook
            )
        if call.id != handling.call.id:
            call = dataclasses.replace(call, id=handling.call.id)
        handling.call = handling.shown = call
        value_or_fail(verdict)
        handling.inject += verdict.inject
        if verdict.decision is Decision.BLOCK:
            return failed_result(call, verdict.reason)
        if verdict.decision is Decision.REPLACE:
            return _to_result(call, verdict.value)
        if self.emit is not None and call.name in self.tools:
            self.emit(ToolStarted(call))
        return await self._execute_call(call, at)

    async def _fire_after(
        self, handling: ToolCallState, at: Scope, point: HookPoint, result: ToolResult
    ) -> ToolResult:
        verdict = await at.fire(point, result)
        value_or_fail(verdict)
        handling.inject += verdict.inject
        if verdict.decision is Decision.BLOCK:
            return failed_result(handling.call, verdict.reason)
        return _to_result(handling.call, verdict.value)

    async def _execute_call(self, call: ToolCall, at: Scope) -> ToolResult:
        began = perf_counter()
        try:
            result = _to_result(call, await self._call_tool(call, at))
        except ToolError as error:
            result = failed_result(call, str(error))
        except WorkCancelledItself:
            result = failed_result(call, f"{call.name} was cancelled from within")
        except Exception as error:  # noqa: BLE001 - a tool may raise anything; the model is told
            result = failed_result(call, describe_error(error))
        if (failure := self.doom()) is not None:
            raise LoopFailure(failure.reason, failure)
        if result.duration_ms is None:
            result = dataclasses.replace(result, duration_ms=(perf_counter() - began) * 1000)
        return result

    async def _call_tool(self, call: ToolCall, at: Scope) -> Any:
        tool = self.tools.get(call.name)
        if tool is None:
            known = f"The tools are: {', '.join(self.tools) or 'none'}"
            hint = suggestion(call.name, self.tools)
            raise ToolError(f"there is no tool {call.name!r}{hint}. {known}")
        try:
            with midway():
                work = tool.call(call.args, ToolContext(call, at.context))
                return await run_with_timeout(tool.timeout, work)
        except WorkTimedOut:
            raise ToolError(f"{call.name} timed out after {tool.timeout:g} s") from None


def _to_result(call: ToolCall, found: Any) -> ToolResult:
    """Return what a tool returned as the result of its call."""
    if isinstance(found, ToolResult):
        if (found.id, found.name) == (call.id, call.name):
            return found
        return dataclasses.replace(found, id=call.id, name=call.name)
    content = "" if found is None else found
    if not isinstance(content, str) and not is_parts(content):
        content = plain(content)
    return ToolResult(call.id, call.name, content)
