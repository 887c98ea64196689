"""The tools that one answer calls: each with its own hooks, side by side, results in order."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from checkrail.agent.endings import Failing, survived
from checkrail.agent.events import Emit, ToolFinished, ToolStarted
from checkrail.agent.memo import Handled
from checkrail.agent.messages import (
    Message,
    assistant_message,
    is_call,
    is_parts,
    tool_message,
)
from checkrail.agent.patience import CancelledWithin, TookTooLong, settled, within
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError
from checkrail.engine.asks import AnswerLater, midway
from checkrail.engine.errors import suggestion, told
from checkrail.engine.event import LIVE
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ToolCall, ToolResult, plain
from checkrail.styles.agent_status import Live

SHOWN = 200
"""How much a model is told of arguments that are no JSON, in characters."""


class Handling:
    """One tool call on its way: the call as it stands, its result, what hooks inject."""

    __slots__ = ("call", "inject", "later", "over", "result", "shown", "unparsed")

    def __init__(self, call: ToolCall, unparsed: str | None) -> None:
        self.call = call
        self.shown = dataclasses.replace(call, args={})  # until the hooks have seen the arguments
        self.unparsed = unparsed
        self.result = failed(call, "the run ended before this call had a result")
        self.inject: list[Message] = []
        self.over = False
        self.later: AnswerLater | None = None  # somebody has to be asked first


class Exchange:
    """An answer with tool calls, and the results that belong to it."""

    def __init__(
        self,
        message: AssistantMessage,
        tools: Mapping[str, Tool],
        scope: Scope,
        emit: Emit | None,
        *,
        earlier: Sequence[Message],
        unparsed: Mapping[str, str],
        doom: Callable[[], str | None],
    ) -> None:
        self.message = message
        self.tools = tools
        self.scope = scope
        self.emit = emit
        self.earlier = earlier
        self.doom = doom
        self.handled = [
            Handling(call, None if call.args else unparsed.get(call.id))
            for call in message.tool_calls
        ]

    @property
    def messages(self) -> list[Message]:
        """What goes into the conversation; the calls and arguments are those that were let pass."""
        calls = [handling.shown for handling in self.handled]
        answer = assistant_message(dataclasses.replace(self.message, tool_calls=calls))
        return [answer, *(tool_message(handling.result) for handling in self.handled)]

    @property
    def inject(self) -> list[Message]:
        """What hooks want to be said after the results."""
        return [message for handling in self.handled for message in handling.inject]

    @property
    def over(self) -> list[Handled]:
        """The calls that have their results."""
        done = [handling for handling in self.handled if handling.over]
        return [Handled(each.shown, each.result, each.inject) for each in done]

    def take_up(self, over: Iterable[Handled]) -> None:
        """Go on after some of the calls: they are not made again."""
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
        tasks = [asyncio.create_task(self._handle(each)) for each in self.handled if not each.over]
        if tasks:
            await settled(tasks)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
        for handling in self.handled:
            if handling.later is not None:
                raise handling.later

    def _history(self, handling: Handling, value: Any) -> list[Message]:
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

    def _scope_of(self, handling: Handling) -> Scope:
        """Return the scope of one call, whose hooks see the conversation up to it."""
        metadata = self.scope.context.metadata
        live = metadata.get(LIVE)
        if isinstance(live, Live):
            history = functools.partial(self._history, handling)
            metadata = {**metadata, LIVE: Live(live.agent, live.flags, history)}
        return self.scope.bind(tool_call_id=handling.call.id, metadata=metadata)

    async def _handle(self, handling: Handling) -> None:
        at = self._scope_of(handling)
        try:
            handling.result = await self._result(handling, at)
        except AnswerLater as later:
            handling.later = later
            return
        except Failing as failing:
            handling.result = failed(handling.call, str(failing))
            raise
        handling.over = True
        if self.emit is not None:
            self.emit(ToolFinished(handling.result))

    async def _result(self, handling: Handling, at: Scope) -> ToolResult:
        if handling.unparsed is None:
            result = await self._performed(handling, at)
        else:
            text = handling.unparsed[:SHOWN]
            result = failed(handling.call, f"the arguments are no JSON object: {text}".rstrip(": "))
        result = await self._seen(handling, at, HookPoint.AFTER_TOOL_CALL, result)
        if result.is_error:
            result = await self._seen(handling, at, HookPoint.ON_TOOL_ERROR, result)
        return result

    async def _performed(self, handling: Handling, at: Scope) -> ToolResult:
        verdict = await at.fire(HookPoint.BEFORE_TOOL_CALL, handling.call)
        call: ToolCall = verdict.subject
        if not is_call(call):
            problem = "it needs a name and a dict of args"
            raise Failing(f"hooks made a tool call that is none: {problem}", by_hook=True)
        if call.id != handling.call.id:
            call = dataclasses.replace(call, id=handling.call.id)
        handling.call = handling.shown = call
        survived(verdict)
        handling.inject += verdict.inject
        if verdict.decision is Decision.BLOCK:
            return failed(call, verdict.reason)
        if verdict.decision is Decision.REPLACE:
            return _of(call, verdict.value)
        if self.emit is not None and call.name in self.tools:
            self.emit(ToolStarted(call))
        return await self._executed(call, at)

    async def _seen(
        self, handling: Handling, at: Scope, point: HookPoint, result: ToolResult
    ) -> ToolResult:
        verdict = await at.fire(point, result)
        survived(verdict)
        handling.inject += verdict.inject
        if verdict.decision is Decision.BLOCK:
            return failed(handling.call, verdict.reason)
        return _of(handling.call, verdict.value)

    async def _executed(self, call: ToolCall, at: Scope) -> ToolResult:
        began = perf_counter()
        try:
            result = _of(call, await self._called(call, at))
        except ToolError as error:
            result = failed(call, str(error))
        except CancelledWithin:
            result = failed(call, f"{call.name} was cancelled from within")
        except Exception as error:  # noqa: BLE001 - a tool may raise anything; the model is told
            result = failed(call, told(error))
        if (reason := self.doom()) is not None:
            raise Failing(reason, by_hook=True)
        if result.duration_ms is None:
            result = dataclasses.replace(result, duration_ms=(perf_counter() - began) * 1000)
        return result

    async def _called(self, call: ToolCall, at: Scope) -> Any:
        tool = self.tools.get(call.name)
        if tool is None:
            known = f"The tools are: {', '.join(self.tools) or 'none'}"
            hint = suggestion(call.name, self.tools)
            raise ToolError(f"there is no tool {call.name!r}{hint}. {known}")
        try:
            with midway():
                work = tool.call(call.args, ToolContext(call, at.context))
                return await within(tool.timeout, work)
        except TookTooLong:
            raise ToolError(f"{call.name} timed out after {tool.timeout:g} s") from None


def failed(call: ToolCall, reason: str) -> ToolResult:
    """Make the result of a call that came to nothing."""
    return ToolResult(call.id, call.name, reason, is_error=True, error=reason)


def _of(call: ToolCall, found: Any) -> ToolResult:
    """Read what a tool returned as the result of its call."""
    if isinstance(found, ToolResult):
        if (found.id, found.name) == (call.id, call.name):
            return found
        return dataclasses.replace(found, id=call.id, name=call.name)
    content = "" if found is None else found
    if not isinstance(content, str) and not is_parts(content):
        content = plain(content)
    return ToolResult(call.id, call.name, content)
