"""Points of a run that is carried out elsewhere: its hooks are called here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.runs import jsons
from checkrail.runs.approvals import APPROVAL, JobAskHandler, RunSuspended, store_question
from checkrail.runs.errors import InvalidError
from checkrail.runs.execute.countdown import Countdown
from checkrail.runs.remote.claims import agents_of_run
from checkrail.runs.remote.leases import RunLease
from checkrail.runs.remote.reports import append_events
from checkrail.runs.remote.verdicts import ASKED, IDS, parse_value, render_verdict
from checkrail.runs.services import RunServices
from checkrail.store import runs
from checkrail.store.database import Tx
from checkrail.store.runs import Run


@dataclass(frozen=True, slots=True)
class ReachedPoint:
    """A point that a remote run has reached.

    `levels` are the agents at work there, those that are tools of others included.
    """

    point: str
    value: Any
    ids: Mapping[str, Any] = field(default_factory=dict)
    levels: Sequence[str] = ()
    leaves: bool = False  # if somebody has to be asked first, the run can be left there


async def fire_remote_point(parts: RunServices, row: Run, reached: ReachedPoint) -> dict[str, Any]:
    """Fire a point of a remote run, and return the verdict as a runner gets it."""
    point = reached.point
    if point not in ASKED:
        raise InvalidError(f"{point!r} is no point inside a run. Those are: {', '.join(ASKED)}")
    try:
        given = parse_value(HookPoint(point), reached.value)
    except (InvalidOutcomeError, TypeError) as error:
        raise InvalidError(f"the value does not fit {point}: {error}") from None
    scope = _point_scope(parts, row, reached.levels)
    ids = {name: reached.ids.get(name) for name in IDS}
    known = {name: said for name, said in ids.items() if said is not None}
    try:
        scope = scope.bind(**known).bind_model_names(**_model_names(reached.ids))
    except TypeError as error:
        raise InvalidError(str(error)) from None
    elsewhere = RemoteRun(parts, row)
    scope = scope.with_ask_handler(JobAskHandler(parts, elsewhere, leaves=reached.leaves))
    try:
        return render_verdict(await scope.fire_detached(point, given), given)
    except RunSuspended as left:
        if left.is_new:
            await store_question(parts, left.row)
            elsewhere.emit(APPROVAL, (), left.told)
        return {"action": str(Decision.ASK), "approval": left.told}


def _model_names(ids: Mapping[str, Any]) -> dict[str, str]:
    found = {name: ids.get(name) for name in MODEL_NAMES}
    return {name: said for name, said in found.items() if isinstance(said, str)}


class RemoteRun:
    """A run that a runner executes, as an ask handler sees it.

    Its runner stops the run's time by itself, as long as it waits for a decision.
    """

    def __init__(self, parts: RunServices, row: Run) -> None:
        self._parts = parts
        self.row = row
        self.countdown = Countdown(lambda: None)

    def mark_asked(self) -> None:
        """Leave it to the runner's attempt, which is told of each question."""

    def add_question(self, question: RunSuspended) -> None:
        """Leave it to the runner, which suspends the run."""

    def emit(self, event: str, ns: tuple[str, ...] = (), data: Any = None) -> None:
        """Add an event to those that the runner sends, if the run is still its."""
        raw, row = jsons.dumps(data), self.row

        def append_event(tx: Tx) -> None:
            lease = RunLease(row.run_id, row.worker_id or "", row.attempt)
            if runs.update_owned(tx, *lease, updated_at=tx.time()):
                append_events(tx, row, [(event, ns, raw)])

        self._parts.database.write_soon(append_event)


def _point_scope(parts: RunServices, row: Run, levels: Sequence[str]) -> Scope:
    scope, inside = parts.scope(row), agents_of_run(parts, row)
    for name in levels:
        agent = parts.catalogue.get(name)
        if agent is not None and name not in inside:
            whose = f"the run {row.run_id!r} of {row.agent_name!r}"
            raise InvalidError(f"the agent {name!r} is not at work in {whose}, nor a tool of it")
        if agent is not None and agent.hooks not in scope.levels:
            scope = agent.hooks.scope(parent=scope)
    return scope
