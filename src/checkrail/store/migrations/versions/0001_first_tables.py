"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SEARCHED = sa.JSON().with_variant(JSONB(), "postgresql")


def _assistants() -> None:
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
    )
    op.create_index("ix_assistants_created_at", "assistants", ["created_at"])
    op.create_index("ix_assistants_graph_id", "assistants", ["graph_id"])


def _assistant_versions() -> None:
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


def _threads() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.String(), primary_key=True),
        sa.Column("owner", sa.String()),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("values", sa.Text()),
        sa.Column("interrupts", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("last_seq", NUMBER, nullable=False),
        sa.Column("watched_run", sa.String()),
        sa.Column("temporary", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("state_updated_at", sa.Double()),
        sa.Column("ttl_minutes", sa.Double()),
        sa.Column("ttl_strategy", sa.String()),
        sa.Column("expires_at", sa.Double()),
    )
    op.create_index("threads_by_creation", "threads", ["created_at", "thread_id"])
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("threads_by_metadata", "threads", ["metadata"], postgresql_using="gin")
    op.create_index("threads_by_owner", "threads", ["owner", "created_at"])
    op.create_index("threads_by_owner_update", "threads", ["owner", "updated_at"])
    op.create_index("threads_by_status", "threads", ["status", "updated_at"])
    op.create_index("threads_by_update", "threads", ["updated_at", "thread_id"])
    where = sa.text("expires_at IS NOT NULL")
    op.create_index(
        "threads_expiring", "threads", ["expires_at"], sqlite_where=where, postgresql_where=where
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("seq", NUMBER, primary_key=True),
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
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
    )
    op.create_index("runs_by_base", "runs", ["thread_id", "base_seq"])
    where = sa.text("worker_id IS NULL AND phase IN ('starting', 'ready')")
    op.create_index("runs_claimable", "runs", ["seq"], sqlite_where=where, postgresql_where=where)
    where = sa.text("ended_at IS NOT NULL")
    op.create_index("runs_ended", "runs", ["ended_at"], sqlite_where=where, postgresql_where=where)
    where = sa.text("worker_id IS NOT NULL")
    op.create_index("runs_held", "runs", ["worker_id"], sqlite_where=where, postgresql_where=where)
    where = sa.text("ended_at IS NULL")
    op.create_index("runs_live", "runs", ["seq"], sqlite_where=where, postgresql_where=where)
    where = sa.text("ended_at IS NULL")
    op.create_index(
        "runs_live_of_thread",
        "runs",
        ["thread_id", "seq"],
        sqlite_where=where,
        postgresql_where=where,
    )
    op.create_index("runs_of_assistant", "runs", ["assistant_id", "seq"])
    op.create_index("runs_of_owner", "runs", ["owner", "seq"])
    op.create_index("runs_of_thread", "runs", ["thread_id", "seq"])
    where = sa.text("phase = 'queued'")
    op.create_index(
        "runs_queued", "runs", ["thread_id", "seq"], sqlite_where=where, postgresql_where=where
    )
    where = sa.text("phase = 'scheduled'")
    op.create_index(
        "runs_scheduled", "runs", ["due_at"], sqlite_where=where, postgresql_where=where
    )
    where = sa.text("phase IN ('starting', 'ready', 'running', 'waiting')")
    op.create_index(
        "runs_slot", "runs", ["thread_id"], unique=True, sqlite_where=where, postgresql_where=where
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("run_id", sa.String(), primary_key=True),
        sa.Column("last_seq", NUMBER, primary_key=True),
        sa.Column("first_seq", NUMBER, nullable=False),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
    )


def _hook_records() -> None:
    op.create_table(
        "hook_records",
        sa.Column("seq", NUMBER, primary_key=True),
        sa.Column("record_id", sa.String(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("run_id", sa.String()),
        sa.Column("thread_id", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("worker_id", sa.String()),
        sa.Column("point", sa.String(), nullable=False),
        sa.Column("hook", sa.String(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
    )
    op.create_index("records_by_age", "hook_records", ["created_at"])
    op.create_index("records_of_run", "hook_records", ["run_id", "seq"])


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("seq", NUMBER, primary_key=True),
        sa.Column("delivery_id", sa.String(), nullable=False, unique=True),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("worker_id", sa.String()),
        sa.Column("last_error", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
    )
    where = sa.text("ended_at IS NOT NULL")
    op.create_index(
        "deliveries_ended", "deliveries", ["ended_at"], sqlite_where=where, postgresql_where=where
    )
    where = sa.text("worker_id IS NOT NULL")
    op.create_index(
        "deliveries_held", "deliveries", ["worker_id"], sqlite_where=where, postgresql_where=where
    )
    where = sa.text("status = 'owed' AND worker_id IS NULL")
    op.create_index(
        "deliveries_owed", "deliveries", ["due_at"], sqlite_where=where, postgresql_where=where
    )
    op.create_index("ix_deliveries_run_id", "deliveries", ["run_id"])


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.String(), primary_key=True),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
    )


def _idempotency() -> None:
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


def _crons() -> None:
    op.create_table(
        "crons",
        sa.Column("cron_id", sa.String(), primary_key=True),
        sa.Column("assistant_id", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("user", sa.Text()),
        sa.Column("schedule", sa.String(), nullable=False),
        sa.Column("timezone", sa.String()),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("on_run_completed", sa.String()),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("metadata", SEARCHED, nullable=False),
        sa.Column("next_run_at", sa.Double()),
        sa.Column("occurrence", sa.Double()),
        sa.Column("end_at", sa.Double()),
        sa.Column("last_error", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
    )
    where = sa.text("enabled AND next_run_at IS NOT NULL")
    op.create_index(
        "crons_due", "crons", ["next_run_at"], sqlite_where=where, postgresql_where=where
    )
    op.create_index("ix_crons_assistant_id", "crons", ["assistant_id"])
    op.create_index("ix_crons_created_at", "crons", ["created_at"])
    op.create_index("ix_crons_thread_id", "crons", ["thread_id"])


def _api_keys() -> None:
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


def upgrade() -> None:
    """Make all tables."""
    _assistants()
    _assistant_versions()
    _threads()
    _runs()
    _events()
    _hook_records()
    _deliveries()
    _workers()
    _idempotency()
    _crons()
    _api_keys()


def downgrade() -> None:
    """Remove all tables."""
    op.drop_table("api_keys")
    op.drop_table("crons")
    op.drop_table("idempotency")
    op.drop_table("workers")
    op.drop_table("deliveries")
    op.drop_table("hook_records")
    op.drop_table("events")
    op.drop_table("runs")
    op.drop_table("threads")
    op.drop_table("assistant_versions")
    op.drop_table("assistants")
