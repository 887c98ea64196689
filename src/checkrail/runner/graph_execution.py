"""Runs of graphs on a runner: carried out as on a server, up to their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.scope import Scope
from checkrail.runner.execution import Report, report_outcome
from checkrail.runner.project import RunnerProject
from checkrail.runs.events.hub import Hub
from checkrail.runs.execute.graph_run import GraphRun
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.graphs.execution import GraphOutcome, HeldEvents
from checkrail.runs.graphs.loader import Graphs
from checkrail.runs.services import RunSettings


@dataclass(frozen=True, slots=True)
class RunnerServices:
    """What the execution of a graph works with."""

    graphs: Graphs
    checkpointer: Any
    hub: Hub
    policy: str
    settings: RunSettings = field(default_factory=RunSettings)

    def on_crash(self, _agent_name: str) -> str:
        """Return what becomes of a run whose process died; the server has said so."""
        return self.policy


class GraphExecution(GraphRun):
    """A run of a graph; the server's hooks decide on its result."""

    def __init__(
        self, project: RunnerProject, claim: Mapping[str, Any], live: LiveRun, scope: Scope
    ) -> None:
        hub = Hub()
        if claim["protocol"]:
            hub.listen(("protocol", live.thread_id), lambda: None)
        services = RunnerServices(project.graphs, project.checkpointer, hub, claim["on_crash"])
        super().__init__(services, live, scope)
        self._holds: bool = claim["holds"]
        self._left_with = claim["left"]
        self._found: GraphOutcome | None = None
        self._kept: list[Any] = []

    async def report(self) -> Report:
        """Execute it, and return the report."""
        outcome = await self.execute(self._left_with)
        found = self._found
        if found is None:
            return report_outcome(outcome)
        waits = {"interrupts": found.interrupts, "next": found.next, "waiting": found.waiting}
        return "completed", {"output": found.values, "held": self._kept, "graph": waits}

    def has_result_hooks(self) -> bool:
        """Return what the server has said of its hooks."""
        return self._holds

    async def review_result(
        self, graph: Any, found: GraphOutcome, held: HeldEvents | None
    ) -> RunOutcome:
        """Keep the result for the report: the server's hooks decide on it."""
        del graph
        self._found = found
        self._kept = [] if held is None else held.events
        return RunOutcome("success", "success")

    async def unfinished_outcome(self, ended: RunOutcome) -> RunOutcome:
        """Leave it to the server to see what is left."""
        return ended
