"""`checkrail serve --workers`: several processes on one socket."""

import subprocess
import sys

from tests.processes import environment

from .harness import free_port


def test_a_worker_that_cannot_start_ends_the_command_with_the_reason(tmp_path):
    away = f"postgresql+psycopg://nobody@127.0.0.1:{free_port()}/x"
    (tmp_path / "checkrail.yaml").write_text(f"database: {away}\n")
    done = subprocess.run(
        [sys.executable, "-m", "checkrail", "serve", "--workers", "2", "--port", str(free_port())],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert "The database cannot be reached" in done.stderr
    assert done.stderr.endswith("a worker did not start. What it logged says why\n")
