"""Opening LangGraph's own savers and stores."""

import asyncio
import sqlite3
import threading
from contextlib import nullcontext

import pytest
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from checkrail.engine.errors import CheckrailError
from checkrail.runs.graphs.checkpoints import is_postgres, open_checkpointer, open_store
from checkrail.store.health import DatabaseUnavailableError

from .support_graphs import at, chain, greet


def test_a_url_of_postgresql_is_known_whatever_its_driver():
    for url in ("postgresql://u@h/d", "postgres://h/d", "postgresql+psycopg://h/d"):
        assert is_postgres(url)
    for path in (".checkrail/checkpoints.db", "sqlite:///x.db", "/postgres/x.db"):
        assert not is_postgres(path)


async def test_the_official_saver_of_each_database_is_opened(database, saver):
    kind = AsyncPostgresSaver if is_postgres(database) else AsyncSqliteSaver
    assert isinstance(saver, kind)


async def test_what_was_saved_is_there_when_it_is_opened_again(database):
    for count in (1, 2):
        async with open_checkpointer(database) as saver:
            graph = chain(greet, checkpointer=saver)
            assert (await graph.ainvoke({"said": []}, at("t")))["count"] == count


async def test_the_folder_of_a_sqlite_file_is_made(tmp_path):
    path = tmp_path / "new" / "checkpoints.db"
    async with open_checkpointer(f"sqlite:///{path}"):
        assert path.exists()


async def test_servers_that_start_together_make_the_tables_once(database):
    async def start():
        async with open_checkpointer(database) as saver, open_store(database) as store:
            await store.aput(("n",), "k", {"v": 1})
            graph = chain(greet, checkpointer=saver)
            return (await graph.ainvoke({"said": []}, at("t")))["said"][-1]

    starts = 3 if is_postgres(database) else 1
    assert await asyncio.gather(*(start() for _ in range(starts))) == ["hello"] * starts


async def test_runs_save_side_by_side(saver):
    graph = chain(greet, checkpointer=saver)
    runs = [graph.ainvoke({"said": [str(n)]}, at(f"t{n}")) for n in range(20)]
    assert [ran["said"][0] for ran in await asyncio.gather(*runs)] == [str(n) for n in range(20)]


async def test_an_unreachable_postgresql_says_so_at_once(postgres):
    with pytest.raises(DatabaseUnavailableError, match="cannot be reached") as unavailable:
        async with open_checkpointer(postgres.named("nowhere")):
            pass
    assert "nowhere" in str(unavailable.value.__cause__)


async def test_a_store_keeps_finds_and_forgets_items(store):
    await store.aput(("users", "ada"), "prefs", {"theme": "dark"})
    assert (await store.aget(("users", "ada"), "prefs")).value == {"theme": "dark"}
    assert [item.key for item in await store.asearch(("users",))] == ["prefs"]
    await store.adelete(("users", "ada"), "prefs")
    assert await store.aget(("users", "ada"), "prefs") is None


async def test_a_store_and_a_saver_share_one_database(saver, store):
    async def note(state, *, store):
        await store.aput(("notes",), "last", {"said": state["said"]})

    graph = chain(note, checkpointer=saver, store=store)
    await graph.ainvoke({"said": ["me"]}, at("t"))
    assert (await store.aget(("notes",), "last")).value == {"said": ["me"]}


async def test_a_store_finds_by_meaning_if_it_has_an_index(database):
    async def embed(texts):
        return [[float("cat" in text), float("dog" in text)] for text in texts]

    able = is_postgres(database) or hasattr(sqlite3.Connection, "enable_load_extension")
    refused = pytest.raises(CheckrailError, match="this Python was built without")
    index = {"dims": 2, "embed": embed, "fields": ["text"]}
    with nullcontext() if able else refused:
        async with open_store(database, index) as store:
            await store.aput(("pets",), "a", {"text": "a cat"})
            await store.aput(("pets",), "b", {"text": "a dog"})
            found = await store.asearch(("pets",), query="dog")
            assert found[0].key == "b"


async def test_a_store_with_a_time_to_live_sweeps_and_stops_sweeping(database):
    before = asyncio.all_tasks()
    async with open_store(database, ttl={"default_ttl": 1, "sweep_interval_minutes": 1}) as store:
        await store.aput(("n",), "k", {"v": 1})
        assert await store.aget(("n",), "k")
        assert any(task.get_name() == "ttl_sweeper" for task in asyncio.all_tasks())
    assert asyncio.all_tasks() == before


async def test_nothing_is_left_behind_when_both_are_closed(database):
    tasks, threads = asyncio.all_tasks(), {*threading.enumerate()}
    async with open_checkpointer(database), open_store(database):
        pass
    assert asyncio.all_tasks() == tasks
    for thread in {*threading.enumerate()} - threads:  # SQLite's ends just after its work
        thread.join(10)
    assert {*threading.enumerate()} == threads
