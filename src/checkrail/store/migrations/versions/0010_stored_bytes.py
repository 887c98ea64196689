"""What is stored of owners beside their runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_TABLES = ("assistants", "agents", "crons")
_COUNTED = sa.text("stored_bytes IS NOT NULL")
_EXPIRING = sa.text("look_at IS NOT NULL")


def upgrade() -> None:
    """Note how much is stored, and index it by owner; what is there already counts for nobody."""
    for table in (*_TABLES, "threads"):
        op.add_column(table, sa.Column("stored_bytes", sa.BigInteger()))
    for table in _TABLES:
        op.create_index(f"{table}_bytes_of_owner", table, ["owner", "stored_bytes"])
    op.create_index(
        "threads_bytes_of_owner",
        "threads",
        ["owner", "stored_bytes"],
        sqlite_where=_COUNTED,
        postgresql_where=_COUNTED,
    )
    op.create_table(
        "store_items",
        sa.Column("namespace", sa.String(), primary_key=True),
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("ttl_seconds", sa.Double()),
        sa.Column("look_at", sa.Double()),
    )
    op.create_index("store_items_bytes_of_owner", "store_items", ["owner", "stored_bytes"])
    op.create_index(
        "store_items_expiring",
        "store_items",
        ["look_at"],
        sqlite_where=_EXPIRING,
        postgresql_where=_EXPIRING,
    )


def downgrade() -> None:
    """Take it away again."""
    op.drop_table("store_items")
    for table in (*_TABLES, "threads"):
        op.drop_index(f"{table}_bytes_of_owner", table)
        op.drop_column(table, "stored_bytes")
