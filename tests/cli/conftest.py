"""Starts the real command, or a fork of it, or the same app in this process.

The installed command imports what it needs whenever it is started, which takes longer than most
tests. A fork is a process as well, but one that has imported everything.
"""

import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.server.harness import Served, on_sqlite, zygote

from .run_site import Site, made_project

COMMAND = Path(sys.executable).parent / "checkrail"
TERMINAL = ("CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE")


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of every line that was printed."""
        lines = [line.strip() for line in self.out.splitlines()]
        return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


Run = Callable[..., Done]
Write = Callable[[str, str], Path]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in TERMINAL}
    return {**kept, **more}


@pytest.fixture(scope="session")
def start() -> Run:
    """Start the real command in a folder."""

    def started(*args: str, cwd: Path, stdin: str = "", **env: str) -> Done:
        done = subprocess.run(
            [COMMAND, *args],
            cwd=cwd,
            env=environment(**env),
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return started


@pytest.fixture
def installed(start: Run, tmp_path: Path) -> Run:
    """Start the real command beside the files that `write` wrote."""

    def started(*args: str, stdin: str = "", **env: str) -> Done:
        return start(*args, cwd=tmp_path, stdin=stdin, **env)

    return started


@pytest.fixture
def checkrail(tmp_path: Path) -> Run:
    """Start a fork of the command beside the files that `write` wrote."""

    def started(*args: str, stdin: str = "", **env: str) -> Done:
        done = zygote().run([*map(str, args)], tmp_path, environment(**env), stdin=stdin)
        return Done(done.returncode, done.stdout, done.stderr)

    return started


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command in this process, beside the files that `write` wrote."""
    from checkrail.cli.app import app

    monkeypatch.chdir(tmp_path)
    for name in TERMINAL:
        monkeypatch.delenv(name, raising=False)

    def invoked(*args: str, stdin: str | bytes = "") -> Done:
        runner = CliRunner(catch_exceptions=False)
        result = runner.invoke(app, args, input=stdin, prog_name="checkrail")
        return Done(result.exit_code, result.stdout, result.stderr)

    return invoked


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file into the folder of the test."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return written


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with keys, which is started when first asked for."""
    folder = tmp_path_factory.mktemp("site")
    served = Served(on_sqlite(folder), folder / "log", config=made_project(folder)).start()
    try:
        yield Site(served)
    finally:
        served.stop()


@pytest.fixture
def runs(site: Site, invoke: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `checkrail runs` as the admin."""
    monkeypatch.setenv("CHECKRAIL_SERVER", site.url)
    monkeypatch.setenv("CHECKRAIL_API_KEY", site.key)

    def called(*args: str) -> Done:
        done = invoke("runs", *args)
        assert site.key not in done.out + done.err
        return done

    return called


@pytest.fixture
def until(tmp_path: Path) -> Iterator[Path]:
    """A file that lets runs go; they all go at the end."""
    file = tmp_path / "go"
    yield file
    file.touch()


@pytest.fixture(autouse=True)
def clean_process(tmp_path: Path) -> Iterator[None]:
    """Leave nothing of what a command, or the hooks of a test, did to this process."""
    path, modules = [*sys.path], {*sys.modules}
    log = logging.getLogger("checkrail")
    level, handlers = log.level, [*log.handlers]
    yield
    sys.path[:] = path
    log.setLevel(level)
    log.handlers[:] = handlers
    for name in sys.modules.keys() - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
