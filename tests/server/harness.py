"""Starts the real server as a process, on either database, and stops it in every way."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, Self

import httpx
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient
from tests.processes import PATIENCE, environment, until

from .zygote import Forked, Zygote

PROJECT = Path(__file__).parent / "project" / "checkrail.yaml"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass(frozen=True)
class Database:
    """Where a server keeps its data, said in environment variables."""

    kind: str
    env: Mapping[str, str]


def on_sqlite(folder: Path) -> Database:
    return Database("sqlite", {"CHECKRAIL_DATA_DIR": str(folder)})


def on_postgres(folder: Path, url: str) -> Database:
    env = {"CHECKRAIL_DATA_DIR": str(folder), "CHECKRAIL_DATABASE_URL": url}
    return Database("postgres", env)


@cache
def zygote() -> Zygote:
    """The process that is forked for the servers of this test process."""
    return Zygote()


@dataclass
class Served:
    """One server process: `python -m checkrail serve`, or another command that serves."""

    database: Database
    log: Path
    config: Path = PROJECT
    command: str = "serve"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | Forked | None = None
    marked: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> Self:
        """Start it, and wait until it says that it is well."""
        self.begin()
        self.await_ok()
        return self

    def begin(self) -> Self:
        """Start it, and do not wait."""
        place = ("--host", "127.0.0.1", "--port", str(self.port))
        words = (self.command, *place, *self.args, "--config", str(self.config))
        with self.log.open("ab") as log:
            if "--workers" in words:  # which are started by the command line of the first one
                self.process = self._started(words, log)
            else:
                self.process = zygote().start(words, self.config.parent, self._env(), log.fileno())
        return self

    def _started(self, words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "checkrail", *words],
            cwd=self.config.parent,
            env=self._env(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def await_ok(self) -> None:
        until(self._ok, what=f"{self.url}/ok")

    def _ok(self) -> bool:
        if not self.running:
            raise RuntimeError(f"the server ended by itself:\n{self.output()}")
        try:
            return httpx.get(f"{self.url}/ok", timeout=5.0).status_code == 200
        except httpx.TransportError:
            return False

    def run(self, *words: str) -> str:
        """Another command of ours on the same project and data; what it printed."""
        line = (*words, "--config", str(self.config))
        with tempfile.TemporaryFile() as printed:
            place = self.config.parent
            code = zygote().start(line, place, self._env(), printed.fileno()).wait(PATIENCE)
            printed.seek(0)
            said = printed.read().decode()
        assert code == 0, f"{words} ended with {code}:\n{said}"
        return said

    def _env(self) -> dict[str, str]:
        return environment(**self.database.env, **self.env)

    def stop(self, patience: float = PATIENCE) -> int:
        """Ask it to end, as an operator does; its exit code."""
        assert self.process is not None
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {patience} s:\n{self.output()}") from None

    def kill(self) -> None:
        """End it and its workers between two instructions."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(PATIENCE)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.running:
            os.killpg(self.pid, number)

    def restart(self) -> Self:
        """Start it again on the same data and the same port."""
        if self.running:
            self.stop()
        return self.start()

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def mark(self) -> None:
        """What is printed from now on belongs to the next test."""
        self.marked = self.log.stat().st_size if self.log.exists() else 0

    def since_mark(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self.marked)
            return log.read().decode(errors="replace")

    def client(self, **options: Any) -> LangGraphClient:
        return get_client(url=self.url, api_key=None, **options)

    def sync_client(self, **options: Any) -> SyncLangGraphClient:
        return get_sync_client(url=self.url, api_key=None, **options)
