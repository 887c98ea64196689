"""What holds the words of users and models can be read by its owner alone."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store
from checkrail.server.startup import lock_folder
from checkrail.store.engines import open_engine, sqlite_url
from checkrail.telemetry import JsonLinesSink


@pytest.fixture(autouse=True)
def _open_by_default():
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(file: Path) -> str:
    return oct(stat.S_IMODE(file.stat().st_mode))


def written(file: Path):
    """Open a database as the store does, and write to it."""
    engine = open_engine(sqlite_url(file))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS t (a)"))
        connection.execute(text("INSERT INTO t VALUES (1)"))
    return engine


def test_a_database_and_its_log_are(tmp_path):
    engine = written(tmp_path / "checkrail.db")
    assert {file.name: rights(file) for file in tmp_path.iterdir()} == {
        "checkrail.db": "0o600",
        "checkrail.db-shm": "0o600",
        "checkrail.db-wal": "0o600",
    }
    engine.dispose()


def test_one_that_others_could_read_is_closed_to_them(tmp_path, caplog):
    file = tmp_path / "checkrail.db"
    written(file).dispose()
    for each in (file, tmp_path / "checkrail.db-wal"):
        each.touch()
        each.chmod(0o644)
    engine = written(file)
    assert {rights(each) for each in tmp_path.iterdir()} == {"0o600"}
    assert "could be read by others (644)" in caplog.text
    engine.dispose()


async def test_checkpoints_and_items_are(tmp_path):
    folder = tmp_path / "data"
    async with (
        open_checkpointer(folder / "checkpoints.db") as saver,
        open_store(folder / "store.db") as store,
    ):
        await saver.setup()
        await store.aput(("a",), "b", {"c": 1})
        assert rights(folder) == "0o700"
        assert {rights(file) for file in folder.iterdir()} == {"0o600"}


def test_a_data_directory_is(tmp_path):
    with lock_folder(tmp_path / "data"):
        assert rights(tmp_path / "data") == "0o700"
        assert rights(tmp_path / "data" / "lock") == "0o600"


def test_a_folder_of_somebody_else_is_left_as_it_is(tmp_path):
    tmp_path.chmod(0o755)
    with lock_folder(tmp_path):
        assert rights(tmp_path) == "0o755"


def test_records_are(tmp_path, caplog):
    file = tmp_path / "audit.jsonl"
    JsonLinesSink(file).close()
    assert rights(file) == "0o600"
    assert not caplog.text
    file.chmod(0o640)
    JsonLinesSink(file).close()
    assert rights(file) == "0o640"  # whoever reads them there was meant to
    assert "can be read by others (640)" in caplog.text


def test_records_may_go_to_a_device():
    JsonLinesSink("/dev/null").close()


def test_a_folder_that_is_missing_is_told_by_the_database(tmp_path):
    engine = open_engine(sqlite_url(tmp_path / "none" / "checkrail.db"))
    with pytest.raises(OperationalError), engine.connect():
        pass


def test_a_server_leaves_nothing_open(tmp_path):
    (tmp_path / "checkrail.yaml").write_text(
        "agents: { cat: { type: procedural, command: [cat] } }\nauth: { keys: true }\n"
    )
    words = [sys.executable, "-m", "checkrail", "keys", "create", "me", "--role", "member"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / ".checkrail"
    assert rights(folder) == "0o700"
    assert {rights(file) for file in folder.iterdir()} == {"0o600"}
