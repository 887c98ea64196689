"""The bodies of runs on a runner: the same as on a server, up to their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.asks import AnswerLater
from checkrail.engine.scope import Scope
from checkrail.runner.projects import RunnerProject
from checkrail.runs import jsons
from checkrail.runs.agent_run import PROCEDURAL, carried_out, failing
from checkrail.runs.graph_run import GraphRun
from checkrail.runs.graphs.execution import GraphOutcome
from checkrail.runs.graphs.loading import Graphs
from checkrail.runs.holding import Held
from checkrail.runs.hub import Hub
from checkrail.runs.live import LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import RunSettings, user_of
from checkrail.runs.work import MEMO, NOT_LEFT, Work, left_at

Report = tuple[str, dict[str, Any]]
"""What came of a run: the route that it is reported by, and what is said there."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the body of a graph's run works with."""

    graphs: Graphs
    checkpointer: Any
    hub: Hub
    policy: str
    settings: RunSettings = field(default_factory=RunSettings)

    def on_crash(self, _agent_name: str) -> str:
        """Say what becomes of a run whose process died; the server has said so."""
        return self.policy


class AgentBody:
    """A run of an autonomous or procedural agent."""

    def __init__(
        self, project: RunnerProject, claim: Mapping[str, Any], live: LiveRun, scope: Scope
    ) -> None:
        self._project = project
        self._claim = claim
        self._live = live
        self._scope = scope
        self.usage: dict[str, Any] = {}

    async def report(self) -> Report:
        """Carry it out."""
        live, row = self._live, self._live.row
        left = self._claim["left"] or NOT_LEFT
        held = None
        if self._claim["holds"] or left["events"]:
            held = Held(live.emit, self._claim["limits"]["events"], left["events"])
        agent = self._project.agent(row["agent_name"], self._claim["blueprint"])
        live.desk.leaves = agent.kind != PROCEDURAL
        self.usage |= left["usage"]
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
            used=self.usage,
        )
        try:
            done = await carried_out(work, self._project.workshop)
        except AnswerLater as later:
            held_back = () if held is None else held.events
            later.memo = left_at(later.memo, self.usage, held_back)
            raise
        if (failed := failing(done)) is not None:
            return ended(failed)
        return "completed", {
            "output": done.output,
            "messages": None if done.messages is None else jsons.jsonable([*done.messages]),
            "held": [] if held is None else held.events,
        }


class GraphBody(GraphRun):
    """A run of a graph; its result is the server's to rule on."""

    def __init__(
        self, project: RunnerProject, claim: Mapping[str, Any], live: LiveRun, scope: Scope
    ) -> None:
        hub = Hub()
        if claim["protocol"]:
            hub.listen(("protocol", live.thread_id), lambda: None)
        bench: Any = Bench(project.graphs, project.checkpointer, hub, claim["on_crash"])
        super().__init__(bench, live, scope)
        self._holds: bool = claim["holds"]
        self._left_with = claim["left"]
        self._found: GraphOutcome | None = None
        self._kept: list[Any] = []

    @property
    def usage(self) -> dict[str, Any]:
        """What its models have used so far."""
        return self._guard.usage

    async def report(self) -> Report:
        """Carry it out."""
        outcome = await self.result(self._left_with)
        found = self._found
        if found is None:
            return ended(outcome)
        waits = {"interrupts": found.interrupts, "next": found.next, "waiting": found.waiting}
        return "completed", {"output": found.values, "held": self._kept, "graph": waits}

    def _rules(self) -> bool:
        return self._holds

    async def _ruled(self, graph: Any, found: GraphOutcome, held: Held | None) -> Outcome:
        del graph
        self._found = found
        self._kept = [] if held is None else held.events
        return Outcome("success", "success")

    async def left(self, ended: Outcome) -> Outcome:
        """Leave it to the server to see what is left."""
        return ended


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
