"""Migrations: from nothing to the tables that this version knows, and no further."""

import subprocess
import sys
import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from checkrail.store import migrate
from checkrail.store.engines import open_engine, sqlite_url
from checkrail.store.migrate import OutdatedError
from checkrail.store.tables import metadata


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request, tmp_path):
    """The URL of an empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "checkrail.db")
    return request.getfixturevalue("postgres").fresh()


@pytest.fixture
def engine(empty):
    made = open_engine(empty)
    yield made
    made.dispose()


def test_an_empty_database_is_brought_to_the_newest_version(engine):
    assert migrate.version(engine) is None
    assert migrate.upgrade(engine) == (None, migrate.head())
    assert migrate.version(engine) == migrate.head()
    assert set(metadata.tables) <= set(inspect(engine).get_table_names())


def test_bringing_it_there_again_changes_nothing(engine):
    migrate.upgrade(engine)
    assert migrate.upgrade(engine) == (migrate.head(), migrate.head())


def test_the_migrations_make_the_tables_that_the_code_knows(engine):
    migrate.upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        found = compare_metadata(context, metadata)
    theirs = ["checkrail_version"]
    if engine.dialect.name == "sqlite":
        theirs.append("threads_by_metadata")  # an index of a kind that only PostgreSQL has
    ours = [change for change in found if not any(name in repr(change) for name in theirs)]
    assert ours == []


def test_a_database_without_tables_is_refused_with_the_command_that_helps(engine):
    with pytest.raises(OutdatedError, match=r"no tables of Checkrail yet.*checkrail db upgrade"):
        migrate.check(engine)


def test_a_database_of_another_version_is_refused(engine):
    migrate.upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE checkrail_version SET version_num = '9999'"))
    with pytest.raises(OutdatedError, match="has tables of version 9999"):
        migrate.check(engine)


def test_a_database_of_an_unknown_version_is_left_as_it_is(engine):
    migrate.upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE checkrail_version SET version_num = '9999'"))
    with pytest.raises(OutdatedError, match=r"version 9999, which this Checkrail does not know"):
        migrate.upgrade(engine)
    assert migrate.version(engine) == "9999"


def test_a_database_of_this_version_is_taken(engine):
    migrate.upgrade(engine)
    migrate.check(engine)


@pytest.mark.parametrize("empty", ["postgres"], indirect=True)
def test_two_servers_that_start_at_once_take_turns(empty, engine):
    answers, other = [], open_engine(empty)
    work = [
        threading.Thread(target=lambda each=each: answers.append(migrate.upgrade(each)))
        for each in (engine, other)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    other.dispose()
    assert sorted(answers, key=str) == [(migrate.head(), migrate.head()), (None, migrate.head())]


def test_a_database_that_is_up_to_date_is_opened_without_alembic(sqlite_engine):
    """It takes longer to import than to start on the tables that are there."""
    code = (
        "import sys; from checkrail.store import migrate; from checkrail.store.engines import *; "
        "migrate.upgrade(open_engine(sys.argv[1])); sys.exit('alembic' in sys.modules)"
    )
    url = sqlite_engine.url.render_as_string()
    subprocess.run([sys.executable, "-c", code, url], check=True, timeout=120)
