"""The server that has heard a runner last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add it to the workers."""
    op.add_column("workers", sa.Column("server_id", sa.String()))


def downgrade() -> None:
    """Take it away again."""
    op.drop_column("workers", "server_id")
