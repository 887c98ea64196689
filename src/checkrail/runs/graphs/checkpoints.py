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
from checkrail.runs.graphs.fences import fence_writes
from checkrail.runs.graphs.thread_rows import (
    copy_thread,
    delete_run,
    delete_thread,
    hold_head,
    latest_of_run,
    prune_threads,
    restore_head,
)
from checkrail.store.health import DatabaseUnavailableError, find_trouble

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

    from checkrail.runs.graphs.sqlite import Connection
    from checkrail.runs.graphs.state_types import StateSerializer

__all__ = [
    "copy_thread",
    "delete_run",
    "delete_thread",
    "hold_head",
    "is_postgres",
    "latest_of_run",
    "open_checkpointer",
    "open_store",
    "prune_threads",
    "restore_head",
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
        _open_postgres_saver(str(url), size, serde)
        if is_postgres(url)
        else _open_sqlite_saver(url, serde)
    )
    with warn_of_unknown_types():
        async with opened as saver:
            yield saver


@asynccontextmanager
async def open_own_checkpointer(found: Any) -> AsyncIterator[Any]:
    """Open a project's own checkpointer: an object, a function or a context manager.

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
        return _open_postgres_store(str(url), index, ttl, size)
    return _open_sqlite_store(url, index, ttl)


@asynccontextmanager
async def _open_sqlite_saver(
    url: str | Path, serde: StateSerializer
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    from checkrail.runs.graphs.sqlite import open_saver

    async with _connect_sqlite(url) as connection, open_saver(connection, serde) as saver:
        yield saver


@asynccontextmanager
async def _open_postgres_saver(
    url: str, size: int, serde: StateSerializer
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    from checkrail.runs.graphs.postgres import PostgresSaver, open_pool

    async with open_pool(_conninfo(url), size) as pool:
        saver = PostgresSaver(pool, url, serde=serde)
        try:
            async with _migration_lock(url):
                await saver.patiently(saver.setup)
            yield saver
        finally:
            await saver.writer.close()


@asynccontextmanager
async def _open_sqlite_store(
    url: str | Path, index: Mapping[str, Any] | None, ttl: Mapping[str, Any] | None
) -> AsyncIterator[BaseStore]:
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    if index and not can_index(url):
        raise CheckrailError(NO_INDEX)
    async with _connect_sqlite(url, isolation_level=None) as connection:
        await connection.execute("PRAGMA journal_mode=WAL")
        store = AsyncSqliteStore(connection, index=cast("Any", index), ttl=cast("Any", ttl))
        await store.setup()
        async with _run_sweeper(store):
            yield store


@asynccontextmanager
async def _open_postgres_store(
    url: str, index: Mapping[str, Any] | None, ttl: Mapping[str, Any] | None, size: int
) -> AsyncIterator[BaseStore]:
    from checkrail.runs.graphs.postgres import PostgresStore, open_pool

    async with open_pool(_conninfo(url), size) as pool:
        store = PostgresStore(pool, index=cast("Any", index), ttl=cast("Any", ttl))
        async with _run_sweeper(store):
            async with _migration_lock(url):
                await store.patiently(store.setup)
            yield store


@asynccontextmanager
async def _run_sweeper(store: Any) -> AsyncIterator[None]:
    """Sweep a store's expired items while it is open, and leave none of its tasks behind."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_cancel_task, store._task)  # noqa: SLF001 - it has no other end
        # Items may have a time of their own, and nobody sweeps without a config.
        store.ttl_config = store.ttl_config or {"sweep_interval_minutes": 1}
        await store.start_ttl_sweeper()
        stack.push_async_callback(store.stop_ttl_sweeper, 5)
        yield


async def _cancel_task(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def _connect_sqlite(url: str | Path, **options: Any) -> AsyncIterator[Connection]:
    from checkrail.runs.graphs.sqlite import connect

    path = _SQLITE.sub("", str(url))
    if path != ":memory:":
        make_private_folder(Path(path).parent)
        make_private_sqlite(Path(path))
    async with connect(path, **options) as connection:
        # With a write-ahead log this loses nothing when the process dies, only with the machine.
        await connection.execute("PRAGMA synchronous=NORMAL")
        yield connection


@asynccontextmanager
async def _migration_lock(url: str) -> AsyncIterator[None]:
    """Let one server at a time create tables, over a connection that fails at once.

    The others ask again and again: one that waits inside the database would be waited for by the
    `CREATE INDEX CONCURRENTLY` of the first.
    """
    from psycopg import AsyncConnection, OperationalError

    try:
        opened = await AsyncConnection.connect(_conninfo(url), autocommit=True)
    except OperationalError as error:
        trouble = find_trouble(error)
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
