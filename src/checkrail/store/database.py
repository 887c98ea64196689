"""The database: one thread that writes, a few that read, and word to others of what changed."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import os
import queue
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import (
    Connection,
    Double,
    Engine,
    bindparam,
    delete,
    event,
    extract,
    func,
    literal,
    select,
)
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.sql.elements import ColumnElement

from checkrail.store.engines import open_engine
from checkrail.store.health import (
    AWAY,
    READ_ONLY,
    DatabaseUnavailableError,
    Health,
    Trouble,
    find_trouble,
)
from checkrail.store.tables import writers
from checkrail.times import uuid7

if TYPE_CHECKING:
    from checkrail.store.wire import Wire

T = TypeVar("T")

CHANNEL = "checkrail"
"""Where PostgreSQL tells servers of what others changed."""

_BATCH = 256
_READERS = 4
PATIENCE = 5.0  # seconds for a database that went away to come back, before requests are refused
_PAUSE = 0.1
_DROPS = 5  # connections that a batch may lose before it is taken to be the reason
_TRIES = 3
_IN_THE_WAY = {"40001", "40P01", "23505"}
"""What PostgreSQL says when another process got in between: the next time it may not."""


class Tx:
    """A transaction, and what is published to others once it is committed."""

    __slots__ = (
        "_cursor",
        "agents_version",
        "connection",
        "dialect",
        "execute",
        "fences",
        "time",
        "told",
        "wire",
    )

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float] = time.time,
        wire: Wire | None = None,
    ) -> None:
        self.connection = connection.connection  # of the driver
        self.wire = wire  # a quicker way to PostgreSQL than a cursor
        self.time = clock  # the database's, which all servers go by
        self._cursor: Any = None
        self.dialect = connection.dialect
        self.execute = connection.execute
        self.told: list[tuple[str, str]] = []
        self.agents_version: int | None = None  # see `store.agents.set_version`
        self.fences: set[Any] = set()  # what has to hold when it is committed

    @property
    def cursor(self) -> Any:
        """The driver's cursor, one for all statements: each costs something to make."""
        if self._cursor is None:
            self._cursor = self.connection.cursor()
        return self._cursor

    def run(self, sql: str, params: Any) -> Any:
        """Execute a statement of the driver's own, and return what has its answer."""
        try:
            if self.wire is not None:
                return self.wire.execute_named(sql, params)
            self.cursor.execute(sql, params)
        except Exception as error:
            raise to_dbapi_error(error, self, sql) from error
        return self.cursor

    def publish(self, topic: str, key: str) -> None:
        """Publish that something has changed, after the commit."""
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
        """Set the result, from any thread."""
        self._settle_soon(self.future.set_result, answer)

    def set_exception(self, error: Exception) -> None:
        """Set the error, from any thread."""
        self._settle_soon(self.future.set_exception, error)

    def _settle_soon(self, settle: Callable[[Any], None], told: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, but the write is kept
            self._loop.call_soon_threadsafe(self._settle_now, settle, told)

    def _settle_now(self, settle: Callable[[Any], None], told: Any) -> None:
        if not self.future.done():  # whoever waited may have been cancelled
            settle(told)


Waiting = Waiter | concurrent.futures.Future[Any]


class _Request(NamedTuple):
    """A write that was requested; a `patient` one waits for the database as long as it takes."""

    job: Job
    waiting: Waiting
    patient: bool


class Writer:
    """Carries out all writes of a process, one after another, many in one commit.

    On PostgreSQL each batch writes its number beside the process's id: should the answer to a
    COMMIT be lost, the number says whether it took place. Without a `writer_id` there are no
    numbers, and what is written has to be the same when it is written twice.

    `confirm` is asked before each commit, and raises if the transaction must not be kept. Who is
    not patient waits for `patience` seconds. `wrote` tells by the answers of the jobs of a batch
    whether anything was written: that nothing could be committed shows nothing.
    """

    def __init__(
        self,
        engine: Engine,
        told: Told,
        health: Health,
        writer_id: str | None,
        *,
        confirm: Callable[[Tx], None] | None = None,
        patience: Callable[[], float] = lambda: PATIENCE,
        wrote: Callable[[list[Any]], bool] = lambda _answers: True,
    ) -> None:
        self._engine = engine
        self._told = told
        self._health = health
        self._confirm = confirm
        self._patience = patience
        self._wrote = wrote
        self._jobs: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._put_off: collections.deque[_Request] = collections.deque()
        self._thread = threading.Thread(
            target=self._write_loop, name="checkrail-writer", daemon=True
        )
        self._connection: Connection | None = None
        self._wire: Wire | None = None
        self._batches: _Batches | None = None
        if writer_id is not None and engine.dialect.name == "postgresql":
            self._batches = _Batches(writer_id)
        self._closing = False
        self.hurried = False  # wait for nothing any more: this process is about to end
        self._thread.start()

    def submit(self, job: Job, *, patient: bool = False) -> concurrent.futures.Future[Any]:
        """Request a write; its future is done after the commit."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # who stops waiting for a write does not undo it
        self._jobs.put(_Request(job, future, patient))
        return future

    async def write(self, job: Job, *, patient: bool = False) -> Any:
        """Request a write and wait for its commit; who stops waiting does not undo it."""
        waiter = Waiter()
        self._jobs.put(_Request(job, waiter, patient))
        return await waiter.future

    def close(self) -> None:
        """Finish the writes that were requested, and end."""
        self.end()
        self._thread.join()

    def end(self) -> None:
        """Ask for the end, once all that was asked for before is done."""
        self._jobs.put(None)

    @property
    def is_alive(self) -> bool:
        """Whether it has not come to its end yet."""
        return self._thread.is_alive()

    def cut_off(self) -> None:
        """Wait no longer for a database that does not answer, and for none after it."""
        self.hurried = True
        connection, driver = self._connection, self._engine.dialect.loaded_dbapi
        if connection is None:
            return
        # A connection that another thread waits on must not be closed, but it may be shut down.
        with (
            contextlib.suppress(OSError, SQLAlchemyError, driver.Error),
            socket.socket(fileno=os.dup(connection.connection.fileno())) as shared,
        ):
            shared.shutdown(socket.SHUT_RDWR)

    def time(self) -> float:
        """Return the time by the database's clock, as far as it is known."""
        return time.time() if self._batches is None else self._batches.time()

    def _write_loop(self) -> None:
        while batch := self._next_batch():
            self._commit_batch(batch)
        if self._connection is not None:
            if self._batches is not None:
                self._batches.forget(self._connection)
            self._connection.close()

    def _next_batch(self) -> list[_Request]:
        """Wait for something to do; an empty batch says that it is time to end."""
        batch = [self._put_off.popleft() for _ in range(min(_BATCH, len(self._put_off)))]
        while len(batch) < _BATCH and not self._closing:
            try:
                item = self._jobs.get_nowait() if batch else self._jobs.get()
            except queue.Empty:
                break
            if item is None:
                self._closing = True
            else:
                batch.append(item)
        return batch

    def _commit_batch(self, batch: list[_Request], tries: int = _TRIES) -> None:
        """Commit a batch; if it fails, each job on its own, so that one cannot spoil the others."""
        drops = 0
        while batch:
            reached = False
            try:
                connection = self._connect()
                reached = True
                answers = self._commit(connection, [each.job for each in batch])
            except Exception as error:  # noqa: BLE001 - whatever a job raises is for who asked
                trouble = find_trouble(error)
                drops += reached and trouble is AWAY
                if trouble is not None and trouble.passes and drops < _DROPS:
                    self._health.note_failure(trouble, error)
                    if trouble is READ_ONLY:
                        self._forsake()  # the way to the primary may lead elsewhere by now
                    batch = self._wait_for_database(batch, trouble)
                elif len(batch) > 1:
                    for item in batch:
                        self._commit_batch([item], tries - 1)
                    return
                elif tries > 1 and _is_transient(error):
                    tries -= 1
                else:
                    batch[0].waiting.set_exception(_to_store_error(error, trouble))
                    return
            else:
                self._health.note_success(wrote=self._wrote(answers))
                for each, answer in zip(batch, answers, strict=True):
                    each.waiting.set_result(answer)
                return

    def _commit(self, connection: Connection, jobs: list[Job]) -> list[Any]:
        tx = Tx(connection, self.time, self._wire)
        committing = False
        try:
            with connection.begin() as transaction:
                if self._batches is not None:
                    self._batches.begin(tx)
                elif self._wire is not None:
                    tx.run("BEGIN", ())
                answers = [job(tx) for job in jobs]
                if self._confirm is not None:
                    self._confirm(tx)
                committing = True
                transaction.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            self._drop()
            if not (committing and self._was_committed()):
                raise
        if tx.told:
            with contextlib.suppress(RuntimeError):  # nobody is left to hear it, but it is kept
                self._told(tx.told)
        return answers

    def _was_committed(self) -> bool:
        """Look up whether a batch was committed whose answer was lost with the connection."""
        if self._batches is None:
            return False
        while True:
            try:
                return self._batches.was_committed(self._connect())
            except DBAPIError as error:
                self._drop()
                trouble = find_trouble(error)
                if trouble is None or self.hurried:
                    raise
                self._health.note_failure(trouble, error)
                self._wait_for_database([], trouble)

    def _wait_for_database(self, batch: list[_Request], trouble: Trouble) -> list[_Request]:
        """Wait a little for the database, and return those of a batch that wait on.

        Who asks meanwhile hears of it too, as soon as it has lasted for long.
        """
        while not self._jobs.empty():
            item = self._jobs.get()
            if item is None:
                self._closing = True
            else:
                self._put_off.append(item)
        waiting = self._drop_impatient(batch, trouble)
        self._put_off = collections.deque(self._drop_impatient(self._put_off, trouble))
        if waiting or not batch:
            time.sleep(_PAUSE)
        return waiting

    def _drop_impatient(self, asked: Iterable[_Request], trouble: Trouble) -> list[_Request]:
        """Refuse those that have waited for long enough, and return the others."""
        ends = self.hurried or self._closing
        late = ends or self._health.seconds_down >= self._patience()
        left = []
        for each in asked:
            if late and (ends or not each.patient):
                each.waiting.set_exception(DatabaseUnavailableError(trouble))
            else:
                left.append(each)
        return left

    def _connect(self) -> Connection:
        if self._connection is not None and self._connection.get_transaction() is not None:
            self._connection.invalidate()  # neither its commit nor its rollback went through
            self._drop()
        if self._connection is None:
            connection = self._engine.connect()
            if self._engine.dialect.name == "postgresql":  # where each is begun by ourselves
                from checkrail.store.wire import wire_of  # psycopg, which SQLite does without

                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                self._wire = wire_of(connection)
            self._connection = connection
        return self._connection

    def _forsake(self) -> None:
        """Let go of the connection for good; on SQLite another one would be no other."""
        if self._connection is not None and self._engine.dialect.name == "postgresql":
            self._connection.invalidate()
            self._drop()

    def _drop(self) -> None:
        with contextlib.suppress(DBAPIError):
            if self._connection is not None:
                self._connection.close()
        self._connection = self._wire = None


class _Batches:
    """The numbers of a writer's batches in PostgreSQL, and the database's time with each."""

    def __init__(self, writer_id: str) -> None:
        self._writer_id = uuid.UUID(writer_id)
        self._number = 0
        self._offset: float | None = None  # of the database's clock to the monotonic one

    def time(self) -> float:
        """Return the time by the database's clock, as far as it is known."""
        return time.time() if self._offset is None else time.monotonic() + self._offset

    def begin(self, tx: Tx) -> None:
        """Begin a transaction with its number, in one round trip."""
        self._number += 1
        cursor, names = tx.cursor, {"number": self._number, "writer": self._writer_id}
        try:
            while True:
                began = time.monotonic()
                cursor.execute(_BEGIN_BATCH.format(**names), prepare=False)
                cursor.nextset()
                if (found := cursor.fetchone()) is not None:
                    break
                cursor.execute(_ENTER_WRITER.format(**names), prepare=False)
        except Exception as error:
            raise to_dbapi_error(error, tx, _BEGIN_BATCH) from error
        self.set_clock(found[0], began, time.monotonic())

    def set_clock(self, told: float, began: float, ended: float) -> None:
        """Learn from the time that the database had at some moment between two of ours.

        What is known stays if that can be: an answer that was long on its way tells little.
        """
        known = told - ended if self._offset is None else self._offset
        self._offset = min(max(known, told - ended), told - began)

    def was_committed(self, connection: Connection) -> bool:
        """Return whether the last batch was committed; wait for one that is under way."""
        with connection.begin():
            found = connection.execute(_LAST_BATCH, {"writer": str(self._writer_id)}).scalar()
        return bool(found == self._number)

    def forget(self, connection: Connection) -> None:
        """Remove the number: this writer is about to end."""
        with contextlib.suppress(DBAPIError), connection.begin():
            connection.execute(_FORGET_WRITER, {"writer": str(self._writer_id)})


_BEGIN_BATCH = (
    "BEGIN; UPDATE writers SET batch = {number} WHERE writer_id = '{writer}' "
    "RETURNING extract(epoch FROM clock_timestamp())::float8"
)
_ENTER_WRITER = (  # for good, so that whoever looks for a batch waits for one that is under way
    "ROLLBACK; INSERT INTO writers (writer_id, batch, entered_at) "
    "VALUES ('{writer}', 0, extract(epoch FROM clock_timestamp()))"
)
_LAST_BATCH = (
    select(writers.c.batch).where(writers.c.writer_id == bindparam("writer")).with_for_update()
)
_FORGET_WRITER = delete(writers).where(writers.c.writer_id == bindparam("writer"))


def to_dbapi_error(error: Exception, reads: Reads, sql: str) -> Exception:
    """Return an error as SQLAlchemy would raise it: everybody here knows its kinds, no driver's.

    A connection that is lost is given up, as it would be there.
    """
    dialect = reads.dialect
    kind = dialect.loaded_dbapi.Error
    if not isinstance(error, kind):
        return error
    lost = dialect.is_disconnect(error, reads.connection.dbapi_connection, None)
    if lost:
        reads.connection.invalidate(error)
    return DBAPIError.instance(
        sql,
        None,
        error,
        kind,
        hide_parameters=True,
        connection_invalidated=lost,
        dialect=dialect,
    )


def _is_transient(error: Exception) -> bool:
    """Return whether a write that failed may go through if it is tried again."""
    if not isinstance(error, DBAPIError):
        return False
    return getattr(error.orig, "sqlstate", None) in _IN_THE_WAY


def _to_store_error(error: Exception, trouble: Trouble | None) -> Exception:
    """Return an error as callers know it: a database that is away is not their fault."""
    return error if trouble is None else DatabaseUnavailableError(trouble)


class _PoolAge:
    """Ends what a pool holds: PostgreSQL's connections are read-only for as long as they live."""

    def __init__(self, engine: Engine) -> None:
        self._number = 0
        if engine.dialect.name == "postgresql":
            event.listen(engine, "connect", self._enter)
            event.listen(engine, "checkout", self._check)

    def end(self) -> None:
        """Have each connection that was opened until now replaced before it is used again."""
        self._number += 1

    def _enter(self, _connection: object, record: Any) -> None:
        record.info["age"] = self._number

    def _check(self, _connection: object, record: Any, _proxy: object) -> None:
        if record.info["age"] != self._number:
            raise DisconnectionError


class Database:
    """A database by its URL. What is given to `write` and `read` runs in another thread.

    `told` are heard in the loop that opened it, after each commit that had something to tell.
    `writer_id` is the id of the worker whose writes these are, where it is one.
    """

    def __init__(self, url: str, told: Told | None = None, *, writer_id: str | None = None) -> None:
        self.engine = open_engine(url)
        self.postgres = self.engine.dialect.name == "postgresql"
        self._pool_age = _PoolAge(self.engine)
        self.health = Health()
        self._told = told
        self._writer = Writer(self.engine, self._publish, self.health, writer_id or uuid7())
        self._readers = concurrent.futures.ThreadPoolExecutor(_READERS, "checkrail-reader")
        self.time = self._writer.time

    async def write(self, job: Callable[[Tx], T], *, patient: bool = False) -> T:
        """Carry out a write; it is committed when this returns, even if the caller is cancelled.

        While the database is away it waits for a while, or if it is `patient` for as long as it
        takes; then `DatabaseUnavailableError` is raised.
        """
        answer: T = await self._writer.write(job, patient=patient)
        return answer

    def write_soon(
        self, job: Callable[[Tx], T], *, patient: bool = False
    ) -> concurrent.futures.Future[T]:
        """Request a write from any thread."""
        return self._writer.submit(job, patient=patient)

    def write_at_once(self, job: Callable[[Tx], T]) -> T:
        """Carry out a write that waits for no other, from any thread; it may be done twice.

        Only PostgreSQL lets two write at once; SQLite's one writer is quick by itself.
        """
        if not self.postgres:
            answer: T = self._writer.submit(job).result()
            return answer

        def run_write() -> T:
            with self.engine.begin() as connection:
                return job(Tx(connection, self.time))

        return self._repeat_until_reached(run_write, wrote=True)

    async def read(self, job: Callable[[Connection], T], *, patient: bool = False) -> T:
        """Carry out a read; while the database is away it waits as a write does."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await loop.run_in_executor(self._readers, self.read_now, job)
            except DatabaseUnavailableError as error:
                if not patient or self._writer.hurried or not error.trouble.passes:
                    raise
            await asyncio.sleep(5 * _PAUSE)

    def read_now(self, job: Callable[[Connection], T]) -> T:
        """Carry out a read in this thread, again if the connection turns out to be gone."""

        def run_read() -> T:
            with self.engine.connect() as connection:
                return job(connection)

        return self._repeat_until_reached(run_read)

    def _repeat_until_reached(self, work: Callable[[], T], *, wrote: bool = False) -> T:
        """Do something that can be done again, until the database has been away for a while."""
        while True:
            try:
                answer = work()
            except (DBAPIError, PoolTimeoutError) as error:
                trouble = find_trouble(error)
                if trouble is None:
                    raise
                known = self.health.trouble is not None
                self.health.note_failure(trouble, error)
                if trouble is READ_ONLY:
                    self._pool_age.end()
                late = self._writer.hurried or self.health.seconds_down >= PATIENCE
                if late or not trouble.passes:
                    raise DatabaseUnavailableError(trouble) from error
                if known:
                    time.sleep(_PAUSE)
            else:
                self.health.note_success(wrote=wrote)
                return answer

    def end_waiting(self) -> None:
        """Wait no longer for a database that is away: this process is about to end."""
        self._writer.hurried = True

    def now(self) -> ColumnElement[float]:
        """Return the time that leases go by, as the database has it: one clock for all."""
        if self.postgres:
            return extract("epoch", func.clock_timestamp()).cast(Double)
        return literal(time.time())

    def close(self) -> None:
        """Finish what was requested, and close the database."""
        self._writer.close()
        self._readers.shutdown()
        self.engine.dispose()

    def _publish(self, told: list[tuple[str, str]]) -> None:
        if self._told is not None:
            self._told(told)


@contextlib.contextmanager
def open_database(url: str) -> Iterator[Database]:
    """Open a database for a while, for a command."""
    database = Database(url)
    try:
        yield database
    finally:
        database.close()
