"""Counters of limits and budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table of counters."""
    op.create_table(
        "counters",
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("window_start", sa.Double(), primary_key=True),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
    )
    op.create_index("counters_by_expiry", "counters", ["expires_at"])


def downgrade() -> None:
    """Take it away again."""
    op.drop_table("counters")
