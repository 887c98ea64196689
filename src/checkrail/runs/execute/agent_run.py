"""A run of an agent that is no graph: its body under the hooks' eyes, up to its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from checkrail.engine.asks import AnswerLater
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.scope import Scope
from checkrail.runs import jsons, tools
from checkrail.runs.agents.catalogue import AgentEntry
from checkrail.runs.agents.factory import AgentFactory
from checkrail.runs.execute.job import MEMO, NOT_LEFT, Job, JobResult, Message, suspended_state
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.execute.run_messages import fire_result, holds_result, reviews_result
from checkrail.runs.executors.command import run_command
from checkrail.runs.executors.loop import run_loop
from checkrail.runs.executors.python import run_callable
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.graphs.execution import Emit, HeldEvents
from checkrail.runs.services import RunServices, user_of
from checkrail.store import threads
from checkrail.store.runs import Run

PROCEDURAL = "procedural"


class AgentRun:
    """One attempt at a run of an autonomous or procedural agent."""

    def __init__(
        self,
        parts: RunServices,
        live: LiveRun,
        scope: Scope,
        resume: tools.ResumeSession | None = None,
    ) -> None:
        self._parts = parts
        self._resume = resume
        self._live = live
        self._scope = scope
        self._emit: Emit = live.emit
        live.set_body(self)

    async def execute(self, kept: Mapping[str, Any] | None = None) -> RunOutcome:
        """Execute the job, and fire the hooks on its result.

        A body that was left is entered again with what was `kept` of it.
        """
        agent = self._parts.catalogue.require_runnable(self._live.row.agent_name)
        left = kept or NOT_LEFT
        self._live.allow_suspension(allowed=agent.config.kind != PROCEDURAL)
        held = None
        if left["events"] or holds_result(self._parts, self._live.row, self._scope):
            held = HeldEvents(self._live.emit, self._parts.settings.limits.events, left["events"])
            self._emit = held.emit
        work = await self._build_job(agent, left)
        try:
            with tools.offer_tools(self._resume, self._live.row):
                done = await execute_job(work, self._parts.workshop)
        except AnswerLater as later:
            held_back = () if held is None else held.events
            later.memo = suspended_state(later.memo, work.used, held_back)
            raise
        return await self.review_result(agent, done, held)

    async def review_stored_result(self, kept: Mapping[str, Any]) -> RunOutcome:
        """Fire the hooks again on a result that was stored meanwhile."""
        name, catalogue = self._live.row.agent_name, self._parts.catalogue
        agent = catalogue.get(name) or catalogue.require_runnable(name)  # it may be off by now
        held = HeldEvents(self._live.emit, self._parts.settings.limits.events, kept["events"])
        done = JobResult(kept["output"], kept["messages"], kept["usage"])
        if not reviews_result(self._parts, self._live.row, self._scope):
            held.release()
        return await self.review_result(agent, done, held)

    async def _build_job(self, agent: AgentEntry, left: Mapping[str, Any]) -> Job:
        live, row = self._live, self._live.row
        given = row.parameters if row.parameters is not None else row.input
        return Job(
            run_id=live.run_id,
            thread_id=live.thread_id,
            session_id=row.session_id,
            attempt=live.attempt,
            agent=agent.config,
            parameters=given if given is not None else {},
            history=await load_history(self._parts, row),
            scope=self._scope,
            emit=self._emit,
            user=user_of(row),
            context=row.scope or {},
            memo=left[MEMO],
            used=live.usage,
            mark_usage=live.mark_usage,
            mark=live.mark,
        )

    async def review_result(
        self, agent: AgentEntry, done: JobResult, held: HeldEvents | None
    ) -> RunOutcome:
        """Check the output, fire the hooks on it, and return the outcome of the run."""
        failed = error_of_job(done) or agent.output_mismatch(done.output)
        if failed is not None:
            if held is not None:
                held.drop()
            return self._with_usage(failed)
        output = done.output
        first = done  # what a suspended run is entered with again
        verdict = await fire_result(
            self._parts,
            self._live,
            self._scope,
            output,
            keep=lambda: _suspended_result(first, held),
        )
        if verdict is not None:
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                if held is not None:
                    held.drop()
                return self._with_usage(_outcome_from_verdict(verdict))
            changed = thaw(verdict.value)
            if held is not None:
                (held.drop if changed != output else held.release)()
            done = self._with_final_answer(done, changed) if changed != output else done
            output = changed
        if done.messages is None:
            return self._with_usage(
                RunOutcome("success", "success", output=output, values={"output": output})
            )
        values = _thread_values(done.messages)
        return self._with_usage(RunOutcome("success", "success", output=output, values=values))

    def _with_final_answer(self, done: JobResult, output: Any) -> JobResult:
        """Return the result, its conversation ending with the answer as the hooks left it."""
        said = [*(done.messages or ())]
        answers = [at for at, message in enumerate(said) if message.get("role") == "assistant"]
        if not answers:
            return done
        text = output if isinstance(output, str) else jsons.dumps(output).decode()
        said[answers[-1]] = {**said[answers[-1]], "content": text}
        self._live.emit("values", (), _thread_values(said))
        return dataclasses.replace(done, messages=said)

    async def unfinished_outcome(self, ended: RunOutcome) -> RunOutcome:
        """Return the outcome of a run that did not get to its end, with what it has used."""
        return self._with_usage(ended)

    def _with_usage(self, ended: RunOutcome) -> RunOutcome:
        return dataclasses.replace(ended, usage=dict(self._live.usage))


async def execute_job(work: Job, workshop: AgentFactory) -> JobResult:
    """Execute a job of an agent that is no graph, on a server or a runner."""
    agent = work.agent
    if agent.kind != PROCEDURAL:
        return await run_loop(work, workshop.get_agent(agent))
    if agent.command:
        return await run_command(work, workshop.base)
    return await run_callable(work, workshop.load_function(agent))


def _suspended_result(done: JobResult, held: HeldEvents | None) -> dict[str, Any]:
    """Return what has to outlast a question about a result, so that nothing is done again."""
    return {
        "output": thaw(done.output),
        "messages": None if done.messages is None else thaw([*done.messages]),
        "usage": dict(done.usage),
        "events": [] if held is None else held.events,
    }


def _thread_values(messages: Sequence[Message]) -> dict[str, Any]:
    """Return a conversation as the values of its thread."""
    return {"messages": jsons.jsonable(thaw([*messages]))}


async def load_history(parts: RunServices, row: Run) -> list[Any]:
    """Return the conversation on a run's thread so far."""
    if row.temporary:
        return []
    thread = await parts.database.read(
        lambda reads: threads.get(reads, row.thread_id), patient=True
    )
    values = None if thread is None else thread.values
    said = values.get("messages") if isinstance(values, dict) else None
    return said if isinstance(said, list) else []


def error_of_job(done: JobResult) -> RunOutcome | None:
    """Return the outcome of a run whose job ended with an error; None if it did not."""
    if done.verdict is not None:
        return _outcome_from_verdict(done.verdict)
    if done.error is None:
        return None
    if done.error_type == "Blocked":
        return outcomes.blocked_outcome(done.blocked_by, done.error)
    kind = done.error_type or "Error"
    return outcomes.error_outcome(done.error, kind, blocked_by=done.blocked_by)


def _outcome_from_verdict(verdict: Any) -> RunOutcome:
    if verdict.decision is Decision.FAIL:
        return outcomes.error_outcome(verdict.reason, "HookFailed", blocked_by=verdict.hook)
    return outcomes.blocked_outcome(verdict.hook, verdict.reason)
