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
    """JSON that nobody searches: stored as text."""

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


class SafeText(TypeDecorator[str]):
    """Text that somebody else wrote, such as an error: stored as far as both databases can."""

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
ASKED = text("approvals.status = 'open'")  # read beside runs and threads, which have a status too
QUEUED = text("phase = 'queued'")
SCHEDULED = text("phase = 'scheduled'")
OWED = text("status = 'owed' AND worker_id IS NULL")
OWED_TO_ADDRESS = text("status = 'owed' AND address IS NOT NULL")
LAST_CHANCE = 2
"""How many processes have died of a run or delivery, perhaps, before it is carried out alone."""
SUSPECTED = text(f"worker_id IS NULL AND ended_at IS NULL AND lost >= {LAST_CHANCE}")
SUSPECTED_DELIVERY = text(f"{OWED.text} AND lost >= {LAST_CHANCE}")
OPEN_KEY = text("key IS NOT NULL AND ended_at IS NULL")
UNHANDLED = text("status IN ('received', 'replying')")
TO_HANDLE = text(f"worker_id IS NULL AND {UNHANDLED.text}")


def _partial_index(
    name: str, *columns: Any, where: str | TextClause, unique: bool = False
) -> Index:
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
    Column("error", SafeText),
    Column("last_seq", Number, nullable=False),  # of the events of all its runs
    Column("states_written", Number, nullable=False, server_default="0"),  # by hand
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
    _partial_index(
        "threads_bytes_of_owner", "owner", "stored_bytes", where="stored_bytes IS NOT NULL"
    ),
    _partial_index("threads_expiring", "expires_at", where="expires_at IS NOT NULL"),
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
    Column("blocked_by", SafeText),
    Column("block_reason", SafeText),
    Column("multitask_strategy", String, nullable=False),
    Column("metadata", Searched, nullable=False),
    Column("kwargs", Packed, nullable=False),
    Column("input", Packed),  # as it was asked for
    Column("parameters", Packed),  # as hooks left it, where they changed it
    Column("output", Packed),
    Column("error", SafeText),
    Column("error_type", String),
    Column("usage", Packed),
    Column("attempt", Integer, nullable=False),
    Column("lost", Integer, nullable=False),  # leases
    Column("worker_id", String),
    Column("cancel", String),  # interrupt or rollback
    Column("cancel_reason", SafeText),
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
    Column(
        "notify_on_end", Packed
    ),  # who is notified of its end: a hook's record, a session that waits
    Column("suspended_state", Packed),  # what its body came to, while somebody is asked about it
    Column("ready_at", Double),
    Column("events_received", Integer),  # how many events its runner has sent in this attempt
    Column("reported_by", String),  # the lease under which a runner said what came of it
    Column("stored_bytes", Number),  # of what it was given, told and came to
    Column("summary", SafeText),  # of what was asked for, in a line
    Column("agent_version", Integer),
    Column("search_text", SafeText),  # its id, its summary, and why it went wrong
    Column("hook_calls", Integer, nullable=False, server_default="0"),
    Column("hook_changed", Integer, nullable=False, server_default="0"),
    Column("hook_blocked", Integer, nullable=False, server_default="0"),
    Column("hook_would_block", Integer, nullable=False, server_default="0"),
    Column("hook_failed", Integer, nullable=False, server_default="0"),
    Column("hook_asked", Integer, nullable=False, server_default="0"),
    Column("hook_ms", Double, nullable=False, server_default="0"),
    Column("total_tokens", Number),  # of all its models, once it has ended
    Column("cost_usd", Double),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Index("runs_by_status", "status", "seq"),
    Index("runs_by_phase", "phase", "seq"),
    Index("runs_of_agent", "agent_name", "seq"),
    Index("runs_by_creation", "created_at"),
    Index("runs_by_text", "seq", "search_text"),
    _partial_index("runs_hook_blocked", "seq", where="hook_blocked > 0"),
    _partial_index("runs_hook_would_block", "seq", where="hook_would_block > 0"),
    _partial_index("runs_hook_failed", "seq", where="hook_failed > 0"),
    Index("runs_of_thread", "thread_id", "seq"),
    Index("runs_by_base", "thread_id", "base_seq"),
    Index("runs_of_owner", "owner", "seq"),
    Index("runs_of_assistant", "assistant_id", "seq"),
    _partial_index("runs_slot", "thread_id", where=HOLDS_SLOT, unique=True),
    Index("runs_of_session", "session_id", "seq"),
    _partial_index("runs_beneath", "parent_run_id", where="parent_run_id IS NOT NULL"),
    _partial_index("runs_starting", "seq", where=STARTING),
    _partial_index("runs_ready", "needs", "seq", where=READY),
    _partial_index("runs_unclaimed", "ready_at", where=READY),
    _partial_index("runs_reported", "seq", where=REPORTED),
    _partial_index("runs_queued", "thread_id", "seq", where=QUEUED),
    _partial_index("runs_scheduled", "due_at", where=SCHEDULED),
    _partial_index("runs_held", "worker_id", where="worker_id IS NOT NULL"),
    _partial_index("runs_suspected", "seq", where=SUSPECTED),
    _partial_index("runs_live", "seq", where="ended_at IS NULL"),
    _partial_index("runs_live_of_owner", "owner", where="ended_at IS NULL"),
    Index("runs_bytes_of_owner", "owner", "stored_bytes"),
    _partial_index("runs_live_of_thread", "thread_id", "seq", where="ended_at IS NULL"),
    _partial_index("runs_ended", "ended_at", where="ended_at IS NOT NULL"),
)

events = Table(
    "events",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("last_seq", Number, primary_key=True),
    Column("first_seq", Number, nullable=False),
    Column("thread_id", String, nullable=False),
    Column("payload", LargeBinary, nullable=False),  # several events as one JSON array
    Column("marks", LargeBinary),  # those of them that say when a step began or ended
)

state_updates = Table(  # of threads, by hand
    "state_updates",
    metadata,
    Column("thread_id", String, primary_key=True),
    Column("number", Number, primary_key=True, autoincrement=False),  # in the thread
    Column("after_seq", Number, nullable=False),  # of the thread's events, at that time
    Column("payload", LargeBinary, nullable=False),  # JSON
    Column("created_at", Double, nullable=False),
    Index("state_updates_by_age", "created_at"),
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
    Column("agent_name", String),
    Column("created_at", Double, nullable=False),
    Column("record", Packed, nullable=False),  # but for its values
    Column("change", Packed),  # what the value was, and what it became
    Column("decision", String),  # of an ending
    Column("failure", String),
    Column("changed", Boolean),
    Column("shadow", Boolean),
    Column("duration_ms", Double),
    Index("records_of_run", "run_id", "seq"),
    Index("records_by_age", "created_at"),
    _partial_index(
        "records_one_ending", "call_id", where="event_type <> 'hook_start'", unique=True
    ),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=True),
    Column("delivery_id", String, nullable=False, unique=True),
    Column("run_id", String, index=True),
    Column("session_id", String, index=True),  # of what is owed for a session
    Column("address", String),  # where it goes: what goes to one place goes there in order
    Column("kind", String, nullable=False),  # after_run, on_run_error, webhook, message, ...
    Column("payload", Packed, nullable=False),
    Column("status", String, nullable=False),  # owed, done, dead
    Column("attempts", Integer, nullable=False),
    Column("lost", Integer, nullable=False, server_default="0"),  # processes that died with it
    Column("due_at", Double, nullable=False),
    Column("worker_id", String),
    Column("last_error", SafeText),
    Column("history", Packed),  # what came of each of its attempts
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    _partial_index("deliveries_owed", "due_at", where=OWED),
    _partial_index("deliveries_of_address", "address", "seq", where=OWED_TO_ADDRESS),
    _partial_index("deliveries_suspected", "due_at", where=SUSPECTED_DELIVERY),
    _partial_index("deliveries_held", "worker_id", where="worker_id IS NOT NULL"),
    _partial_index("deliveries_ended", "ended_at", where="ended_at IS NOT NULL"),
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", String, primary_key=True),
    Column("host", String, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("kind", String, nullable=False, server_default="server"),  # or runner
    Column("owner", String),  # whose key a runner has
    Column("registration", Packed),  # what a runner says of itself: name, capacity, tags, agents
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
    Column("reason", SafeText),
    Column("key", String),  # whose it is on its channel; none: it was opened by a run
    Column("started_at", Double),  # when its start hooks had let it begin
    Column("active_at", Double),  # when somebody last said something in it
    Index("sessions_by_owner", "owner", "created_at"),
    Index("sessions_by_creation", "created_at", "session_id"),
    _partial_index("sessions_open", "key", where=OPEN_KEY, unique=True),
    _partial_index("sessions_idle", "active_at", where=OPEN_KEY),
    _partial_index("sessions_open_of_owner", "owner", "active_at", where=OPEN_KEY),
    _partial_index("sessions_beneath", "parent_session_id", where="parent_session_id IS NOT NULL"),
)

conversations = Table(
    "conversations",
    metadata,
    Column("key", String, primary_key=True),  # of an address, and of who writes there
    Column("session_id", String, nullable=False),
    Column("thread_id", String, nullable=False, index=True),
)

messages = Table(
    "messages",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=True),
    Column("message_id", String, nullable=False, unique=True),
    Column("channel", String, nullable=False),
    Column("account", String, nullable=False),
    Column("external_id", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("thread_id", String, nullable=False),
    Column("run_id", String, nullable=False, index=True),
    Column("agent_name", String, nullable=False),
    Column("owner", String),
    Column("user", Packed),
    Column("address", Packed),  # none: whoever sent it looks for the reply
    Column("content", Packed, nullable=False),
    Column("status", String, nullable=False),
    Column("worker_id", String),
    Column("lost", Integer, nullable=False, server_default="0"),  # processes that died with it
    Column("outcome", Packed),  # of its run, until the reply was made of it
    Column("reply", SafeText),
    Column("refusal", Packed),  # which hook refused, where, with what status and code
    Column("error", SafeText),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("due_at", Double),  # until then it waits for what belongs to it
    Column("joined_to", String),  # the message that it was added to
    Index("messages_once", "channel", "account", "external_id", unique=True),
    Index("messages_of_thread", "thread_id", "seq"),
    Index("messages_of_session", "session_id", "seq"),
    Index("messages_of_owner", "owner", "seq"),
    _partial_index("messages_to_handle", "seq", where=TO_HANDLE),
    _partial_index("messages_open", "thread_id", "seq", where="ended_at IS NULL"),
    _partial_index("messages_held", "worker_id", where="worker_id IS NOT NULL"),
    _partial_index("messages_running", "run_id", where="status = 'running'"),
    _partial_index("messages_unfinished", "session_id", "seq", where="ended_at IS NULL"),
    _partial_index("messages_ended", "ended_at", where="ended_at IS NOT NULL"),
)

receivers = Table(
    "receivers",
    metadata,
    Column("channel", String, primary_key=True),  # one that a single process receives for
    Column("worker_id", String, nullable=False),
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
    Column("note", SafeText),
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
    Column("run_id", String),  # none: a call of the gateway asks
    Column("thread_id", String),
    Column("request_id", String),  # of a call of the gateway
    Column("held_until", Double),  # by the process that answers such a call, which renews it
    Column("session_id", String),
    Column("agent_name", String),
    Column("owner", String),
    Column("point", String, nullable=False),
    Column("hook", String, nullable=False),  # with its level
    Column("question", SafeText, nullable=False),
    Column("value", Packed),
    Column("digest", String, nullable=False),
    Column("status", String, nullable=False),  # open, approved, denied, expired, void
    Column("on_timeout", String, nullable=False),
    Column("edited", Packed),  # {"value": …}, for the value may be null
    Column("reason", SafeText),
    Column("answered_by", String),
    Column("answered_at", Double),
    Column("expires_at", Double),
    Column("used_at", Double),
    Column("posted", Packed),  # where it stands on a channel
    Column("created_at", Double, nullable=False),
    Index("approvals_of_run", "run_id", "created_at"),
    Index("approvals_by_creation", "created_at", "approval_id"),
    _partial_index("approvals_open", "created_at", where="status = 'open'"),
    _partial_index(
        "approvals_held", "held_until", where="status = 'open' AND held_until IS NOT NULL"
    ),
    _partial_index(
        "approvals_expiring", "expires_at", where="status = 'open' AND expires_at IS NOT NULL"
    ),
)

gateway_calls = Table(
    "gateway_calls",
    metadata,
    Column("call_id", String, primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("format", String, nullable=False),
    Column("path", String, nullable=False),
    Column("request_id", String, nullable=False),
    Column("duration_ms", Double, nullable=False),
    Column("owner", String),
    Column("key", String),
    Column("user_id", String),
    Column("session_id", String),
    Column("run_id", String),
    Column("agent_name", String),
    Column("model", SafeText),
    Column("answered_model", SafeText),
    Column("upstream", String),
    Column("provider", SafeText),
    Column("status", Integer),
    Column("streamed", Boolean, nullable=False),
    Column("usage", Packed),
    Column("cost", Double),
    Column("decision", String),
    Column("decisions", Packed),
    Column("reason", SafeText),
    Column("first_byte_ms", Double),
    Index("gateway_calls_by_creation", "created_at", "call_id"),
    Index("gateway_calls_of_owner", "owner", "created_at", "call_id"),
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
    Column("worker_id", String, index=True),  # the server that asks for it
    Column("lost", Integer, nullable=False, server_default="0"),  # processes that died asking
    Column("end_at", Double),
    Column("last_error", SafeText),
    Column("created_at", Double, nullable=False, index=True),
    Column("updated_at", Double, nullable=False),
    Column("stored_bytes", Number),
    Index("crons_bytes_of_owner", "owner", "stored_bytes"),
    _partial_index("crons_due", "next_run_at", where="enabled AND next_run_at IS NOT NULL"),
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
    _partial_index("store_items_expiring", "look_at", where="look_at IS NOT NULL"),
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

logins = Table(
    "logins",
    metadata,
    Column("digest", String, primary_key=True),
    Column("key_id", String, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
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

rollups = Table(
    "rollups",
    metadata,
    Column("seconds", Integer, primary_key=True, autoincrement=False),
    Column("moment", Double, primary_key=True),
    Column("kind", String, primary_key=True),  # run or hook
    Column("name", String, primary_key=True),
    Column("agent_name", String, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("writer_id", String, primary_key=True),  # the process that counted
    Column("figures", Packed, nullable=False),
)
