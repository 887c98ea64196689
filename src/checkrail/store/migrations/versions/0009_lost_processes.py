"""How many processes died with a delivery or a cron's run, and one ending for each hook call."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

RUNS = sa.text("worker_id IS NULL AND ended_at IS NULL AND lost >= 2")
DELIVERIES = sa.text("status = 'owed' AND worker_id IS NULL AND lost >= 2")
ENDINGS = sa.text("event_type <> 'hook_start'")


def upgrade() -> None:
    """Add the counts, the calls, and the indexes by which suspects and endings are found."""
    for table in ("deliveries", "crons"):
        op.add_column(
            table, sa.Column("lost", sa.Integer(), nullable=False, server_default=sa.text("0"))
        )
    for name, table, column, where in (
        ("runs_suspected", "runs", "seq", RUNS),
        ("deliveries_suspected", "deliveries", "due_at", DELIVERIES),
    ):
        op.create_index(name, table, [column], sqlite_where=where, postgresql_where=where)
    op.add_column("hook_records", sa.Column("call_id", sa.String()))
    op.create_index(
        "records_one_ending",
        "hook_records",
        ["call_id"],
        unique=True,
        sqlite_where=ENDINGS,
        postgresql_where=ENDINGS,
    )


def downgrade() -> None:
    """Take them away again."""
    op.drop_index("records_one_ending", "hook_records")
    op.drop_column("hook_records", "call_id")
    op.drop_index("deliveries_suspected", "deliveries")
    op.drop_index("runs_suspected", "runs")
    for table in ("crons", "deliveries"):
        op.drop_column(table, "lost")
