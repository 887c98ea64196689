"""Answers to questions: kept once, and the run that waited for one goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import HookPoint
from checkrail.runs import jsons
from checkrail.runs.approving import APPROVAL, LEFT_AT, awake, edited, event_of
from checkrail.runs.ending import lock_thread
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.parts import RESUMED, Parts
from checkrail.store import approvals, events, runs
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person says to a question; `digest` names the value that they were shown."""

    approved: bool
    by: str | None = None
    reason: str = ""
    value: Any = UNSET
    digest: str | None = None


class Approver:
    """Takes the answers of people."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def answer(self, approval_id: str, answer: Answer) -> Row:
        """Keep an answer, and give the question as it is then; there is never a second one."""

        def find(reads: Reads) -> tuple[Row | None, Row | None]:
            row = approvals.get(reads, approval_id)
            return row, None if row is None else runs.get(reads, row["run_id"])

        row, run = await self._parts.database.read(find)
        if row is None or run is None:
            raise NotFoundError(f"approval {approval_id!r} not found")
        if answer.digest is not None and answer.digest != row["digest"]:
            detail = {"digest": row["digest"], "status": row["status"]}
            what = "this answer is to another value than the one that is asked about"
            raise ConflictError(f"{what}. Look at it again", detail)
        if answer.value is not UNSET:
            self._check(run, row, answer.value)
        taken, now = await self._parts.database.write(lambda tx: _take(tx, approval_id, answer))
        if not taken:
            raise _taken_already(now)
        return now

    def _check(self, run: Row, row: Row, value: Any) -> None:
        """Refuse a value with which the run could not go on."""
        if found := self._problems(run, row, value):
            raise InvalidError(f"the value does not fit: {found[0]['message']}", found)

    def _problems(self, run: Row, row: Row, value: Any) -> list[dict[str, Any]]:
        point = row["point"]
        agent = self._parts.catalogue.get(run["agent_name"])
        if point in LEFT_AT:
            if agent is None:
                return []
            takes = None if run["origin"] in RESUMED else agent.takes
            checker = takes if point == HookPoint.ON_RUN_START else agent.gives
            return [] if checker is None else checker.problems(value)
        try:
            edited(point, value, edited(point, row["value"], None))
        except InvalidOutcomeError as error:
            return [{"path": "", "message": str(error), "schema": {}}]
        return []


def _take(tx: Tx, approval_id: str, answer: Answer) -> tuple[bool, Row]:
    """Keep an answer if it is the first; give the question as it is now."""
    now = tx.time()
    row = approvals.get(tx, approval_id)
    run = None if row is None else _held(tx, row)
    if row is None or run is None:
        raise NotFoundError(f"approval {approval_id!r} not found")
    said: dict[str, Any] = {
        "status": "approved" if answer.approved else "denied",
        "reason": answer.reason or None,
        "answered_by": answer.by,
    }
    if answer.value is not UNSET:
        said["edited"] = jsons.dumps({"value": answer.value})
    taken = approvals.answer(tx, approval_id, now, **said)
    if not taken:
        _expire(tx, row, run, now)
    row = approvals.get(tx, approval_id) or row
    if taken:
        _go_on(tx, row, run, now)
    return taken, row


def expire(tx: Tx) -> None:
    """Give up the questions that nobody has answered in time; their runs go on without."""
    now = tx.time()
    for row in approvals.due(tx, now):
        run = _held(tx, row)
        if run is not None:
            _expire(tx, row, run, now)


def _expire(tx: Tx, row: Row, run: Row, now: float) -> None:
    if approvals.expire(tx, row["approval_id"], now):
        _go_on(tx, row | {"status": "expired"}, run, now)


def _held(tx: Tx, row: Row) -> Row | None:
    """Find the run that asks, and keep it as it is: always before its questions are touched."""
    run = runs.get(tx, row["run_id"])
    if run is not None:
        lock_thread(tx, run)
        run = runs.lock(tx, row["run_id"])
    return run


def _go_on(tx: Tx, row: Row, run: Row, now: float) -> None:
    """Wake whoever waits for an answer: a process that works on the run, or any for one left."""
    approvals.note(tx, "approval_answered", row)
    tx.tell(APPROVAL, row["approval_id"])
    if run["phase"] != "waiting":
        return
    event = event_of(row, run["last_seq"] + 1)
    events.add(tx, [events.row_of(run["run_id"], run["thread_id"], [event])])
    runs.change(tx, run["run_id"], last_seq=event.seq, **awake(run["kept"], now))
    tx.tell("run", run["run_id"])
    tx.tell("thread", run["thread_id"])
    tx.tell("work", "")


def _taken_already(row: Row) -> ConflictError:
    names = ("status", "answered_by", "answered_at", "reason")
    detail = {name: row[name] for name in names}
    if row["status"] == "expired":
        return ConflictError("nobody answered this in time, and the run has gone on", detail)
    if row["status"] == "void":
        return ConflictError(
            "this is not asked any more: its run has ended, or the value has changed", detail
        )
    by = f" by {row['answered_by']}" if row["answered_by"] else ""
    return ConflictError(f"this was {row['status']}{by} already", detail)
