"""Messages of people: stored when they come in, handled in order, each of them replied to once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, bindparam, case, delete, exists, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.held_rows import HeldRows
from checkrail.store.rows import column_values, fetch_row, fetch_rows, select_rows
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import (
    LAST_CHANCE,
    TO_HANDLE,
    UNHANDLED,
    conversations,
    messages,
    receivers,
    runs,
    sessions,
    workers,
)

RECEIVED = "received"
"""Its hooks and its run are still to come."""
RUNNING = "running"
"""Its run was admitted."""
REPLYING = "replying"
"""Its run has ended, and its reply is to be made."""
WAITING = "waiting"
"""A person is asked about it, or about its reply."""

JOINED = "joined"
"""It was added to the one before it: an album is one message, and so is what comes at once."""

UNFINISHED = (RECEIVED, RUNNING, REPLYING, WAITING)


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said, and what became of it; a new one has no number (`seq`) yet."""

    message_id: str
    channel: str
    account: str
    external_id: str
    digest: str
    session_id: str
    thread_id: str
    run_id: str
    agent_name: str
    content: dict[str, Any]
    status: str
    created_at: float
    updated_at: float
    seq: int = 0
    owner: str | None = None
    user: Any = None
    address: Any = None
    worker_id: str | None = None
    lost: int = 0
    outcome: Any = None
    reply: str | None = None
    refusal: Any = None
    error: str | None = None
    ended_at: float | None = None
    due_at: float | None = None
    joined_to: str | None = None


_SELECT = select_rows(Message, messages)

_HELD = HeldRows(Message, messages, "message_id")
find_orphans, held_ids, release_held = _HELD.find_orphans, _HELD.held_ids, _HELD.release_held
_LOCK = select(messages.c.seq).with_for_update()

_ADD = PreparedStatement(
    {
        name: make(messages)
        .on_conflict_do_nothing(index_elements=["channel", "account", "external_id"])
        .returning(messages.c.message_id)
        for name, make in (("postgresql", insert_postgres), ("sqlite", insert_sqlite))
    }
)
_GET = PreparedStatement(_SELECT.where(messages.c.message_id == bindparam("id")))
_FIND_EXTERNAL = PreparedStatement(
    _SELECT.where(
        messages.c.channel == bindparam("its_channel"),
        messages.c.account == bindparam("its_account"),
        messages.c.external_id == bindparam("its_id"),
    )
)
_UPDATE_OWNED = PreparedStatement(
    update(messages).where(
        messages.c.message_id == bindparam("its_id"),
        messages.c.worker_id.is_not_distinct_from(bindparam("its_worker")),
        messages.c.status == bindparam("its_status"),
    )
)
_END_RUN = PreparedStatement(
    update(messages).where(
        messages.c.message_id == bindparam("its_id"),
        or_(messages.c.status == RECEIVED, messages.c.status == RUNNING),
    )
)
_AHEAD = PreparedStatement(
    select(messages.c.seq)
    .where(
        messages.c.thread_id == bindparam("thread"), or_(UNHANDLED, messages.c.status == WAITING)
    )
    .limit(1)
)

_EARLIER = messages.alias("earlier")
_IS_EARLIER = and_(_EARLIER.c.ended_at.is_(None), _EARLIER.c.seq < messages.c.seq)
_SAME_STAGE = _EARLIER.c.status == messages.c.status
_BEFORE_IN_THREAD = and_(
    _EARLIER.c.thread_id == messages.c.thread_id,
    _IS_EARLIER,
    or_(messages.c.status == REPLYING, _SAME_STAGE, _EARLIER.c.status == WAITING),
)
_SESSION_BEGAN = exists().where(
    sessions.c.session_id == messages.c.session_id,
    or_(sessions.c.started_at.is_not(None), sessions.c.ended_at.is_not(None)),
)
_BEFORE_IN_SESSION = and_(_EARLIER.c.session_id == messages.c.session_id, _IS_EARLIER, _SAME_STAGE)
_IS_NEXT = and_(
    ~exists().where(_BEFORE_IN_THREAD),
    or_(_SESSION_BEGAN, ~exists().where(_BEFORE_IN_SESSION)),
)
"""Whether no earlier message of its thread is in its way.

A reply waits until all of them have theirs, a message that comes in until they have their runs.
Until its session has begun, the session's first message is handled alone.
"""


def add(tx: Tx, row: Message) -> bool:
    """Insert a message; False: it has come before."""
    return bool(_ADD.run(tx, column_values(row)).fetchall())


def is_thread_free(tx: Tx, thread_id: str) -> bool:
    """Return whether a message that comes now is the next of its thread."""
    return not _AHEAD.run(tx, {"thread": thread_id}).fetchall()


def get(reads: Reads, message_id: str) -> Message | None:
    """Find a message."""
    return _GET.find(reads, Message, {"id": message_id})


def of_run(reads: Reads, run_id: str) -> Message | None:
    """Find the message that a run answers."""
    return fetch_row(reads, Message, _SELECT.where(messages.c.run_id == run_id).limit(1))


def find_external(reads: Reads, channel: str, account: str, external_id: str) -> Message | None:
    """Find a message by its channel's own id of it."""
    told = {"its_channel": channel, "its_account": account, "its_id": external_id}
    return _FIND_EXTERNAL.find(reads, Message, told)


def claim(tx: Tx, worker_id: str, most: int, *, suspected: bool = False) -> list[Message]:
    """Take messages that are next in their threads, for a worker."""
    blamed = messages.c.lost >= LAST_CHANCE
    is_due = or_(messages.c.due_at.is_(None), messages.c.due_at <= tx.time())
    query = _SELECT.where(TO_HANDLE, blamed if suspected else ~blamed, is_due, _IS_NEXT)
    return _HELD.claim(tx, query.order_by(messages.c.seq), most, worker_id)


def find_settling(reads: Reads, thread_id: str) -> Message | None:
    """Find the last message of a thread if it still waits for what belongs to it."""
    query = _SELECT.where(messages.c.thread_id == thread_id, messages.c.ended_at.is_(None))
    last = fetch_row(reads, Message, query.order_by(messages.c.seq.desc()).limit(1))
    waits = last is not None and last.status == RECEIVED and last.due_at is not None
    return last if waits and last is not None and last.worker_id is None else None


def update_owned(tx: Tx, row: Message, worker_id: str | None, /, **values: Any) -> bool:
    """Change a message that a worker holds; False: it does not hold it any more.

    Its run may have ended meanwhile, and the same worker holds it again: for its reply.
    """
    told = {"its_id": row.message_id, "its_worker": worker_id, "its_status": row.status}
    return bool(_UPDATE_OWNED.run(tx, told | values).rowcount)


def update_if(tx: Tx, message_id: str, status: str, /, **values: Any) -> bool:
    """Change a message that nobody holds, if it has a status."""
    query = update(messages).where(
        messages.c.message_id == message_id,
        messages.c.status == status,
        messages.c.worker_id.is_(None),
    )
    return bool(tx.execute(query.values(**values)).rowcount)


def publish_change(tx: Tx, message_id: str) -> None:
    """Wake whoever waits for a message, and whoever handles those that are next."""
    tx.publish("message", message_id)
    tx.publish("messages", "")


def end_run(tx: Tx, message_id: str, outcome: dict[str, Any], now: float, **by: str) -> None:
    """Note how the run of a message ended, and by which agent: its reply is to be made of that."""
    told = {"outcome": outcome, "status": REPLYING, "worker_id": None, "updated_at": now}
    if _END_RUN.run(tx, {"its_id": message_id, **told, **by}).rowcount:
        tx.publish("messages", "")  # who waits for the message waits for its end


def is_first_reply(reads: Reads, row: Message) -> bool:
    """Return whether all messages of a session before one have ended without a reply."""
    earlier = select(messages.c.seq).where(
        messages.c.session_id == row.session_id,
        messages.c.seq < row.seq,
        or_(messages.c.ended_at.is_(None), messages.c.reply.is_not(None)),
    )
    return reads.execute(earlier.limit(1)).first() is None


def wake(tx: Tx, message_id: str, now: float) -> None:
    """Let a message go on about which a person was asked, where it was left."""
    stage = case((messages.c.outcome.is_(None), RECEIVED), else_=REPLYING)
    # Whoever leaves it right now looks for answers once more, and may not see this one.
    tx.execute(_LOCK.where(messages.c.message_id == message_id)).fetchall()
    query = update(messages).where(
        messages.c.message_id == message_id, messages.c.status == WAITING
    )
    if tx.execute(query.values(status=stage, updated_at=now)).rowcount:
        publish_change(tx, message_id)


def cancel_waiting(tx: Tx, session_id: str, error: str, now: float) -> list[str]:
    """Cancel the messages of a session about which a person is asked, and return their ids."""
    which = and_(messages.c.session_id == session_id, messages.c.status == WAITING)
    found = [row.message_id for row in tx.execute(select(messages.c.message_id).where(which))]
    if found:
        told = {"status": "cancelled", "error": error, "updated_at": now, "ended_at": now}
        tx.execute(update(messages).where(which).values(**told))
    for message_id in found:
        publish_change(tx, message_id)
    return found


def forget_before(tx: Tx, when: float, most: int) -> int:
    """Remove messages that ended long ago; return how many."""
    old = select(messages.c.seq).where(messages.c.ended_at < when).limit(most)
    return tx.execute(delete(messages).where(messages.c.seq.in_(old))).rowcount


def find_abandoned(tx: Tx, most: int = 100) -> list[Message]:
    """Return messages whose run is over, or gone, without having told them of its end."""
    live = exists().where(runs.c.run_id == messages.c.run_id, runs.c.ended_at.is_(None))
    query = _SELECT.where(text("messages.status = 'running'"), ~live)  # which has an index
    return fetch_rows(tx, Message, query.limit(most))


def search(
    reads: Reads,
    *,
    owner: str | None = None,
    session_id: str | None = None,
    thread_id: str | None = None,
    channel: str | None = None,
    status: str | None = None,
    before: int | None = None,
    limit: int = 20,
) -> list[Message]:
    """Return messages, the newest first; those `before` a number are older."""
    query = _SELECT.order_by(messages.c.seq.desc())
    wanted = {
        "owner": owner,
        "session_id": session_id,
        "thread_id": thread_id,
        "channel": channel,
        "status": status,
    }
    for column, value in wanted.items():
        if value is not None:
            query = query.where(messages.c[column] == value)
    if before is not None:
        query = query.where(messages.c.seq < before)
    return fetch_rows(reads, Message, query.limit(limit))


def unfinished_ids(reads: Reads, session_id: str) -> list[str]:
    """Return the messages of a session that nobody has finished with."""
    query = select(messages.c.message_id).where(
        messages.c.session_id == session_id, messages.c.ended_at.is_(None)
    )
    return [row.message_id for row in reads.execute(query)]


def has_unfinished(reads: Reads, thread_id: str) -> bool:
    """Return whether a thread has messages that nobody has finished with."""
    query = select(messages.c.seq).where(
        messages.c.thread_id == thread_id, messages.c.ended_at.is_(None)
    )
    return reads.execute(query.limit(1)).first() is not None


def remove_of_threads(tx: Tx, thread_ids: Sequence[str]) -> None:
    """Remove the messages and conversations of threads."""
    tx.execute(delete(messages).where(messages.c.thread_id.in_([*thread_ids])))
    tx.execute(delete(conversations).where(conversations.c.thread_id.in_([*thread_ids])))


def find_conversation(reads: Reads, key: str) -> tuple[str, str] | None:
    """Return the session and the thread of an address."""
    query = select(conversations.c.session_id, conversations.c.thread_id)
    row = reads.execute(query.where(conversations.c.key == key)).first()
    return None if row is None else (row.session_id, row.thread_id)


def set_conversation(tx: Tx, key: str, session_id: str, thread_id: str) -> None:
    """Note the session and the thread of an address."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    place = {"session_id": session_id, "thread_id": thread_id}
    query = make(conversations).values(key=key, **place)
    tx.execute(query.on_conflict_do_update(index_elements=["key"], set_=place))


def hold_receiver(tx: Tx, channel: str, worker_id: str) -> bool:
    """Let a worker alone receive for a channel, unless a living one does already."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    query = make(receivers).values(channel=channel, worker_id=worker_id)
    is_free = receivers.c.worker_id.not_in(select(workers.c.worker_id))
    taken = query.on_conflict_do_update(
        index_elements=["channel"],
        set_={"worker_id": worker_id},
        where=or_(is_free, receivers.c.worker_id == worker_id),
    )
    return bool(tx.execute(taken.returning(receivers.c.channel)).fetchall())


def release_receiver(tx: Tx, channel: str, worker_id: str) -> None:
    """Let others receive for a channel of a worker."""
    own = and_(receivers.c.channel == channel, receivers.c.worker_id == worker_id)
    tx.execute(delete(receivers).where(own))


def release_receivers(tx: Tx, worker_id: str) -> None:
    """Let others receive for the channels of a worker."""
    tx.execute(delete(receivers).where(receivers.c.worker_id == worker_id))
