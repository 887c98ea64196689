"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SEARCHED = sa.JSON().with_variant(JSONB(), "postgresql")


def _create_partial_index(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    rows = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=rows, postgresql_where=rows)


def _create_assistants() -> None:
    op.create_table(
        "assistants",
        sa.Column("assistant_id", sa.String(), primary_key=True),
        sa.Column("graph_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("stored_bytes", NUMBER),
    )
    op.create_index("assistants_bytes_of_owner", "assistants", ["owner", "stored_bytes"])
    op.create_index("ix_assistants_created_at", "assistants", ["created_at"])
    op.create_index("ix_assistants_graph_id", "assistants", ["graph_id"])


def _create_assistant_versions() -> None:
    op.create_table(
        "assistant_versions",
        sa.Column("assistant_id", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True),
        sa.Column("graph_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
    )


def _create_threads() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.String(), primary_key=True),
        sa.Column("session_id", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("values", sa.Text()),
        sa.Column("interrupts", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("last_seq", NUMBER, nullable=False),
        sa.Column("states_written", NUMBER, nullable=False, server_default="0"),
        sa.Column("watched_run", sa.String()),
        sa.Column("temporary", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("state_updated_at", sa.Double()),
        sa.Column("ttl_minutes", sa.Double()),
        sa.Column("ttl_strategy", sa.String()),
        sa.Column("expires_at", sa.Double()),
        sa.Column("stored_bytes", NUMBER),
    )
    op.create_index("ix_threads_session_id", "threads", ["session_id"])
    op.create_index("threads_by_creation", "threads", ["created_at", "thread_id"])
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("threads_by_metadata", "threads", ["metadata"], postgresql_using="gin")
    op.create_index("threads_by_owner", "threads", ["owner", "created_at"])
    op.create_index("threads_by_owner_update", "threads", ["owner", "updated_at"])
    op.create_index("threads_by_status", "threads", ["status", "updated_at"])
    op.create_index("threads_by_update", "threads", ["updated_at", "thread_id"])
    _create_partial_index(
        "threads_bytes_of_owner", "threads", ["owner", "stored_bytes"], "stored_bytes IS NOT NULL"
    )
    _create_partial_index("threads_expiring", "threads", ["expires_at"], "expires_at IS NOT NULL")


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("seq", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(), nullable=False, unique=True),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("assistant_id", sa.String(), nullable=False),
        sa.Column("agent_name", sa.String(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("user", sa.Text()),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("blocked_by", sa.Text()),
        sa.Column("block_reason", sa.Text()),
        sa.Column("multitask_strategy", sa.String(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("kwargs", sa.Text(), nullable=False),
        sa.Column("input", sa.Text()),
        sa.Column("parameters", sa.Text()),
        sa.Column("output", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("error_type", sa.String()),
        sa.Column("usage", sa.Text()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String()),
        sa.Column("cancel", sa.String()),
        sa.Column("cancel_reason", sa.Text()),
        sa.Column("due_at", sa.Double()),
        sa.Column("timeout_seconds", sa.Double()),
        sa.Column("base_seq", NUMBER, nullable=False),
        sa.Column("last_seq", NUMBER, nullable=False),
        sa.Column("temporary", sa.Boolean(), nullable=False),
        sa.Column("unwound", sa.Boolean()),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("session_id", sa.String()),
        sa.Column("parent_run_id", sa.String()),
        sa.Column("depth", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("needs", sa.String(), nullable=False, server_default=""),
        sa.Column("scope", sa.Text()),
        sa.Column("notify_on_end", sa.Text()),
        sa.Column("suspended_state", sa.Text()),
        sa.Column("ready_at", sa.Double()),
        sa.Column("events_received", sa.Integer()),
        sa.Column("reported_by", sa.String()),
        sa.Column("stored_bytes", NUMBER),
        sa.Column("summary", sa.Text()),
        sa.Column("agent_version", sa.Integer()),
        sa.Column("search_text", sa.Text()),
        sa.Column("hook_calls", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("hook_changed", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("hook_blocked", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("hook_would_block", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("hook_failed", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("hook_asked", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("hook_ms", sa.Double(), nullable=False, server_default="0"),
        sa.Column("total_tokens", NUMBER),
        sa.Column("cost_usd", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
    )
    op.create_index("runs_by_status", "runs", ["status", "seq"])
    op.create_index("runs_by_phase", "runs", ["phase", "seq"])
    op.create_index("runs_of_agent", "runs", ["agent_name", "seq"])
    op.create_index("runs_by_creation", "runs", ["created_at"])
    op.create_index("runs_by_text", "runs", ["seq", "search_text"])
    _create_partial_index("runs_hook_blocked", "runs", ["seq"], "hook_blocked > 0")
    _create_partial_index("runs_hook_would_block", "runs", ["seq"], "hook_would_block > 0")
    _create_partial_index("runs_hook_failed", "runs", ["seq"], "hook_failed > 0")
    _create_partial_index("runs_beneath", "runs", ["parent_run_id"], "parent_run_id IS NOT NULL")
    op.create_index("runs_by_base", "runs", ["thread_id", "base_seq"])
    op.create_index("runs_bytes_of_owner", "runs", ["owner", "stored_bytes"])
    _create_partial_index("runs_ended", "runs", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index("runs_held", "runs", ["worker_id"], "worker_id IS NOT NULL")
    _create_partial_index("runs_live", "runs", ["seq"], "ended_at IS NULL")
    _create_partial_index("runs_live_of_owner", "runs", ["owner"], "ended_at IS NULL")
    _create_partial_index("runs_live_of_thread", "runs", ["thread_id", "seq"], "ended_at IS NULL")
    op.create_index("runs_of_assistant", "runs", ["assistant_id", "seq"])
    op.create_index("runs_of_owner", "runs", ["owner", "seq"])
    op.create_index("runs_of_session", "runs", ["session_id", "seq"])
    op.create_index("runs_of_thread", "runs", ["thread_id", "seq"])
    _create_partial_index("runs_queued", "runs", ["thread_id", "seq"], "phase = 'queued'")
    _create_partial_index(
        "runs_ready", "runs", ["needs", "seq"], "worker_id IS NULL AND phase = 'ready'"
    )
    _create_partial_index(
        "runs_reported", "runs", ["seq"], "worker_id IS NULL AND phase = 'running'"
    )
    _create_partial_index("runs_scheduled", "runs", ["due_at"], "phase = 'scheduled'")
    _create_partial_index(
        "runs_slot",
        "runs",
        ["thread_id"],
        "phase IN ('starting', 'ready', 'running', 'waiting')",
        unique=True,
    )
    _create_partial_index(
        "runs_starting", "runs", ["seq"], "worker_id IS NULL AND phase = 'starting'"
    )
    _create_partial_index(
        "runs_suspected", "runs", ["seq"], "worker_id IS NULL AND ended_at IS NULL AND lost >= 2"
    )
    _create_partial_index(
        "runs_unclaimed", "runs", ["ready_at"], "worker_id IS NULL AND phase = 'ready'"
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("run_id", sa.String(), primary_key=True),
        sa.Column("last_seq", NUMBER, primary_key=True),
        sa.Column("first_seq", NUMBER, nullable=False),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("marks", sa.LargeBinary()),
    )


def _create_state_updates() -> None:
    op.create_table(
        "state_updates",
        sa.Column("thread_id", sa.String(), primary_key=True),
        sa.Column("number", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("after_seq", NUMBER, nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
    )
    op.create_index("state_updates_by_age", "state_updates", ["created_at"])


def _create_hook_records() -> None:
    op.create_table(
        "hook_records",
        sa.Column("seq", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("record_id", sa.String(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("run_id", sa.String()),
        sa.Column("thread_id", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("worker_id", sa.String()),
        sa.Column("call_id", sa.String()),
        sa.Column("point", sa.String(), nullable=False),
        sa.Column("hook", sa.String(), nullable=False),
        sa.Column("agent_name", sa.String()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("change", sa.Text()),
        sa.Column("decision", sa.String()),
        sa.Column("failure", sa.String()),
        sa.Column("changed", sa.Boolean()),
        sa.Column("shadow", sa.Boolean()),
        sa.Column("duration_ms", sa.Double()),
    )
    op.create_index("records_by_age", "hook_records", ["created_at"])
    op.create_index("records_of_run", "hook_records", ["run_id", "seq"])
    _create_partial_index(
        "records_one_ending", "hook_records", ["call_id"], "event_type <> 'hook_start'", unique=True
    )


def _create_rollups() -> None:
    op.create_table(
        "rollups",
        sa.Column("seconds", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("moment", sa.Double(), primary_key=True),
        sa.Column("kind", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("agent_name", sa.String(), primary_key=True),
        sa.Column("owner", sa.String(), primary_key=True),
        sa.Column("writer_id", sa.String(), primary_key=True),
        sa.Column("figures", sa.Text(), nullable=False),
    )


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("seq", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("delivery_id", sa.String(), nullable=False, unique=True),
        sa.Column("run_id", sa.String()),
        sa.Column("session_id", sa.String()),
        sa.Column("address", sa.String()),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("worker_id", sa.String()),
        sa.Column("last_error", sa.Text()),
        sa.Column("history", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
    )
    _create_partial_index("deliveries_ended", "deliveries", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index("deliveries_held", "deliveries", ["worker_id"], "worker_id IS NOT NULL")
    _create_partial_index(
        "deliveries_owed", "deliveries", ["due_at"], "status = 'owed' AND worker_id IS NULL"
    )
    _create_partial_index(
        "deliveries_suspected",
        "deliveries",
        ["due_at"],
        "status = 'owed' AND worker_id IS NULL AND lost >= 2",
    )
    _create_partial_index(
        "deliveries_of_address",
        "deliveries",
        ["address", "seq"],
        "status = 'owed' AND address IS NOT NULL",
    )
    op.create_index("ix_deliveries_run_id", "deliveries", ["run_id"])
    op.create_index("ix_deliveries_session_id", "deliveries", ["session_id"])


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.String(), primary_key=True),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False, server_default="server"),
        sa.Column("owner", sa.String()),
        sa.Column("registration", sa.Text()),
        sa.Column("server_id", sa.String()),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("renewed_at", sa.Double()),
        sa.Column("expires_at", sa.Double(), nullable=False),
    )


def _create_writers() -> None:
    op.create_table(
        "writers",
        sa.Column("writer_id", sa.String(), primary_key=True),
        sa.Column("batch", NUMBER, nullable=False),
        sa.Column("entered_at", sa.Double(), nullable=False),
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.String(), primary_key=True),
        sa.Column("parent_session_id", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("user", sa.Text()),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("reason", sa.Text()),
        sa.Column("key", sa.String()),
        sa.Column("started_at", sa.Double()),
        sa.Column("active_at", sa.Double()),
    )
    _create_partial_index(
        "sessions_beneath", "sessions", ["parent_session_id"], "parent_session_id IS NOT NULL"
    )
    is_open = "key IS NOT NULL AND ended_at IS NULL"
    _create_partial_index("sessions_open", "sessions", ["key"], is_open, unique=True)
    _create_partial_index("sessions_idle", "sessions", ["active_at"], is_open)
    _create_partial_index("sessions_open_of_owner", "sessions", ["owner", "active_at"], is_open)
    op.create_index("sessions_by_creation", "sessions", ["created_at", "session_id"])
    op.create_index("sessions_by_owner", "sessions", ["owner", "created_at"])


def _create_conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=False),
    )
    op.create_index("ix_conversations_thread_id", "conversations", ["thread_id"])


def _create_messages() -> None:
    op.create_table(
        "messages",
        sa.Column("seq", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("message_id", sa.String(), nullable=False, unique=True),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("agent_name", sa.String(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("user", sa.Text()),
        sa.Column("address", sa.Text()),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("worker_id", sa.String()),
        sa.Column("lost", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("outcome", sa.Text()),
        sa.Column("reply", sa.Text()),
        sa.Column("refusal", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("due_at", sa.Double()),
        sa.Column("joined_to", sa.String()),
    )
    once = ["channel", "account", "external_id"]
    op.create_index("messages_once", "messages", once, unique=True)
    op.create_index("messages_of_thread", "messages", ["thread_id", "seq"])
    op.create_index("messages_of_session", "messages", ["session_id", "seq"])
    op.create_index("messages_of_owner", "messages", ["owner", "seq"])
    op.create_index("ix_messages_run_id", "messages", ["run_id"])
    unhandled = "status IN ('received', 'replying')"
    to_handle = f"worker_id IS NULL AND {unhandled}"
    _create_partial_index("messages_to_handle", "messages", ["seq"], to_handle)
    _create_partial_index("messages_held", "messages", ["worker_id"], "worker_id IS NOT NULL")
    _create_partial_index("messages_running", "messages", ["run_id"], "status = 'running'")
    is_open = "ended_at IS NULL"
    _create_partial_index("messages_open", "messages", ["thread_id", "seq"], is_open)
    _create_partial_index("messages_unfinished", "messages", ["session_id", "seq"], is_open)
    _create_partial_index("messages_ended", "messages", ["ended_at"], "ended_at IS NOT NULL")


def _create_receivers() -> None:
    op.create_table(
        "receivers",
        sa.Column("channel", sa.String(), primary_key=True),
        sa.Column("worker_id", sa.String(), nullable=False),
    )


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("blueprint", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("stored_bytes", NUMBER),
    )
    op.create_index("agents_bytes_of_owner", "agents", ["owner", "stored_bytes"])


def _create_agent_versions() -> None:
    op.create_table(
        "agent_versions",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True),
        sa.Column("owner", sa.String()),
        sa.Column("blueprint", sa.Text(), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
    )


def _create_named_hooks() -> None:
    op.create_table(
        "named_hooks",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("owner", sa.String()),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
    )


def _create_agent_set() -> None:
    table = op.create_table(
        "agent_set",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("version", NUMBER, nullable=False),
    )
    op.bulk_insert(table, [{"id": 1, "version": 1}])


def _create_approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.String(), primary_key=True),
        sa.Column("run_id", sa.String()),
        sa.Column("thread_id", sa.String()),
        sa.Column("request_id", sa.String()),
        sa.Column("held_until", sa.Double()),
        sa.Column("session_id", sa.String()),
        sa.Column("agent_name", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("point", sa.String(), nullable=False),
        sa.Column("hook", sa.String(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("value", sa.Text()),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("on_timeout", sa.String(), nullable=False),
        sa.Column("edited", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("answered_by", sa.String()),
        sa.Column("answered_at", sa.Double()),
        sa.Column("expires_at", sa.Double()),
        sa.Column("used_at", sa.Double()),
        sa.Column("posted", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
    )
    op.create_index("approvals_by_creation", "approvals", ["created_at", "approval_id"])
    _create_partial_index(
        "approvals_expiring",
        "approvals",
        ["expires_at"],
        "status = 'open' AND expires_at IS NOT NULL",
    )
    op.create_index("approvals_of_run", "approvals", ["run_id", "created_at"])
    _create_partial_index("approvals_open", "approvals", ["created_at"], "status = 'open'")
    _create_partial_index(
        "approvals_held",
        "approvals",
        ["held_until"],
        "status = 'open' AND held_until IS NOT NULL",
    )


def _create_gateway_calls() -> None:
    op.create_table(
        "gateway_calls",
        sa.Column("call_id", sa.String(), primary_key=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("duration_ms", sa.Double(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("key", sa.String()),
        sa.Column("user_id", sa.String()),
        sa.Column("session_id", sa.String()),
        sa.Column("run_id", sa.String()),
        sa.Column("agent_name", sa.String()),
        sa.Column("model", sa.Text()),
        sa.Column("answered_model", sa.Text()),
        sa.Column("upstream", sa.String()),
        sa.Column("provider", sa.Text()),
        sa.Column("status", sa.Integer()),
        sa.Column("streamed", sa.Boolean(), nullable=False),
        sa.Column("usage", sa.Text()),
        sa.Column("cost", sa.Double()),
        sa.Column("decision", sa.String()),
        sa.Column("decisions", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("first_byte_ms", sa.Double()),
    )
    op.create_index("gateway_calls_by_creation", "gateway_calls", ["created_at", "call_id"])
    op.create_index("gateway_calls_of_owner", "gateway_calls", ["owner", "created_at", "call_id"])


def _create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("owner", sa.String(), primary_key=True),
        sa.Column("route", sa.String(), primary_key=True),
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("run_ids", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"])


def _create_crons() -> None:
    op.create_table(
        "crons",
        sa.Column("cron_id", sa.String(), primary_key=True),
        sa.Column("assistant_id", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("user", sa.Text()),
        sa.Column("key_id", sa.String()),
        sa.Column("schedule", sa.String(), nullable=False),
        sa.Column("timezone", sa.String()),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("on_run_completed", sa.String()),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("next_run_at", sa.Double()),
        sa.Column("occurrence", sa.Double()),
        sa.Column("worker_id", sa.String()),
        sa.Column("lost", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("end_at", sa.Double()),
        sa.Column("last_error", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("stored_bytes", NUMBER),
    )
    op.create_index("crons_bytes_of_owner", "crons", ["owner", "stored_bytes"])
    _create_partial_index(
        "crons_due", "crons", ["next_run_at"], "enabled AND next_run_at IS NOT NULL"
    )
    op.create_index("ix_crons_assistant_id", "crons", ["assistant_id"])
    op.create_index("ix_crons_created_at", "crons", ["created_at"])
    op.create_index("ix_crons_thread_id", "crons", ["thread_id"])
    op.create_index("ix_crons_worker_id", "crons", ["worker_id"])


def _create_store_items() -> None:
    op.create_table(
        "store_items",
        sa.Column("namespace", sa.String(), primary_key=True),
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("stored_bytes", NUMBER, nullable=False),
        sa.Column("ttl_seconds", sa.Double()),
        sa.Column("look_at", sa.Double()),
    )
    op.create_index("store_items_bytes_of_owner", "store_items", ["owner", "stored_bytes"])
    _create_partial_index("store_items_expiring", "store_items", ["look_at"], "look_at IS NOT NULL")


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String(), primary_key=True),
        sa.Column("digest", sa.String(), nullable=False, unique=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("revoked_at", sa.Double()),
    )


def _create_logins() -> None:
    op.create_table(
        "logins",
        sa.Column("digest", sa.String(), primary_key=True),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
    )


def _create_counters() -> None:
    op.create_table(
        "counters",
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("window_start", sa.Double(), primary_key=True),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
    )
    op.create_index("counters_by_expiry", "counters", ["expires_at"])


def upgrade() -> None:
    """Create all tables."""
    _create_assistants()
    _create_assistant_versions()
    _create_threads()
    _create_runs()
    _create_events()
    _create_state_updates()
    _create_hook_records()
    _create_rollups()
    _create_deliveries()
    _create_workers()
    _create_writers()
    _create_sessions()
    _create_conversations()
    _create_messages()
    _create_receivers()
    _create_agents()
    _create_agent_versions()
    _create_named_hooks()
    _create_agent_set()
    _create_approvals()
    _create_gateway_calls()
    _create_idempotency()
    _create_crons()
    _create_store_items()
    _create_api_keys()
    _create_logins()
    _create_counters()


def downgrade() -> None:
    """Drop all tables."""
    for table in (
        "counters",
        "logins",
        "api_keys",
        "store_items",
        "crons",
        "idempotency",
        "gateway_calls",
        "approvals",
        "agent_set",
        "named_hooks",
        "agent_versions",
        "agents",
        "receivers",
        "messages",
        "conversations",
        "sessions",
        "writers",
        "workers",
        "deliveries",
        "rollups",
        "hook_records",
        "state_updates",
        "events",
        "runs",
        "threads",
        "assistant_versions",
        "assistants",
    ):
        op.drop_table(table)
