"""The tables, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TextClause,
    TypeDecorator,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData()

SLOT = ("starting", "ready", "running", "waiting")
"""Phases in which a run holds its thread: at most one run of a thread is in one of them."""

LIVE = (*SLOT, "queued", "scheduled")
"""Phases of runs that have not ended."""


class Packed(TypeDecorator[Any]):
    """JSON that nobody searches: kept as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:  # noqa: ARG002
        """Write a value; bytes are JSON already."""
        if value is None:
            return None
        raw = value if isinstance(value, bytes) else orjson.dumps(value)
        return raw.decode()

    def process_result_value(self, value: Any, dialect: Any) -> Any:  # noqa: ARG002
        """Read a value."""
        return None if value is None else orjson.loads(value)


class Told(TypeDecorator[str]):
    """Text that somebody else wrote, such as an error: kept as far as both databases can."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:  # noqa: ARG002
        """Write a text without NUL, and without halves of surrogate pairs."""
        return value if value is None else value.replace("\0", "").encode(errors="replace").decode()


Number = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up only an INTEGER key
Searched = JSON().with_variant(JSONB(), "postgresql")

# What partial indexes are for, word for word: with values bound in, nobody would use them.
HOLDS_SLOT = text("phase IN ('starting', 'ready', 'running', 'waiting')")
STARTING = text("worker_id IS NULL AND phase = 'starting'")
READY = text("worker_id IS NULL AND phase = 'ready'")
REPORTED = text("worker_id IS NULL AND phase = 'running'")
ASKED = text("status = 'open'")
QUEUED = text("phase = 'queued'")
SCHEDULED = text("phase = 'scheduled'")
OWED = text("status = 'owed' AND worker_id IS NULL")
LAST_CHANCE = 2
"""How many processes have died of a run or delivery, perhaps, before it is carried out alone."""
SUSPECTED = text(f"worker_id IS NULL AND ended_at IS NULL AND lost >= {LAST_CHANCE}")
SUSPECTED_DELIVERY = text(f"{OWED.text} AND lost >= {LAST_CHANCE}")


def _partial(name: str, *columns: Any, where: str | TextClause, unique: bool = False) -> Index:
    """Make an index over some rows only."""
    condition = text(where) if isinstance(where, str) else where
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


assistants = Table(
    "assistants",
    metadata,
    Column("assistant_id", String, primary_key=True),
    Column("graph_id", String, nullable=False, index=True),
    Column("owner", String),
    Column("name", String, nullable=False),
    Column("description", Text),
    Column("config", Packed, nullable=False),
    Column("context", Packed, nullable=False),
    Column("metadata", Searched, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Double, nullable=False, index=True),
    Column("updated_at", Double, nullable=False),
    Column("stored_bytes", Number),  # of all its versions
    Index("assistants_bytes_of_owner", "owner", "stored_bytes"),
)

assistant_versions = Table(
    "assistant_versions",
    metadata,
    Column("assistant_id", String, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("graph_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("description", Text),
    Column("config", Packed, nullable=False),
    Column("context", Packed, nullable=False),
    Column("metadata", Searched, nullable=False),
    Column("created_at", Double, nullable=False),
)

threads = Table(
    "threads",
    metadata,
    Column("thread_id", String, primary_key=True),
    Column("session_id", String, index=True),
    Column("owner", String),
    Column("status", String, nullable=False),
    Column("metadata", Searched, nullable=False),
    Column("values", Packed),
    Column("interrupts", Packed),
    Column("error", Told),
    Column("last_seq", Number, nullable=False),  # of the events of all its runs
    Column("watched_run", String),  # the newest run whose end a watcher has seen
    Column("temporary", Boolean, nullable=False),  # goes with its stateless run
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("state_updated_at", Double),
    Column("ttl_minutes", Double),
    Column("ttl_strategy", String),
    Column("expires_at", Double),
    Column("stored_bytes", Number),  # of its metadata, and of state that requests wrote
    Index("threads_by_owner", "owner", "created_at"),
    Index("threads_by_creation", "created_at", "thread_id"),
    Index("threads_by_update", "updated_at", "thread_id"),
    Index("threads_by_owner_update", "owner", "updated_at"),
    Index("threads_by_status", "status", "updated_at"),
    Index("threads_by_metadata", "metadata", postgresql_using="gin").ddl_if("postgresql"),
    _partial("threads_bytes_of_owner", "owner", "stored_bytes", where="stored_bytes IS NOT NULL"),
    _partial("threads_expiring", "expires_at", where="expires_at IS NOT NULL"),
)

runs = Table(
    "runs",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=True),
    Column("run_id", String, nullable=False, unique=True),
    Column("thread_id", String, nullable=False),
    Column("assistant_id", String, nullable=False),
    Column("agent_name", String, nullable=False),
    Column("owner", String),
    Column("user", Packed),
    Column("status", String, nullable=False),
    Column("phase", String, nullable=False),
    Column("blocked_by", Told),
    Column("block_reason", Told),
    Column("multitask_strategy", String, nullable=False),
    Column("metadata", Searched, nullable=False),
    Column("kwargs", Packed, nullable=False),
    Column("input", Packed),  # as it was asked for
    Column("parameters", Packed),  # as hooks left it, where they changed it
    Column("output", Packed),
    Column("error", Told),
    Column("error_type", String),
    Column("usage", Packed),
    Column("attempt", Integer, nullable=False),
    Column("lost", Integer, nullable=False),  # leases
    Column("worker_id", String),
    Column("cancel", String),  # interrupt or rollback
    Column("cancel_reason", Told),
    Column("due_at", Double),
    Column("timeout_seconds", Double),
    Column("base_seq", Number, nullable=False),
    Column("last_seq", Number, nullable=False),
    Column("temporary", Boolean, nullable=False),
    Column("unwound", Boolean),
    Column("origin", String, nullable=False),
    Column("session_id", String),
    Column("parent_run_id", String),
    Column("depth", Integer, nullable=False, server_default="0"),  # of hooks that start runs
    Column("needs", String, nullable=False, server_default=""),  # kind/agent/tags, of its runner
    Column("scope", Packed),  # context that no model sees, inherited by runs beneath
    Column("told", Packed),  # whom its end is told: a hook's record, a session that waits
    Column("kept", Packed),  # what its body came to, while somebody is asked about it
    Column("ready_at", Double),
    Column("heard", Integer),  # how many events its runner has told in this attempt
    Column("reported_by", String),  # the lease under which a runner said what came of it
    Column("stored_bytes", Number),  # of what it was given, told and came to
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Index("runs_of_thread", "thread_id", "seq"),
    Index("runs_by_base", "thread_id", "base_seq"),
    Index("runs_of_owner", "owner", "seq"),
    Index("runs_of_assistant", "assistant_id", "seq"),
    _partial("runs_slot", "thread_id", where=HOLDS_SLOT, unique=True),
    Index("runs_of_session", "session_id", "seq"),
    _partial("runs_beneath", "parent_run_id", where="parent_run_id IS NOT NULL"),
    _partial("runs_starting", "seq", where=STARTING),
    _partial("runs_ready", "needs", "seq", where=READY),
    _partial("runs_unclaimed", "ready_at", where=READY),
    _partial("runs_reported", "seq", where=REPORTED),
    _partial("runs_queued", "thread_id", "seq", where=QUEUED),
    _partial("runs_scheduled", "due_at", where=SCHEDULED),
    _partial("runs_held", "worker_id", where="worker_id IS NOT NULL"),
    _partial("runs_suspected", "seq", where=SUSPECTED),
    _partial("runs_live", "seq", where="ended_at IS NULL"),
    _partial("runs_live_of_owner", "owner", where="ended_at IS NULL"),
    Index("runs_bytes_of_owner", "owner", "stored_bytes"),
    _partial("runs_live_of_thread", "thread_id", "seq", where="ended_at IS NULL"),
    _partial("runs_ended", "ended_at", where="ended_at IS NOT NULL"),
)

events = Table(
    "events",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("last_seq", Number, primary_key=True),
    Column("first_seq", Number, nullable=False),
    Column("thread_id", String, nullable=False),
    Column("payload", LargeBinary, nullable=False),  # several events as one JSON array
)

hook_records = Table(
    "hook_records",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=True),
    Column("record_id", String, nullable=False),
    Column("event_type", String, nullable=False),
    Column("run_id", String),
    Column("thread_id", String),
    Column("owner", String),
    Column("worker_id", String),  # the process that called the hook
    Column("call_id", String),  # the same in the start and the ending of one call
    Column("point", String, nullable=False),
    Column("hook", String, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("record", Packed, nullable=False),
    Index("records_of_run", "run_id", "seq"),
    Index("records_by_age", "created_at"),
    _partial("records_one_ending", "call_id", where="event_type <> 'hook_start'", unique=True),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=True),
    Column("delivery_id", String, nullable=False, unique=True),
    Column("run_id", String, nullable=False, index=True),
    Column("kind", String, nullable=False),  # after_run, on_run_error, webhook
    Column("payload", Packed, nullable=False),
    Column("status", String, nullable=False),  # owed, done, dead
    Column("attempts", Integer, nullable=False),
    Column("lost", Integer, nullable=False, server_default="0"),  # processes that died with it
    Column("due_at", Double, nullable=False),
    Column("worker_id", String),
    Column("last_error", Told),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    _partial("deliveries_owed", "due_at", where=OWED),
    _partial("deliveries_suspected", "due_at", where=SUSPECTED_DELIVERY),
    _partial("deliveries_held", "worker_id", where="worker_id IS NOT NULL"),
    _partial("deliveries_ended", "ended_at", where="ended_at IS NOT NULL"),
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", String, primary_key=True),
    Column("host", String, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("kind", String, nullable=False, server_default="server"),  # or runner
    Column("owner", String),  # whose key a runner has
    Column("told", Packed),  # what a runner says of itself: name, capacity, tags, agents
    Column("server_id", String),  # the server that has heard a runner last
    Column("started_at", Double, nullable=False),
    Column("renewed_at", Double),
    Column("expires_at", Double, nullable=False),
)

writers = Table(
    "writers",
    metadata,
    Column("writer_id", String, primary_key=True),
    Column("batch", Number, nullable=False),  # the number of its last one that was committed
    Column("entered_at", Double, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("parent_session_id", String),
    Column("owner", String),
    Column("user", Packed),
    Column("channel", String, nullable=False),
    Column("metadata", Searched, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("reason", Told),
    Index("sessions_by_owner", "owner", "created_at"),
    Index("sessions_by_creation", "created_at", "session_id"),
    _partial("sessions_beneath", "parent_session_id", where="parent_session_id IS NOT NULL"),
)

agents = Table(
    "agents",
    metadata,
    Column("name", String, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("owner", String),
    Column("blueprint", Packed),  # none: the agent is a file's, and only switched here
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("stored_bytes", Number),  # of all its versions
    Index("agents_bytes_of_owner", "owner", "stored_bytes"),
)

agent_versions = Table(
    "agent_versions",
    metadata,
    Column("name", String, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("owner", String),
    Column("blueprint", Packed, nullable=False),
    Column("created_at", Double, nullable=False),
)

named_hooks = Table(
    "named_hooks",
    metadata,
    Column("name", String, primary_key=True),
    Column("owner", String),
    Column("definition", Packed, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
)

agent_set = Table(  # one row
    "agent_set",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version", Number, nullable=False),  # raised by every change of agents or named hooks
)

approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", String, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("thread_id", String, nullable=False),
    Column("session_id", String),
    Column("agent_name", String, nullable=False),
    Column("owner", String),
    Column("point", String, nullable=False),
    Column("hook", String, nullable=False),  # with its level
    Column("question", Told, nullable=False),
    Column("value", Packed),
    Column("digest", String, nullable=False),
    Column("status", String, nullable=False),  # open, approved, denied, expired, void
    Column("on_timeout", String, nullable=False),
    Column("edited", Packed),  # {"value": …}, for the value may be null
    Column("reason", Told),
    Column("answered_by", String),
    Column("answered_at", Double),
    Column("expires_at", Double),
    Column("used_at", Double),
    Column("created_at", Double, nullable=False),
    Index("approvals_of_run", "run_id", "created_at"),
    Index("approvals_by_creation", "created_at", "approval_id"),
    _partial("approvals_open", "created_at", where=ASKED),
    _partial(
        "approvals_expiring", "expires_at", where="status = 'open' AND expires_at IS NOT NULL"
    ),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", String, primary_key=True),
    Column("route", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("digest", String, nullable=False),
    Column("run_ids", Packed, nullable=False),
    Column("created_at", Double, nullable=False, index=True),
)

crons = Table(
    "crons",
    metadata,
    Column("cron_id", String, primary_key=True),
    Column("assistant_id", String, nullable=False, index=True),
    Column("thread_id", String, index=True),
    Column("owner", String),
    Column("user", Packed),
    Column("key_id", String),  # of who made or last changed it
    Column("schedule", String, nullable=False),
    Column("timezone", String),
    Column("enabled", Boolean, nullable=False),
    Column("on_run_completed", String),
    Column("payload", Packed, nullable=False),
    Column("metadata", Searched, nullable=False),
    Column("next_run_at", Double),
    Column("occurrence", Double),  # the time for which a run is being asked for
    Column("lost", Integer, nullable=False, server_default="0"),  # processes that died asking
    Column("end_at", Double),
    Column("last_error", Told),
    Column("created_at", Double, nullable=False, index=True),
    Column("updated_at", Double, nullable=False),
    Column("stored_bytes", Number),
    Index("crons_bytes_of_owner", "owner", "stored_bytes"),
    _partial("crons_due", "next_run_at", where="enabled AND next_run_at IS NOT NULL"),
)

store_items = Table(  # of LangGraph's store, which knows neither owners nor sizes
    "store_items",
    metadata,
    Column("namespace", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("owner", String, nullable=False),  # who has put it there last
    Column("stored_bytes", Number, nullable=False),
    Column("ttl_seconds", Double),
    Column("look_at", Double),  # when it may have expired
    Index("store_items_bytes_of_owner", "owner", "stored_bytes"),
    _partial("store_items_expiring", "look_at", where="look_at IS NOT NULL"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", String, primary_key=True),
    Column("digest", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("role", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("revoked_at", Double),
)

counters = Table(
    "counters",
    metadata,
    Column("key", String, primary_key=True),
    Column("window_start", Double, primary_key=True),
    Column("amount", Double, nullable=False),
    Column("expires_at", Double, nullable=False),  # nobody asks for it after that
    Index("counters_by_expiry", "expires_at"),
)
