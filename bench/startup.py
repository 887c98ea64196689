"""How long a process takes to start, on the wall clock."""

import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

from server_processes import free_port

ROUNDS = 15
UNCACHED = ("PYTHONDONTWRITEBYTECODE",)
"""What would have everything compiled anew at each start, as no user has it."""

COMMAND = Path(sys.executable).with_name("checkrail")

PYTHON = "python -c pass"
IMPORT = "import checkrail"
USE = "from checkrail import Hooks"
HELP = "checkrail --help"
CHECK = "checkrail check"
FRAMEWORKS = "import fastapi, sqlalchemy"
SERVE = "checkrail serve, killed and up again"

SMALL_FILE = """
hooks:
  before_tool_call:
    - name: limit
      tools: [transfer]
      when: tool_call.args.amount > 1000
      block: Transfers over 1000 need the finance desk
"""

SMALL_PROJECT = f"""
agents:
  support: {{ model: {{ provider: scripted, replies: [It is on its way.] }} }}
{SMALL_FILE}
"""


def startup_times() -> dict[str, float | None]:
    """Median milliseconds of each command, in turns; None where one does not run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hooks.yaml"
        file.write_text(SMALL_FILE)
        (Path(folder) / "checkrail.yaml").write_text(SMALL_PROJECT)
        return _startup_times(file)


def _startup_times(file: Path) -> dict[str, float | None]:
    python = partial(_milliseconds, [sys.executable, "-c"])
    command = partial(_milliseconds, [str(COMMAND)])
    starts = {
        PYTHON: partial(python, "pass"),
        IMPORT: partial(python, IMPORT),
        USE: partial(python, USE),
        HELP: partial(command, "--help"),
        CHECK: partial(command, "check", str(file)),
        FRAMEWORKS: partial(python, FRAMEWORKS),
        SERVE: partial(_milliseconds_to_answer, file.parent),
    }
    running = {name: start for name, start in starts.items() if _runs(start)}
    samples: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(ROUNDS):
        for name, start in running.items():
            samples[name].append(start())
    return {name: statistics.median(samples[name]) if name in running else None for name in starts}


def _runs(start: Callable[[], float]) -> bool:
    """Whether a command succeeds. It also leaves the bytecode cached, and a server's tables."""
    try:
        start()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _milliseconds(command: list[str], *arguments: str) -> float:
    started = perf_counter()
    with _process([*command, *arguments]) as process:
        pass
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return (perf_counter() - started) * 1000


def _milliseconds_to_answer(project: Path) -> float:
    """How long a server takes until it answers. It is killed, so the next one starts after that."""
    port = free_port()
    started = perf_counter()
    with _process([str(COMMAND), "serve", "--config", str(project), "--port", str(port)]) as server:
        while not _answers(port):
            if server.poll() is not None:
                raise subprocess.CalledProcessError(server.returncode, server.args)
            sleep(0.002)
        found = (perf_counter() - started) * 1000
        server.kill()
    return found


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ok", timeout=10):
            return True
    except OSError:
        return False


def _process(command: list[str]) -> subprocess.Popen[bytes]:
    cached = {name: value for name, value in os.environ.items() if name not in UNCACHED}
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, env=cached, stdout=nowhere, stderr=nowhere)
