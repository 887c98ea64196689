"""The keys that vouch for crons."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Note with each cron which key made or last changed it."""
    op.add_column("crons", sa.Column("key_id", sa.String()))


def downgrade() -> None:
    """Take it away again."""
    op.drop_column("crons", "key_id")
