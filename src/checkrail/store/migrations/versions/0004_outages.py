"""What is known after an outage: when leases were renewed, and which batches were committed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table of writers, and the time of a lease's renewal."""
    op.add_column("workers", sa.Column("renewed_at", sa.Double()))
    op.create_table(
        "writers",
        sa.Column("writer_id", sa.String(), primary_key=True),
        sa.Column("batch", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("entered_at", sa.Double(), nullable=False),
    )


def downgrade() -> None:
    """Take them away again."""
    op.drop_table("writers")
    op.drop_column("workers", "renewed_at")
