"""Points of a run that is carried out elsewhere: its hooks are called here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.scope import Scope
from checkrail.runs import jsons
from checkrail.runs.approving import APPROVAL, BodyDesk, Leaving, put
from checkrail.runs.countdown import Countdown
from checkrail.runs.errors import InvalidError
from checkrail.runs.outside.claims import agents_in
from checkrail.runs.outside.reports import add_events
from checkrail.runs.outside.verdicts import ASKED, IDS, read_value, told
from checkrail.runs.parts import Parts
from checkrail.store import runs
from checkrail.store.database import Tx
from checkrail.store.rows import Row

if TYPE_CHECKING:
    from checkrail.runs.live import LiveRun


@dataclass(frozen=True, slots=True)
class Reached:
    """A point that a run has reached elsewhere.

    `levels` are the agents at work there, those that are tools of others included.
    """

    point: str
    value: Any
    ids: Mapping[str, Any] = field(default_factory=dict)
    levels: Sequence[str] = ()
    leaves: bool = False  # if somebody has to be asked first, the run can be left there


async def decide(parts: Parts, row: Row, reached: Reached) -> dict[str, Any]:
    """Call the hooks of a run at a point, and give the verdict as it is told to a runner."""
    point = reached.point
    if point not in ASKED:
        raise InvalidError(f"{point!r} is no point inside a run. Those are: {', '.join(ASKED)}")
    try:
        given = read_value(HookPoint(point), reached.value)
    except (InvalidOutcomeError, TypeError) as error:
        raise InvalidError(f"the value does not fit {point}: {error}") from None
    scope = _scope(parts, row, reached.levels)
    ids = {name: reached.ids.get(name) for name in IDS}
    known = {name: said for name, said in ids.items() if said is not None}
    try:
        scope = scope.bind(**known).bind_model_names(**_model_names(reached.ids))
    except TypeError as error:
        raise InvalidError(str(error)) from None
    elsewhere = Elsewhere(parts, row)
    desk = BodyDesk(parts, cast("LiveRun", elsewhere))
    desk.leaves = reached.leaves
    try:
        return told(await scope.asking(desk).fire(point, given), given)
    except Leaving as left:
        if left.is_new:
            await put(parts, left.row)
            elsewhere.emit(APPROVAL, (), left.told)
        return {"action": str(Decision.ASK), "approval": left.told}


def _model_names(ids: Mapping[str, Any]) -> dict[str, str]:
    found = {name: ids.get(name) for name in MODEL_NAMES}
    return {name: said for name, said in found.items() if isinstance(said, str)}


class Elsewhere:
    """A run that is carried out elsewhere, as a desk sees it that puts questions to people.

    Its runner stops the run's time by itself, as long as it waits for a decision.
    """

    def __init__(self, parts: Parts, row: Row) -> None:
        self._parts = parts
        self.row = row
        self.asked = False
        self.leaving: list[Leaving] = []
        self.countdown = Countdown(lambda: None)

    def emit(self, event: str, ns: tuple[str, ...] = (), data: Any = None) -> None:
        """Tell something among what the runner tells, if the run is still its."""
        raw, row = jsons.dumps(data), self.row

        def add(tx: Tx) -> None:
            lease = row["run_id"], row["worker_id"], row["attempt"]
            if runs.change_owned(tx, *lease, updated_at=tx.time()):
                add_events(tx, row, [(event, ns, raw)])

        self._parts.database.write_soon(add)


def _scope(parts: Parts, row: Row, levels: Sequence[str]) -> Scope:
    scope, inside = parts.scope(row), agents_in(parts, row)
    for name in levels:
        agent = parts.catalogue.get(name)
        if agent is not None and name not in inside:
            whose = f"the run {row['run_id']!r} of {row['agent_name']!r}"
            raise InvalidError(f"the agent {name!r} is not at work in {whose}, nor a tool of it")
        if agent is not None and agent.hooks not in scope.levels:
            scope = agent.hooks.scope(parent=scope)
    return scope
