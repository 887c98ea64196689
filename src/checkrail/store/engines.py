"""Engines of SQLAlchemy for the two databases, set up as the store needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from checkrail.engine.errors import CheckrailError
from checkrail.private_files import make_private_sqlite

_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA wal_autocheckpoint=4000",  # pages: the same ones are written again and again
    "PRAGMA busy_timeout=10000",
    "PRAGMA foreign_keys=ON",
    "PRAGMA temp_store=MEMORY",
)


_POSTGRES = {
    # A server that freezes in the middle of a transaction must not keep its locks for ever.
    "options": "-c idle_in_transaction_session_timeout=10000",
    # Nor must a network that swallows everything keep a server waiting for minutes.
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""How connections are made, unless the URL says something else."""


class DatabaseUrlError(CheckrailError):
    """A database URL that cannot be used."""


def sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file."""
    return f"sqlite:///{file}"


def open_engine(url: str) -> Engine:
    """Make the engine for a URL; the password in it is never shown."""
    try:
        made = make_url(url)
    except ArgumentError:
        raise DatabaseUrlError(
            "the database URL cannot be read. "
            "Write postgresql://user:password@host/name, or leave it out for SQLite"
        ) from None
    if made.get_backend_name() == "sqlite":
        return _open_sqlite(str(made))
    if made.get_backend_name() in ("postgresql", "postgres"):
        return _open_postgres(made.set(drivername="postgresql+psycopg"))
    raise DatabaseUrlError(
        f"Checkrail keeps its data in SQLite or PostgreSQL, not in {made.get_backend_name()!r}. "
        "Write postgresql://user:password@host/name, or leave it out for SQLite"
    )


def _open_sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"check_same_thread": False}, **_json_options())
    file = engine.url.database
    if file and not file.startswith((":memory:", "file:")):
        event.listen(engine, "do_connect", lambda *_: make_private_sqlite(Path(file)))
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_at_once)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin_at_once(connection: Any) -> None:
    """Begin as readers do; the writer is alone in its process and takes the lock as it writes."""
    connection.connection.driver_connection.execute("BEGIN")  # past what costs more than it does


def _open_postgres(url: Any) -> Engine:
    options = {name: value for name, value in _POSTGRES.items() if name not in url.query}
    return create_engine(url, pool_size=8, max_overflow=4, connect_args=options, **_json_options())


def _json_options() -> dict[str, Any]:
    return {
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }
