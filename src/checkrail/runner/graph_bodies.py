"""Runs of graphs on a runner: carried out as on a server, up to their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.scope import Scope
from checkrail.runner.bodies import Report, ended
from checkrail.runner.projects import RunnerProject
from checkrail.runs.graph_run import GraphRun
from checkrail.runs.graphs.execution import GraphOutcome
from checkrail.runs.graphs.loading import Graphs
from checkrail.runs.holding import Held
from checkrail.runs.hub import Hub
from checkrail.runs.live import LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import RunSettings


@dataclass(frozen=True, slots=True)
class Bench:
    """What the body of a graph's run works with."""

    graphs: Graphs
    checkpointer: Any
    hub: Hub
    policy: str
    settings: RunSettings = field(default_factory=RunSettings)

    def on_crash(self, _agent_name: str) -> str:
        """Return what becomes of a run whose process died; the server has said so."""
        return self.policy


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
