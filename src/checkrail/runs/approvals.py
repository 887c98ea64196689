"""Asking people: a question of a hook becomes a row, and the run waits for what is answered.

Where a run can be entered again it is left: nothing but rows waits. Inside a body it is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from checkrail.actions.wire import parse_answer
from checkrail.engine.asks import AnswerLater, Approval, AskWithdrawn, NoAnswer, Question
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.frozen import thaw
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import CONTRACTS, HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import Value, digest, plain
from checkrail.engine.verdict import Verdict
from checkrail.runs import jsons
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.events.hub import Wakeup
from checkrail.runs.execute.countdown import Countdown
from checkrail.runs.execute.job import MEMO
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.finish.finisher import lock_thread
from checkrail.runs.finish.question_ends import take_from_channel, withdraw_others
from checkrail.runs.services import RESUMED, RunServices
from checkrail.store import approvals, deliveries, events, messages, records, runs
from checkrail.store.database import Database, Reads, Tx
from checkrail.store.events import RunEvent
from checkrail.store.runs import Run
from checkrail.times import uuid7

if TYPE_CHECKING:
    from checkrail.runs.agents.catalogue import Catalogue

APPROVAL = "approval"
"""The event that tells of a question, and the topic under which waiters hear of its answer."""

QUESTION = "question"
"""The kind of deliveries that put a question on a channel."""

LEFT_AT = (HookPoint.ON_RUN_START, HookPoint.ON_RESULT)
"""The points around a body, each of which asks about one value at a time."""

_STAGES = {
    point: stage
    for stage in (("on_run_start", "before_inbound"), ("on_result", "before_outbound"))
    for point in stage
}
"""Points that are fired one after the other whenever a run is entered again there."""

_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost

Keep = Callable[[], Mapping[str, Any]]
"""Gives what has to be kept of a run's result while somebody is asked about it."""

Left = Literal["waiting", "interrupt", "rollback", "lost"]
"""What came of leaving a run: it waits, somebody cancelled it meanwhile, or others have it."""


class RunSuspended(AnswerLater):
    """A run is suspended until somebody has answered; `memo` is what is stored of it meanwhile."""

    def __init__(self, row: approvals.Approval, *, is_new: bool) -> None:
        super().__init__(row.approval_id)
        self.row = row
        self.is_new = is_new
        self.told = question_event(row)


class QuestionWithdrawn(AskWithdrawn):
    """A question was withdrawn before anybody answered it."""


async def fire_or_suspend(
    parts: RunServices,
    live: LiveRun,
    scope: Scope,
    point: str,
    value: Any,
    *,
    keep: Keep | None = None,
) -> Verdict:
    """Fire a point at which a run can be suspended; raise `RunSuspended` if it has to be."""
    return await scope.with_ask_handler(SuspendingAskHandler(parts, live, keep)).fire(point, value)


class AskedRun(Protocol):
    """A run whose hooks ask people, wherever it is executed."""

    @property
    def row(self) -> Run:
        """The run as it is stored."""

    @property
    def countdown(self) -> Countdown:
        """Its time, which does not pass while somebody is asked."""

    def mark_asked(self) -> None:
        """Note that people are asked in this attempt."""

    def add_question(self, question: RunSuspended) -> None:
        """Note a question for which the run is to be suspended."""

    def emit(self, event: str, ns: tuple[str, ...] = (), data: Any = None) -> None:
        """Emit an event of the run."""


class RunAskHandler:
    """Handles the questions of one run's hooks: each is a row, and so is its answer."""

    keeps_time = True

    def __init__(self, parts: RunServices, live: AskedRun) -> None:
        self._parts = parts
        self._live = live

    async def _find_earlier(
        self, asked: approvals.Approval, but: set[str] | None = None
    ) -> approvals.Approval | None:
        """Return the same question about this very value, perhaps of a process that is gone."""
        self._live.mark_asked()
        return await self._parts.database.read(
            lambda reads: approvals.find_same(reads, asked, but or ()), patient=True
        )


class SuspendingAskHandler(RunAskHandler):
    """Returns answers that are there already; for any other question the run is suspended."""

    def __init__(self, parts: RunServices, live: LiveRun, keep: Keep | None) -> None:
        super().__init__(parts, live)
        self._answers = live
        self._keep = keep

    async def __call__(self, question: Question) -> Approval:
        """Give the answer, if there is one. It is used up when the run goes on, and not before."""
        asked = question_row(self._parts, self._live.row, question)
        found = await self._find_earlier(asked)
        if found is None or found.status == "open":
            left = RunSuspended(found or asked, is_new=found is None)
            left.memo = None if self._keep is None else self._keep()
            self._live.add_question(left)
            raise left
        self._answers.add_answer(found)
        return to_approval(found, question)


class JobAskHandler(RunAskHandler):
    """Handles questions of an executing job; one that can be entered again `leaves`.

    Elsewhere, and inside of tools and hooks, each answer is waited for where it was asked for: the
    run keeps its task and its lease.
    """

    def __init__(self, parts: RunServices, live: AskedRun, *, leaves: bool = False) -> None:
        super().__init__(parts, live)
        self.leaves = leaves
        self._mine: set[str] = set()  # two calls that are alike need an answer each

    async def __call__(self, question: Question) -> Approval:
        """Put a question, and give what was answered, or raise that the run is to be left."""
        loop = self._parts.hub.loop
        if asyncio.get_running_loop() is loop:
            return await self._await_approval(question)
        asking = asyncio.run_coroutine_threadsafe(self._await_approval(question), loop)
        return await asyncio.wrap_future(asking)

    async def _await_approval(self, question: Question) -> Approval:
        asked = question_row(self._parts, self._live.row, question)
        found = await self._find_earlier(asked, self._mine)
        approval_id = (found or asked).approval_id
        self._mine.add(approval_id)
        is_open = found is None or found.status == "open"
        if is_open and self.leaves and not question.inside:
            left = RunSuspended(found or asked, is_new=found is None)
            self._live.add_question(left)
            raise left
        if found is None:
            await store_question(self._parts, asked)
            self._live.emit(APPROVAL, (), question_event(asked))
        with self._live.countdown.pause():
            row = await self._wait_for_answer(approval_id)
        if is_open:  # else it was told when it was answered
            self._live.emit(APPROVAL, (), question_event(row))
        if not await self._parts.database.write(
            lambda tx: approvals.use_answers(tx, [row.approval_id], tx.time()), patient=True
        ):
            return await self._await_approval(question)  # somebody else has used it up
        return to_approval(row, question)

    async def _wait_for_answer(self, approval_id: str) -> approvals.Approval:
        def find_question(reads: Reads) -> approvals.Approval | None:
            return approvals.get(reads, approval_id)

        with Wakeup(self._parts.hub, (APPROVAL, approval_id)) as bell:
            while True:
                row = await self._parts.database.read(find_question, patient=True)
                if row is None or row.status == "void":
                    raise QuestionWithdrawn(f"question {approval_id} was withdrawn")
                if row.status != "open":
                    return row
                await bell.wait(_LOOK_EVERY)


def question_row(parts: RunServices, run: Run, question: Question) -> approvals.Approval:
    """Return a run's question as a row."""
    now, timeout = parts.database.time(), question.timeout
    timeout = parts.settings.question_timeout(run.origin, timeout)
    return build_question_row(
        question,
        now,
        expires_at=None if timeout is None else now + timeout,
        run_id=run.run_id,
        thread_id=run.thread_id,
        session_id=run.session_id,
        agent_name=run.agent_name,
        owner=run.owner,
    )


def build_question_row(
    question: Question, now: float, shown: Any = UNSET, **more: Any
) -> approvals.Approval:
    """Return a question as a row, with the digest of what a person is shown: its value."""
    shown = to_shown_json(question.value) if shown is UNSET else shown
    expires_at = None if question.timeout is None else now + question.timeout
    columns: dict[str, Any] = {"expires_at": expires_at, **more}
    return approvals.Approval(
        approval_id=uuid7(),
        point=str(question.point),
        hook=question.key,
        question=question.reason,
        value=shown,
        digest=digest(shown),
        status="open",
        on_timeout=question.on_timeout,
        created_at=now,
        **columns,
    )


def to_shown_json(value: Any) -> Any:
    """Return a value as JSON: the same before and after a run was suspended."""
    return jsons.jsonable(plain(value) if isinstance(value, Value) else thaw(value))


def parse_edited_value(point: str, value: Any, current: Any) -> Any:
    """Return the value that a person edited, or raise `InvalidOutcomeError`."""
    contract = CONTRACTS[HookPoint(point)]
    if contract.value is object:
        return value
    read: Any = parse_answer(point, {"action": "continue", contract.wire: value}, current)
    return read.value


def to_approval(row: approvals.Approval, question: Question) -> Approval:
    """Return the answer to a question. Raises `NoAnswer` if there was none in time."""
    if row.status == "expired":
        raise NoAnswer(f"nobody answered {row.approval_id}")
    value: Any = UNSET
    if row.edited is not None:
        value = parse_edited_value(row.point, row.edited["value"], question.value)
    return Approval(row.status == "approved", value, row.reason or "")


def question_event(row: approvals.Approval) -> dict[str, Any]:
    """Return the data of the event that announces a question."""
    same = ("approval_id", "status", "question", "point")
    return {**{name: getattr(row, name) for name in same}, "hook": hook_name(row)}


def hook_name(row: approvals.Approval) -> str:
    """Return the name of the hook that asked."""
    name: str = row.hook.partition("/")[2]
    return name


def build_question_event(row: approvals.Approval, seq: int) -> RunEvent:
    """Return the event that announces a question."""
    return RunEvent(seq, APPROVAL, (), raw=jsons.dumps(question_event(row)))


def insert_question(tx: Tx, row: approvals.Approval) -> None:
    """Insert a new question, and publish it."""
    approvals.add(tx, replace(row, value=jsons.dumps(row.value)))
    tx.publish(APPROVAL, row.approval_id)
    _owe_to_channel(tx, row)
    if row.expires_at is not None:
        tx.publish("clock", "")


def _owe_to_channel(tx: Tx, row: approvals.Approval) -> None:
    """Let the channel of a message know of a question about it, or about its run."""
    if row.run_id is not None:
        message = messages.of_run(tx, row.run_id)
    else:
        message = messages.get(tx, row.request_id) if row.request_id else None
    if message is None or message.address is None:
        return
    told = {"approval_id": row.approval_id, "address": message.address}
    owed = deliveries.Delivery(
        delivery_id=uuid7(),
        run_id=row.run_id,
        session_id=message.session_id,
        kind=QUESTION,
        payload=jsons.dumps(told),
        status="owed",
        attempts=0,
        due_at=tx.time(),
        created_at=tx.time(),
    )
    deliveries.add(tx, [owed])
    tx.publish("work", "")


async def suspend_run(parts: RunServices, live: LiveRun, memo: Mapping[str, Any] | None) -> Left:
    """Suspend a run: store its questions, result and events as it is given up."""
    live.silence()
    pending = await parts.log.take_events(live)
    asked = [left.row for left in live.leaving]
    new = [left.row for left in live.leaving if left.is_new]
    opened = [build_question_event(row, live.seq + number) for number, row in enumerate(new, 1)]
    kept = [*pending, *opened]
    written = parts.log.take_records(live.run_id)
    result = None if memo is None else {**memo, "seconds_left": live.seconds_left}
    data = None if result is None else jsons.dumps(result)
    points = {point for row in asked for point in _STAGES.get(row.point, (row.point,))}
    # What was answered at this point is asked for again when the run goes on.
    used = [row.approval_id for row in live.answers if row.point not in points]
    now = parts.database.time()

    def store_suspended(tx: Tx) -> Left:
        changed = {
            "phase": "waiting",
            "worker_id": None,
            "suspended_state": data,
            "last_seq": kept[-1].seq if kept else live.seq,
            "usage": jsons.dumps(live.usage) if live.usage else None,
            "updated_at": now,
        }
        fence = {"worker_id": parts.worker_id, "attempt": live.attempt, "cancel": None}
        if not runs.update_if(tx, live.run_id, fence, **changed):
            return _why_not_suspended(tx, parts, live)
        if kept:
            events.add(tx, events.rows_of(live.run_id, live.thread_id, kept))
        records.add(tx, written)
        approvals.use_answers(tx, used, now)
        for row in new:
            if row.point in LEFT_AT:
                withdraw_others(tx, row)
            insert_question(tx, row)
        # One that is answered by now: nobody saw that the run would wait for it.
        if any(_is_answered(tx, row) for row in asked if row not in new):
            runs.update_run(tx, live.run_id, **resumed_columns(result, now))
            tx.publish("work", "")
        tx.publish("run", live.run_id)
        tx.publish("thread", live.thread_id)
        return "waiting"

    came: Left = "lost"
    try:
        came = await parts.database.write(store_suspended, patient=True)
    finally:
        if came != "waiting":
            parts.log.restore_records(written)
    if came == "waiting":
        live.send_stored(opened)
    return came


def _why_not_suspended(tx: Tx, parts: RunServices, live: LiveRun) -> Left:
    row = runs.get(tx, live.run_id)
    mine = row is not None and (row.worker_id, row.attempt) == (
        parts.worker_id,
        live.attempt,
    )
    if row is None or not mine or row.ended_at is not None:
        return "lost"
    return "rollback" if row.cancel == "rollback" else "interrupt"


def _is_answered(tx: Tx, row: approvals.Approval) -> bool:
    found = approvals.get(tx, row.approval_id)
    return found is None or found.status != "open"


async def store_question(parts: RunServices, row: approvals.Approval) -> None:
    """Store a question for whoever can answer it."""
    await parts.database.write(lambda tx: insert_question(tx, row), patient=True)


def resumed_columns(kept: Mapping[str, Any] | None, now: float) -> dict[str, Any]:
    """Return the columns that change when a suspended run can go on.

    A server asks its hooks again; a body that was left is for whoever can carry it out.
    """
    phase = "starting" if kept is None else "ready" if MEMO in kept else "running"
    return {"phase": phase, "worker_id": None, "ready_at": now, "updated_at": now}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's answer to a question; `digest` names the value that they were shown."""

    approved: bool
    by: str | None = None
    reason: str = ""
    value: Any = UNSET
    digest: str | None = None


class Approver:
    """Stores people's answers to questions."""

    def __init__(self, database: Database, catalogue: Catalogue | None = None) -> None:
        self._database = database
        self._catalogue = catalogue

    async def answer(self, approval_id: str, answer: Answer) -> approvals.Approval:
        """Store an answer and return the question as it is then; there is never a second one."""

        def find_question(reads: Reads) -> tuple[approvals.Approval | None, Run | None]:
            row = approvals.get(reads, approval_id)
            return row, None if row is None else run_of(reads, row)

        row, run = await self._database.read(find_question)
        if row is None or (run is None and row.run_id is not None):
            raise NotFoundError(f"approval {approval_id!r} not found")
        if answer.digest is not None and answer.digest != row.digest:
            detail = {"digest": row.digest, "status": row.status}
            what = "this answer is to another value than the one that is asked about"
            raise ConflictError(f"{what}. Look at it again", detail)
        if answer.value is not UNSET:
            self._check_value(run, row, answer.value)
        taken, now = await self._database.write(lambda tx: _store_answer(tx, approval_id, answer))
        if not taken:
            raise _already_answered(now)
        return now

    def _check_value(self, run: Run | None, row: approvals.Approval, value: Any) -> None:
        """Refuse a value with which the run or call could not go on."""
        if found := self._value_problems(run, row, value):
            raise InvalidError(f"the value does not fit: {found[0]['message']}", found)

    def _value_problems(
        self, run: Run | None, row: approvals.Approval, value: Any
    ) -> list[dict[str, Any]]:
        point = row.point
        if run is not None and point in LEFT_AT:
            agent = None if self._catalogue is None else self._catalogue.get(run.agent_name)
            if agent is None:
                return []
            takes = None if run.origin in RESUMED else agent.takes
            checker = takes if point == HookPoint.ON_RUN_START else agent.gives
            return [] if checker is None else checker.problems(value)
        try:
            parse_edited_value(point, value, parse_edited_value(point, row.value, None))
        except InvalidOutcomeError as error:
            return [{"path": "", "message": str(error), "schema": {}}]
        return []


def _store_answer(tx: Tx, approval_id: str, answer: Answer) -> tuple[bool, approvals.Approval]:
    """Store an answer if it is the first; return the question as it is now."""
    now = tx.time()
    row = approvals.get(tx, approval_id)
    run = None if row is None else _lock_run(tx, row)
    if row is None or (run is None and row.run_id is not None):
        raise NotFoundError(f"approval {approval_id!r} not found")
    said: dict[str, Any] = {
        "status": "approved" if answer.approved else "denied",
        "reason": answer.reason or None,
        "answered_by": answer.by,
    }
    if answer.value is not UNSET:
        said["edited"] = jsons.dumps({"value": answer.value})
    taken = approvals.store_answer(tx, approval_id, now, **said)
    if not taken:
        _expire_question(tx, row, run, now)
        approvals.void_unheld(tx, now)
    row = approvals.get(tx, approval_id) or row
    if taken:
        _wake_run(tx, row, run, now)
    return taken, row


def expire_questions(tx: Tx) -> None:
    """Expire questions that nobody answered in time; their runs go on without an answer."""
    now = tx.time()
    for row in approvals.find_due(tx, now):
        run = _lock_run(tx, row)
        if run is not None or row.run_id is None:
            _expire_question(tx, row, run, now)


def _expire_question(tx: Tx, row: approvals.Approval, run: Run | None, now: float) -> None:
    if approvals.mark_expired(tx, row.approval_id, now):
        _wake_run(tx, replace(row, status="expired"), run, now)


def _lock_run(tx: Tx, row: approvals.Approval) -> Run | None:
    """Return the run of a question, locked: always before its questions are touched."""
    run = run_of(tx, row)
    if run is not None:
        lock_thread(tx, run)
        run = runs.lock(tx, run.run_id)
    return run


def run_of(reads: Reads, row: approvals.Approval) -> Run | None:
    """Return the run that asks; None for a call of the gateway."""
    return None if row.run_id is None else runs.get(reads, row.run_id)


def _wake_run(tx: Tx, row: approvals.Approval, run: Run | None, now: float) -> None:
    """Wake whoever waits for an answer: the process that holds the run, or any."""
    approvals.note_event(tx, "approval_answered", row)
    tx.publish(APPROVAL, row.approval_id)
    take_from_channel(tx, row)
    if run is None and row.request_id is not None:
        messages.wake(tx, row.request_id, now)
    if run is None or run.phase != "waiting":
        return
    event = build_question_event(row, run.last_seq + 1)
    events.add(tx, [events.row_of(run.run_id, run.thread_id, [event])])
    runs.update_run(tx, run.run_id, last_seq=event.seq, **resumed_columns(run.suspended_state, now))
    tx.publish("run", run.run_id)
    tx.publish("thread", run.thread_id)
    tx.publish("work", "")


def _already_answered(row: approvals.Approval) -> ConflictError:
    names = ("status", "answered_by", "answered_at", "reason")
    detail = {name: getattr(row, name) for name in names}
    if row.status == "expired":
        what = "call" if row.run_id is None else "run"
        return ConflictError(f"nobody answered this in time, and the {what} has gone on", detail)
    if row.status == "void":
        ended = "its run has ended, or the value has changed"
        if row.run_id is None:
            ended = "whoever called the model has gone, or the gateway was stopped"
        return ConflictError(f"this is not asked any more: {ended}", detail)
    by = f" by {row.answered_by}" if row.answered_by else ""
    return ConflictError(f"this was {row.status}{by} already", detail)
