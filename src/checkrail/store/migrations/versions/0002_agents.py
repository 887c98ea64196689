"""Agents with blueprints of their own, sessions, runners, and people who are asked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"

SEARCHED = sa.JSON().with_variant(JSONB(), "postgresql")


def _sessions() -> None:
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
    )
    where = sa.text("parent_session_id IS NOT NULL")
    op.create_index(
        "sessions_beneath",
        "sessions",
        ["parent_session_id"],
        sqlite_where=where,
        postgresql_where=where,
    )
    op.create_index("sessions_by_creation", "sessions", ["created_at", "session_id"])
    op.create_index("sessions_by_owner", "sessions", ["owner", "created_at"])


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("blueprint", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
    )


def _agent_versions() -> None:
    op.create_table(
        "agent_versions",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True),
        sa.Column("owner", sa.String()),
        sa.Column("blueprint", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
    )


def _named_hooks() -> None:
    op.create_table(
        "named_hooks",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("owner", sa.String()),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
    )


def _approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.String(), primary_key=True),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("thread_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String()),
        sa.Column("agent_name", sa.String(), nullable=False),
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
        sa.Column("created_at", sa.Double(), nullable=False),
    )
    op.create_index("approvals_by_creation", "approvals", ["created_at", "approval_id"])
    where = sa.text("status = 'open' AND expires_at IS NOT NULL")
    op.create_index(
        "approvals_expiring",
        "approvals",
        ["expires_at"],
        sqlite_where=where,
        postgresql_where=where,
    )
    op.create_index("approvals_of_run", "approvals", ["run_id", "created_at"])
    where = sa.text("status = 'open'")
    op.create_index(
        "approvals_open", "approvals", ["created_at"], sqlite_where=where, postgresql_where=where
    )


def _more_of_threads() -> None:
    op.add_column("threads", sa.Column("session_id", sa.String()))
    op.create_index("ix_threads_session_id", "threads", ["session_id"])


def _more_of_runs() -> None:
    op.add_column("runs", sa.Column("session_id", sa.String()))
    op.add_column("runs", sa.Column("parent_run_id", sa.String()))
    op.add_column("runs", sa.Column("depth", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("needs", sa.String(), nullable=False, server_default=""))
    op.add_column("runs", sa.Column("scope", sa.Text()))
    op.add_column("runs", sa.Column("told", sa.Text()))
    op.add_column("runs", sa.Column("kept", sa.Text()))
    op.add_column("runs", sa.Column("ready_at", sa.Double()))
    op.add_column("runs", sa.Column("heard", sa.Integer()))
    op.add_column("runs", sa.Column("reported_by", sa.String()))
    op.drop_index("runs_claimable", "runs")
    where = sa.text("parent_run_id IS NOT NULL")
    op.create_index(
        "runs_beneath", "runs", ["parent_run_id"], sqlite_where=where, postgresql_where=where
    )
    op.create_index("runs_of_session", "runs", ["session_id", "seq"])
    where = sa.text("worker_id IS NULL AND phase = 'ready'")
    op.create_index(
        "runs_ready", "runs", ["needs", "seq"], sqlite_where=where, postgresql_where=where
    )
    where = sa.text("worker_id IS NULL AND phase = 'running'")
    op.create_index("runs_reported", "runs", ["seq"], sqlite_where=where, postgresql_where=where)
    where = sa.text("worker_id IS NULL AND phase = 'starting'")
    op.create_index("runs_starting", "runs", ["seq"], sqlite_where=where, postgresql_where=where)
    where = sa.text("worker_id IS NULL AND phase = 'ready'")
    op.create_index(
        "runs_unclaimed", "runs", ["ready_at"], sqlite_where=where, postgresql_where=where
    )


def _more_of_workers() -> None:
    op.add_column(
        "workers", sa.Column("kind", sa.String(), nullable=False, server_default="server")
    )
    op.add_column("workers", sa.Column("owner", sa.String()))
    op.add_column("workers", sa.Column("told", sa.Text()))


def upgrade() -> None:
    """Make the new tables, and widen those that are there."""
    _sessions()
    _agents()
    _agent_versions()
    _named_hooks()
    _approvals()
    _more_of_threads()
    _more_of_runs()
    _more_of_workers()


def downgrade() -> None:
    """Go back to the first tables."""
    op.drop_table("approvals")
    op.drop_table("named_hooks")
    op.drop_table("agent_versions")
    op.drop_table("agents")
    op.drop_table("sessions")
    op.drop_index("ix_threads_session_id", "threads")
    op.drop_column("threads", "session_id")
    op.drop_index("runs_of_session", "runs")
    op.drop_index("runs_beneath", "runs")
    op.drop_index("runs_starting", "runs")
    op.drop_index("runs_ready", "runs")
    op.drop_index("runs_unclaimed", "runs")
    op.drop_index("runs_reported", "runs")
    op.drop_column("runs", "session_id")
    op.drop_column("runs", "parent_run_id")
    op.drop_column("runs", "depth")
    op.drop_column("runs", "needs")
    op.drop_column("runs", "scope")
    op.drop_column("runs", "told")
    op.drop_column("runs", "kept")
    op.drop_column("runs", "ready_at")
    op.drop_column("runs", "heard")
    op.drop_column("runs", "reported_by")
    op.drop_column("workers", "kind")
    op.drop_column("workers", "owner")
    op.drop_column("workers", "told")
    where = sa.text("worker_id IS NULL AND phase IN ('starting', 'ready')")
    op.create_index("runs_claimable", "runs", ["seq"], sqlite_where=where, postgresql_where=where)
