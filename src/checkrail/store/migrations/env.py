"""Alembic's way in: it is handed a connection, and asks for nothing else."""

from __future__ import annotations

from alembic import context

from checkrail.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    version_table="checkrail_version",
)
with context.begin_transaction():
    context.run_migrations()
