"""LangGraph's saver on SQLite: fenced, and what runs ask for at a time done in one commit."""
# ruff: noqa: S608 - what is put together here are names of columns; values are parameters

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

import aiosqlite
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from checkrail.runs.graphs.fences import Fence, FencedLock, current_fence, set_fence

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

T = TypeVar("T")

_FIELDS = "checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
_PLACE = "thread_id = ? AND checkpoint_ns = ?"
_READ = f"SELECT {_FIELDS} FROM checkpoints WHERE {_PLACE}"
_READ_LATEST = f"{_READ} ORDER BY checkpoint_id DESC LIMIT 1"
_READ_ONE = f"{_READ} AND checkpoint_id = ?"
_READ_WRITES = (
    "SELECT task_id, channel, type, value, task_path, idx FROM writes "
    f"WHERE {_PLACE} AND checkpoint_id = ?"
)
_PUT = (
    f"INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_ns, {_FIELDS}) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_PUT_WRITE = (
    "INSERT OR {} INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, "
    "idx, channel, type, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

Work = Callable[[sqlite3.Connection], Any]


class Connection(aiosqlite.Connection):
    """A connection whose thread also takes work of several statements."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work in the thread of the connection, all of it before anything else."""
        done = self._execute(work, self._conn)  # type: ignore[no-untyped-call]
        return cast("T", await done)

    async def __aenter__(self) -> Self:
        """Open it."""
        await super().__aenter__()
        return self


def connect(path: str, **options: Any) -> Connection:
    """Return a connection to a file, which is opened when it is entered."""
    return Connection(partial(sqlite3.connect, path, **options), iter_chunk_size=64)


class _Asked(NamedTuple):
    """Some work that somebody waits for."""

    work: Work
    fence: Fence | None
    answer: asyncio.Future[Any]

    def is_dropped(self) -> bool:
        """Return whether it is not to be done: nobody waits for it, or its run is over."""
        if self.answer.done():
            return True
        if self.fence is None or not self.fence.is_over():
            return False
        self.answer.set_exception(self.fence.refuse_write())
        return True


class SqliteSaver(AsyncSqliteSaver):
    """LangGraph's saver, which does what was asked for meanwhile in one go and one commit."""

    def __init__(self, connection: Connection, **options: Any) -> None:
        super().__init__(connection, **options)
        self.lock = FencedLock()
        self._connection = connection
        self._asked: list[_Asked] = []
        self._working: asyncio.Task[None] | None = None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint."""
        if not self._has_task_path:  # a read-only file of an older version
            return await super().aget_tuple(config)
        asked = config["configurable"]
        place = (str(asked["thread_id"]), asked.get("checkpoint_ns", ""))
        checkpoint_id = get_checkpoint_id(config)

        def read(connection: sqlite3.Connection) -> tuple[Any, list[Any]] | None:
            if checkpoint_id:
                found = connection.execute(_READ_ONE, (*place, checkpoint_id)).fetchone()
            else:
                found = connection.execute(_READ_LATEST, place).fetchone()
            if found is None:
                return None
            return found, connection.execute(_READ_WRITES, (*place, str(found[0]))).fetchall()

        kept = await self._do(read)
        return None if kept is None else self._load(config, place, *kept)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Any,
        metadata: Any,
        new_versions: Any,  # noqa: ARG002 - a checkpoint is kept whole here
    ) -> RunnableConfig:
        """Write a checkpoint."""
        asked = config["configurable"]
        told = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False)
        row = (
            str(asked["thread_id"]),
            asked["checkpoint_ns"],
            checkpoint["id"],
            asked.get("checkpoint_id"),
            *self.serde.dumps_typed(checkpoint),
            told.encode("utf-8", "ignore"),
        )
        await self._do(lambda connection: connection.execute(_PUT, row).close())
        return _place(asked["thread_id"], asked["checkpoint_ns"], checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Write what a task gave."""
        asked = config["configurable"]
        names = ("thread_id", "checkpoint_ns", "checkpoint_id")
        place = tuple(str(asked[name]) for name in names)
        rows = [
            (
                *place,
                task_id,
                task_path,
                WRITES_IDX_MAP.get(channel, number),
                channel,
                *self.serde.dumps_typed(value),
            )
            for number, (channel, value) in enumerate(writes)
        ]
        replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        put = _PUT_WRITE.format("REPLACE" if replaces else "IGNORE")
        await self._do(lambda connection: connection.executemany(put, rows).close())

    async def finish(self) -> None:
        """Do what was asked for: the connection is about to be closed."""
        if self._working is not None:
            await asyncio.wait([self._working])

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work together with what others ask for, and return what it gave."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._asked.append(_Asked(work, current_fence(), answer))
        if self._working is None:
            self._working = loop.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        """Do what is asked for until nothing is; each who asked hears how it went for him."""
        set_fence(None)  # whoever asked first may have one; each work has its own
        try:
            while self._asked:
                async with self.lock:
                    asked, self._asked = self._asked, []
                    asked = [each for each in asked if not each.is_dropped()]
                    answers = await self._do_all([each.work for each in asked])
                for each, answer in zip(asked, answers, strict=True):
                    if each.answer.done():
                        continue
                    if isinstance(answer, Exception):
                        each.answer.set_exception(answer)
                    else:
                        each.answer.set_result(answer)
        finally:
            self._working = None

    async def _do_all(self, works: list[Work]) -> list[Any]:
        try:
            return await self._connection.run(partial(_do_all, works)) if works else []
        except Exception as error:  # noqa: BLE001 - there is no connection any more
            return [error] * len(works)

    def _load(
        self, config: RunnableConfig, place: tuple[str, str], found: Any, writes: list[Any]
    ) -> CheckpointTuple:
        checkpoint_id, parent_id, kind, checkpoint, metadata = found
        writes.sort(key=lambda row: writes_sort_key(row[4], row[0], row[5]))
        named = bool(get_checkpoint_id(config))
        return CheckpointTuple(
            config if named else _place(*place, checkpoint_id),
            self.serde.loads_typed((kind, checkpoint)),
            json.loads(metadata) if metadata is not None else {},
            _place(*place, parent_id) if parent_id else None,
            [(row[0], row[1], self.serde.loads_typed((row[2], row[3]))) for row in writes],
        )


def _do_all(works: Sequence[Work], connection: sqlite3.Connection) -> list[Any]:
    """Do several works in one commit; if it fails, each on its own. An error is an answer too."""
    try:
        answers = [work(connection) for work in works]
        connection.commit()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is for who asked
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()
        if len(works) == 1:
            return [error]
        return [answer for work in works for answer in _do_all([work], connection)]
    return answers


def _place(thread_id: Any, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    found = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, "checkpoint_id": checkpoint_id}
    return {"configurable": found}


@contextlib.asynccontextmanager
async def open_saver(connection: Connection, serde: Any) -> AsyncIterator[SqliteSaver]:
    """Open the saver on a connection, with its tables made."""
    saver = SqliteSaver(connection, serde=serde)
    await saver.setup()
    try:
        yield saver
    finally:
        await saver.finish()
