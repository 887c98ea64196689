"""The loop: model, tools, answer, with every point on the way."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.agent.errors import RunFailed
from checkrail.agent.events import Emit
from checkrail.agent.model_call import call_model
from checkrail.agent.output import MAX_ATTEMPTS, OutputMismatch
from checkrail.agent.results import (
    BlockedByHook,
    Ending,
    HookFailure,
    LoopFailure,
    valid_answer,
    value_or_refuse,
)
from checkrail.agent.snapshot import LoopSnapshot, Stage
from checkrail.agent.stream_gate import StreamGate
from checkrail.agent.tool_calls import ToolCallBatch
from checkrail.engine.asks import AnswerLater
from checkrail.engine.errors import CheckrailError, describe_error
from checkrail.engine.frozen import freeze
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import AgentResponse, AssistantMessage, ModelRequest, plain
from checkrail.engine.verdict import Verdict
from checkrail.llm.conversation import (
    Message,
    assistant_message,
    call_ids,
    genuine_messages,
    legal_message,
    text_of,
    tool_name,
    unparsed_in,
    user_message,
    with_call_ids,
    without_altered_thoughts,
)
from checkrail.llm.conversation_redaction import merge_redacted
from checkrail.llm.usage import Meter, sum_usage
from checkrail.llm.verdicts import changing_hooks
from checkrail.styles.fluent import DEFAULT_FEEDBACK
from checkrail.times import uuid7

if TYPE_CHECKING:
    from checkrail.agent.agent import Agent
    from checkrail.agent.tools.tool import Tool

Mark = Callable[[str, Mapping[str, Any]], object]
"""Is told when models are called and have answered, those of agents beneath too; in any thread."""

OnEnd = Callable[[Ending], object]
"""Called with the end of a run before its `query_end`, and again if a hook there changes it."""


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
        mark: Mark | None = None,
        memo: LoopSnapshot | None = None,
        on_end: OnEnd | None = None,
    ) -> None:
        self.agent = agent
        self.messages = messages
        self.ids = {*call_ids(messages)}
        self.emit = emit
        self.on_end = on_end
        self.context = context
        self.inside = inside
        self.over: bool = False
        lives = above is not None and not above.over and above.inside == inside
        self.above = above if lives else None
        self.meter: Meter | None = meter
        if meter is None and self.above is not None:
            self.meter = self.above.meter
        self.mark: Mark | None = mark
        if mark is None and self.above is not None:
            self.mark = self.above.mark
        left = LoopSnapshot(system=freeze(agent.system_message)) if memo is None else memo
        self.usage: Mapping[str, Any] = left.usage
        self._lock = threading.Lock()
        self.doom: HookFailure | None = None
        self.system: Message | None = left.system
        self.tools: Mapping[str, Tool] = {}
        self.schemas: Sequence[Mapping[str, Any]] = ()
        self.offered: set[str | None] = {*left.offered}
        self.mismatches = left.mismatches
        self.release: StreamGate | None = None
        self.later: Sequence[Message] = left.later
        self.paused = left.paused
        self.unparsed: Mapping[str, str] = left.unparsed
        self.at = self._base = scope
        self.stage: Stage = left.stage
        self.answer: AssistantMessage | None = left.answer
        self.stopped = left.stopped
        self.exchange: ToolCallBatch | None = None
        self._left = left
        if memo is not None:
            scope.budget.resume(memo.retries)

    async def run(self) -> AgentResponse:
        """Run the loop to its end, fire `query_end`, and return the response."""
        try:
            ending = await self._run_iterations()
        except LoopFailure as failing:
            response = await self._fire_query_end(self._failed_ending(failing))
            by_hook = failing.failure is not None
            raise RunFailed(str(failing), response, by_hook=by_hook) from failing.__cause__
        except GeneratorExit:
            raise  # nobody can wait for anything any more
        except AnswerLater as later:
            later.memo = self._take_snapshot()
            raise
        except Exception as error:
            response = await self._fire_query_end(Ending("error", error=describe_error(error)))
            raise RunFailed(describe_error(error), response) from error
        except BaseException:
            await self._fire_query_end(Ending("cancelled", error="the run was cancelled"))
            raise
        else:
            response = await self._fire_query_end(ending)
        finally:
            self.over = True
            if self.above is not None:
                self.above.count_usage(self.usage)
        if self.release is not None and ending.message is not None:
            self.release.release_rest(text_of(response.content))
        return response

    def count_usage(self, usage: Mapping[str, Any] | None, model: str | None = None) -> None:
        """Count what an answer used; agents beneath may do so from the threads of their tools."""
        with self._lock:
            self.usage = sum_usage(self.usage, usage)
        if self.meter is not None and model is not None and usage:
            self.meter(model, usage)

    async def _run_iterations(self) -> Ending:
        try:
            self.tools = await self.agent.toolbox.connect_tools()
            self.schemas = freeze([tool.to_schema() for tool in self.tools.values()])
            for iteration in range(self._left.iteration, self.agent.max_iterations + 1):
                self.at = self._base.bind(iteration=iteration)
                if (ending := await self._run_iteration(self.at)) is not None:
                    return ending
                self.stage = "request"
        except BlockedByHook as blocked:
            return Ending("block", error=str(blocked), hook=blocked.hook)
        except CheckrailError as error:
            self._check_inner_failure()
            raise LoopFailure(str(error)) from error
        limit = f"the limit of {self.agent.max_iterations} iterations"
        return Ending("max_iterations", error=f"{limit} was reached before an answer")

    async def _run_iteration(self, at: Scope) -> Ending | None:
        """Call the model once and act on its answer; return the ending, if this is it.

        A loop that is entered again goes on at the stage at which it was left.
        """
        if self.stage == "request":
            await self._request_answer(at)
            at = self.at
        else:
            self._open_stream_gate(at, self._left.sent)
        if self.stage == "answer" and not await self._handle_answer(at):
            return None
        answer = self.answer
        assert answer is not None  # noqa: S101 - there is one at every later stage
        if self.stage == "tools":
            await self._call_tools(at, answer)
            return None
        return await self._finish_answer(at, answer, stopped=self.stopped)

    async def _request_answer(self, at: Scope) -> None:
        """Get an answer, from the model or from hooks on the request."""
        if not self.paused:
            self.later = ()
        own = self._build_request()
        before = await at.fire(HookPoint.BEFORE_LLM_CALL, own)
        self.offered = {tool_name(tool) for tool in before.subject.tools}
        if before.redacted:
            self._apply_redaction(before.given.messages)
        if before.decision is Decision.BLOCK and at.context.iteration == 1:
            del self.messages[-1]  # the query was refused: it is not to be sent with the next one
        self._open_stream_gate(at)
        value_or_refuse(before)
        self.stopped = before.decision is Decision.STOP
        if self.stopped:
            self._drop_paused()
            self.stage, self.answer = "final", valid_answer(before)
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
            injected = self._inject_messages(before.inject)
        message = (
            valid_answer(before) if replaced else await self._call_model(own, before, injected)
        )
        self.stage, self.answer = "answer", with_call_ids(message, self.ids, self.context)

    def _bind_model(self, request: ModelRequest) -> None:
        """Put the model that hooks chose into the events of this iteration."""
        known = self.at.context
        model, provider = request.model or known.model, request.provider or known.provider
        if (model, provider) != (known.model, known.provider):
            bound = self.at.bind(model=model, provider=provider)
            self.at = bound.bind_model_names(requested_model=known.model)
            self._open_stream_gate(self.at)

    def _open_stream_gate(self, at: Scope, sent: str = "") -> None:
        if self.emit is not None:
            self.release = StreamGate(self.emit, at, whole=self.agent.output is not None, sent=sent)

    async def _handle_answer(self, at: Scope) -> bool:
        """Fire `after_llm_call`; return False if the model is to be called again."""
        message: Any = self.answer
        unparsed = unparsed_in(message)
        after = await at.fire(HookPoint.AFTER_LLM_CALL, message)
        if after.decision is Decision.RETRY:
            self._prepare_retry(after, self.later)
            return False
        self.later = [*self.later, *after.inject]
        changed = without_altered_thoughts(valid_answer(after), message)
        self.answer = message = with_call_ids(changed, self.ids, self.context)
        seen = unparsed_in(message)  # as hooks left it: they may have redacted or dropped it
        self.unparsed = {name: str(seen.get(name, "")) for name in unparsed}
        self.stopped = after.decision is Decision.STOP
        paused = message.stop_reason == "pause" and not message.tool_calls and not self.stopped
        self.stage = "tools" if message.tool_calls and not self.stopped else "final"
        if (paused or self.stage == "tools") and self.release is not None:
            await self.release.release_before_tools(text_of(message.content))
        if paused:
            self.messages.append(freeze(assistant_message(message)))
            self.paused += 1
        return not paused

    def _build_request(self) -> ModelRequest:
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

    async def _call_model(
        self, own: ModelRequest, before: Verdict, injected: list[Message]
    ) -> AssistantMessage:
        request: ModelRequest = before.value
        messages = [*genuine_messages(request.messages, own.messages), *injected]
        if injected or messages != request.messages:
            request = dataclasses.replace(request, messages=messages)
        message = await self._call_marked(request)
        self._check_inner_failure()
        return message

    async def _call_marked(self, request: ModelRequest) -> AssistantMessage:
        """Call the model, and mark when it was called and when it has answered."""
        agent, mark = self.agent, self.mark
        given = (agent.model, request, agent.model_timeout, self.release, self.count_usage)
        if mark is None:
            return await call_model(*given)
        about = self._describe_call(request)
        mark("model_started", about)
        ended: dict[str, Any] = {"error": "CancelledError"}
        try:
            message = await call_model(*given)
            usage = None if message.usage is None else plain(message.usage)
            ended = {"usage": usage, "stop_reason": message.stop_reason}
            ended["answered_model"] = message.model or about["model"]
        except Exception as error:
            ended = {"error": type(error).__name__}
            raise
        finally:
            mark("model_finished", {**about, **ended})
        return message

    def _describe_call(self, request: ModelRequest) -> dict[str, Any]:
        """Return which call of a model this is: its own id, and where in the run it was made."""
        at = self.at.context
        return {
            "call": uuid7(),
            "model": request.model or self.agent.model.name,
            "provider": request.provider or self.agent.model.provider,
            "agent_name": self.agent.name,
            "iteration": at.iteration,
            "tool_call_id": at.tool_call_id,
        }

    async def _call_tools(self, at: Scope, message: AssistantMessage) -> None:
        known = {name: tool for name, tool in self.tools.items() if name in self.offered}
        exchange = self.exchange = ToolCallBatch(
            message,
            known,
            at.bind_model_names(answered_model=message.model),
            self.emit,
            earlier=self.messages,
            unparsed=self.unparsed,
            doom=lambda: self.doom,
        )
        exchange.restore_calls(self._left.handled)
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
        self._check_inner_failure()
        self._inject_messages([*self.later, *exchange.injected_messages])

    def _take_snapshot(self) -> LoopSnapshot:
        """Return the state from which the loop can be resumed."""
        return LoopSnapshot(
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
            handled=() if self.exchange is None else self.exchange.finished_calls,
            sent="" if self.release is None else self.release.sent_text,
            usage=self.usage,
            mismatches=self.mismatches,
            retries=self.at.budget.used_by_hook(),
        )

    def _check_inner_failure(self) -> None:
        """End the run if a hook decided `fail` beneath, even where the error was swallowed."""
        if self.doom is not None:
            raise LoopFailure(self.doom.reason, self.doom)

    async def _finish_answer(
        self, at: Scope, message: AssistantMessage, *, stopped: bool
    ) -> Ending | None:
        if message.tool_calls:
            message = dataclasses.replace(message, tool_calls=[])
        if not stopped and not self._accept_output(message):
            return None
        final = await at.fire(HookPoint.BEFORE_FINAL_RESPONSE, message)
        if final.decision is Decision.RETRY:
            self._prepare_retry(final, self.later)
            return None
        changed = valid_answer(final)
        stopped = stopped or final.decision is Decision.STOP
        if changed.tool_calls:
            changed = dataclasses.replace(changed, tool_calls=[])
        output = self._parse_output(changed, final, stopped=stopped)
        if stopped:
            self._drop_paused()
        self.paused = 0
        self.messages.append(freeze(assistant_message(changed)))
        self._inject_messages([*self.later, *final.inject])
        return Ending("stop" if stopped else "answer", changed, output)

    def _accept_output(self, message: AssistantMessage) -> bool:
        """Return whether an answer fits the output schema; if not, send the model feedback."""
        if self.agent.output is None:
            return True
        try:
            self.agent.output.parse_answer(text_of(message.content))
        except OutputMismatch as mismatch:
            self.mismatches += 1
            if self.mismatches > MAX_ATTEMPTS:
                problem = f"the answer does not fit the output schema, {MAX_ATTEMPTS} retries later"
                raise LoopFailure(f"{problem}: {mismatch}") from mismatch
            feedback = f"Your answer does not fit the output schema: {mismatch}. Give JSON alone."
            self._drop_paused()
            self.messages.append(freeze(user_message(feedback)))
            self._inject_messages(self.later)
            return False
        return True

    def _parse_output(self, message: AssistantMessage, verdict: Verdict, *, stopped: bool) -> Any:
        if self.agent.output is None:
            return None
        try:
            return self.agent.output.parse_answer(text_of(message.content))
        except OutputMismatch as mismatch:
            if stopped:
                return None
            by = changing_hooks(verdict)
            problem = f"the answer no longer fits the output schema: it was changed by {by}"
            raise LoopFailure(f"{problem} ({mismatch})") from mismatch

    def _prepare_retry(self, verdict: Verdict, earlier: Iterable[Message] = ()) -> None:
        """Drop the answer and append the hook's feedback, so that the model is called again."""
        self._drop_paused()
        self.messages.append(freeze(user_message(verdict.reason or DEFAULT_FEEDBACK)))
        self._inject_messages([*earlier, *verdict.inject])

    def _drop_paused(self) -> None:
        """Drop an answer that paused and was not resumed: no provider would accept it back."""
        if self.paused:
            del self.messages[-self.paused :]
            self.paused = 0

    def _inject_messages(self, given: Iterable[Message]) -> list[Message]:
        """Put messages of hooks at the end of the conversation, where they are legal."""
        placed = [said for message in given if (said := legal_message(message)) is not None]
        self.messages += placed
        return placed

    def _apply_redaction(self, messages: Iterable[Message]) -> None:
        """Put redacted messages into the conversation, in place of the earlier ones."""
        system = () if self.system is None else (self.system,)
        ours = [*system, *self.messages]
        kept = [*genuine_messages(merge_redacted(ours, [*messages]), ours)]
        if system:
            self.system = kept.pop(0)
        self.messages[:] = kept

    def _failed_ending(self, failing: LoopFailure) -> Ending:
        failure = failing.failure
        if failure is None:
            return Ending("error", error=str(failing))
        self._spread_failure(failure)
        return Ending("fail", error=failure.reason, hook=failure.hook)

    def _spread_failure(self, failure: HookFailure) -> None:
        """Let no run above survive a hook's `fail`, unless this was a hook's own work."""
        above = self.above
        while above is not None:
            above.doom = above.doom or failure
            above = above.above

    async def _fire_query_end(self, ending: Ending) -> AgentResponse:
        """Fire `query_end`, and return the response as its hooks left it."""
        self._drop_paused()
        self._note_ending(ending)
        response = self._build_response(ending)
        verdict = await self.at.fire(HookPoint.QUERY_END, response)
        if verdict.decision is Decision.FAIL:
            if ending.error is None:
                self._spread_failure(HookFailure(verdict.reason, verdict.hook))
                self._note_ending(Ending("fail", error=verdict.reason, hook=verdict.hook))
                failing = dataclasses.replace(response, stop_reason="fail", error=verdict.reason)
                raise RunFailed(verdict.reason, failing, by_hook=True)
            return response
        nothing = dataclasses.replace(response, content="", output=None)
        changed: AgentResponse = verdict.value or nothing
        if verdict.redacted:
            changed = self._redact_answer(response.content, changed)
        return changed

    def _note_ending(self, ending: Ending) -> None:
        if self.on_end is not None:
            self.on_end(ending)

    def _redact_answer(self, answer: Any, changed: AgentResponse) -> AgentResponse:
        """Keep only the redacted form of an answer in the conversation."""
        ours = self.messages
        kept = merge_redacted(ours, changed.messages) if changed.messages else ours
        self.messages[:] = [
            freeze({**said, "content": changed.content})
            if answer and (said.get("role"), said.get("content")) == ("assistant", answer)
            else said
            for said in kept
        ]
        return dataclasses.replace(changed, messages=[*self.messages])

    def _build_response(self, ending: Ending) -> AgentResponse:
        return AgentResponse(
            content="" if ending.message is None else ending.message.content,
            output=ending.output,
            messages=[*self.messages],
            usage=self.usage,
            stop_reason=ending.stop_reason,
            error=ending.error,
            finish=None if ending.message is None else ending.message.stop_reason,
        )
