"""Measurements in processes of their own, several of them."""

import json
import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measure import Measured, Timing

BENCH = Path(__file__).parent
PROCESSES = 5


def measured_by(python: Path, module: str) -> Measured:
    """What a module here finds out, as the medians of several processes.

    Memory lies differently in each of them, which alone is worth some per cent.
    """
    found = [_parse(run([str(python), "-m", module])) for _ in range(PROCESSES)]
    sections = {
        name: _medians([each.sections[name] for each in found]) for name in found[0].sections
    }
    return Measured(found[0].version, sections)


def run(command: list[str]) -> str:
    return subprocess.run(
        command, env=environment(), check=True, capture_output=True, text=True
    ).stdout


def environment() -> dict[str, str]:
    """What the processes here are started with: they find the modules of this folder."""
    path = os.pathsep.join(filter(None, [str(BENCH), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "UV_PYTHON_DOWNLOADS": "never"}


def _parse(printed: str) -> Measured:
    answer = json.loads(printed)
    sections = {name: [Timing(**row) for row in rows] for name, rows in answer["sections"].items()}
    return Measured(answer["version"], sections)


def _medians(found: Sequence[Sequence[Timing]]) -> list[Timing]:
    return [
        Timing(
            same[0].name,
            same[0].hooks,
            statistics.median(t.dispatch_ns for t in same),
            statistics.median(t.ratio for t in same),
        )
        for same in zip(*found, strict=True)
    ]
