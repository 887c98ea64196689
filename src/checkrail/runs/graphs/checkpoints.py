"""Where LangGraph keeps its checkpoints and its store: SQLite in a file, or PostgreSQL."""

from __future__ import annotations

import asyncio
import inspect
import re
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from checkrail.engine.errors import CheckrailError
from checkrail.private_files import make_private_folder, make_private_sqlite
from checkrail.runs.graphs.fences import FencedLock, fence_writes
from checkrail.runs.graphs.thread_rows import (
    copy_thread,
    delete_run,
    delete_thread,
    hold,
    latest_of_run,
    prune,
    put_back,
)
from checkrail.store.health import DatabaseUnavailableError, trouble_of

if TYPE_CHECKING:
    import aiosqlite
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

    from checkrail.runs.graphs.state_types import StateSerializer

__all__ = [
    "copy_thread",
    "delete_run",
    "delete_thread",
    "hold",
    "is_postgres",
    "latest_of_run",
    "open_checkpointer",
    "open_store",
    "prune",
    "put_back",
]

POOL = 8
"""Connections for checkpoints: a run holds one for a statement or two, never for a step."""

STORE_POOL = 4
_DRIVER = re.compile(r"^postgres(?:ql)?(?:\+\w+)?://")
_SQLITE = re.compile(r"^sqlite(?:\+\w+)?:///")
_MIGRATING = 7_236_518_234_907
"""The advisory lock of whoever makes LangGraph's tables; any number, but always this one."""


def is_postgres(url: str | Path) -> bool:
    """Return whether a URL is PostgreSQL's; everything else is a SQLite file."""
    return bool(_DRIVER.match(str(url)))


@asynccontextmanager
async def open_checkpointer(
    url: str | Path, *, size: int = POOL, types: Iterable[type] = ()
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open the official saver for a database, with its tables made.

    It builds the `types` when it reads, beside those that the schemas of graphs name.
    """
    from checkrail.runs.graphs.state_types import StateSerializer, warn_of_unknown_types

    serde = StateSerializer(types)
    opened = (
        _postgres_saver(str(url), size, serde) if is_postgres(url) else _sqlite_saver(url, serde)
    )
    with warn_of_unknown_types():
        async with opened as saver:
            yield saver


@asynccontextmanager
async def open_own_checkpointer(found: Any) -> AsyncIterator[Any]:
    """Open a checkpointer that a project brings: one, what makes one, or what has to be entered.

    Before each of its writes it is asked whether the run is still held.
    """
    # What has to be entered may be callable too: as a decorator.
    is_factory = callable(found) and not hasattr(type(found), "__aenter__")
    made = found() if is_factory else found
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "__aenter__"):
        async with made as saver:
            fence_writes(saver)
            yield saver
    else:
        fence_writes(made)
        yield made


NO_INDEX = (
    "store.index needs SQLite extensions, and this Python was built without them. "
    "Use a Python that has them, or PostgreSQL, or leave out store.index"
)


def can_index(url: str | Path | None) -> bool:
    """Whether a store can have an index: on SQLite, where this Python has extensions."""
    if url is not None and is_postgres(url):
        return True
    return hasattr(sqlite3.Connection, "enable_load_extension")


def open_store(
    url: str | Path,
    index: Mapping[str, Any] | None = None,
    ttl: Mapping[str, Any] | None = None,
    *,
    size: int = STORE_POOL,
) -> AbstractAsyncContextManager[BaseStore]:
    """Open the official store for a database, with its tables made and its sweeper running."""
    if is_postgres(url):
        return _postgres_store(str(url), index, ttl, size)
    return _sqlite_store(url, index, ttl)


@asynccontextmanager
async def _sqlite_saver(
    url: str | Path, serde: StateSerializer
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with _sqlite(url) as connection:
        saver = AsyncSqliteSaver(connection, serde=serde)
        saver.lock = FencedLock()
        await saver.setup()
        yield saver


@asynccontextmanager
async def _postgres_saver(
    url: str, size: int, serde: StateSerializer
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    from checkrail.runs.graphs.postgres import PostgresSaver, open_pool

    async with open_pool(_conninfo(url), size) as pool:
        saver = PostgresSaver(pool, serde=serde)
        async with _migrating(url):
            await saver.setup()
        yield saver


@asynccontextmanager
async def _sqlite_store(
    url: str | Path, index: Mapping[str, Any] | None, ttl: Mapping[str, Any] | None
) -> AsyncIterator[BaseStore]:
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    if index and not can_index(url):
        raise CheckrailError(NO_INDEX)
    async with _sqlite(url, isolation_level=None) as connection:
        await connection.execute("PRAGMA journal_mode=WAL")
        store = AsyncSqliteStore(connection, index=cast("Any", index), ttl=cast("Any", ttl))
        await store.setup()
        async with _swept(store):
            yield store


@asynccontextmanager
async def _postgres_store(
    url: str, index: Mapping[str, Any] | None, ttl: Mapping[str, Any] | None, size: int
) -> AsyncIterator[BaseStore]:
    from checkrail.runs.graphs.postgres import PostgresStore, open_pool

    async with open_pool(_conninfo(url), size) as pool:
        store = PostgresStore(pool, index=cast("Any", index), ttl=cast("Any", ttl))
        async with _swept(store):
            async with _migrating(url):
                await store.setup()
            yield store


@asynccontextmanager
async def _swept(store: Any) -> AsyncIterator[None]:
    """Keep a store's items to their time, and leave none of its tasks behind."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_ended, store._task)  # noqa: SLF001 - it has no other end
        # Items may have a time of their own, and nobody sweeps without a config.
        store.ttl_config = store.ttl_config or {"sweep_interval_minutes": 1}
        await store.start_ttl_sweeper()
        stack.push_async_callback(store.stop_ttl_sweeper, 5)
        yield


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def _sqlite(url: str | Path, **options: Any) -> AsyncIterator[aiosqlite.Connection]:
    import aiosqlite

    path = _SQLITE.sub("", str(url))
    if path != ":memory:":
        make_private_folder(Path(path).parent)
        make_private_sqlite(Path(path))
    async with aiosqlite.connect(path, **options) as connection:
        # With a write-ahead log this loses nothing when the process dies, only with the machine.
        await connection.execute("PRAGMA synchronous=NORMAL")
        yield connection


@asynccontextmanager
async def _migrating(url: str) -> AsyncIterator[None]:
    """Let one server at a time make tables, over a connection that says at once if it fails.

    The others ask again and again: one that waits inside the database would be waited for by the
    `CREATE INDEX CONCURRENTLY` of the first.
    """
    from psycopg import AsyncConnection, OperationalError

    try:
        opened = await AsyncConnection.connect(_conninfo(url), autocommit=True)
    except OperationalError as error:
        trouble = trouble_of(error)
        if trouble is None:
            raise
        raise DatabaseUnavailableError(trouble) from error
    async with opened as connection:
        asked = f"SELECT pg_try_advisory_lock({_MIGRATING})"
        while await (await connection.execute(asked)).fetchone() != (True,):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        yield


def _conninfo(url: str) -> str:
    return _DRIVER.sub("postgresql://", url)
