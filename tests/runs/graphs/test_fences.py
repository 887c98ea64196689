"""Checkpoints that are written by who has the run, and by nobody else."""

import asyncio
from typing import Annotated, TypedDict

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from checkrail.runs.errors import ConflictError
from checkrail.runs.graphs import thread_rows
from checkrail.runs.graphs.checkpoints import (
    is_postgres,
    open_checkpointer,
    open_own_checkpointer,
)
from checkrail.runs.graphs.fences import HELD, RunFence, StaleRunError, ThreadFence, hold_fence

from .support_graphs import at, chain, greet

RUNS = """
CREATE TABLE runs (run_id text PRIMARY KEY, attempt int, worker_id text, ended_at float8);
INSERT INTO runs VALUES ('run', 1, 'me', NULL)
"""
THREADS = """
CREATE TABLE threads (thread_id text PRIMARY KEY, last_seq int, status text);
INSERT INTO threads VALUES ('t', 7, 'idle')
"""
TAKEN = "UPDATE runs SET worker_id = 'other', attempt = 2"
ENDED = "UPDATE runs SET worker_id = NULL, ended_at = 1"


class Hands:
    """A run in the hands of this process, until somebody else takes it."""

    def __init__(self, database):
        self._database = database
        self.over = self.stopped = False
        self.asked = 0
        self.change(RUNS)

    def change(self, query):
        """Change who has the run: in the database, or as this process knows it."""
        if is_postgres(self._database):
            with psycopg.connect(self._database, autocommit=True) as connection:
                connection.execute(query)
        else:
            self.over = query != RUNS

    async def _held(self):
        self.asked += 1
        return not self.over

    def _stop(self):
        self.stopped = True

    def fence(self):
        return hold_fence(RunFence("run", 1, "me", lambda: self.over, self._held, self._stop))


@pytest.fixture
def hands(database):
    return Hands(database)


@pytest.fixture
async def saver(database, hands):
    async with open_checkpointer(database) as opened:
        yield opened


def state_of(join):
    return TypedDict("Said", {"said": Annotated[list[str], join], "count": int})


async def ids(saver):
    return [found.config["configurable"]["checkpoint_id"] async for found in saver.alist(at("t"))]


async def put(saver, after=None):
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"said": ["hello"], "count": 1}
    checkpoint["channel_versions"] = {"said": "1", "count": "1"}
    config = after or {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    return await saver.aput(config, checkpoint, {"run_id": "run"}, {"said": "1", "count": "1"})


async def test_who_has_the_run_writes(saver, hands):
    with hands.fence():
        config = await put(saver)
        await saver.aput_writes(config, [("said", ["more"])], "task")
        await thread_rows.hold_head(saver, "t", "run")
    found = await saver.aget_tuple(config)
    assert found.checkpoint["channel_values"]["said"] == ["hello"]
    assert found.pending_writes == [("task", "said", ["more"])]
    assert hands.asked == 0  # the write itself is the check


WRITES = {
    "put": put,
    "put_writes": lambda saver, config: saver.aput_writes(config, [("said", ["more"])], "task"),
    "delete": lambda saver, config: saver.adelete_thread("t"),
    "delete of threads": lambda saver, config: thread_rows.delete_thread(saver, "t"),
    "delete of a run": lambda saver, config: thread_rows.delete_run(saver, "t", "run"),
    "copy": lambda saver, config: thread_rows.copy_thread(saver, "t", "u"),
    "hold": lambda saver, config: thread_rows.hold_head(saver, "t", "run"),
    "put_back": lambda saver, config: thread_rows.restore_head(saver, "t", "run"),
    "put from a thread": lambda saver, config: asyncio.to_thread(
        saver.put_writes, config, [("said", ["more"])], "task"
    ),
}


@pytest.mark.parametrize("change", [TAKEN, ENDED], ids=["taken", "ended"])
async def test_a_stale_write_raises_and_changes_nothing(saver, hands, change):
    config = await put(saver)
    before = await ids(saver)
    hands.change(change)
    for name, write in WRITES.items():
        hands.stopped = False
        with hands.fence(), pytest.raises(StaleRunError, match="attempt 1 at the run 'run'"):
            await write(saver, config)
        await asyncio.sleep(0)
        assert hands.stopped, name
        assert await ids(saver) == before, name
        assert (await saver.aget_tuple(config)).pending_writes == [], name
        assert await saver.aget_tuple(at("u")) is None, name
    await put(saver, config)  # nobody's run: a request's write goes on as ever
    assert len(await ids(saver)) == 2


async def test_a_graph_stops_at_its_next_step_once_its_run_is_taken(saver, hands):
    async def lose(state):
        hands.change(TAKEN)

    called = []

    async def go_on(state):
        called.append(state)

    graph = chain(greet, lose, go_on, checkpointer=saver)
    with hands.fence(), pytest.raises(StaleRunError):
        await graph.ainvoke({"said": []}, at("t"), durability="sync")
    assert called == []
    assert (await saver.aget_tuple(at("t"))).metadata["step"] == 1  # after `greet`


class CutOffError(Exception):
    pass


@pytest.fixture
async def on_postgres(postgres):
    """A saver on PostgreSQL only, and who has the run there."""
    url = postgres.fresh()
    hands = Hands(url)
    async with open_checkpointer(url) as opened:
        yield opened, hands
    postgres.drop(url)


async def test_a_write_that_is_cut_off_is_not_kept_unchecked(on_postgres):
    saver, hands = on_postgres
    config = await put(saver)
    hands.change(TAKEN)

    async def cut_off():
        async with saver._cursor(pipeline=True) as cursor:
            await cursor.execute("DELETE FROM checkpoints")
            raise CutOffError

    with hands.fence(), pytest.raises(CutOffError):
        await cut_off()
    assert await saver.aget_tuple(config) is not None


async def test_a_run_cannot_be_taken_between_the_check_of_a_write_and_its_commit(on_postgres):
    saver, hands = on_postgres
    with hands.fence():
        async with saver._cursor(pipeline=True) as cursor:
            await asyncio.to_thread(hands.change, TAKEN)  # before the check: nobody waits
            hands.change("UPDATE runs SET worker_id = 'me', attempt = 1")
            await cursor.execute("SELECT 1")
    async with saver._cursor() as cursor, cursor.connection.transaction():
        await cursor.execute(HELD, {"run": "run", "attempt": 1, "worker": "me"})
        taking = asyncio.ensure_future(asyncio.to_thread(hands.change, TAKEN))
        await asyncio.wait({taking}, timeout=0.3)
        assert not taking.done()
    await taking


@pytest.mark.parametrize("meanwhile", ["last_seq = 9", "status = 'busy'"])
async def test_a_request_does_not_write_to_a_thread_that_a_run_came_to(on_postgres, meanwhile):
    saver, hands = on_postgres
    hands.change(THREADS)
    said = []

    def join(before, new):
        if "late" in new:
            said.append(new)
            hands.change(f"UPDATE threads SET {meanwhile}")  # while the request is under way
        return before + new

    graph = chain(greet, state=state_of(join), checkpointer=saver)
    await graph.ainvoke({"said": []}, at("t"))
    with hold_fence(ThreadFence("t", 7)):
        await graph.aupdate_state(at("t"), {"said": ["early"]})
        before = await ids(saver)
        with pytest.raises(ConflictError, match="a run came to the thread 't'"):
            await graph.aupdate_state(at("t"), {"said": ["late"]})
    assert said
    assert await ids(saver) == before
    assert (await graph.aget_state(at("t"))).values["said"] == ["hello", "early"]


async def test_where_the_runs_are_elsewhere_each_write_is_asked_about_first(postgres, caplog):
    url = postgres.fresh()
    hands = Hands(":memory:")
    async with open_checkpointer(url) as saver:
        assert 'relation "runs" does not exist' in caplog.text
        with hands.fence():
            config = await put(saver)
            await thread_rows.hold_head(saver, "t", "run")
            assert hands.asked == 2
            hands.over = True
            for write in (put(saver, config), thread_rows.delete_thread(saver, "t")):
                with pytest.raises(StaleRunError):
                    await write
        assert len(await ids(saver)) == 1
    postgres.drop(url)


async def test_a_checkpointer_of_the_projects_own_is_asked_about_before_each_write():
    hands = Hands(":memory:")
    async with open_own_checkpointer(InMemorySaver) as saver:
        assert type(saver) is InMemorySaver
        with hands.fence():
            config = await put(saver)
            await asyncio.to_thread(saver.put_writes, config, [("said", ["more"])], "task")
            assert hands.asked == 2
            hands.over = True
            with pytest.raises(StaleRunError):
                await put(saver, config)
            with pytest.raises(StaleRunError):
                await asyncio.to_thread(saver.put_writes, config, [("said", ["late"])], "other")
            with pytest.raises(StaleRunError):
                await saver.adelete_thread("t")
        found = await saver.aget_tuple(config)
        assert [value for *_, value in found.pending_writes] == [["more"]]
        assert len(await ids(saver)) == 1
