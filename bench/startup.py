"""How long a process takes to start, on the wall clock."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

ROUNDS = 15
UNCACHED = ("PYTHONDONTWRITEBYTECODE",)
"""What would have everything compiled anew at each start, as no user has it."""

COMMAND = Path(sys.executable).with_name("checkrail")

PYTHON = "python -c pass"
IMPORT = "import checkrail"
USE = "from checkrail import Hooks"
HELP = "checkrail --help"
CHECK = "checkrail check"

SMALL_FILE = """
hooks:
  before_tool_call:
    - name: limit
      tools: [transfer]
      when: tool_call.args.amount > 1000
      block: Transfers over 1000 need the finance desk
"""


def startup_times() -> dict[str, float | None]:
    """Median milliseconds of each command, in turns; None where one does not run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkrail.yaml"
        file.write_text(SMALL_FILE)
        return _startup_times(file)


def _startup_times(file: Path) -> dict[str, float | None]:
    commands = {
        PYTHON: [sys.executable, "-c", "pass"],
        IMPORT: [sys.executable, "-c", IMPORT],
        USE: [sys.executable, "-c", USE],
        HELP: [str(COMMAND), "--help"],
        CHECK: [str(COMMAND), "check", str(file)],
    }
    running = {name: command for name, command in commands.items() if _runs(command)}
    samples: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(ROUNDS):
        for name, command in running.items():
            samples[name].append(_milliseconds(command))
    return {
        name: statistics.median(samples[name]) if name in running else None for name in commands
    }


def _runs(command: list[str]) -> bool:
    """Whether a command succeeds. It also leaves the bytecode cached."""
    try:
        _start(command)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _milliseconds(command: list[str]) -> float:
    started = perf_counter()
    _start(command)
    return (perf_counter() - started) * 1000


def _start(command: list[str]) -> None:
    cached = {name: value for name, value in os.environ.items() if name not in UNCACHED}
    subprocess.run(
        command, check=True, env=cached, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
