"""What the official savers cannot do with a thread: copy it, take back a run, keep its end only.

Where there is no saver, for a project without graphs, nothing was kept of any thread.
"""
# ruff: noqa: S608 - what is put together here are names of tables; values are parameters

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

from checkrail.engine.containment import contain_errors
from checkrail.runs.graphs.fences import FencedLock, current_fence

P = ParamSpec("P")
T = TypeVar("T")
Rows: TypeAlias = list[tuple[Any, ...]]
Execute: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Rows]]

_PARAMETER = re.compile(r"(?<!:):(\w+)")
_HELD = "__held__"


@dataclass(frozen=True, slots=True)
class _Tables:
    """The names of a saver's tables, and the SQL for the run of a checkpoint."""

    writes: str
    value: str
    run: str
    names: tuple[str, ...]

    @property
    def columns(self) -> str:
        """What a write has, beside its thread and its namespace."""
        return f"checkpoint_id, task_id, task_path, idx, channel, type, {self.value}"


_RUN = "json_extract(CAST(metadata AS TEXT), '$.run_id')"
_SQLITE = _Tables("writes", "value", _RUN, ("checkpoints", "writes"))
_POSTGRES = _Tables(
    "checkpoint_writes",
    "blob",
    "metadata ->> 'run_id'",
    ("checkpoints", "checkpoint_writes", "checkpoint_blobs"),
)
_COPIED = {
    "checkpoints": "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
    "writes": f"checkpoint_ns, {_SQLITE.columns}",
    "checkpoint_writes": f"checkpoint_ns, {_POSTGRES.columns}",
    "checkpoint_blobs": "checkpoint_ns, channel, version, type, blob",
}
_SIZES = {
    "checkpoints": "length(checkpoint) + length(metadata)",
    "writes": "length(value)",
    "checkpoint_writes": "octet_length(blob)",
    "checkpoint_blobs": "octet_length(blob)",
}
_SIZES_POSTGRES = {**_SIZES, "checkpoints": "pg_column_size(checkpoint) + pg_column_size(metadata)"}
_FREED = f"""
WITH gone AS (
    DELETE FROM checkpoints WHERE thread_id = :thread AND {_POSTGRES.run} = :run
    RETURNING checkpoint_ns, checkpoint -> 'channel_versions' AS versions
), freed AS (
    SELECT checkpoint_ns, v.key, v.value FROM gone, jsonb_each_text(versions) AS v
    EXCEPT
    SELECT checkpoint_ns, v.key, v.value
    FROM checkpoints, jsonb_each_text(checkpoint -> 'channel_versions') AS v
    WHERE thread_id = :thread AND {_POSTGRES.run} IS DISTINCT FROM :run
)
DELETE FROM checkpoint_blobs b USING freed
WHERE b.thread_id = :thread AND b.checkpoint_ns = freed.checkpoint_ns
AND b.channel = freed.key AND b.version = freed.value
"""


def _patiently(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Repeat work that may safely be done twice if its database went away meanwhile."""

    @wraps(work)
    async def run_patiently(*args: P.args, **options: P.kwargs) -> T:
        patiently = getattr(args[0], "patiently", None)
        if patiently is None:
            with contain_errors():  # it is the project's own saver
                return await work(*args, **options)
        return cast("T", await patiently(lambda: work(*args, **options)))

    return run_patiently


async def copy_thread(saver: Any, source: str, target: str) -> None:
    """Copy the whole history of a thread to a new one."""
    if saver is None:
        return
    if not _has_tables(saver):
        await _call_optional(saver, "acopy_thread", source, target)
        return
    async with _open_transaction(saver) as (execute, tables):
        for table in tables.names:
            columns = _COPIED[table]
            await execute(
                f"INSERT INTO {table} (thread_id, {columns}) "
                f"SELECT :target, {columns} FROM {table} WHERE thread_id = :source",
                {"source": source, "target": target},
            )


async def stored_size(saver: Any, thread_id: str) -> int:
    """Return how many bytes are kept of a thread; nobody knows for a project's own saver."""
    if saver is None or not _has_tables(saver):
        return 0
    async with _open_transaction(saver) as (execute, tables):
        sizes = _SIZES_POSTGRES if tables is _POSTGRES else _SIZES
        sums = [
            f"SELECT sum({sizes[name]}) FROM {name} WHERE thread_id = :thread"
            for name in tables.names
        ]
        found = [await execute(each, {"thread": thread_id}) for each in sums]
    return sum(int(rows[0][0] or 0) for rows in found)


@_patiently
async def delete_thread(saver: Any, *thread_ids: str) -> None:
    """Delete all that is kept of a thread, or of several at once."""
    if saver is None:
        return
    if not _has_tables(saver):
        for thread_id in thread_ids:
            await saver.adelete_thread(thread_id)
        return
    kept = [kept for each in thread_ids for kept in (each, _query_parameters(each)["held"])]
    asked = {f"kept{number}": each for number, each in enumerate(kept)}
    names = ", ".join(f":{name}" for name in asked)
    async with _open_transaction(saver) as (execute, tables):
        for table in tables.names:
            await execute(f"DELETE FROM {table} WHERE thread_id IN ({names})", asked)


@_patiently
async def latest_of_run(saver: Any, thread_id: str, run_id: str) -> dict[str, str] | None:
    """Find the last checkpoint that a run has left: where it can be taken up after a crash."""
    if not _has_tables(saver):
        place = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        kept = saver.alist(place, filter={"run_id": run_id}, limit=1)
        return await anext((found.config["configurable"] async for found in kept), None)
    async with _open_transaction(saver) as (execute, tables):
        found = await execute(
            f"SELECT checkpoint_id FROM checkpoints WHERE thread_id = :thread "
            f"AND checkpoint_ns = '' AND {tables.run} = :run ORDER BY checkpoint_id DESC LIMIT 1",
            _query_parameters(thread_id, run_id),
        )
    if not found:
        return None
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": found[0][0]}


@_patiently
async def hold_head(saver: Any, thread_id: str, run_id: str) -> None:
    """Store what stands at a thread's end, before a run that continues there writes to it.

    A run that resumes adds its answers and results to a checkpoint of the run before; without
    this nobody could tell afterwards whose they were. A run's second attempt keeps the first hold.
    """
    if not _has_tables(saver):
        return
    async with _open_transaction(saver) as (execute, tables):
        asked = _query_parameters(thread_id, run_id)
        head = await _find_head(execute, thread_id)
        if head is None or await _find_held(execute, tables, asked):
            return
        await execute(f"DELETE FROM {tables.writes} WHERE thread_id = :held", asked)
        await execute(
            f"INSERT INTO {tables.writes} (thread_id, checkpoint_ns, {tables.columns}) "
            f"SELECT :held, :run || '|' || checkpoint_ns, {tables.columns} FROM {tables.writes} "
            "WHERE thread_id = :thread AND checkpoint_id >= :head",
            {**asked, "head": head},
        )
        await execute(
            f"INSERT INTO {tables.writes} (thread_id, checkpoint_ns, {tables.columns}) "
            f"VALUES (:held, :run, :head, '', '', 0, '{_HELD}', '', :nothing)",
            {**asked, "head": head, "nothing": b""},
        )


@_patiently
async def restore_head(saver: Any, thread_id: str, run_id: str) -> None:
    """Undo what a run wrote before its first checkpoint, so that it can begin again."""
    if not _has_tables(saver):
        return
    async with _open_transaction(saver) as (execute, tables):
        await _restore_writes(execute, tables, _query_parameters(thread_id, run_id))


@_patiently
async def delete_run(saver: Any, thread_id: str, run_id: str) -> None:
    """Take a run back: its thread is as it was before."""
    if saver is None:
        return
    if not _has_tables(saver):
        await _call_optional(saver, "adelete_for_runs", [run_id])
        return
    asked = _query_parameters(thread_id, run_id)
    async with _open_transaction(saver) as (execute, tables):
        if tables is _POSTGRES:
            await execute(_FREED, asked)
        else:
            taken = f"DELETE FROM checkpoints WHERE thread_id = :thread AND {tables.run} = :run"
            await execute(taken, asked)
        await _restore_writes(execute, tables, asked)
        await _delete_stray_writes(execute, tables, asked)


async def prune_threads(saver: Any, thread_ids: Iterable[str], *, keep_latest: bool = True) -> None:
    """Forget the history of threads but their latest state, or everything."""
    if saver is None:
        return
    threads = [str(thread_id) for thread_id in thread_ids]
    if not keep_latest:
        for thread_id in threads:
            await delete_thread(saver, thread_id)
    elif not _has_tables(saver):
        await _call_optional(saver, "aprune", threads, strategy="keep_latest")
    elif _tables_of(saver) is _POSTGRES:
        await saver.aprune(threads, strategy="keep_latest")
    else:
        for thread_id in threads:
            await _prune_sqlite(saver, thread_id)


async def _prune_sqlite(saver: Any, thread_id: str) -> None:
    async with _open_transaction(saver) as (execute, tables):
        await _refuse_deltas(execute, thread_id)
        asked = {"thread": thread_id, "head": await _find_head(execute, thread_id)}
        for statement in (_OLDER, _CALLS, _ALONE):
            await execute(statement, asked)
        await _delete_stray_writes(execute, tables, asked)


_METADATA = "json_extract(CAST(metadata AS TEXT), '{}')"
_OLDER = """
DELETE FROM checkpoints WHERE thread_id = :thread AND checkpoint_id < (
    SELECT max(checkpoint_id) FROM checkpoints AS latest
    WHERE latest.thread_id = :thread AND latest.checkpoint_ns = checkpoints.checkpoint_ns
)
"""
# A subgraph's call, which has the id of its task after a colon, goes with its root checkpoint.
_CALLS = f"""
DELETE FROM checkpoints WHERE thread_id = :thread AND instr(checkpoint_ns, ':') > 0
AND {_METADATA.format('$.parents.""')} <> :head
"""
_ALONE = "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE thread_id = :thread"


async def _refuse_deltas(execute: Execute, thread_id: str) -> None:
    """Refuse threads whose latest state is spread over their history."""
    counters = _METADATA.format("$.counters_since_delta_snapshot")
    found = await execute(
        f"SELECT 1 FROM checkpoints WHERE thread_id = :thread AND {counters} IS NOT NULL LIMIT 1",
        {"thread": thread_id},
    )
    if found:
        raise NotImplementedError(
            f"Thread {thread_id} cannot be pruned: its graph has a DeltaChannel, which reads its "
            "value from older checkpoints. Delete the thread, or keep it"
        )


async def _delete_stray_writes(execute: Execute, tables: _Tables, asked: Mapping[str, Any]) -> None:
    await execute(
        f"DELETE FROM {tables.writes} WHERE thread_id = :thread AND NOT EXISTS ("
        f"SELECT 1 FROM checkpoints AS c WHERE c.thread_id = {tables.writes}.thread_id "
        f"AND c.checkpoint_ns = {tables.writes}.checkpoint_ns "
        f"AND c.checkpoint_id = {tables.writes}.checkpoint_id)",
        asked,
    )


async def _restore_writes(execute: Execute, tables: _Tables, asked: Mapping[str, Any]) -> None:
    head = await _find_held(execute, tables, asked)
    if head is None or head != await _find_head(execute, asked["thread"]):
        return
    known = {**asked, "head": head, "skip": len(asked["run"]) + 2}
    await execute(
        f"DELETE FROM {tables.writes} WHERE thread_id = :thread AND checkpoint_id >= :head", known
    )
    await execute(
        f"INSERT INTO {tables.writes} (thread_id, checkpoint_ns, {tables.columns}) "
        f"SELECT :thread, substr(checkpoint_ns, :skip), {tables.columns} FROM {tables.writes} "
        f"WHERE thread_id = :held AND channel <> '{_HELD}'",
        known,
    )


async def _find_held(execute: Execute, tables: _Tables, asked: Mapping[str, Any]) -> str | None:
    found = await execute(
        f"SELECT checkpoint_id FROM {tables.writes} WHERE thread_id = :held "
        f"AND checkpoint_ns = :run AND channel = '{_HELD}'",
        asked,
    )
    return found[0][0] if found else None


async def _find_head(execute: Execute, thread_id: str) -> str | None:
    found = await execute(
        "SELECT checkpoint_id FROM checkpoints WHERE thread_id = :thread AND checkpoint_ns = '' "
        "ORDER BY checkpoint_id DESC LIMIT 1",
        {"thread": thread_id},
    )
    return found[0][0] if found else None


def _query_parameters(thread_id: str, run_id: str = "") -> dict[str, str]:
    return {"thread": thread_id, "held": f"before:{thread_id}", "run": run_id}


def _has_tables(saver: Any) -> bool:
    """Return whether a saver has tables that are known here; of others only the methods are."""
    from langgraph.checkpoint.postgres.base import BasePostgresSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    return isinstance(saver, (BasePostgresSaver, AsyncSqliteSaver))


async def _call_optional(saver: Any, name: str, *args: Any, **options: Any) -> None:
    """Call a method that not every saver has; the error of one that lacks it names it."""
    try:
        with contain_errors():
            await getattr(saver, name)(*args, **options)
    except NotImplementedError:
        raise NotImplementedError(
            f"The checkpointer of this project, {type(saver).__name__}, has no `{name}`. "
            "Add it, or use LangGraph's saver for PostgreSQL or SQLite"
        ) from None


def _tables_of(saver: Any) -> _Tables:
    from langgraph.checkpoint.postgres.base import BasePostgresSaver

    return _POSTGRES if isinstance(saver, BasePostgresSaver) else _SQLITE


@asynccontextmanager
async def _open_transaction(saver: Any) -> AsyncIterator[tuple[Execute, _Tables]]:
    tables = _tables_of(saver)
    fence = current_fence()
    if fence is not None and not _checks_fence(saver):
        await fence.confirm()
    if (writer := getattr(saver, "writer", None)) is not None:
        await writer.settle()
    opened = _postgres_transaction(saver) if tables is _POSTGRES else _sqlite_transaction(saver)
    async with opened as execute:
        yield execute, tables


def _checks_fence(saver: Any) -> bool:
    """Return whether a saver checks who writes as a part of each write."""
    return getattr(saver, "has_runs", isinstance(getattr(saver, "lock", None), FencedLock))


@asynccontextmanager
async def _sqlite_transaction(saver: Any) -> AsyncIterator[Execute]:
    async with saver.lock, saver.conn.cursor() as cursor:

        async def execute(sql: str, parameters: Mapping[str, Any]) -> Rows:
            await cursor.execute(sql, parameters)
            return [*await cursor.fetchall()]

        try:
            yield execute
        except BaseException:
            await saver.conn.rollback()
            raise
        await saver.conn.commit()


@asynccontextmanager
async def _postgres_connection(saver: Any) -> AsyncIterator[Any]:
    """Open a connection of a saver's pool, or wait for the only one that it has."""
    from psycopg import AsyncConnection

    if isinstance(saver.conn, AsyncConnection):
        async with saver.lock:
            yield saver.conn
    else:
        async with saver.conn.connection() as connection:
            yield connection


@asynccontextmanager
async def _postgres_transaction(saver: Any) -> AsyncIterator[Execute]:
    from psycopg.errors import DivisionByZero
    from psycopg.rows import tuple_row

    async with _postgres_connection(saver) as connection, connection.transaction():
        cursor = connection.cursor(row_factory=tuple_row)

        async def execute(sql: str, parameters: Mapping[str, Any]) -> Rows:
            await cursor.execute(_PARAMETER.sub(r"%(\1)s", sql), parameters, prepare=False)
            return await cursor.fetchall() if cursor.description else []

        yield execute
        fence = current_fence()
        if fence is not None and _checks_fence(saver):
            try:
                await cursor.execute(fence.query, fence.parameters)
            except DivisionByZero:
                raise fence.refuse_write() from None
