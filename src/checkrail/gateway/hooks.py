"""The hooks of one call of a model: on its request, on its answer, on tools in both.

Nothing here knows of HTTP or of any API: who carries requests and answers has a `Judge` look at
them, and does what it says.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from checkrail.engine.asks import AskHandler
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.hidden_rounds import HiddenRounds
from checkrail.gateway.hold_policy import Held, HoldPolicy
from checkrail.gateway.tool_memory import ToolMemory
from checkrail.gateway.tools import (
    CheckedCall,
    ToolResultHooks,
    apply_unknown_calls,
    build_error_results,
    check_tool_calls,
    plain_stop_reason,
    remove_blocked_calls,
)
from checkrail.gateway.verdicts import Refused, valid_answer, value_or_refuse
from checkrail.llm.conversation import (
    Message,
    assistant_message,
    legal_message,
    unparsed_in,
    user_message,
)
from checkrail.llm.conversation_redaction import merge_redacted
from checkrail.llm.gemini.parts import with_signatures
from checkrail.llm.other_fields import CALL_FIELDS
from checkrail.llm.request_fields import tool_names
from checkrail.llm.restoration import RESTORER, Restorer
from checkrail.llm.unknown_calls import UnknownCall, find_unknown_calls
from checkrail.llm.usage import sum_usage
from checkrail.llm.wire_format import Refusal
from checkrail.styles.fluent import DEFAULT_FEEDBACK
from checkrail.styles.hook_context import CLIENT_METADATA

log = logging.getLogger("checkrail.gateway")

BlockedTool = Literal["text", "drop", "continue"]
"""What becomes of a blocked call: a text in its place, nothing, or the model is asked again."""

ROUNDS = 5
"""How often a model is asked again because a call was blocked; then a text says so."""

PREVIOUS = "previous_response_id"
"""By what a request of the responses API names the conversation before it."""

POINTS = (
    HookPoint.BEFORE_LLM_CALL,
    HookPoint.AFTER_LLM_CALL,
    HookPoint.BEFORE_TOOL_CALL,
    HookPoint.AFTER_TOOL_CALL,
    HookPoint.ON_TOOL_ERROR,
)
"""The points that a call of a model passes."""


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """What to do with a request: send this one, return this answer, or refuse it."""

    request: ModelRequest | None = None
    message: AssistantMessage | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """What to do with an answer: return this one, send this request again, or refuse it.

    `unmarked` is its content without the unknown calls that were left out, and without notes.
    `stands` is what the caller may have of it already, if the model is called again.
    """

    message: AssistantMessage | None = None
    again: ModelRequest | None = None
    refusal: Refusal | None = None
    unmarked: Any = None
    stands: AssistantMessage | None = None


class GatewayHooks:
    """Fires the points of one call of a model, and returns what is to be done.

    `memory` and `hidden` are shared by all calls; `blocked_tool` says what becomes of a blocked
    tool call. Where the provider `keeps_items`, a caller may name them later: then one answer is
    not made of two. Without an `ask_handler`
    there is nobody to ask.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        memory: ToolMemory,
        blocked_tool: BlockedTool,
        ask_handler: AskHandler | None = None,
        hidden: HiddenRounds | None = None,
        keeps_items: bool = False,
    ) -> None:
        self._scope = GatewayScope(scope, ask_handler)
        self._blocked_tool = blocked_tool
        self._results = ToolResultHooks(self._scope, memory)
        joins = blocked_tool != "continue" or not keeps_items
        self._holding = HoldPolicy(self._scope, "tools" if joins else "all")
        self._restorer: Restorer | None = scope.notes.get(RESTORER)
        self._conversation: ModelRequest | None = None
        self._given = ModelRequest()
        self._hidden = hidden or HiddenRounds()
        self._known: Sequence[Message] = ()
        self._rounds: list[list[Message]] = []
        self._used: Mapping[str, Any] = {}

    def current_hold(self) -> Held:
        """Return what of a streamed answer has to wait; it changes when hooks do.

        Where secrets are put back, that is done before it is sent.
        """
        held = self._holding.current()
        restorer = self._find_restorer()
        if restorer is None or held == "all":
            return held
        return "all" if restorer.restores_text else "tools"

    def sees_answers(self) -> bool:
        """Return whether anything has to be done with answers."""
        return any(self._scope.has(point) for point in POINTS[1:]) or self.restores()

    def restores(self) -> bool:
        """Return whether secrets were taken out of the request that are to be put back."""
        return self._find_restorer() is not None

    def _find_restorer(self) -> Restorer | None:
        restorer = self._restorer
        return restorer if restorer is not None and restorer.is_used else None

    async def check_request(self, request: ModelRequest) -> RequestOutcome:
        """Fire the hooks on the tool results of a request, and then on the request itself."""
        try:
            self.note_metadata(request.params.get("metadata"))
            self._results.offered = tool_names(request.tools)
            request = self._with_known_id(request)
            self._known = request.messages
            known = self._hidden.restore(self._scope.context, request.messages)
            messages = await self._results.check_messages(known)
            if messages is not request.messages:
                request = dataclasses.replace(request, messages=messages, raw=None)
            self._scope.given = request
            self._conversation = request
            return await self._fire_request(request)
        except Refused as refused:
            return RequestOutcome(refusal=refused.refusal)

    def note_metadata(self, given: Any) -> None:
        """Let proxy hooks at every point see a client's metadata."""
        if given is not None:
            self._scope.notes[CLIENT_METADATA] = given

    def _with_known_id(self, request: ModelRequest) -> ModelRequest:
        """Return a request that names an earlier answer as the provider does."""
        named = self._hidden.find_id(self._scope.context, request.params.get(PREVIOUS))
        if named is None:
            return request
        return dataclasses.replace(request, params={**request.params, PREVIOUS: named}, raw=None)

    def note_id(self, first: str | None, last: str | None) -> None:
        """Remember that an answer which the caller has under one id ended with another."""
        if first and last and first != last:
            self._hidden.store_id(self._scope.context, first, last)

    async def check_request_for(self, provider: str) -> RequestOutcome:
        """Fire the hooks on the request once more, as one to another provider."""
        try:
            return await self._fire_request(dataclasses.replace(self._given, provider=provider))
        except Refused as refused:
            return RequestOutcome(refusal=refused.refusal)

    async def check_answer(
        self,
        request: ModelRequest,
        message: AssistantMessage,
        stands: AssistantMessage | None = None,
    ) -> AnswerOutcome:
        """Fire the hooks on an answer, and then on each tool call in it.

        `request` is what was sent: events tell the model and the provider that were asked. `stands`
        is what the caller has of an earlier answer, which this one goes on with. Secrets that were
        taken out of the request are put back into tool calls before the hooks on those, and into
        the text after all hooks. What the caller gets counts the tokens of earlier answers too, and
        is remembered with hidden rounds.
        """
        found = self._restore_text(await self._check_answer(request, message))
        if found.message is None:
            return found
        given = found.message if stands is None else join_answers(stands, found.message)
        if self._used:
            given = dataclasses.replace(given, usage=sum_usage(self._used, given.usage))
        if self._rounds:
            rounds = [said for messages in self._rounds for said in messages]
            self._hidden.store(self._scope.context, self._known, given, rounds)
        return dataclasses.replace(found, message=given)

    def _restore_text(self, answered: AnswerOutcome) -> AnswerOutcome:
        """Return an answer with the secrets in its text, if they are to be put back there."""
        restorer = self._find_restorer()
        if restorer is None or answered.message is None or not restorer.restores_text:
            return answered
        content = restorer.restore_content(answered.message.content)
        restored = dataclasses.replace(answered.message, content=content)
        return dataclasses.replace(answered, message=restored)

    async def _check_answer(
        self, request: ModelRequest, message: AssistantMessage
    ) -> AnswerOutcome:
        conversation = self._conversation or request
        self._results.store_tool_names(message.tool_calls)
        at = self._answer_scope(request)
        try:
            after = await at.fire_detached(HookPoint.AFTER_LLM_CALL, message)
            if after.decision is Decision.RETRY:
                self._used = sum_usage(self._used, message.usage)
                feedback = user_message(after.reason or DEFAULT_FEEDBACK)
                return await self._request_again(
                    conversation, [feedback, *_legal_messages(after.inject)]
                )
            left = valid_answer(after)
            if after.decision is Decision.STOP:
                return AnswerOutcome(_without_calls(left))
            unparsed = {*unparsed_in(message), *unparsed_in(left)}
            named = at.bind_model_names(answered_model=message.model)
            return await self._check_calls(named, conversation, left, unparsed, after.inject)
        except Refused as refused:
            return AnswerOutcome(refusal=refused.refusal)

    async def observe_cut_off(self, request: ModelRequest, message: AssistantMessage) -> None:
        """Fire the hooks on what there was of an answer that nobody gets to its end."""
        await self._answer_scope(request).fire_detached(HookPoint.AFTER_LLM_CALL, message)

    def _answer_scope(self, request: ModelRequest) -> Scope:
        """Return a scope for the answer to a request, which may be of another model by now."""
        known = self._scope.context
        model, provider = request.model or known.model, request.provider or known.provider
        if (model, provider) == (known.model, known.provider):
            return self._scope
        bound = self._scope.bind(model=model, provider=provider)
        return bound.bind_model_names(requested_model=known.model)

    async def _fire_request(self, request: ModelRequest) -> RequestOutcome:
        before = await self._scope.fire_detached(HookPoint.BEFORE_LLM_CALL, request)
        if before.redacted:
            kept = merge_redacted(request.messages, before.given.messages)
            request = dataclasses.replace(request, messages=kept, raw=None)
        self._given = request
        value: ModelRequest | AssistantMessage = value_or_refuse(before)
        if before.decision is Decision.STOP:
            return RequestOutcome(message=_without_calls(valid_answer(before)))
        injected = _legal_messages(before.inject)
        self._conversation = _append_messages(request, injected)
        if isinstance(value, ModelRequest):
            self.note_metadata(value.params.get("metadata"))
            if value.stream is not request.stream:  # the caller was promised one, or none
                value = dataclasses.replace(value, stream=request.stream)
            return RequestOutcome(_append_messages(value, injected))
        answered = self._restore_text(await self._check_answer(request, valid_answer(before)))
        return RequestOutcome(answered.again, answered.message, answered.refusal)

    async def _request_again(
        self, conversation: ModelRequest, more: Sequence[Message]
    ) -> AnswerOutcome:
        """Return a request for another answer, with more messages; hooks see it as they see any."""
        asked = await self._fire_request(_append_messages(conversation, more))
        return AnswerOutcome(asked.message, asked.request, asked.refusal)

    async def _check_calls(
        self,
        at: Scope,
        conversation: ModelRequest,
        message: AssistantMessage,
        unparsed: set[str],
        later: Sequence[Message],
    ) -> AnswerOutcome:
        calls: list[CheckedCall] = []
        unknown: list[UnknownCall] = []
        known = len(message.tool_calls)
        restorer = self._find_restorer()
        if restorer is not None or self._scope.has(HookPoint.BEFORE_TOOL_CALL):
            unknown = find_unknown_calls(message)
            found = [*message.tool_calls, *(each.call for each in unknown)]
            shown = dataclasses.replace(message, tool_calls=found)
            unreadable = {*unparsed, *(each.call.id for each in unknown if each.unparsed)}
            offered = tool_names(conversation.tools)
            calls = await check_tool_calls(at, shown, unreadable, offered, restorer)
            message = apply_unknown_calls(message, unknown, calls[known:])
        inject = [*later, *(said for each in calls for said in each.inject)]
        blocked = any(each.blocked is not None for each in calls)
        if blocked and self._blocked_tool == "continue" and len(self._rounds) < ROUNDS:
            return await self._explain_blocked_calls(conversation, message, calls, inject)
        if inject:
            log.error("a hook injected messages after an answer that nothing follows: left out")
        if not calls:
            return AnswerOutcome(message)
        told = self._blocked_tool != "drop"
        left = remove_blocked_calls(message, calls[:known], told=told, unknown=calls[known:])
        return AnswerOutcome(left, unmarked=message.content if unknown else None)

    async def _explain_blocked_calls(
        self,
        conversation: ModelRequest,
        message: AssistantMessage,
        calls: list[CheckedCall],
        inject: Sequence[Message],
    ) -> AnswerOutcome:
        """Return a request for another answer, with the calls and why they were not made."""
        told = [each.shown or each.call for each in calls]
        shown = dataclasses.replace(message, tool_calls=told)
        said = with_signatures(assistant_message(shown), message)
        errors = build_error_results(calls)
        injected = _legal_messages(inject)
        self._rounds.append([said, *errors, *injected])
        self._used = sum_usage(self._used, message.usage)
        results = await self._results.check_messages(errors, [said])
        found = await self._request_again(conversation, [said, *results, *injected])
        return dataclasses.replace(found, stands=_without_calls(message))


class GatewayScope(Scope):
    """A scope in which a call's questions are put to people by whoever is there for them.

    The `raw` of a request is what the wire carried. One that a hook has changed is not that any
    more, so it is left out: a redaction would leave there what it took out elsewhere.
    """

    __slots__ = ("given",)

    def __init__(self, scope: Scope, ask_handler: AskHandler | None = None) -> None:
        handlers = (ask_handler, *(None,) * (len(scope.levels) - 1))
        super().__init__(scope.levels, scope.context, scope.budget, handlers)
        self.accepts = scope.accepts
        self.notes = scope.notes
        self.exclude(scope.excluded)
        self.given: ModelRequest | None = None

    def check_value(self, point: str, value: Any) -> Any:
        """Return a value that a hook left, without what it no longer stands for."""
        value = super().check_value(point, value)
        given = self.given
        if given is None or value is given or not isinstance(value, ModelRequest):
            return value
        return dataclasses.replace(value, raw=None) if value.raw is given.raw else value


def _append_messages(request: ModelRequest, more: Iterable[Message]) -> ModelRequest:
    said = [*more]
    if not said:
        return request
    return dataclasses.replace(request, messages=[*request.messages, *said], raw=None)


def _legal_messages(given: Iterable[Message]) -> list[Message]:
    return [said for message in given if (said := legal_message(message)) is not None]


def _without_calls(message: AssistantMessage) -> AssistantMessage:
    if not message.tool_calls:
        return message
    return dataclasses.replace(message, tool_calls=[], stop_reason=plain_stop_reason(message))


def join_answers(first: AssistantMessage, second: AssistantMessage) -> AssistantMessage:
    """Return two answers as one that begins with the first, and ends and calls as the second."""
    content: Any
    if isinstance(first.content, str) and isinstance(second.content, str):
        content = "\n\n".join(filter(None, (first.content, second.content)))
    else:
        content = [*_parts_of(first.content), *_parts_of(second.content)]
    of_calls = {name: second.metadata.get(name) for name in (UNPARSED, CALL_FIELDS)}
    others = {name: value for name, value in first.metadata.items() if name not in of_calls}
    metadata = others | {name: value for name, value in of_calls.items() if value is not None}
    return dataclasses.replace(second, content=content, model=first.model, metadata=metadata)


def _parts_of(content: Any) -> Sequence[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content  # type: ignore[no-any-return]
