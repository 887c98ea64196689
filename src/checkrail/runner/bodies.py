"""Runs of agents on a runner: carried out as on a server, up to their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.engine.asks import AnswerLater
from checkrail.engine.scope import Scope
from checkrail.runner.projects import RunnerProject
from checkrail.runs import jsons
from checkrail.runs.agent_run import PROCEDURAL, carried_out, failing
from checkrail.runs.holding import Held
from checkrail.runs.live import LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import user_of
from checkrail.runs.work import MEMO, NOT_LEFT, Work, left_at

Report = tuple[str, dict[str, Any]]
"""What came of a run: the route that it is reported by, and what is said there."""


class AgentBody:
    """A run of an autonomous or procedural agent."""

    def __init__(
        self, project: RunnerProject, claim: Mapping[str, Any], live: LiveRun, scope: Scope
    ) -> None:
        self._project = project
        self._claim = claim
        self._live = live
        self._scope = scope

    async def report(self) -> Report:
        """Carry it out."""
        live, row = self._live, self._live.row
        left = self._claim["left"] or NOT_LEFT
        held = None
        if self._claim["holds"] or left["events"]:
            held = Held(live.emit, self._claim["limits"]["events"], left["events"])
        agent = self._project.agent(row["agent_name"], self._claim["blueprint"])
        live.desk.leaves = agent.kind != PROCEDURAL
        given = row["parameters"] if row["parameters"] is not None else row["input"]
        work = Work(
            run_id=live.run_id,
            thread_id=live.thread_id,
            session_id=row["session_id"],
            attempt=live.attempt,
            agent=agent,
            parameters=given if given is not None else {},
            history=self._claim["history"],
            scope=self._scope,
            emit=live.emit if held is None else held.emit,
            user=user_of(row),
            context=row["scope"] or {},
            memo=left[MEMO],
            used=live.usage,
            mark_usage=live.mark_usage,
        )
        try:
            done = await carried_out(work, self._project.workshop)
        except AnswerLater as later:
            held_back = () if held is None else held.events
            later.memo = left_at(later.memo, live.usage, held_back)
            raise
        if (failed := failing(done)) is not None:
            return ended(failed)
        return "completed", {
            "output": done.output,
            "messages": None if done.messages is None else jsons.jsonable([*done.messages]),
            "held": [] if held is None else held.events,
        }


def ended(outcome: Outcome) -> Report:
    """Report a run that came to no result."""
    phase = outcome.phase if outcome.phase in ("blocked", "timeout") else "error"
    return "failed", {
        "error": outcome.error or outcome.phase,
        "error_type": outcome.error_type or "Error",
        "phase": phase,
        "blocked_by": outcome.blocked_by,
        "unwound": outcome.unwound,
    }
