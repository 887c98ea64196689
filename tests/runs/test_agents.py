"""The assistants that stand for the agents of a config."""

import concurrent.futures
import threading
from dataclasses import replace

import pytest

from checkrail.runs.admit.admission import agent_assistant_id
from checkrail.runs.agents.managed_agents import sync_agents
from checkrail.store import assistants, migrate
from checkrail.store.assistants import AssistantQuery
from checkrail.store.database import Tx
from checkrail.store.engines import open_engine, sqlite_url
from checkrail.store.rows import Page


@pytest.fixture
def engine(database):
    url = database if database.startswith("postgres") else sqlite_url(database)
    engine = open_engine(url)
    migrate.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def sync(engine):
    def sync(agents, now=1.0):
        with engine.begin() as connection:
            sync_agents(Tx(connection), agents, now)

    return sync


@pytest.fixture
def found(engine):
    def found():
        with engine.connect() as connection:
            return assistants.search(connection, AssistantQuery(), Page("name", "asc", 100))

    return found


def test_each_agent_has_an_assistant_of_its_name(sync, found):
    sync({"echo": "Says it again", "chat": None})
    chat, echo = found()
    assert (echo.assistant_id, echo.graph_id, echo.name) == (
        agent_assistant_id("echo"),
        "echo",
        "echo",
    )
    assert (echo.description, chat.description) == ("Says it again", None)
    assert (echo.owner, echo.version) == (None, 1)
    assert echo.metadata == {"created_by": "system"}


def test_a_second_start_changes_nothing_but_the_description(sync, found):
    sync({"echo": "old", "chat": "same"})
    before = found()
    sync({"echo": "old", "chat": "same"}, 2.0)
    assert found() == before
    sync({"echo": "new", "chat": "same"}, 3.0)
    chat, echo = found()
    assert chat == before[0]
    assert (echo.description, echo.version, echo.updated_at) == ("new", 1, 3.0)


def test_what_somebody_revised_stays_as_it_is(sync, found, engine):
    sync({"echo": "old"})
    with engine.begin() as connection:
        row = assistants.get(connection, agent_assistant_id("echo"))
        revised = assistants.add_version(Tx(connection), replace(row, description="theirs"), 2.0)
    sync({"echo": "new"}, 3.0)
    assert found() == [revised]


def test_the_id_of_an_agent_is_the_agents_whoever_took_it_before(sync, found, engine):
    sync({"echo": None})
    [row] = found()
    with engine.begin() as connection:
        tx = Tx(connection)
        assistants.remove(tx, row.assistant_id)
        assistants.add(tx, replace(row, owner="eve", graph_id="evil", name="echo"))
    sync({"echo": None})
    assert found() == [row]


def test_servers_that_start_at_once_make_each_assistant_once(engine, found):
    names = [f"agent-{n}" for n in range(20)]
    together = threading.Barrier(4)

    def start(order):
        together.wait()
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":  # where one server writes at a time
                connection.exec_driver_sql("ROLLBACK")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            sync_agents(Tx(connection), dict.fromkeys(order, "told"), 1.0)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        orders = (names, names[::-1], names[10:] + names[:10], names)
        assert [*pool.map(start, orders)] == [None] * 4
    assert [row.name for row in found()] == sorted(names)
    with engine.connect() as connection:
        for name in names:
            assert len(assistants.versions(connection, agent_assistant_id(name))) == 1
