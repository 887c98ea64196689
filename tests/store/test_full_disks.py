"""A SQLite file that cannot be written: what is said, and that nothing is lost meanwhile."""

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess

import pytest
from sqlalchemy import select

from checkrail.store.database import Database
from checkrail.store.engines import sqlite_url
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.tables import hook_records


@pytest.fixture
def file(tmp_path, sqlite_engine):
    """A file of its own with all tables."""
    made = tmp_path / "checkrail.db"
    source = sqlite3.connect(sqlite_engine.url.database)
    with sqlite3.connect(made) as target:
        source.backup(target)
    source.close()
    return made


@pytest.fixture
def database(file, monkeypatch):
    monkeypatch.setattr("checkrail.store.database.PATIENCE", 0.2)
    made = Database(sqlite_url(file))
    yield made
    made.end_waiting()
    made.close()


def adding(name):
    row = {"record_id": name, "event_type": "x", "point": "p", "hook": "h", "created_at": 0.0}
    row |= {"record": {"text": "x" * 200_000}}
    return lambda tx: tx.execute(hook_records.insert().values(**row)) and name


def names(reads):
    return sorted(row.record_id for row in reads.execute(select(hook_records.c.record_id)))


async def limit(database):
    """Let the file grow no more, and return what sets another limit on the writer's connection."""
    raw = await database.write(lambda tx: tx.connection.driver_connection)

    def grow_to(pages):
        raw.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    grow_to(1)  # which becomes as many as there are
    return grow_to


async def test_a_full_disk_is_said_and_what_can_wait_is_kept_when_there_is_room(database, caplog):
    grow_to = await limit(database)
    kept = asyncio.ensure_future(database.write(adding("kept"), patient=True))
    with pytest.raises(DatabaseUnavailableError, match="disk of the database is full"):
        await database.write(adding("refused"))
    assert await database.read(names) == []
    assert database.health.trouble.kind == "full", "reads go on, and it is full all the same"
    grow_to(1_000_000)
    assert await kept == "kept"
    assert await database.read(names) == ["kept"]
    assert database.health.trouble is None
    told = [record.getMessage() for record in caplog.records if record.name == "checkrail.store"]
    assert [("is full" in each, "works again" in each) for each in told] == [
        (True, False),
        (False, True),
    ]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MB."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None:
        pytest.skip("nothing can be mounted")
    place = tmp_path / "disk"
    place.mkdir()
    words = [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted")
    yield place
    subprocess.run([unmount, "--lazy", str(place)], check=True)


def fill(file):
    with file.open("wb", buffering=0) as filling, contextlib.suppress(OSError):
        while True:
            filling.write(b"x" * 4096)


async def test_a_disk_that_is_full_when_it_commits_is_said_and_written_to_again(
    small_disk, file, monkeypatch, caplog
):
    monkeypatch.setattr("checkrail.store.database.PATIENCE", 0.2)
    shutil.copy(file, small_disk / "checkrail.db")
    database = Database(sqlite_url(small_disk / "checkrail.db"))
    try:
        await database.write(adding("first"))
        fill(small_disk / "filling")
        for number in range(5):
            with pytest.raises(DatabaseUnavailableError, match="disk of the database is full"):
                await database.write(adding(f"refused {number}"))
        assert database.health.trouble.kind == "full"
        (small_disk / "filling").unlink()
        await database.write(adding("again"))
        assert await database.read(names) == ["again", "first"]
        assert database.health.trouble is None
    finally:
        database.end_waiting()
        database.close()
    told = [record.getMessage() for record in caplog.records if record.name == "checkrail.store"]
    assert ["is full" in each for each in told] == [True, False]


async def test_a_file_that_is_damaged_while_it_is_used_is_said_to_be_corrupt(file, database):
    await database.write(adding("a"))
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.engine.dispose()
    with file.open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xff" * (file.stat().st_size - 4096))
    with pytest.raises(DatabaseUnavailableError, match="corrupt"):
        await database.read(names)


async def test_a_file_that_may_only_be_read_is_said_to_be(file, database):
    def forbidding(tx):
        tx.connection.cursor().execute("PRAGMA query_only = ON")

    await database.write(forbidding)
    with pytest.raises(DatabaseUnavailableError, match="read-only"):
        await database.write(adding("a"))
    assert await database.read(names) == []
