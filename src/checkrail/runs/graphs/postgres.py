"""LangGraph's saver and store on PostgreSQL: fenced, and patient with a database that is away."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import psycopg
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Op, PutOp, Result
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg.errors import DivisionByZero, LockNotAvailable
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from sqlalchemy.exc import DBAPIError

from checkrail.runs.graphs.fences import HELD_ALL, LOCKABLE, Fence, RunFence, current_fence
from checkrail.store.database import Tx, Writer
from checkrail.store.engines import open_engine
from checkrail.store.health import (
    AWAY,
    READ_ONLY,
    DatabaseUnavailableError,
    Health,
    find_trouble,
)

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

log = logging.getLogger("checkrail.runs")

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that a request waits for its checkpoints; a run waits for as long as it may run."""

STORE_PATIENCE = 30.0
"""Seconds that anybody waits for the store, which cannot tell runs from requests."""

_PAUSE = 0.1  # seconds
_CONNECTING = 2.0  # seconds until it is looked again for a connection that nobody has
_FROZEN = 10_000  # milliseconds after which a transaction of a frozen process is ended
_LOCKED = 0.02  # seconds until a run that somebody works on is looked at again
_FAREWELL = 10.0  # seconds until a database that does not answer is waited for no longer
_SURROGATES = re.compile("[\ud800-\udfff]")
_CUT_OFF = frozenset({"25P03", "40001", "40P01"})
"""Ends of a transaction that took too long, or that others got in the way of."""


class Patience:
    """Repeats what may safely be done twice, if the database went away meanwhile."""

    def __init__(self, pool: AsyncConnectionPool[Any], seconds: Callable[[], float]) -> None:
        self._pool = pool
        self._seconds = seconds
        self.health = Health()

    async def __call__(self, work: Callable[[], Awaitable[T]], *, writes: bool = True) -> T:
        """Do some work, once the database is there."""
        began = time.monotonic()
        while True:
            tried = time.monotonic()
            try:
                answer = await work()
            except psycopg.Error as error:
                trouble = AWAY if error.sqlstate in _CUT_OFF else find_trouble(error)
                if trouble is None or not trouble.passes:
                    raise
                if trouble is READ_ONLY:
                    await self._pool.drain()  # the way to the primary may lead elsewhere by now
                self.health.note_failure(trouble, error)
                fence = current_fence()
                patient = fence is not None and fence.patient
                if not patient and time.monotonic() - began > self._seconds():
                    raise DatabaseUnavailableError(trouble) from error
            else:
                self.health.note_success(wrote=writes, began=tried)
                return answer
            await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def open_pool(conninfo: str, size: int) -> AsyncIterator[AsyncConnectionPool[Any]]:
    """Open a pool that hands out no connection of which it is known that it is gone."""

    async def check_connection(connection: Any) -> None:
        """Check whether the server has closed a connection, without a round trip."""
        try:
            connection.pgconn.consume_input()
        except psycopg.OperationalError:
            await pool.drain()  # those that lie beside it went with it
            raise

    async def configure_connection(connection: Any) -> None:
        await connection.execute(f"SET idle_in_transaction_session_timeout = {_FROZEN}")

    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        conninfo,
        min_size=1,
        max_size=size,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        check=check_connection,
        configure=configure_connection,
        timeout=_CONNECTING,
        reconnect_timeout=_CONNECTING / 2,
        open=False,
    )
    async with pool:
        yield pool


class _CrowdError(Exception):
    """What was written together cannot be confirmed together, so that each is written alone."""


def confirm_fences(tx: Tx) -> None:
    """Raise unless all who wrote in a transaction may: the last thing before its commit."""
    fences = [*tx.fences]
    if len(fences) == 1:
        # Who else has the row is not waited for here, where others' writes would wait as well.
        query = fences[0].query.replace("FOR SHARE", "FOR SHARE NOWAIT")
        tx.run(query, fences[0].parameters)
    elif fences:
        if any(not isinstance(each, RunFence) for each in fences):
            raise _CrowdError
        held = {tuple(each.parameters.values()) for each in fences}
        run_ids, attempts, workers = zip(*held, strict=True)
        asked = {"runs": [*run_ids], "attempts": [*attempts], "workers": [*workers]}
        if tx.run(HELD_ALL, asked).fetchone() != (len(held),):
            raise _CrowdError


class _Statement(NamedTuple):
    """A statement, and the rows that it is executed for."""

    sql: str
    rows: list[tuple[Any, ...]]


class _Write:
    """A write that somebody waits for: a job of the writer."""

    __slots__ = ("_confirms", "_fence", "_statements", "has_begun", "is_awaited", "is_written")

    def __init__(
        self, statements: Sequence[_Statement], fence: Fence | None, *, confirms: bool
    ) -> None:
        self._statements = statements
        self._fence = fence
        self._confirms = confirms
        self.is_awaited = True
        self.has_begun = self.is_written = False

    @property
    def is_patient(self) -> bool:
        """Whether it waits for a database that is away for as long as it takes."""
        return self._fence is not None and self._fence.patient

    def __call__(self, tx: Tx) -> bool:
        """Execute the statements, unless nobody waits for them or the run is over."""
        fence = self._fence
        self.is_written = self.is_awaited and (fence is None or not fence.is_over())
        if not self.is_written:
            return False
        self.has_begun = True
        for sql, rows in self._statements:
            for row in rows:
                tx.run(sql, row)
        if fence is not None and self._confirms:
            tx.fences.add(fence)
        return True


class CheckpointWriter:
    """Writes the checkpoints of many runs in one commit, in which who writes is checked."""

    def __init__(self, url: str, health: Health) -> None:
        self._engine = open_engine(url)
        self._writer = Writer(
            self._engine,
            lambda _: None,
            health,
            None,
            confirm=confirm_fences,
            patience=lambda: PATIENCE,
            wrote=any,
        )
        self._cut_off: _Write | None = None  # the last that nobody waited for to its end

    async def write(
        self, statements: Sequence[_Statement], fence: Fence | None, *, confirms: bool
    ) -> None:
        """Execute statements; what nobody waits for any more is not begun with.

        Where the runs are in the same database, it `confirms` there that this one is still held.
        """
        write = _Write(statements, fence, confirms=confirms)
        while True:
            if await self._is_done(write):
                break
            await asyncio.sleep(_LOCKED)
        if not write.is_written and fence is not None:
            raise fence.refuse_write()

    async def _is_done(self, write: _Write) -> bool:
        """Carry out a write; False: somebody works on its run or its thread just now."""
        try:
            await self._writer.write(write, patient=write.is_patient)
        except asyncio.CancelledError:
            write.is_awaited = False
            if write.has_begun:
                self._cut_off = write
            raise
        except DBAPIError as error:
            if isinstance(error.orig, LockNotAvailable):
                return False
            write.is_written = False
            if not isinstance(error.orig, DivisionByZero):
                raise (error.orig or error) from None
        return True

    async def settle(self) -> None:
        """Wait for what was begun with before, though nobody waited for it to the end."""
        if (cut_off := self._cut_off) is None:
            return
        await self._writer.write(lambda _: False)
        if self._cut_off is cut_off:
            self._cut_off = None

    async def close(self) -> None:
        """Do what was asked for, and let go of the database; one that is frozen is cut off."""
        self._writer.end()
        deadline = time.monotonic() + _FAREWELL
        while self._writer.is_alive:
            if time.monotonic() > deadline:
                self._writer.cut_off()
            await asyncio.sleep(0.01)
        self._engine.dispose()


class PostgresSaver(AsyncPostgresSaver):
    """LangGraph's saver, whose writes are part of a transaction that checks who writes."""

    def __init__(self, pool: AsyncConnectionPool[Any], url: str, **options: Any) -> None:
        super().__init__(pool, **options)
        # Its lock is for a single connection; with a pool it would let one run in at a time.
        self.lock = cast("asyncio.Lock", nullcontext())
        self.patiently = Patience(pool, lambda: PATIENCE)
        self.writer = CheckpointWriter(url, self.patiently.health)
        self.has_runs = True

    async def setup(self) -> None:
        """Create the tables, and see whether the runs are in the same database."""
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
        """Open a cursor; LangGraph wants a pipeline where it writes."""
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
            raise fence.refuse_write() from None

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """List checkpoints, all read at once."""
        read = super().alist

        async def read_all() -> list[CheckpointTuple]:
            return [found async for found in read(*args, **options)]

        for found in await self.patiently(read_all, writes=False):
            yield found

    async def aget_tuple(self, *args: Any, **options: Any) -> Any:
        """Read a checkpoint."""
        await self.writer.settle()
        read = super().aget_tuple
        return await self.patiently(lambda: read(*args, **options), writes=False)

    async def aget_delta_channel_history(self, **options: Any) -> Any:
        """Read what a channel was made of."""
        read = super().aget_delta_channel_history
        return await self.patiently(lambda: read(**options), writes=False)

    async def aput(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Write a checkpoint; what it has of plain values is in it, the rest beside it."""
        asked = config["configurable"]
        place = (asked["thread_id"], asked["checkpoint_ns"])
        values = checkpoint["channel_values"]
        beside = {name: value for name, value in values.items() if not _is_plain(value)}
        shown = {
            name: True if isinstance(value, _DeltaSnapshot) else value
            for name, value in values.items()
            if name not in beside or isinstance(value, _DeltaSnapshot)
        }
        versions = {name: new_versions[name] for name in new_versions if name in beside}
        row = (
            *place,
            checkpoint["id"],
            asked.get("checkpoint_id"),
            json.dumps({**checkpoint, "channel_values": shown}),
            json.dumps(get_serializable_checkpoint_metadata(config, metadata)),
        )
        blobs = self._dump_blobs(*place, beside, versions)
        await self._write(
            _Statement(self.UPSERT_CHECKPOINT_BLOBS_SQL, [*blobs]),
            _Statement(self.UPSERT_CHECKPOINTS_SQL, [row]),
        )
        names = ("thread_id", "checkpoint_ns", "checkpoint_id")
        return {"configurable": dict(zip(names, (*place, checkpoint["id"]), strict=True))}

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Write what a task returned."""
        asked = config["configurable"]
        place = (asked["thread_id"], asked["checkpoint_ns"], asked["checkpoint_id"])
        replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        sql = self.UPSERT_CHECKPOINT_WRITES_SQL if replaces else self.INSERT_CHECKPOINT_WRITES_SQL
        rows = self._dump_writes(*place, task_id, task_path, writes)
        await self._write(_Statement(sql, [*rows]))

    async def _write(self, *statements: _Statement) -> None:
        """Execute statements in a transaction that checks who writes."""
        fence = current_fence()
        if fence is not None:
            if not self.has_runs:
                await fence.confirm()
            fence.check()
        await self.writer.write(statements, fence, confirms=self.has_runs)

    async def adelete_thread(self, *args: Any, **options: Any) -> None:
        """Delete a thread."""
        delete = super().adelete_thread
        await self.patiently(lambda: delete(*args, **options))

    async def aprune(self, *args: Any, **options: Any) -> None:
        """Forget what threads were before."""
        prune = super().aprune
        await self.patiently(lambda: prune(*args, **options))


def _is_plain(value: Any) -> bool:
    """Return whether a value is kept in the checkpoint itself, which is JSON.

    What PostgreSQL's JSON does not have is kept beside it, and so are members of a `StrEnum` and
    their like, which would come back as plain texts and numbers.
    """
    kind = type(value)
    if kind is str:
        return "\0" not in value and (value.isascii() or not _SURROGATES.search(value))
    if kind is float:
        return math.isfinite(value)
    return value is None or kind in (int, bool)


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
