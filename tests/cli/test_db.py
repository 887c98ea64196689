"""`checkrail db` brings the database of a project up to date, and says what it did."""

import os
import sqlite3

import psycopg
import pytest

from checkrail.store import migrate

PROJECT = "hooks: {}\n"
HEAD = migrate.head()
PASSWORD = "open-sesame-81"


@pytest.fixture
def project(write, tmp_path):
    write("checkrail.yaml", PROJECT)
    return tmp_path


@pytest.fixture
def url(postgres):
    """The URL of an empty PostgreSQL database."""
    return postgres.fresh()


def tables_of(url):
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    with psycopg.connect(url) as connection:
        return {name for (name,) in connection.execute(query)}


def test_the_tables_of_a_new_project_are_made_in_its_folder(checkrail, project):
    done = checkrail("db", "upgrade")
    assert (done.code, done.err) == (0, "")
    file = project / ".checkrail" / "checkrail.db"
    assert done.out == f"SQLite in {file}: nothing → {HEAD}\n"
    with sqlite3.connect(file) as connection:
        [(kept,)] = connection.execute("SELECT version_num FROM checkrail_version")
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    connection.close()
    assert kept == HEAD


def test_upgrading_again_changes_nothing(invoke, project):
    invoke("db", "upgrade")
    done = invoke("db", "upgrade")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(f"checkrail.db: {HEAD} already\n")


def test_machines_are_told_from_where_to_where(invoke, project):
    file = str(project / ".checkrail" / "checkrail.db")
    first, second = invoke("db", "upgrade", "--json"), invoke("db", "upgrade", "--json")
    same = {"database": "SQLite", "file": file, "to": HEAD}
    assert first.data == same | {"from": None, "changed": True}
    assert second.data == same | {"from": HEAD, "changed": False}


def test_the_version_is_told_with_what_to_do_about_it(invoke, project):
    before = invoke("db", "version")
    assert before.code == 0
    assert before.out.endswith(f"no tables yet, and {HEAD} is needed: checkrail db upgrade\n")
    assert invoke("db", "version", "--json").data["version"] is None
    invoke("db", "upgrade")
    assert invoke("db", "version").out.endswith(f"checkrail.db: version {HEAD}\n")
    told = invoke("db", "version", "--json").data
    assert (told["version"], told["needed"]) == (HEAD, HEAD)


def test_asking_for_the_version_makes_nothing(invoke, project):
    invoke("db", "version")
    assert not (project / ".checkrail").exists()


def test_a_project_is_found_by_its_folder_and_by_its_file(invoke, write, tmp_path):
    write("here/checkrail.yaml", "hooks: {}\ndata_dir: ./elsewhere\n")
    file = tmp_path / "here" / "elsewhere" / "checkrail.db"
    for place in ("here", "here/checkrail.yaml", str(tmp_path / "here")):
        done = invoke("db", "upgrade", "--config", place, "--json")
        assert (done.code, done.data["file"]) == (0, str(file))
    assert file.is_file()


def test_the_environment_may_name_the_project(checkrail, write):
    write("here/checkrail.yaml", PROJECT)
    done = checkrail("db", "version", CHECKRAIL_CONFIG="here")
    assert done.code == 0
    assert "/here/.checkrail/checkrail.db" in done.out


def test_a_folder_without_a_project_says_how_to_make_one(invoke):
    done = invoke("db", "upgrade")
    assert (done.code, done.out) == (1, "")
    assert "no project here" in done.err
    assert "checkrail init" in done.err
    told = invoke("db", "upgrade", "--json")
    assert (told.code, told.data["ok"]) == (1, False)
    assert told.data["problems"][0]["found"] == "no project here"


def test_a_file_with_problems_is_told_as_everywhere(invoke, write):
    write("checkrail.yaml", "hooks:\n  befor_run: []\n")
    done = invoke("db", "upgrade")
    assert (done.code, done.out) == (1, "")
    assert "checkrail.yaml:2" in done.err
    assert "before_run" in done.err


def test_a_fresh_postgresql_gets_our_tables_and_those_of_langgraph(checkrail, project, url):
    done = checkrail("db", "upgrade", CHECKRAIL_DATABASE_URL=url)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"PostgreSQL: nothing → {HEAD}\n"
    ours = {"runs", "threads", "events", "hook_records", "api_keys", "checkrail_version"}
    assert ours | {"checkpoints", "checkpoint_writes", "store"} <= tables_of(url)
    assert not (project / ".checkrail").exists()


def test_postgresql_may_be_upgraded_twice(checkrail, project, url):
    checkrail("db", "upgrade", CHECKRAIL_DATABASE_URL=url)
    done = checkrail("db", "upgrade", "--json", CHECKRAIL_DATABASE_URL=url)
    assert (done.code, done.err) == (0, "")
    told = {"database": "PostgreSQL", "file": None, "from": HEAD, "to": HEAD, "changed": False}
    assert done.data == told
    version = checkrail("db", "version", CHECKRAIL_DATABASE_URL=url)
    assert version.out == f"PostgreSQL: version {HEAD}\n"


@pytest.mark.parametrize("words", [("db", "upgrade"), ("db", "version"), ("keys", "ls")])
def test_a_database_that_is_not_there_is_told_without_its_password(checkrail, project, words):
    url = f"postgresql://ann:{PASSWORD}@127.0.0.1:1/checkrail"
    done = checkrail(*words, CHECKRAIL_DATABASE_URL=url)
    assert (done.code, done.out) == (4, "")
    assert "the database cannot be used" in done.err
    assert "CHECKRAIL_DATABASE_URL" in done.err
    assert "Traceback" not in done.err
    assert PASSWORD not in done.err


def test_a_folder_that_cannot_be_made_is_told(checkrail, write):
    write("checkrail.yaml", "hooks: {}\ndata_dir: ./file/data\n")
    write("file", "not a folder")
    done = checkrail("db", "upgrade")
    assert (done.code, done.out) == (4, "")
    assert f"file{os.sep}data" in done.err
    assert "Traceback" not in done.err


def test_the_help_tells_what_there_is_with_an_example(invoke):
    done = invoke("db", "--help")
    assert done.code == 0
    for told in ("upgrade", "version", "CHECKRAIL_DATABASE_URL", "Example: checkrail db upgrade"):
        assert told in done.out
    for name in ("upgrade", "version"):
        text = invoke("db", name, "-h").out
        assert f"Example: checkrail db {name}" in text
        assert "--config PATH" in text
        assert "--json" in text


def test_a_command_that_is_not_there_is_told_with_the_one_that_was_meant(invoke):
    done = invoke("db", "upgrad")
    assert (done.code, done.out) == (2, "")
    assert "upgrade" in done.err
