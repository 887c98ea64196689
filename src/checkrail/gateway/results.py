"""Tool results in a request: hooks see each of them, and what they said holds on every resend."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from checkrail.agent.exchange import failed
from checkrail.agent.messages import Message, content_of, legal, text_of
from checkrail.engine.plan import Chain
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.values import ToolCall, ToolResult
from checkrail.gateway.calls import as_offered
from checkrail.gateway.memory import Memory, Settled, key_of
from checkrail.gateway.verdicts import survived, together

Call = Mapping[str, Any]

POINTS = (HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR)


class Results:
    """Shows the tool results of a conversation to hooks, or tells what they said before.

    `offered` are the names of the tools that the model is told of.
    """

    def __init__(self, scope: Scope, memory: Memory) -> None:
        self._scope = scope
        self._memory = memory
        self.offered: Collection[str] = ()

    async def judged(
        self, messages: Sequence[Message], calling: Sequence[Message] = ()
    ) -> Sequence[Message]:
        """Give messages with the results as hooks left them; the very same if they changed nothing.

        What hooks inject stands behind the results of the same turn. `calling` is what was said
        before, where the calls may be found.
        """
        if not any(self._scope.has(point) for point in POINTS):
            return messages
        calls = Calls(calling)
        alike: Counter[bytes] = Counter()
        told: list[Message] = []
        for results, group in groupby(messages, lambda message: message.get("role") == "tool"):
            turn = [*group]
            if not results:
                calls.add(turn)
            told += await self._turn(turn, calls, alike) if results else turn
        same = len(told) == len(messages) and all(
            new is old for new, old in zip(told, messages, strict=True)
        )
        return messages if same else told

    async def _turn(
        self, turn: list[Message], calls: Calls, alike: Counter[bytes]
    ) -> list[Message]:
        works = []
        for message in turn:
            call = calls.answered(_id(message))
            result = self._read(message, call)
            key = key_of(self._scope.context, result, call)
            works.append(self._settled(result, key + bytes([min(alike[key], 255)])))
            alike[key] += 1
        settled = await together(works)
        changed = [_written(old, new.result) for old, new in zip(turn, settled, strict=True)]
        injected = [legal(message) for found in settled for message in found.inject]
        return [*changed, *filter(None, injected)]

    def learn(self, calls: Sequence[ToolCall]) -> None:
        """Remember which tools were called: some APIs are sent the results alone."""
        if calls and any(self._scope.has(point) for point in POINTS):
            self._memory.learn(self._scope.context, calls)

    def _read(self, message: Message, call: Call | None) -> ToolResult:
        own = _id(message)
        content: Any = message.get("content") or ""
        is_error = bool(message.get("is_error"))
        named = (call or {}).get("name") or message.get("name")
        name = as_offered(str(named or self._memory.name(self._scope.context, own)), self.offered)
        return ToolResult(own, name, content, is_error, text_of(content) if is_error else None)

    async def _settled(self, result: ToolResult, key: bytes) -> Settled:
        hooks = tuple(level.plan[point] for level in self._scope.levels for point in POINTS)
        known = self._memory.recall(key, hooks)
        if known is not None:
            return known
        at = self._scope.bind(tool_call_id=result.id)
        first = self._memory.first(key)
        over = False
        try:
            settled, lasting = await _fired(at if first else Unobserved(at), result)
            over = True
        finally:
            if first and not over:
                self._memory.unseen(key)
        if lasting:
            self._memory.keep(key, hooks, settled)
        return settled


class Calls:
    """The calls of a conversation, as far as it has come.

    Not every model gives each call an id of its own: a result belongs to the first call of its id
    that was made last and has no result yet.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._last: dict[str, Call] = {}
        self._waiting: dict[str, list[Call]] = {}
        self.add(messages)

    def add(self, messages: Sequence[Message]) -> None:
        """Take messages that are no results."""
        for message in messages:
            if message.get("role") != "assistant":
                self._waiting.clear()
            for call in message.get("tool_calls") or ():
                own, function = str(call.get("id") or ""), call.get("function")
                self._last[own] = function if isinstance(function, Mapping) else {}
                self._waiting.setdefault(own, []).append(self._last[own])

    def answered(self, id: str) -> Call | None:
        """Find the call that a result of this id belongs to."""
        waiting = self._waiting.get(id)
        return waiting.pop(0) if waiting else self._last.get(id)


class Unobserved(Scope):
    """A scope for what observers have seen before: they are left out."""

    __slots__ = ()

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope.levels, scope.context, scope.budget, scope.desks)
        self.accepts = scope.accepts
        self.notes = scope.notes
        self.lack(scope.without)
        self.only = None

    def chain(self, point: str) -> Chain | None:
        """Return the hooks at a point that may act."""
        chain = super().chain(point)
        if chain is None:
            return None
        lanes = tuple(lane for lane in chain.lanes if lane[0] is not Lane.OBSERVE)
        return dataclasses.replace(chain, lanes=lanes, background=()) if lanes else None


async def _fired(at: Scope, result: ToolResult) -> tuple[Settled, bool]:
    """Show a result to hooks: what they made of it, and whether they would say so again.

    A hook that failed may not fail the next time, so what came of that is not lasting.
    """
    call = ToolCall(result.id, result.name)
    left, lasting = result, True
    inject: list[Message] = []
    for point in POINTS:
        if point is HookPoint.ON_TOOL_ERROR and not left.is_error:
            break
        verdict = await at.fire(point, left)
        survived(verdict)
        lasting = lasting and not any(record.failure for record in verdict.records)
        inject += verdict.inject
        if verdict.decision is Decision.BLOCK:
            left = failed(call, verdict.reason)
        elif verdict.value is not left:
            left = dataclasses.replace(verdict.value, id=call.id, name=call.name)
    same = (left.content, left.is_error) == (result.content, result.is_error)
    return Settled(None if same else left, tuple(inject)), lasting


def _id(message: Message) -> str:
    return str(message.get("tool_call_id") or "")


def _written(message: Message, result: ToolResult | None) -> Message:
    """Write a result that hooks changed; what else the message carries stays."""
    if result is None:
        return message
    kept = {key: value for key, value in message.items() if key != "is_error"}
    error = {"is_error": True} if result.is_error else {}
    return {**kept, "content": content_of(result), **error}
