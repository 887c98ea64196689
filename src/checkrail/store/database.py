"""The database: one thread that writes, a few that read, and word to others of what changed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection, Double, Engine, extract, func, literal
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.sql.elements import ColumnElement

from checkrail.engine.errors import CheckrailError
from checkrail.store.engines import open_engine

T = TypeVar("T")

_BATCH = 256
_READERS = 4
_PATIENCE = 10.0  # seconds for a database that went away to come back
_TRIES = 3
_IN_THE_WAY = {"40001", "40P01", "23505"}
"""What PostgreSQL says when another process got in between: the next time it may not."""


class StoreError(CheckrailError):
    """The database could not do what it was asked to."""


class Tx:
    """A transaction, and what is to be told to others once it is kept."""

    __slots__ = ("_cursor", "connection", "dialect", "execute", "told")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection.connection  # of the driver
        self._cursor: Any = None
        self.dialect = connection.dialect
        self.execute = connection.execute
        self.told: list[tuple[str, str]] = []

    @property
    def cursor(self) -> Any:
        """The driver's cursor, one for all statements: each costs something to make."""
        if self._cursor is None:
            self._cursor = self.connection.cursor()
        return self._cursor

    def tell(self, topic: str, key: str) -> None:
        """Say that something has changed, after the commit."""
        self.told.append((topic, key))


Reads = Connection | Tx
"""What a query is asked through."""

Job = Callable[[Tx], Any]
Told = Callable[[list[tuple[str, str]]], None]


class Waiter:
    """Somebody in a loop who waits for a write: lighter than two futures in a chain."""

    __slots__ = ("_loop", "future")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def set_result(self, answer: Any) -> None:
        """Give the answer, from any thread."""
        self._settle(self.future.set_result, answer)

    def set_exception(self, error: Exception) -> None:
        """Give the error, from any thread."""
        self._settle(self.future.set_exception, error)

    def _settle(self, settle: Callable[[Any], None], told: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, but the write is kept
            self._loop.call_soon_threadsafe(self._told, settle, told)

    def _told(self, settle: Callable[[Any], None], told: Any) -> None:
        if not self.future.done():  # whoever waited may have been cancelled
            settle(told)


Waiting = Waiter | concurrent.futures.Future[Any]


class Writer:
    """Carries out all writes of a process, one after another, many in one commit."""

    def __init__(self, engine: Engine, told: Told) -> None:
        self._engine = engine
        self._told = told
        self._jobs: queue.SimpleQueue[tuple[Job, Waiting] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="checkrail-writer", daemon=True)
        self._connection: Connection | None = None
        self.patience = _PATIENCE
        self._thread.start()

    def submit(self, job: Job) -> concurrent.futures.Future[Any]:
        """Ask for a write; its future is done after the commit."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # who stops waiting for a write does not undo it
        self._jobs.put((job, future))
        return future

    async def awaited(self, job: Job) -> Any:
        """Ask for a write and wait for its commit; who stops waiting does not undo it."""
        waiter = Waiter()
        self._jobs.put((job, waiter))
        return await waiter.future

    def close(self) -> None:
        """Do what was asked for, and end."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        more = True
        while more:
            batch = []
            item = self._jobs.get()
            while item is not None:
                batch.append(item)
                if len(batch) >= _BATCH:
                    break
                try:
                    item = self._jobs.get_nowait()
                except queue.Empty:
                    break
            more = item is not None
            if batch:
                self._carry_out(batch)
        if self._connection is not None:
            self._connection.close()

    def _carry_out(self, batch: list[tuple[Job, Waiting]], tries: int = _TRIES) -> None:
        """Commit a batch; if it fails, each job on its own, so that one cannot spoil the others."""
        try:
            answers = self._commit([job for job, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever a job raises is for who asked
            if len(batch) == 1 and not (tries > 1 and _may_pass(error)):
                batch[0][1].set_exception(error)
                return
            for item in batch:
                self._carry_out([item], tries - 1)
            return
        for (_, waiting), answer in zip(batch, answers, strict=True):
            waiting.set_result(answer)

    def _commit(self, jobs: list[Job]) -> list[Any]:
        connection = self._connected()
        tx = Tx(connection)
        try:
            with connection.begin():
                answers = [job(tx) for job in jobs]
        except DBAPIError as error:
            if error.connection_invalidated:
                self._drop()
            raise
        if tx.told:
            with contextlib.suppress(RuntimeError):  # nobody is left to hear it, but it is kept
                self._told(tx.told)
        return answers

    def _connected(self) -> Connection:
        until = time.monotonic() + self.patience
        while self._connection is None:
            try:
                self._connection = self._engine.connect()
            except OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        return self._connection

    def _drop(self) -> None:
        with contextlib.suppress(DBAPIError):
            if self._connection is not None:
                self._connection.close()
        self._connection = None


def _may_pass(error: Exception) -> bool:
    """Say whether a write that failed may go through if it is tried again."""
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state in _IN_THE_WAY


class Database:
    """A database by its URL. What is given to `write` and `read` runs in another thread.

    `told` are heard in the loop that opened it, after each commit that had something to tell.
    """

    def __init__(self, url: str, told: Told | None = None) -> None:
        self.engine = open_engine(url)
        self.postgres = self.engine.dialect.name == "postgresql"
        self._told = told
        self._writer = Writer(self.engine, self._tell)
        self._readers = concurrent.futures.ThreadPoolExecutor(_READERS, "checkrail-reader")

    async def write(self, job: Callable[[Tx], T]) -> T:
        """Carry out a write; it is kept when this returns, even if the caller is cancelled."""
        answer: T = await self._writer.awaited(job)
        return answer

    def write_soon(self, job: Callable[[Tx], T]) -> concurrent.futures.Future[T]:
        """Ask for a write from any thread."""
        return self._writer.submit(job)

    def beat(self, job: Callable[[Tx], T]) -> T:
        """Carry out a write that waits for no other, from any thread.

        Only PostgreSQL lets two write at once; SQLite's one writer is quick by itself.
        """
        if not self.postgres:
            answer: T = self._writer.submit(job).result()
            return answer
        with self.engine.begin() as connection:
            return job(Tx(connection))

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Carry out a read."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self.read_now, job)

    def read_now(self, job: Callable[[Connection], T]) -> T:
        """Carry out a read in this thread; once more if the connection turns out to be gone."""
        try:
            with self.engine.connect() as connection:
                return job(connection)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        with self.engine.connect() as connection:
            return job(connection)

    def hurry(self) -> None:
        """Wait no longer for a database that is away: this process is about to end."""
        self._writer.patience = 0.0

    def now(self) -> ColumnElement[float]:
        """Give the time that leases go by: one clock for all."""
        if self.postgres:
            return extract("epoch", func.clock_timestamp()).cast(Double)
        return literal(time.time())

    def close(self) -> None:
        """Finish what was asked for, and let go of the database."""
        self._writer.close()
        self._readers.shutdown()
        self.engine.dispose()

    def _tell(self, told: list[tuple[str, str]]) -> None:
        if self._told is not None:
            self._told(told)


@contextlib.contextmanager
def opened(url: str) -> Iterator[Database]:
    """Open a database for a while, for a command."""
    database = Database(url)
    try:
        yield database
    finally:
        database.close()
