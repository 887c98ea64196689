"""The hooks of one call of a model: on its request, on its answer, on tools in both.

Nothing here knows of HTTP or of any API: who carries requests and answers has a `Judge` look at
them, and does what it says.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from checkrail.agent.messages import (
    Message,
    assistant_message,
    legal,
    unparsed_in,
    user_message,
)
from checkrail.agent.redaction import redacted
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.calls import Judged, applied, error_results, judged, plain_stop
from checkrail.gateway.formats.base import Refusal
from checkrail.gateway.formats.top_level import tool_names
from checkrail.gateway.holding import Held, Holding
from checkrail.gateway.memory import Memory
from checkrail.gateway.results import Results
from checkrail.gateway.verdicts import Refused, passed, sound
from checkrail.styles.fluent import DEFAULT_FEEDBACK
from checkrail.styles.hook_context import CLIENT_METADATA

log = logging.getLogger("checkrail.gateway")

BlockedTool = Literal["text", "drop", "continue"]
"""What becomes of a blocked call: a text in its place, nothing, or the model is asked again."""

ROUNDS = 5
"""How often a model is asked again because a call was blocked; then a text says so."""

POINTS = (
    HookPoint.BEFORE_LLM_CALL,
    HookPoint.AFTER_LLM_CALL,
    HookPoint.BEFORE_TOOL_CALL,
    HookPoint.AFTER_TOOL_CALL,
    HookPoint.ON_TOOL_ERROR,
)
"""The points that a call of a model passes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done with a request: send this one, give this answer, or refuse it."""

    request: ModelRequest | None = None
    message: AssistantMessage | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What is to be done with an answer: give this one, ask again with this, or refuse it."""

    message: AssistantMessage | None = None
    again: ModelRequest | None = None
    refusal: Refusal | None = None


class Judge:
    """Fires the points of one call of a model, and says what is to be done.

    `memory` is shared by all calls; `blocked_tool` says what becomes of a blocked tool call.
    """

    def __init__(self, scope: Scope, *, memory: Memory, blocked_tool: BlockedTool) -> None:
        self._scope = Unasking(scope)
        self._blocked_tool = blocked_tool
        self._results = Results(self._scope, memory)
        self._holding = Holding(self._scope, "all" if blocked_tool == "continue" else "tools")
        self._conversation: ModelRequest | None = None
        self._given = ModelRequest()
        self._rounds = 0

    def holds(self) -> Held:
        """Return what of a streamed answer has to wait; hooks may change, and then so does this."""
        return self._holding.now()

    def sees_answers(self) -> bool:
        """Return whether there is any use in showing answers to `answer`."""
        return any(self._scope.has(point) for point in POINTS[1:])

    async def request(self, request: ModelRequest) -> Asked:
        """Show the tool results of a request to hooks, and then the request itself."""
        try:
            self.note_metadata(request.params.get("metadata"))
            self._results.offered = tool_names(request.tools)
            messages = await self._results.judged(request.messages)
            if messages is not request.messages:
                request = dataclasses.replace(request, messages=messages, raw=None)
            self._scope.given = request
            self._conversation = request
            return await self._ask(request)
        except Refused as refused:
            return Asked(refusal=refused.refusal)

    def note_metadata(self, given: Any) -> None:
        """Let proxy hooks at every point see a client's metadata."""
        if given is not None:
            self._scope.notes[CLIENT_METADATA] = given

    async def request_for(self, provider: str) -> Asked:
        """Show the request to hooks once more, as one to another provider."""
        try:
            return await self._ask(dataclasses.replace(self._given, provider=provider))
        except Refused as refused:
            return Asked(refusal=refused.refusal)

    async def answer(self, request: ModelRequest, message: AssistantMessage) -> Answered:
        """Show an answer to hooks, and then each tool call in it.

        `request` is what was sent: events tell the model and the provider that were asked.
        """
        conversation = self._conversation or request
        self._results.learn(message.tool_calls)
        at = self._answer_scope(request)
        try:
            after = await at.fire(HookPoint.AFTER_LLM_CALL, message)
            if after.decision is Decision.RETRY:
                feedback = user_message(after.reason or DEFAULT_FEEDBACK)
                return await self._again(conversation, [feedback, *_legal(after.inject)])
            left = sound(after)
            if after.decision is Decision.STOP:
                return Answered(_without_calls(left))
            unparsed = {*unparsed_in(message), *unparsed_in(left)}
            named = at.bind_model_names(answered_model=message.model)
            return await self._calls(named, conversation, left, unparsed, after.inject)
        except Refused as refused:
            return Answered(refusal=refused.refusal)

    async def cut_off(self, request: ModelRequest, message: AssistantMessage) -> None:
        """Show hooks what there was of an answer that nobody gets to its end."""
        await self._answer_scope(request).fire(HookPoint.AFTER_LLM_CALL, message)

    def _answer_scope(self, request: ModelRequest) -> Scope:
        """Return a scope for the answer to a request, which may be of another model by now."""
        known = self._scope.context
        model, provider = request.model or known.model, request.provider or known.provider
        if (model, provider) == (known.model, known.provider):
            return self._scope
        bound = self._scope.bind(model=model, provider=provider)
        return bound.bind_model_names(requested_model=known.model)

    async def _ask(self, request: ModelRequest) -> Asked:
        before = await self._scope.fire(HookPoint.BEFORE_LLM_CALL, request)
        if before.redacted:
            kept = redacted(request.messages, before.given.messages)
            request = dataclasses.replace(request, messages=kept, raw=None)
        self._given = request
        value: ModelRequest | AssistantMessage = passed(before)
        if before.decision is Decision.STOP:
            return Asked(message=_without_calls(sound(before)))
        injected = _legal(before.inject)
        self._conversation = _longer(request, injected)
        if isinstance(value, ModelRequest):
            self.note_metadata(value.params.get("metadata"))
            if value.stream is not request.stream:  # the caller was promised one, or none
                value = dataclasses.replace(value, stream=request.stream)
            return Asked(_longer(value, injected))
        answered = await self.answer(request, sound(before))
        return Asked(answered.again, answered.message, answered.refusal)

    async def _again(self, conversation: ModelRequest, more: Sequence[Message]) -> Answered:
        """Have the model asked again, with more said: hooks see that request as they see any."""
        asked = await self._ask(_longer(conversation, more))
        return Answered(asked.message, asked.request, asked.refusal)

    async def _calls(
        self,
        at: Scope,
        conversation: ModelRequest,
        message: AssistantMessage,
        unparsed: set[str],
        later: Sequence[Message],
    ) -> Answered:
        calls: list[Judged] = []
        if message.tool_calls and self._scope.has(HookPoint.BEFORE_TOOL_CALL):
            offered = tool_names(conversation.tools)
            calls = await judged(at, message, unparsed, offered)
        inject = [*later, *(said for each in calls for said in each.inject)]
        blocked = any(each.blocked is not None for each in calls)
        if blocked and self._blocked_tool == "continue" and self._rounds < ROUNDS:
            self._rounds += 1
            return await self._told(conversation, message, calls, inject)
        if inject:
            log.error("a hook injected messages after an answer that nothing follows: left out")
        told = self._blocked_tool != "drop"
        return Answered(applied(message, calls, told=told) if calls else message)

    async def _told(
        self,
        conversation: ModelRequest,
        message: AssistantMessage,
        calls: list[Judged],
        inject: Sequence[Message],
    ) -> Answered:
        """Have the model asked again, with its calls and why they were not made."""
        shown = dataclasses.replace(message, tool_calls=[each.call for each in calls])
        said = assistant_message(shown)
        results = await self._results.judged(error_results(calls), [said])
        return await self._again(conversation, [said, *results, *_legal(inject)])


class Unasking(Scope):
    """A scope where nobody can be asked, because a caller waits for a model.

    The `raw` of a request is what the wire carried. One that a hook has changed is not that any
    more, so it is left out: a redaction would leave there what it took out elsewhere.
    """

    __slots__ = ("given",)

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope.levels, scope.context, scope.budget, (None,) * len(scope.levels))
        self.accepts = scope.accepts
        self.notes = scope.notes
        self.lack(scope.without)
        self.given: ModelRequest | None = None

    def check(self, point: str, value: Any) -> Any:
        """Return a value that a hook left, without what it no longer stands for."""
        value = super().check(point, value)
        given = self.given
        if given is None or value is given or not isinstance(value, ModelRequest):
            return value
        return dataclasses.replace(value, raw=None) if value.raw is given.raw else value


def _longer(request: ModelRequest, more: Iterable[Message]) -> ModelRequest:
    said = [*more]
    if not said:
        return request
    return dataclasses.replace(request, messages=[*request.messages, *said], raw=None)


def _legal(given: Iterable[Message]) -> list[Message]:
    return [said for message in given if (said := legal(message)) is not None]


def _without_calls(message: AssistantMessage) -> AssistantMessage:
    if not message.tool_calls:
        return message
    return dataclasses.replace(message, tool_calls=[], stop_reason=plain_stop(message))
