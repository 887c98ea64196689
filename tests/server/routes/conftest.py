"""Routes on real services, on each database in turn; no process, no socket."""

import contextlib
import time

import pytest

from checkrail.actions.outbound import Outbound
from checkrail.config.server import ServerConfig
from checkrail.engine.registry import HookRegistry
from checkrail.runs.agents import sync_agents
from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store
from checkrail.runs.graphs.loading import Graphs
from checkrail.runs.parts import RunSettings
from checkrail.runs.service import open_runs
from checkrail.server.auth import choose
from checkrail.server.services import Services
from checkrail.store import migrate
from checkrail.store.engines import open_engine, sqlite_url

from .support import GRAPHS, Served


@pytest.fixture(params=["sqlite", "postgres"])
def places(request, tmp_path):
    """The URLs of our database, of LangGraph's checkpoints and of its store."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "ours.db"), tmp_path / "theirs.db", tmp_path / "store.db"
    return (request.getfixturevalue("postgres").fresh(),) * 3


@pytest.fixture
async def services(places):
    ours, theirs, items = places
    engine = open_engine(ours)
    migrate.upgrade(engine)
    engine.dispose()
    registry = HookRegistry()
    async with contextlib.AsyncExitStack() as stack:
        saver = await stack.enter_async_context(open_checkpointer(theirs))
        store = await stack.enter_async_context(open_store(items))
        graphs = Graphs(GRAPHS, saver, store)
        outbound = Outbound()
        stack.push_async_callback(outbound.aclose)
        opening = open_runs(
            ours,
            registry=registry,
            graphs=graphs,
            checkpointer=saver,
            settings=RunSettings(),
            outbound=outbound,
        )
        runs = await stack.enter_async_context(opening)
        stack.push_async_callback(registry.aclose)
        agents = {name: f"The graph {name}" for name in GRAPHS}
        await runs.parts.database.write(lambda tx: sync_agents(tx, agents, time.time()))
        yield Services(ServerConfig(), runs, graphs, saver, store, choose())


@pytest.fixture
async def served(services):
    async with contextlib.AsyncExitStack() as stack:
        yield await Served(services, stack).open()


@pytest.fixture
def client(served):
    """Whoever sits at this machine, who may do everything."""
    return served.client
