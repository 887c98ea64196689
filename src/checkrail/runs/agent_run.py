"""A run of an agent that is no graph: its body under the hooks' eyes, up to its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from checkrail.engine.asks import AnswerLater
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.scope import Scope
from checkrail.runs import approving, jsons, tools
from checkrail.runs import outcome as outcomes
from checkrail.runs.bodies import run_callable, run_command, run_loop
from checkrail.runs.catalogue import Entry
from checkrail.runs.holding import Emit, Held, rules_on_result
from checkrail.runs.live import LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import Parts, user_of
from checkrail.runs.work import MEMO, NOT_LEFT, Done, Message, Work, left_at
from checkrail.runs.workshop import Workshop
from checkrail.store import threads

PROCEDURAL = "procedural"


class AgentRun:
    """One attempt at a run of an autonomous or procedural agent."""

    def __init__(self, parts: Parts, live: LiveRun, scope: Scope) -> None:
        self._parts = parts
        self._live = live
        self._scope = scope
        self._emit: Emit = live.emit
        live.body = self

    async def result(self, kept: Mapping[str, Any] | None = None) -> Outcome:
        """Carry out the body, and ask the hooks about what came of it.

        A body that was left is entered again with what was `kept` of it.
        """
        agent = self._parts.catalogue.runnable(self._live.row["agent_name"])
        left = kept or NOT_LEFT
        self._live.desk.leaves = agent.config.kind != PROCEDURAL
        held = None
        if left["events"] or rules_on_result(self._scope):
            held = Held(self._live.emit, self._parts.settings.limits.events, left["events"])
            self._emit = held.emit
        work = await self._work(agent, left)
        try:
            with tools.offered(self._parts, self._live.row):
                done = await carried_out(work, self._parts.workshop)
        except AnswerLater as later:
            held_back = () if held is None else held.events
            later.memo = left_at(later.memo, work.used, held_back)
            raise
        return await self.ruled(agent, done, held)

    async def again(self, kept: Mapping[str, Any]) -> Outcome:
        """Ask the hooks again about what came of the body, as it was kept meanwhile."""
        name, catalogue = self._live.row["agent_name"], self._parts.catalogue
        agent = catalogue.get(name) or catalogue.runnable(name)  # it may be off by now
        held = Held(self._live.emit, self._parts.settings.limits.events, kept["events"])
        done = Done(kept["output"], kept["messages"], kept["usage"])
        if not self._scope.has("on_result"):
            held.release()
        return await self.ruled(agent, done, held)

    async def _work(self, agent: Entry, left: Mapping[str, Any]) -> Work:
        live, row = self._live, self._live.row
        given = row["parameters"] if row["parameters"] is not None else row["input"]
        return Work(
            run_id=live.run_id,
            thread_id=live.thread_id,
            session_id=row["session_id"],
            attempt=live.attempt,
            agent=agent.config,
            parameters=given if given is not None else {},
            history=await history_of(self._parts, row),
            scope=self._scope,
            emit=self._emit,
            user=user_of(row),
            context=row["scope"] or {},
            memo=left[MEMO],
            used=live.usage,
            mark_usage=live.mark_usage,
        )

    async def ruled(self, agent: Entry, done: Done, held: Held | None) -> Outcome:
        """Check the output, ask the hooks about it, and give the end of the run."""
        failed = failing(done) or agent.mismatch(done.output)
        if failed is not None:
            if held is not None:
                held.drop()
            return self._with_usage(failed)
        output = done.output
        if self._scope.has("on_result"):
            verdict = await approving.fire(
                self._parts,
                self._live,
                self._scope,
                "on_result",
                output,
                keep=lambda: _kept(done, held),
            )
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                if held is not None:
                    held.drop()
                return self._with_usage(_refused(verdict))
            changed = thaw(verdict.value)
            if held is not None:
                (held.drop if changed != output else held.release)()
            done = self._told(done, changed) if changed != output else done
            output = changed
        if done.messages is None:
            return self._with_usage(
                Outcome("success", "success", output=output, values={"output": output})
            )
        values = _conversation(done.messages)
        return self._with_usage(Outcome("success", "success", output=output, values=values))

    def _told(self, done: Done, output: Any) -> Done:
        """Let the conversation end with what the hooks made of the answer."""
        said = [*(done.messages or ())]
        answers = [at for at, message in enumerate(said) if message.get("role") == "assistant"]
        if not answers:
            return done
        text = output if isinstance(output, str) else jsons.dumps(output).decode()
        said[answers[-1]] = {**said[answers[-1]], "content": text}
        self._live.emit("values", (), _conversation(said))
        return dataclasses.replace(done, messages=said)

    async def left(self, ended: Outcome) -> Outcome:
        """Return what is left of a run that did not get to its end: what it has used."""
        return self._with_usage(ended)

    def _with_usage(self, ended: Outcome) -> Outcome:
        return dataclasses.replace(ended, usage=dict(self._live.usage))


async def carried_out(work: Work, workshop: Workshop) -> Done:
    """Carry out a run of an agent that is no graph, wherever this is."""
    agent = work.agent
    if agent.kind != PROCEDURAL:
        return await run_loop(work, workshop.agent(agent))
    if agent.command:
        return await run_command(work, workshop.base)
    return await run_callable(work, workshop.function(agent))


def _kept(done: Done, held: Held | None) -> dict[str, Any]:
    """Return what has to outlast a question about a result, so that nothing is done again."""
    return {
        "output": thaw(done.output),
        "messages": None if done.messages is None else thaw([*done.messages]),
        "usage": dict(done.usage),
        "events": [] if held is None else held.events,
    }


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    """Give a conversation as the values of its thread."""
    return {"messages": jsons.jsonable(thaw([*messages]))}


async def history_of(parts: Parts, row: Any) -> list[Any]:
    """Return the conversation on a run's thread so far."""
    if row["temporary"]:
        return []
    thread = await parts.database.read(
        lambda reads: threads.get(reads, row["thread_id"]), patient=True
    )
    values = (thread or {}).get("values")
    said = values.get("messages") if isinstance(values, dict) else None
    return said if isinstance(said, list) else []


def failing(done: Done) -> Outcome | None:
    """Return the end of a run whose body failed; None: it did not."""
    if done.verdict is not None:
        return _refused(done.verdict)
    if done.error is None:
        return None
    if done.error_type == "Blocked":
        return outcomes.blocked(done.blocked_by, done.error)
    kind = done.error_type or "Error"
    return outcomes.failed(done.error, kind, blocked_by=done.blocked_by)


def _refused(verdict: Any) -> Outcome:
    if verdict.decision is Decision.FAIL:
        return outcomes.failed(verdict.reason, "HookFailed", blocked_by=verdict.hook)
    return outcomes.blocked(verdict.hook, verdict.reason)
