"""The two servers as processes, on copies of one folder: LangGraph's own, and ours."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
from tests.processes import PATIENCE, environment, until
from tests.server.harness import free_port

PROJECT = Path(__file__).parents[2] / "tests" / "server" / "reference" / "project"
BIN = Path(sys.executable).parent


def run_reference(folder: Path) -> contextlib.AbstractContextManager[str]:
    """Run LangGraph's server for development, without network and licence; yield its address."""
    options = ("--no-browser", "--no-reload", "--n-jobs-per-worker", "10")
    return _run_server([str(BIN / "langgraph"), "dev", *options], folder)


def run_ours(folder: Path) -> contextlib.AbstractContextManager[str]:
    """Run our server; yield its address."""
    return _run_server([str(BIN / "checkrail"), "dev"], folder)


@contextlib.contextmanager
def _run_server(line: Sequence[str], folder: Path) -> Iterator[str]:
    """Run it on a copy of the project, for both write into their folder."""
    copy = shutil.copytree(PROJECT, folder / "project", ignore=shutil.ignore_patterns("__*", ".*"))
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*line, "--host", "127.0.0.1", "--port", str(port)],
            cwd=copy,
            env=environment(LANGSMITH_TRACING="false", LANGGRAPH_CLI_NO_ANALYTICS="1"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: _is_ready(process, url, folder / "log"), what=url)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


def _is_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"the server ended by itself:\n{log.read_text()[-5000:]}")
    try:
        return httpx.get(f"{url}/ok", timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False
