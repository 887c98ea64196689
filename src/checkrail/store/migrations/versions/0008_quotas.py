"""What owners have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Note with each run how much is stored of it, and index what is counted for an owner."""
    op.add_column("runs", sa.Column("stored_bytes", sa.BigInteger()))
    live = sa.text("ended_at IS NULL")
    op.create_index(
        "runs_live_of_owner", "runs", ["owner"], sqlite_where=live, postgresql_where=live
    )
    op.create_index("runs_bytes_of_owner", "runs", ["owner", "stored_bytes"])


def downgrade() -> None:
    """Take it away again."""
    op.drop_index("runs_bytes_of_owner", "runs")
    op.drop_index("runs_live_of_owner", "runs")
    op.drop_column("runs", "stored_bytes")
