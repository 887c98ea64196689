"""Questions that are not open any more: withdrawn, and taken away from the channels they are on."""

from __future__ import annotations

from collections.abc import Iterable

from checkrail.runs import jsons
from checkrail.store import approvals, deliveries
from checkrail.store.approvals import Approval
from checkrail.store.database import Tx
from checkrail.store.rows import column_values
from checkrail.times import uuid7

QUESTION_ENDED = "question_ended"
"""The kind of deliveries that take a question's buttons away."""


def withdraw_questions(
    tx: Tx, run_ids: Iterable[str] = (), request_ids: Iterable[str] = ()
) -> None:
    """Withdraw what is asked about runs and messages, and nobody has answered."""
    for row in approvals.void_open(tx, run_ids, request_ids):
        take_from_channel(tx, row)


def withdraw_others(tx: Tx, row: Approval) -> None:
    """Withdraw the same hook's questions of the same run about other values."""
    for each in approvals.void_others(tx, row):
        take_from_channel(tx, each)


def take_from_channel(tx: Tx, row: Approval) -> None:
    """Let the channel on which a question stands know that it is not asked any more."""
    if row.posted is None:
        return
    # The question itself may be gone with its run by the time that this is delivered.
    owed = deliveries.Delivery(
        delivery_id=uuid7(),
        run_id=row.run_id,
        session_id=row.session_id,
        kind=QUESTION_ENDED,
        payload=jsons.dumps({"approval": column_values(row)}),
        status="owed",
        attempts=0,
        due_at=tx.time(),
        created_at=tx.time(),
    )
    deliveries.add(tx, [owed])
    tx.publish("work", "")
