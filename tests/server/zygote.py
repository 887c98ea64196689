"""Starts our commands quickly: one process has imported everything, and is forked for each.

What runs is the same command in a process of its own; only its imports are there already.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_LONGEST = 1 << 20


class Forked:
    """A process that was forked, with what tests need of `subprocess.Popen`."""

    def __init__(self, zygote: "Zygote", pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        self._zygote = zygote

    def poll(self) -> int | None:
        return self.code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        with self._zygote.told:
            ended = self._zygote.told.wait_for(lambda: self.poll() is not None, timeout)
        if self.code is None or not ended:
            raise subprocess.TimeoutExpired("checkrail", timeout or 0)
        return self.code


class Zygote:
    """The process that is forked, as tests see it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._socket = ours
        self._started: list[Forked] = []
        self._running: dict[int, Forked] = {}  # by pid, which another one has after its end
        self.told = threading.Condition()
        self._asking = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def start(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        out: int,
        *,
        err: int | None = None,
        given: int | None = None,
    ) -> Forked:
        """Start a command that writes to `out`, and its errors to `err`, and reads what is given.

        Without them, its errors go to `out` as well, and there is nothing to read.
        """
        asked = json.dumps({"words": [*words], "cwd": str(cwd), "env": dict(env)}).encode()
        with self._asking, Path(os.devnull).open("rb") as nothing:
            files = [nothing.fileno() if given is None else given, out, out if err is None else err]
            socket.send_fds(self._socket, [asked], files)
            with self.told:
                if not self.told.wait_for(lambda: self._started, 120):
                    raise TimeoutError("nothing was forked within 120 s")
                return self._started.pop()

    def run(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        stdin: str = "",
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Start a command and wait for its end; what it printed, and how it ended."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            files = {"err": err.fileno(), "given": given.fileno()}
            forked = self.start(words, cwd, env, out.fileno(), **files)
            try:
                code = forked.wait(timeout)
            finally:
                forked.send_signal(signal.SIGKILL)
            return subprocess.CompletedProcess([*words], code, _text(out), _text(err))

    def _listen(self) -> None:
        while told := self._socket.recv(_LONGEST):
            said = json.loads(told)
            with self.told:
                if "code" in said:
                    self._running.pop(said["pid"]).code = said["code"]
                else:
                    forked = self._running[said["pid"]] = Forked(self, said["pid"])
                    self._started.append(forked)
                self.told.notify_all()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


IMPORTED = (
    "alembic.command",
    "alembic.config",
    "cel",
    "langchain.agents",
    "langgraph.checkpoint.postgres.aio",
    "langgraph.checkpoint.sqlite.aio",
    "langgraph.graph",
    "langgraph.store.postgres.aio",
    "langgraph.store.sqlite.aio",
    "prometheus_client",
    "psycopg_pool",
    "ruamel.yaml",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
    "checkrail.cli.chat",
    "checkrail.cli.check",
    "checkrail.cli.db",
    "checkrail.cli.dev",
    "checkrail.cli.fire",
    "checkrail.cli.gateway",
    "checkrail.cli.keys",
    "checkrail.cli.runner",
    "checkrail.cli.runs",
    "checkrail.cli.serve",
    "checkrail.cli.server_startup",
    "checkrail.cli.with_command",
    "checkrail.config.yaml_text",
    "checkrail.connections.http",
    "checkrail.connections.websockets",
    "checkrail.dashboard.app",
    "checkrail.server.app",
    "checkrail.store.migrate",
)
"""What servers and their graphs import: nothing of a project, and nothing that starts a thread."""


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork whenever that is asked for; in the process that was forked, give what it is to do."""
    wake, ring = os.pipe()
    os.set_blocking(ring, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == wake:
                    os.read(wake, 4096)
                    _tell_ended(control)
                    continue
                asked, fds, *_ = socket.recv_fds(control, _LONGEST, 3)
                if not asked:
                    return None  # the tests are over
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for mine in (wake, ring, control.fileno()):
                        os.close(mine)
                    return {**json.loads(asked), "files": fds}
                for file in fds:
                    os.close(file)
                control.send(json.dumps({"pid": pid}).encode())


def _tell_ended(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        control.send(json.dumps({"pid": pid, "code": code}).encode())


def _become(asked: Mapping[str, Any]) -> None:
    """Turn into a process that was started for one command."""
    os.setsid()
    for standard, file in enumerate(asked["files"]):
        os.dup2(file, standard)
        os.close(file)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["checkrail", *asked["words"]]
    sys.path[0] = str(Path(sys.executable).parent)  # where the command is, as if it was started
    from checkrail.cli import main

    main()


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else whoever is forked has to copy all of it to look through it
    told = _serve(socket.socket(fileno=int(sys.argv[1])))
    if told is not None:
        _become(told)
