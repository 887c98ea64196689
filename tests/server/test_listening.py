"""When `checkrail dev` and `checkrail serve` listen, in one process or in several."""

import subprocess
import sys

import httpx
import pytest
from tests.processes import PATIENCE, environment, until

from .harness import free_port, on_sqlite


@pytest.mark.parametrize("command", ["dev", "serve"])
def test_who_calls_as_soon_as_the_address_is_printed_is_answered(serve, tmp_path, command):
    server = serve(on_sqlite(tmp_path), command=command).begin()
    until(lambda: server.url in server.output(), "the address")
    assert httpx.get(f"{server.url}/ok", timeout=PATIENCE).json() == {"ok": True}


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
