"""What the benchmark measures with: its queries are the store's, and it counts whole servers."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parent.parent / "bench"


def test_queries_beside_history_can_be_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(BENCH)
    import server_history
    from server_processes import Place

    for name, value in {"FEW": 2, "MANY": 5, "ROUNDS": 1, "CALLS": 1}.items():
        monkeypatch.setattr(server_history, name, value)
    measured = server_history.grown(Place("SQLite", tmp_path))
    assert [each.query for each in measured] == [*server_history.QUERIES]


def test_a_process_and_its_children_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(BENCH)
    from server_processes import Served

    spends = "sum(range(3_000_000)); print('spent', flush=True); input()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spends!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "spent\n"
        served = Served(0, parent.pid)
        assert served.family_rss_mb > served.rss_mb
        assert served.family_cpu_seconds > served.cpu_seconds
        parent.communicate("\n")
