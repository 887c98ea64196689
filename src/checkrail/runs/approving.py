"""Asking people: a question of a hook becomes a row, and the run waits for what is answered.

Where a run can be entered again it is left: nothing but rows waits. Inside a body it is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

from checkrail.actions import wire
from checkrail.engine.asks import AnswerLater, Approval, NoAnswer, Question
from checkrail.engine.errors import CheckrailError
from checkrail.engine.frozen import thaw
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import CONTRACTS, HookPoint
from checkrail.engine.records import uuid7
from checkrail.engine.scope import Scope
from checkrail.engine.values import Value, digest, plain
from checkrail.engine.verdict import Verdict
from checkrail.runs import jsons
from checkrail.runs.hub import Bell
from checkrail.runs.live import LiveRun
from checkrail.runs.parts import Parts
from checkrail.runs.work import MEMO
from checkrail.store import approvals, events, records, runs
from checkrail.store.database import Reads, Tx
from checkrail.store.events import RunEvent
from checkrail.store.rows import Row

APPROVAL = "approval"
"""The event that tells of a question, and the topic under which waiters hear of its answer."""

LEFT_AT = (HookPoint.ON_RUN_START, HookPoint.ON_RESULT)
"""The points around a body, each of which asks about one value at a time."""

_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost

Keep = Callable[[], Mapping[str, Any]]
"""Gives what has to be kept of a run's result while somebody is asked about it."""

Left = Literal["waiting", "interrupt", "rollback", "lost"]
"""What came of leaving a run: it waits, somebody cancelled it meanwhile, or others have it."""


class Leaving(AnswerLater):
    """A run is left until somebody has answered; `memo` is what to keep of it meanwhile."""

    def __init__(self, row: Row, *, is_new: bool) -> None:
        super().__init__(row["approval_id"])
        self.row = row
        self.is_new = is_new
        self.told = told(row)


class Withdrawn(CheckrailError):
    """A question is not asked any more."""


async def fire(
    parts: Parts, live: LiveRun, scope: Scope, point: str, value: Any, *, keep: Keep | None = None
) -> Verdict:
    """Fire a point at which a run can be left, and raise `Leaving` if it has to be."""
    return await scope.asking(LeavingDesk(parts, live, keep)).fire(point, value)


class Desk:
    """Where the questions of one run's hooks are put: each is a row, and so is its answer."""

    keeps_time = True

    def __init__(self, parts: Parts, live: LiveRun) -> None:
        self._parts = parts
        self._live = live

    async def _found(self, asked: Row, but: set[str] | None = None) -> Row | None:
        """Find what was asked of this very value before, perhaps by a process that is gone."""
        self._live.asked = True
        return await self._parts.database.read(
            lambda reads: approvals.find(reads, asked, but or ()), patient=True
        )


class LeavingDesk(Desk):
    """Answers at once what was answered before; for anything else the run is left."""

    def __init__(self, parts: Parts, live: LiveRun, keep: Keep | None) -> None:
        super().__init__(parts, live)
        self._keep = keep

    async def __call__(self, question: Question) -> Approval:
        """Give the answer, if there is one. It is used up when the run goes on, and not before."""
        asked = row_of(self._live.row, question, self._parts.database.time())
        found = await self._found(asked)
        if found is None or found["status"] == "open":
            left = Leaving(found or asked, is_new=found is None)
            left.memo = None if self._keep is None else self._keep()
            self._live.leaving.append(left)
            raise left
        self._live.answers.append(found)
        return _answer(found, question)


class BodyDesk(Desk):
    """Where the body of a run asks. One that can be entered again `leaves`, and is left.

    Elsewhere, and inside of tools and hooks, each answer is waited for where it was asked for: the
    run keeps its task and its lease.
    """

    def __init__(self, parts: Parts, live: LiveRun) -> None:
        super().__init__(parts, live)
        self.leaves = False
        self._mine: set[str] = set()  # two calls that are alike need an answer each

    async def __call__(self, question: Question) -> Approval:
        """Put a question, and give what was answered, or raise that the run is to be left."""
        loop = self._parts.hub.loop
        if asyncio.get_running_loop() is loop:
            return await self._ask(question)
        asking = asyncio.run_coroutine_threadsafe(self._ask(question), loop)
        return await asyncio.wrap_future(asking)

    async def _ask(self, question: Question) -> Approval:
        asked = row_of(self._live.row, question, self._parts.database.time())
        found = await self._found(asked, self._mine)
        approval_id = (found or asked)["approval_id"]
        self._mine.add(approval_id)
        is_open = found is None or found["status"] == "open"
        if is_open and self.leaves and not question.inside:
            left = Leaving(found or asked, is_new=found is None)
            self._live.leaving.append(left)
            raise left
        if found is None:
            await put(self._parts, asked)
            self._live.emit(APPROVAL, (), told(asked))
        with self._live.countdown.paused():
            row = await self._answered(approval_id)
        if is_open:  # else it was told when it was answered
            self._live.emit(APPROVAL, (), told(row))
        if not await self._parts.database.write(
            lambda tx: approvals.use(tx, [row["approval_id"]], tx.time()), patient=True
        ):
            return await self._ask(question)  # somebody else has used it up
        return _answer(row, question)

    async def _answered(self, approval_id: str) -> Row:
        def find(reads: Reads) -> Row | None:
            return approvals.get(reads, approval_id)

        with Bell(self._parts.hub, (APPROVAL, approval_id)) as bell:
            while True:
                row = await self._parts.database.read(find, patient=True)
                if row is None or row["status"] == "void":
                    raise Withdrawn(f"the question {approval_id} was withdrawn")
                if row["status"] != "open":
                    return row
                await bell.wait(_LOOK_EVERY)


def row_of(run: Row, question: Question, now: float) -> Row:
    """Return a question as a row, with the digest of what a person is shown."""
    shown = as_shown(question.value)
    same = ("run_id", "thread_id", "session_id", "agent_name", "owner")
    return {
        **{name: run[name] for name in same},
        "approval_id": uuid7(),
        "point": str(question.point),
        "hook": question.key,
        "question": question.reason,
        "value": shown,
        "digest": digest(shown),
        "status": "open",
        "on_timeout": question.on_timeout,
        "expires_at": None if question.timeout is None else now + question.timeout,
        "created_at": now,
    }


def as_shown(value: Any) -> Any:
    """Return a value as JSON: the same before and after a run was left."""
    return jsons.jsonable(plain(value) if isinstance(value, Value) else thaw(value))


def edited(point: str, value: Any, current: Any) -> Any:
    """Read what a person made of a value, or raise `InvalidOutcomeError`."""
    contract = CONTRACTS[HookPoint(point)]
    if contract.value is object:
        return value
    read: Any = wire.answer(point, {"action": "continue", contract.wire: value}, current)
    return read.value


def _answer(row: Row, question: Question) -> Approval:
    if row["status"] == "expired":
        raise NoAnswer(f"nobody answered {row['approval_id']}")
    value: Any = UNSET
    if row["edited"] is not None:
        value = edited(row["point"], row["edited"]["value"], question.value)
    return Approval(row["status"] == "approved", value, row["reason"] or "")


def told(row: Row) -> dict[str, Any]:
    """Tell of a question in a run's events."""
    same = ("approval_id", "status", "question", "point")
    return {**{name: row[name] for name in same}, "hook": hook_of(row)}


def hook_of(row: Row) -> str:
    """Return the name of the hook that asked."""
    name: str = row["hook"].partition("/")[2]
    return name


def event_of(row: Row, seq: int) -> RunEvent:
    """Make the event that tells of a question."""
    return RunEvent(seq, APPROVAL, (), raw=jsons.dumps(told(row)))


def _open(tx: Tx, row: Row) -> None:
    approvals.add(tx, row | {"value": jsons.dumps(row["value"])})
    tx.tell(APPROVAL, row["approval_id"])
    if row["expires_at"] is not None:
        tx.tell("clock", "")


async def leave(parts: Parts, live: LiveRun, memo: Mapping[str, Any] | None) -> Left:
    """Leave a run to its rows: questions, result and events are kept as it is given up."""
    live.mute = True
    pending = await parts.log.taken(live)
    asked = [left.row for left in live.leaving]
    new = [left.row for left in live.leaving if left.is_new]
    opened = [event_of(row, live.seq + number) for number, row in enumerate(new, 1)]
    kept = [*pending, *opened]
    written = parts.log.taken_records(live.run_id)
    result = None if memo is None else {**memo, "seconds_left": live.seconds_left}
    data = None if result is None else jsons.dumps(result)
    points = {row["point"] for row in asked}
    # What was answered at this point is asked for again when the run goes on.
    used = [row["approval_id"] for row in live.answers if row["point"] not in points]
    now = parts.database.time()

    def wait(tx: Tx) -> Left:
        changed = {
            "phase": "waiting",
            "worker_id": None,
            "kept": data,
            "last_seq": kept[-1].seq if kept else live.seq,
            "usage": jsons.dumps(live.usage) if live.usage else None,
            "updated_at": now,
        }
        fence = {"worker_id": parts.worker_id, "attempt": live.attempt, "cancel": None}
        if not runs.change_if(tx, live.run_id, fence, **changed):
            return _why_not(tx, parts, live)
        if kept:
            events.add(tx, events.rows_of(live.run_id, live.thread_id, kept))
        records.add(tx, written)
        approvals.use(tx, used, now)
        for row in new:
            if row["point"] in LEFT_AT:
                approvals.void_others(tx, row)
            _open(tx, row)
        # One that is answered by now: nobody saw that the run would wait for it.
        if any(_is_answered(tx, row) for row in asked if row not in new):
            runs.change(tx, live.run_id, **awake(result, now))
            tx.tell("work", "")
        tx.tell("run", live.run_id)
        tx.tell("thread", live.thread_id)
        return "waiting"

    came: Left = "lost"
    try:
        came = await parts.database.write(wait, patient=True)
    finally:
        if came != "waiting":
            parts.log.keep_all(written)
    if came == "waiting":
        live.tell(opened)
    return came


def _why_not(tx: Tx, parts: Parts, live: LiveRun) -> Left:
    row = runs.get(tx, live.run_id)
    mine = row is not None and (row["worker_id"], row["attempt"]) == (
        parts.worker_id,
        live.attempt,
    )
    if row is None or not mine or row["ended_at"] is not None:
        return "lost"
    return "rollback" if row["cancel"] == "rollback" else "interrupt"


def _is_answered(tx: Tx, row: Row) -> bool:
    found = approvals.get(tx, row["approval_id"])
    return found is None or found["status"] != "open"


async def put(parts: Parts, row: Row) -> None:
    """Put a question to whoever can answer it."""
    await parts.database.write(lambda tx: _open(tx, row), patient=True)


def awake(kept: Mapping[str, Any] | None, now: float) -> dict[str, Any]:
    """Return what changes of a run that waited and can go on.

    A server asks its hooks again; a body that was left is for whoever can carry it out.
    """
    phase = "starting" if kept is None else "ready" if MEMO in kept else "running"
    return {"phase": phase, "worker_id": None, "ready_at": now, "updated_at": now}
