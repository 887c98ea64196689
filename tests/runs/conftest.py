"""Both databases, real: SQLite in a file, and PostgreSQL."""

import contextlib
import shutil

import pytest

from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store
from checkrail.store import migrate
from checkrail.store.engines import open_engine, sqlite_url

from .support import Place, World


@contextlib.contextmanager
def _dropped(postgres, url):
    yield url
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """An empty database of each kind, by its path or its URL."""
    if request.param == "sqlite":
        yield str(tmp_path / "checkpoints.db")
        return
    postgres = request.getfixturevalue("postgres")
    with _dropped(postgres, postgres.fresh()) as url:
        yield url


@pytest.fixture
async def saver(database):
    async with open_checkpointer(database) as opened:
        yield opened


@pytest.fixture
async def store(database):
    async with open_store(database) as opened:
        yield opened


def _migrated(url):
    engine = open_engine(url)
    migrate.upgrade(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def sqlite_model(tmp_path_factory):
    """A file with all tables, of which each test has a copy."""
    folder = tmp_path_factory.mktemp("model")
    _migrated(sqlite_url(folder / "checkrail.db"))
    return folder / "checkrail.db"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a run service keeps things: each database in turn, with the tables and nothing else."""
    if request.param == "sqlite":
        file = tmp_path / "checkrail.db"
        shutil.copy(request.getfixturevalue("sqlite_model"), file)
        yield Place(sqlite_url(file), str(tmp_path / "checkpoints.db"))
        return
    yield request.getfixturevalue("postgres_place")


@pytest.fixture
def postgres_place(postgres):
    """The same on PostgreSQL only: what several servers do to each other needs it."""
    with _dropped(postgres, postgres.with_tables()) as url:
        yield Place(url, url)


@pytest.fixture
async def world(place):
    """Run services on one database: `await world.open(graphs, hooks, **settings)`."""
    async with World(place) as made:
        yield made


@pytest.fixture
async def postgres_world(postgres_place):
    async with World(postgres_place) as made:
        yield made


@pytest.fixture
async def lite_world(sqlite_model, tmp_path):
    """The same on SQLite only, for what no database has a part in."""
    file = tmp_path / "checkrail.db"
    shutil.copy(sqlite_model, file)
    async with World(Place(sqlite_url(file), str(tmp_path / "checkpoints.db"))) as made:
        yield made
