"""Routes on real services, on each database in turn; no process, no socket."""

import asyncio
import contextlib
import shutil
import time

import pytest
from tests.runs.support import graph_agent

from checkrail.actions.outbound import Outbound
from checkrail.actions.outside import Outside
from checkrail.config import load_text
from checkrail.config.server import ServerConfig
from checkrail.config.sessions import SessionsConfig
from checkrail.engine.registry import HookRegistry
from checkrail.runs.agents.catalogue import Catalogue
from checkrail.runs.agents.factory import AgentFactory
from checkrail.runs.agents.managed_agents import ManagedAgents, sync_agents
from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store
from checkrail.runs.graphs.loader import Graphs
from checkrail.runs.run_service import open_runs
from checkrail.runs.services import RunSettings
from checkrail.server.auth import KeyWatch, choose_authenticator
from checkrail.server.services import Services
from checkrail.sessions.session_service import open_sessions
from checkrail.store import migrate
from checkrail.store.engines import open_engine, sqlite_url

from .support import GRAPHS, Served

FILE = """
hooks: {}
definitions:
  shut: {block: Not today}
  told: {url: "https://hooks.example/told", headers: {authorization: Bearer of-the-file}}
"""


def _with_tables(ours, theirs, items):
    """Make all tables, ours and LangGraph's."""
    engine = open_engine(ours)
    migrate.upgrade(engine)
    engine.dispose()

    async def set_up():
        async with open_checkpointer(theirs), open_store(items):
            pass

    asyncio.run(set_up())


@pytest.fixture(scope="session")
def sqlite_model(tmp_path_factory):
    """A folder with all tables, of which each test has a copy."""
    folder = tmp_path_factory.mktemp("model")
    _with_tables(*_files(folder))
    return folder


def _files(folder):
    return sqlite_url(folder / "ours.db"), folder / "theirs.db", folder / "store.db"


@pytest.fixture(params=["sqlite", "postgres"])
def places(request, tmp_path):
    """The URLs of our database, of LangGraph's checkpoints and of its store."""
    if request.param == "sqlite":
        model = request.getfixturevalue("sqlite_model")
        shutil.copytree(model, tmp_path, dirs_exist_ok=True)
        yield _files(tmp_path)
        return
    postgres = request.getfixturevalue("postgres")
    url = postgres.with_tables()
    yield url, url, url
    postgres.drop(url)


@contextlib.asynccontextmanager
async def opened(places, **settings):
    """Open services on a database; they hear of no change that another one makes."""
    ours, theirs, items = places
    registry = HookRegistry()
    async with contextlib.AsyncExitStack() as stack:
        saver = await stack.enter_async_context(open_checkpointer(theirs))
        store = await stack.enter_async_context(open_store(items))
        graphs = Graphs(GRAPHS, saver, store)
        outbound = Outbound(["mcp.example"])
        stack.push_async_callback(outbound.aclose)
        outside = Outside(outbound, serving=True)
        catalogue = Catalogue({name: graph_agent(name) for name in GRAPHS})
        workshop = AgentFactory(load_text(FILE, outside=outside), catalogue, registry)
        opening = open_runs(
            ours,
            registry=registry,
            graphs=graphs,
            checkpointer=saver,
            settings=RunSettings(**settings),
            outbound=outbound,
            catalogue=catalogue,
            workshop=workshop,
        )
        runs = await stack.enter_async_context(opening)
        stack.push_async_callback(registry.aclose)
        outside.agents = runs.hook_runs
        agents = {name: f"The graph {name}" for name in GRAPHS}
        await runs.parts.database.write(lambda tx: sync_agents(tx, agents, time.time()))
        made = ManagedAgents(
            runs.parts.database, catalogue, workshop, outbound=outbound, outside=outside
        )
        await made.refresh()
        runs.parts.learn = made.refresh
        watch = KeyWatch(runs.parts.database, runs.parts.hub)
        talks = await stack.enter_async_context(open_sessions(runs, SessionsConfig()))
        yield Services(
            ServerConfig(), runs, talks, graphs, saver, store, choose_authenticator(), watch, made
        )


@pytest.fixture
async def services(places):
    async with opened(places) as made:
        yield made


@pytest.fixture
async def two_servers(postgres):
    """Open two servers on one PostgreSQL: `await two_servers(**settings)`."""
    url = postgres.with_tables()
    async with contextlib.AsyncExitStack() as stack:

        async def open_both(**settings):
            both = []
            for _ in range(2):
                made = await stack.enter_async_context(opened((url, url, url), **settings))
                both.append(await Served(made, stack).open())
            return both

        yield open_both
    postgres.drop(url)


@pytest.fixture
async def served(services):
    async with contextlib.AsyncExitStack() as stack:
        yield await Served(services, stack).open()


@pytest.fixture
def client(served):
    """Whoever sits at this machine, who may do everything."""
    return served.client
