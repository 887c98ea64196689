"""The loop: model, tools, answer, with every point on the way."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.agent.endings import (
    Blocked,
    Ending,
    Failing,
    StopReason,
    changers,
    passed,
    sound,
)
from checkrail.agent.errors import RunFailed
from checkrail.agent.events import Emit
from checkrail.agent.exchange import Exchange
from checkrail.agent.holding import Release
from checkrail.agent.memo import Memo, Stage
from checkrail.agent.messages import (
    Message,
    assistant_message,
    call_ids,
    genuine_messages,
    identified,
    legal,
    schema_of,
    text_of,
    tool_name,
    unparsed_in,
    user_message,
    without_altered_thoughts,
)
from checkrail.agent.model_call import ask
from checkrail.agent.output import MAX_ATTEMPTS, OutputMismatch
from checkrail.agent.redaction import redacted
from checkrail.agent.usage import Meter, added
from checkrail.engine.asks import AnswerLater
from checkrail.engine.errors import CheckrailError, told
from checkrail.engine.frozen import freeze
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import AgentResponse, AssistantMessage, ModelRequest
from checkrail.engine.verdict import Verdict
from checkrail.styles.fluent import DEFAULT_FEEDBACK

if TYPE_CHECKING:
    from checkrail.agent.agent import Agent
    from checkrail.agent.tools.tool import Tool


class Loop:
    """One run of an agent: its conversation as it grows, and what it has used."""

    def __init__(
        self,
        agent: Agent,
        scope: Scope,
        messages: list[Message],
        emit: Emit | None,
        above: Loop | None,
        *,
        inside: object,
        context: str,
        meter: Meter | None = None,
        memo: Memo | None = None,
    ) -> None:
        self.agent = agent
        self.messages = messages
        self.ids = {*call_ids(messages)}
        self.emit = emit
        self.context = context
        self.inside = inside
        self.over: bool = False
        lives = above is not None and not above.over and above.inside is inside
        self.above = above if lives else None
        self.meter: Meter | None = meter
        if meter is None and self.above is not None:
            self.meter = self.above.meter
        left = Memo(system=freeze(agent.system_message)) if memo is None else memo
        self.usage: Mapping[str, Any] = left.usage
        self._lock = threading.Lock()
        self.doom: str | None = None
        self.system: Message | None = left.system
        self.tools: Mapping[str, Tool] = {}
        self.schemas: Sequence[Mapping[str, Any]] = ()
        self.offered: set[str | None] = {*left.offered}
        self.mismatches = left.mismatches
        self.release: Release | None = None
        self.later: Sequence[Message] = left.later
        self.paused = left.paused
        self.unparsed: Mapping[str, str] = left.unparsed
        self.at = self._base = scope
        self.stage: Stage = left.stage
        self.answer: AssistantMessage | None = left.answer
        self.stopped = left.stopped
        self.exchange: Exchange | None = None
        self._left = left
        if memo is not None:
            scope.budget.take_up(memo.retries)

    async def run(self) -> AgentResponse:
        """Go through the loop to its end, fire `query_end`, and give what came of it."""
        try:
            ending = await self._ending()
        except Failing as failing:
            if failing.by_hook:
                self._doom(str(failing))
            reason: StopReason = "fail" if failing.by_hook else "error"
            response = await self._ended(Ending(reason, error=str(failing)))
            raise RunFailed(str(failing), response, by_hook=failing.by_hook) from failing.__cause__
        except GeneratorExit:
            raise  # nobody can wait for anything any more
        except AnswerLater as later:
            later.memo = self._memo()
            raise
        except Exception as error:
            response = await self._ended(Ending("error", error=told(error)))
            raise RunFailed(told(error), response) from error
        except BaseException:
            await self._ended(Ending("cancelled", error="the run was cancelled"))
            raise
        else:
            response = await self._ended(ending)
        finally:
            self.over = True
            if self.above is not None:
                self.above.spend(self.usage)
        if self.release is not None and ending.message is not None:
            self.release.finish(text_of(response.content))
        return response

    def spend(self, usage: Mapping[str, Any] | None, model: str | None = None) -> None:
        """Count what an answer cost; agents beneath may do so from the threads of their tools."""
        with self._lock:
            self.usage = added(self.usage, usage)
        if self.meter is not None and model is not None and usage:
            self.meter(model, usage)

    async def _ending(self) -> Ending:
        try:
            self.tools = await self.agent.toolbox.connected()
            self.schemas = freeze([schema_of(tool) for tool in self.tools.values()])
            for iteration in range(self._left.iteration, self.agent.max_iterations + 1):
                self.at = self._base.bind(iteration=iteration)
                if (ending := await self._step(self.at)) is not None:
                    return ending
                self.stage = "request"
        except Blocked as blocked:
            return Ending("block", error=str(blocked))
        except CheckrailError as error:
            self._check_doom()
            raise Failing(str(error)) from error
        limit = f"the limit of {self.agent.max_iterations} iterations"
        return Ending("max_iterations", error=f"{limit} was reached before an answer")

    async def _step(self, at: Scope) -> Ending | None:
        """Ask the model once and do what it says; give the ending, if this is it.

        A loop that is entered again goes on at the stage at which it was left.
        """
        if self.stage == "request":
            await self._ask(at)
            at = self.at
        else:
            self._open_release(at, self._left.sent)
        if self.stage == "answer" and not await self._answered(at):
            return None
        answer = self.answer
        assert answer is not None  # noqa: S101 - there is one at every later stage
        if self.stage == "tools":
            await self._call_tools(at, answer)
            return None
        return await self._final(at, answer, stopped=self.stopped)

    async def _ask(self, at: Scope) -> None:
        """Get an answer, of the model or of the hooks on the request."""
        if not self.paused:
            self.later = ()
        own = self._request()
        before = await at.fire(HookPoint.BEFORE_LLM_CALL, own)
        self.offered = {tool_name(tool) for tool in before.subject.tools}
        if before.redacted:
            self._keep(before.given.messages)
        if before.decision is Decision.BLOCK and at.context.iteration == 1:
            del self.messages[-1]  # the query was refused: it is not to be sent with the next one
        self._open_release(at)
        passed(before)
        self.stopped = before.decision is Decision.STOP
        if self.stopped:
            self._drop_paused()
            self.stage, self.answer = "final", sound(before)
            return
        if isinstance(before.value, ModelRequest):
            self._bind_model(before.value)
        replaced = before.decision is Decision.REPLACE
        if replaced:
            self._drop_paused()
        injected: list[Message] = []
        if self.paused:
            self.later = [*self.later, *before.inject]
        else:
            injected = self._inject(before.inject)
        message = sound(before) if replaced else await self._ask_model(own, before, injected)
        self.stage, self.answer = "answer", identified(message, self.ids, self.context)

    def _bind_model(self, request: ModelRequest) -> None:
        """Let the events of this iteration tell the model that hooks chose, if they did."""
        known = self.at.context
        model, provider = request.model or known.model, request.provider or known.provider
        if (model, provider) != (known.model, known.provider):
            bound = self.at.bind(model=model, provider=provider)
            self.at = bound.bind_model_names(requested_model=known.model)
            self._open_release(self.at)

    def _open_release(self, at: Scope, sent: str = "") -> None:
        if self.emit is not None:
            self.release = Release(self.emit, at, whole=self.agent.output is not None, sent=sent)

    async def _answered(self, at: Scope) -> bool:
        """Show the answer; False: the model is called again, for hooks want it or it paused."""
        message: Any = self.answer
        unparsed = unparsed_in(message)
        after = await at.fire(HookPoint.AFTER_LLM_CALL, message)
        if after.decision is Decision.RETRY:
            self._again(after, self.later)
            return False
        self.later = [*self.later, *after.inject]
        changed = without_altered_thoughts(sound(after), message)
        self.answer = message = identified(changed, self.ids, self.context)
        seen = unparsed_in(message)  # as hooks left it: they may have redacted or dropped it
        self.unparsed = {name: str(seen.get(name, "")) for name in unparsed}
        self.stopped = after.decision is Decision.STOP
        paused = message.stop_reason == "pause" and not message.tool_calls and not self.stopped
        self.stage = "tools" if message.tool_calls and not self.stopped else "final"
        if (paused or self.stage == "tools") and self.release is not None:
            await self.release.before_tools(text_of(message.content))
        if paused:
            self.messages.append(freeze(assistant_message(message)))
            self.paused += 1
        return not paused

    def _request(self) -> ModelRequest:
        agent = self.agent
        system = () if self.system is None else (self.system,)
        return ModelRequest(
            model=agent.model.name,
            provider=agent.model.provider,
            messages=[*system, *self.messages],
            tools=self.schemas,
            params=agent.params,
            stream=self.emit is not None,
        )

    async def _ask_model(
        self, own: ModelRequest, before: Verdict, injected: list[Message]
    ) -> AssistantMessage:
        request: ModelRequest = before.value
        messages = [*genuine_messages(request.messages, own.messages), *injected]
        if injected or messages != request.messages:
            request = dataclasses.replace(request, messages=messages)
        agent = self.agent
        message = await ask(agent.model, request, agent.model_timeout, self.release, self.spend)
        self._check_doom()
        return message

    async def _call_tools(self, at: Scope, message: AssistantMessage) -> None:
        known = {name: tool for name, tool in self.tools.items() if name in self.offered}
        exchange = self.exchange = Exchange(
            message,
            known,
            at.bind_model_names(answered_model=message.model),
            self.emit,
            earlier=self.messages,
            unparsed=self.unparsed,
            doom=lambda: self.doom,
        )
        exchange.take_up(self._left.handled)
        self.paused = 0
        left = False
        try:
            await exchange.run()
        except AnswerLater:
            left = True
            raise
        finally:
            if not left:
                self.messages += map(freeze, exchange.messages)
                self.ids.update(call.id for call in message.tool_calls)
                self.exchange = None
        self._check_doom()
        self._inject([*self.later, *exchange.inject])

    def _memo(self) -> Memo:
        """Tell where the loop is left, to be entered again there."""
        return Memo(
            iteration=self.at.context.iteration or 1,
            stage=self.stage,
            messages=[*self.messages],
            system=self.system,
            answer=self.answer,
            stopped=self.stopped,
            offered=sorted(filter(None, self.offered)),
            later=self.later,
            paused=self.paused,
            unparsed=self.unparsed,
            handled=() if self.exchange is None else self.exchange.over,
            sent="" if self.release is None else self.release.sent,
            usage=self.usage,
            mismatches=self.mismatches,
            retries=self.at.budget.taken(),
        )

    def _check_doom(self) -> None:
        """End the run if a hook failed beneath, also where that was swallowed on its way up."""
        if self.doom is not None:
            raise Failing(self.doom, by_hook=True)

    async def _final(self, at: Scope, message: AssistantMessage, *, stopped: bool) -> Ending | None:
        if message.tool_calls:
            message = dataclasses.replace(message, tool_calls=[])
        if not stopped and not self._fits(message):
            return None
        final = await at.fire(HookPoint.BEFORE_FINAL_RESPONSE, message)
        if final.decision is Decision.RETRY:
            self._again(final, self.later)
            return None
        changed = sound(final)
        stopped = stopped or final.decision is Decision.STOP
        if changed.tool_calls:
            changed = dataclasses.replace(changed, tool_calls=[])
        output = self._output(changed, final, stopped=stopped)
        if stopped:
            self._drop_paused()
        self.paused = 0
        self.messages.append(freeze(assistant_message(changed)))
        self._inject([*self.later, *final.inject])
        return Ending("stop" if stopped else "answer", changed, output)

    def _fits(self, message: AssistantMessage) -> bool:
        """Return whether an answer fits the output schema; if not, the model is told why."""
        if self.agent.output is None:
            return True
        try:
            self.agent.output.read(text_of(message.content))
        except OutputMismatch as mismatch:
            self.mismatches += 1
            if self.mismatches > MAX_ATTEMPTS:
                problem = f"the answer does not fit the output schema, {MAX_ATTEMPTS} retries later"
                raise Failing(f"{problem}: {mismatch}") from mismatch
            feedback = f"Your answer does not fit the output schema: {mismatch}. Give JSON alone."
            self._drop_paused()
            self.messages.append(freeze(user_message(feedback)))
            self._inject(self.later)
            return False
        return True

    def _output(self, message: AssistantMessage, verdict: Verdict, *, stopped: bool) -> Any:
        if self.agent.output is None:
            return None
        try:
            return self.agent.output.read(text_of(message.content))
        except OutputMismatch as mismatch:
            if stopped:
                return None
            by = changers(verdict)
            problem = f"the answer no longer fits the output schema: it was changed by {by}"
            raise Failing(f"{problem} ({mismatch})") from mismatch

    def _again(self, verdict: Verdict, earlier: Iterable[Message] = ()) -> None:
        """Have the model asked again: what it said is forgotten, and it is told why."""
        self._drop_paused()
        self.messages.append(freeze(user_message(verdict.reason or DEFAULT_FEEDBACK)))
        self._inject([*earlier, *verdict.inject])

    def _drop_paused(self) -> None:
        """Forget an answer that was interrupted and not gone on with: nobody would take it back."""
        if self.paused:
            del self.messages[-self.paused :]
            self.paused = 0

    def _inject(self, given: Iterable[Message]) -> list[Message]:
        """Put messages of hooks at the end of the conversation, where they are legal."""
        placed = [said for message in given if (said := legal(message)) is not None]
        self.messages += placed
        return placed

    def _keep(self, messages: Iterable[Message]) -> None:
        """Make redacted messages the conversation: the earlier form is not to be seen again."""
        system = () if self.system is None else (self.system,)
        ours = [*system, *self.messages]
        kept = [*genuine_messages(redacted(ours, [*messages]), ours)]
        if system:
            self.system = kept.pop(0)
        self.messages[:] = kept

    def _doom(self, reason: str) -> None:
        """Let no run above survive a hook's `fail`, unless this was a hook's own work."""
        above = self.above
        while above is not None:
            above.doom = above.doom or reason
            above = above.above

    async def _ended(self, ending: Ending) -> AgentResponse:
        """Fire `query_end`, and give the response as its hooks left it."""
        self._drop_paused()
        response = self._response(ending)
        verdict = await self.at.fire(HookPoint.QUERY_END, response)
        if verdict.decision is Decision.FAIL:
            if ending.error is None:
                self._doom(verdict.reason)
                failing = dataclasses.replace(response, stop_reason="fail", error=verdict.reason)
                raise RunFailed(verdict.reason, failing, by_hook=True)
            return response
        nothing = dataclasses.replace(response, content="", output=None)
        changed: AgentResponse = verdict.value or nothing
        if verdict.redacted:
            changed = self._forgetting(response.content, changed)
        return changed

    def _forgetting(self, answer: Any, changed: AgentResponse) -> AgentResponse:
        """Keep only the redacted form of an answer in the conversation."""
        ours = self.messages
        kept = redacted(ours, changed.messages) if changed.messages else ours
        self.messages[:] = [
            freeze({**said, "content": changed.content})
            if answer and (said.get("role"), said.get("content")) == ("assistant", answer)
            else said
            for said in kept
        ]
        return dataclasses.replace(changed, messages=[*self.messages])

    def _response(self, ending: Ending) -> AgentResponse:
        return AgentResponse(
            content="" if ending.message is None else ending.message.content,
            output=ending.output,
            messages=[*self.messages],
            usage=self.usage,
            stop_reason=ending.stop_reason,
            error=ending.error,
            finish=None if ending.message is None else ending.message.stop_reason,
        )
