"""LangGraph's saver and store on PostgreSQL: fenced, and patient with a database that is away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar, cast

import psycopg
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.base import Op, PutOp, Result
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg.errors import DivisionByZero
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from checkrail.runs.graphs.fences import LOCKABLE, current_fence
from checkrail.store.health import (
    AWAY,
    READ_ONLY,
    DatabaseUnavailableError,
    Health,
    trouble_of,
)

log = logging.getLogger("checkrail.runs")

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that a request waits for its checkpoints; a run waits for as long as it may run."""

STORE_PATIENCE = 30.0
"""Seconds that anybody waits for the store, which cannot tell runs from requests."""

_PAUSE = 0.1  # seconds
_CONNECTING = 2.0  # seconds until it is looked again for a connection that nobody has
_FROZEN = 10_000  # milliseconds after which a transaction of a frozen process is ended
_CUT_OFF = frozenset({"25P03", "40001", "40P01"})
"""Ends of a transaction that took too long, or that others got in the way of."""


class Patience:
    """Does what may safely be done twice again, if the database went away meanwhile."""

    def __init__(self, pool: AsyncConnectionPool[Any], seconds: Callable[[], float]) -> None:
        self._pool = pool
        self._seconds = seconds
        self._health = Health()

    async def __call__(self, work: Callable[[], Awaitable[T]], *, writes: bool = True) -> T:
        """Do some work, once the database is there."""
        began = time.monotonic()
        while True:
            try:
                answer = await work()
            except psycopg.Error as error:
                trouble = AWAY if error.sqlstate in _CUT_OFF else trouble_of(error)
                if trouble is None or not trouble.passes:
                    raise
                self._health.note(trouble, error)
                if trouble is READ_ONLY:
                    await self._pool.drain()  # the way to the primary may lead elsewhere by now
                fence = current_fence()
                patient = fence is not None and fence.patient
                if not patient and time.monotonic() - began > self._seconds():
                    raise DatabaseUnavailableError(trouble) from error
            else:
                self._health.recover(wrote=writes)
                return answer
            await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def open_pool(conninfo: str, size: int) -> AsyncIterator[AsyncConnectionPool[Any]]:
    """Open a pool that hands out no connection of which it is known that it is gone."""

    async def check(connection: Any) -> None:
        """Look whether the server has closed a connection, without asking it."""
        try:
            connection.pgconn.consume_input()
        except psycopg.OperationalError:
            await pool.drain()  # those that lie beside it went with it
            raise

    async def configure(connection: Any) -> None:
        await connection.execute(f"SET idle_in_transaction_session_timeout = {_FROZEN}")

    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        conninfo,
        min_size=1,
        max_size=size,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        check=check,
        configure=configure,
        timeout=_CONNECTING,
        reconnect_timeout=_CONNECTING / 2,
        open=False,
    )
    async with pool:
        yield pool


class PostgresSaver(AsyncPostgresSaver):
    """LangGraph's saver, whose writes are part of a transaction that checks who writes."""

    def __init__(self, pool: AsyncConnectionPool[Any], **options: Any) -> None:
        super().__init__(pool, **options)
        # Its lock is for a single connection; with a pool it would let one run in at a time.
        self.lock = cast("asyncio.Lock", nullcontext())
        self.patiently = Patience(pool, lambda: PATIENCE)
        self.has_runs = True

    async def setup(self) -> None:
        """Make the tables, and see whether the runs are in the same database."""
        await super().setup()
        try:
            async with self._cursor() as cursor:
                await cursor.execute(LOCKABLE)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as error:
            self.has_runs = False
            reason = error.diag.message_primary
            log.warning("checkpoints are fenced by a check before each write only: %s", reason)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[Any]:
        """Open a cursor; LangGraph asks for a pipeline where it writes."""
        fence = current_fence()
        if fence is None or not pipeline:
            async with super()._cursor(pipeline=pipeline) as cursor:
                yield cursor
            return
        if not self.has_runs:
            await fence.confirm()
        fence.check()
        try:
            async with super()._cursor(pipeline=True) as cursor:
                try:
                    yield cursor
                    if self.has_runs:  # last: if this process freezes now, nobody waits for it
                        await cursor.execute(fence.query, fence.parameters)
                except BaseException:
                    await cursor.connection.close()  # or what was sent would be kept, unchecked
                    raise
        except DivisionByZero:
            raise fence.refuse() from None

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """List checkpoints, all read at once."""
        read = super().alist

        async def listed() -> list[CheckpointTuple]:
            return [found async for found in read(*args, **options)]

        for found in await self.patiently(listed, writes=False):
            yield found

    async def aget_tuple(self, *args: Any, **options: Any) -> Any:
        """Read a checkpoint."""
        read = super().aget_tuple
        return await self.patiently(lambda: read(*args, **options), writes=False)

    async def aget_delta_channel_history(self, **options: Any) -> Any:
        """Read what a channel was made of."""
        read = super().aget_delta_channel_history
        return await self.patiently(lambda: read(**options), writes=False)

    async def aput(self, *args: Any, **options: Any) -> Any:
        """Write a checkpoint."""
        write = super().aput
        return await self.patiently(lambda: write(*args, **options))

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        """Write what a task gave."""
        write = super().aput_writes
        await self.patiently(lambda: write(*args, **options))

    async def adelete_thread(self, *args: Any, **options: Any) -> None:
        """Delete a thread."""
        delete = super().adelete_thread
        await self.patiently(lambda: delete(*args, **options))

    async def aprune(self, *args: Any, **options: Any) -> None:
        """Forget what threads were before."""
        prune = super().aprune
        await self.patiently(lambda: prune(*args, **options))


class PostgresStore(AsyncPostgresStore):
    """LangGraph's store; an item that is put twice is the same."""

    def __init__(self, pool: AsyncConnectionPool[Any], **options: Any) -> None:
        super().__init__(pool, **options)
        self.patiently = Patience(pool, lambda: STORE_PATIENCE)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Read and write items."""
        many, batch = [*ops], super().abatch
        writes = any(isinstance(op, PutOp) for op in many)
        return await self.patiently(lambda: batch(many), writes=writes)
