"""Both databases, real and with the tables of this version."""

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError

from checkrail.store import migrate
from checkrail.store.engines import open_engine, sqlite_url


def _patient(connection, _record):
    # On a busy machine a long query takes longer to be written than PostgreSQL waits for a server.
    connection.execute("SET idle_in_transaction_session_timeout = 0")
    connection.commit()


def _check(connection, _record, _proxy):
    # Other tests of this process restart the server, or end its connections.
    try:
        connection.execute("SELECT 1")
        connection.rollback()
    except psycopg.OperationalError:
        raise DisconnectionError from None


@pytest.fixture(scope="session")
def postgres_engine(postgres):
    engine = open_engine(postgres.fresh())
    event.listen(engine, "connect", _patient)
    event.listen(engine, "checkout", _check)
    migrate.upgrade(engine)
    yield engine
    engine.dispose()


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
