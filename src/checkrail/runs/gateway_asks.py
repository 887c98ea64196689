"""Asking people in the gateway: a question is a row, while whoever called a model waits.

The process that has the call on its hands says again and again that it does. A question that
nobody holds any more is withdrawn, so that nobody answers what nobody waits for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from checkrail.engine.asks import Approval, AskWithdrawn, Question
from checkrail.gateway.call_tracking import OpenCall
from checkrail.runs.approvals import (
    APPROVAL,
    build_question_row,
    insert_question,
    to_approval,
    to_shown_json,
)
from checkrail.runs.events.hub import Hub, Wakeup
from checkrail.store import approvals
from checkrail.store.database import Database, Tx

HELD = 30.0
"""Seconds after which a question is withdrawn whose process says nothing any more."""

_RENEW_EVERY = 10.0

GONE = "whoever called the model has gone"


class GatewayAsks:
    """Puts the questions of a gateway's hooks to people.

    `longest` is how many seconds anybody is kept waiting, whatever a hook says. `look_every` is how
    often an answer is looked for, behind the notice of it.
    """

    def __init__(
        self, database: Database, hub: Hub, *, longest: float, look_every: float = 5.0
    ) -> None:
        self.database = database
        self.hub = hub
        self.longest = longest
        self.look_every = look_every

    def __call__(self, opened: OpenCall) -> GatewayAskHandler:
        """Return who handles the questions of one call."""
        return GatewayAskHandler(self, opened)


class GatewayAskHandler:
    """Handles the questions of one call: puts each, and waits for its answer."""

    keeps_time = True

    def __init__(self, asks: GatewayAsks, opened: OpenCall) -> None:
        self._asks = asks
        self._opened = opened
        self._database = asks.database

    async def __call__(self, question: Question) -> Approval:
        """Put a question, and return the answer. It is withdrawn if the caller goes away."""
        row = self._build_row(question)
        approval_id = row.approval_id
        with self._opened.ask_people(), Wakeup(self._asks.hub, (APPROVAL, approval_id)) as bell:
            forget = self._opened.when_ended(bell.trigger)
            is_answered = False
            try:
                await self._database.write(lambda tx: insert_question(tx, row))
                await self._wait_for_answer(row, bell)
                is_answered = True
            finally:
                forget()
                if not is_answered:
                    self._database.write_soon(partial(_withdraw, approval_id=approval_id))
        return to_approval(await self._database.write(partial(_use, row=row)), question)

    def _build_row(self, question: Question) -> approvals.Approval:
        now = self._database.time()
        shown: Any = to_shown_json(question.value)
        if isinstance(shown, dict):
            shown.pop("raw", None)  # it says the same once more, as the wire does
        if question.conceal is not None:
            shown = question.conceal(shown)
            question = replace(question, reason=question.conceal(question.reason))
        patience = self._asks.longest
        if question.timeout is not None:
            patience = min(question.timeout, patience)
        ids = self._opened.ids
        return build_question_row(
            question,
            now,
            shown,
            request_id=ids["request_id"],
            session_id=ids.get("session_id"),
            agent_name=ids.get("agent_name"),
            owner=self._opened.owner,
            expires_at=now + patience,
            held_until=now + HELD,
        )

    async def _wait_for_answer(self, row: approvals.Approval, bell: Wakeup) -> None:
        """Wait until a question is not open any more. Raises `AskWithdrawn`."""
        approval_id, renewed = row.approval_id, row.created_at
        expires = row.expires_at or row.created_at
        while True:
            status = await self._database.read(
                lambda reads: approvals.status_of(reads, approval_id), patient=True
            )
            if status in (None, "void"):
                raise AskWithdrawn("the question was withdrawn")
            if status != "open":
                return
            if self._opened.has_ended:
                raise AskWithdrawn(GONE)
            now = self._database.time()
            if now >= expires:
                await self._database.write(partial(_expire, approval_id=approval_id))
                continue
            if now - renewed >= _RENEW_EVERY:
                renewed = now
                hold = partial(approvals.hold_until, approval_id=approval_id, when=now + HELD)
                await self._database.write(hold, patient=True)
            await bell.wait(max(0.01, min(self._asks.look_every, expires - now)))


def _use(tx: Tx, row: approvals.Approval) -> approvals.Approval:
    """Return an answer, which is used up by that."""
    found = approvals.get(tx, row.approval_id)
    if found is None or not approvals.use_answers(tx, [row.approval_id], tx.time()):
        raise AskWithdrawn("its answer was used up already")
    return found


def _expire(tx: Tx, approval_id: str) -> None:
    if approvals.mark_expired(tx, approval_id, tx.time()):
        note_end(tx, approval_id)


def _withdraw(tx: Tx, approval_id: str) -> None:
    if approvals.withdraw(tx, approval_id):
        note_end(tx, approval_id)


def note_end(tx: Tx, approval_id: str) -> None:
    """Note for whoever follows everything that a question is not open any more."""
    if (row := approvals.get(tx, approval_id)) is not None:
        approvals.note_event(tx, "approval_answered", row)
        tx.publish(APPROVAL, approval_id)
