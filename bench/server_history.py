"""Queries beside many finished runs and beside few: what is asked all the time must not grow."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter, time

from sqlalchemy import Engine, text

from checkrail.store import migrate, runs, threads
from checkrail.store.database import Tx
from checkrail.store.engines import open_engine, sqlite_url
from checkrail.store.rows import Page
from server_processes import Place, made_database

FEW, MANY = 100, 100_000
ROUNDS = 31
CALLS = 10
_RUNS_OF_THREAD = 5
_OWNER = "somebody"

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
_RUNS = """
INSERT INTO runs (run_id, thread_id, assistant_id, agent_name, owner, status, phase,
    multitask_strategy, metadata, kwargs, input, output, attempt, lost, base_seq, last_seq,
    temporary, origin, created_at, updated_at, started_at, ended_at)
{numbers}
SELECT 'run-' || i, 'thread-' || (i / :each), 'a', 'one', :owner, 'success', 'success',
    'enqueue', CAST('{{}}' AS {json}), '{{}}', '{{}}', '{{}}', 1, 0, 0, 3,
    FALSE, 'api', i, i, i, i
FROM n
"""
_THREADS = """
INSERT INTO threads (thread_id, owner, status, metadata, last_seq, temporary,
    created_at, updated_at)
{numbers}
SELECT 'thread-' || i, :owner, 'idle', CAST('{{}}' AS {json}), 0, FALSE, i, i
FROM n
"""


@dataclass(frozen=True)
class Growth:
    """What a query takes on the wall clock, in microseconds, beside few runs and beside many."""

    database: str
    query: str
    few: float
    many: float
    ratio: float


def grown(place: Place) -> list[Growth]:
    """Time the queries in turns, on two databases that differ in their history only."""
    with ExitStack() as stack:
        few, many = (stack.enter_context(_filled(place, count)) for count in (FEW, MANY))
        return [_compared(place.name, name, ask, few, many) for name, ask in QUERIES.items()]


def _claim(tx: Tx) -> None:
    assert len(runs.claim(tx, "worker", 10, time(), fits=bool)) == 1


QUERIES: dict[str, Callable[[Tx], object]] = {
    "get a run": lambda tx: runs.get(tx, "run-77"),
    "list the runs of a thread": lambda tx: runs.search(tx, thread_id="thread-1"),
    "list somebody's runs": lambda tx: runs.search(tx, owner=_OWNER),
    "list threads": lambda tx: threads.search(tx, threads.ThreadQuery(), Page()),
    "claim a run": _claim,
    "look for runs that lost their worker": lambda tx: runs.find_orphans(tx, ["dead"], "worker"),
}


def _compared(database: str, name: str, ask: Callable, few: Tx, many: Tx) -> Growth:
    samples: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(ROUNDS):
        for count, tx in ((FEW, few), (MANY, many)):
            samples[count].append(_microseconds(partial(ask, tx), tx))
    ratios = [large / small for small, large in zip(samples[FEW], samples[MANY], strict=True)]
    costs = [statistics.median(samples[count]) for count in (FEW, MANY)]
    return Growth(database, name, *costs, statistics.median(ratios))


def _microseconds(ask: Callable[[], object], tx: Tx) -> float:
    spent = 0.0
    for _ in range(CALLS):
        tx.execute(text("SAVEPOINT before_it"))
        began = perf_counter()
        ask()
        spent += perf_counter() - began
        tx.execute(text("ROLLBACK TO before_it"))
    return spent / CALLS * 1e6


@contextmanager
def _filled(place: Place, count: int) -> Iterator[Tx]:
    """A database with so many finished runs and one that is ready."""
    name = f"history_{count}"
    url = made_database(place.url, name) if place.url else sqlite_url(place.folder / f"{name}.db")
    engine = open_engine(url)
    try:
        migrate.upgrade(engine)
        _fill(engine, count)
        with engine.connect() as connection, connection.begin() as begun:
            yield Tx(connection)
            begun.rollback()
    finally:
        engine.dispose()


def _fill(engine: Engine, count: int) -> None:
    json = "JSONB" if engine.dialect.name == "postgresql" else "TEXT"
    words = {"numbers": _NUMBERS, "json": json}
    given = {"owner": _OWNER, "each": _RUNS_OF_THREAD}
    with engine.begin() as connection:
        connection.execute(text(_RUNS.format(**words)), {**given, "count": count})
        threads_of = {"owner": _OWNER, "count": max(1, count // _RUNS_OF_THREAD)}
        connection.execute(text(_THREADS.format(**words)), threads_of)
        connection.execute(text(_READY))
    with engine.connect() as connection:
        connection.execute(text("ANALYZE"))
        connection.commit()


_READY = """
UPDATE runs SET status = 'pending', phase = 'starting', ended_at = NULL
WHERE seq = (SELECT max(seq) FROM runs)
"""
