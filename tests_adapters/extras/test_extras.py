"""Every command in an environment for each extra, from the wheel: it works, or names its extra."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WITH_THE_COMMAND = {"all", "cli", "gateway", "server"}
WITHOUT_THE_COMMAND = sorted(PROJECT["optional-dependencies"].keys() - WITH_THE_COMMAND)

FILE = """
agents:
  support: { model: { provider: scripted, replies: [It is on its way.] } }
hooks:
  before_tool_call:
    - { name: limit, tools: [transfer], when: tool_call.args.amount > 1000, block: Too much }
  before_run: { name: often, builtin: rate_limit, config: { limit: 100, per: 1m } }
"""

ENDING = {
    "approvals": ["approvals", "ls"],
    "calls": ["calls", "ls"],
    "chat": ["chat", "checkrail.yaml", "-m", "hello"],
    "check": ["check", "checkrail.yaml"],
    "db": ["db", "upgrade"],
    "fire": ["fire", "checkrail.yaml", "before_run"],
    "hooks": ["hooks", "redact"],
    "init": ["init", "made"],
    "keys": ["keys", "create", "ci", "--role", "member"],
    "litellm-config": ["litellm-config"],
    "resume": ["resume", "00000000-0000-0000-0000-000000000000", "hello"],
    "runs": ["runs", "ls"],
    "schema": ["schema", "--file"],
    "sessions": ["sessions", "ls"],
    "with": ["with", "--", sys.executable, "-c", "print('hello')"],
}
SERVING = {
    "dev": (["dev"], "/ok"),
    "gateway": (["gateway"], "/"),
    "runner": (["runner"], ""),
    "serve": (["serve"], "/ok"),
}
NEEDED = {
    **dict.fromkeys([*ENDING, *SERVING], "cli"),
    **dict.fromkeys(("gateway", "with"), "gateway"),
    **dict.fromkeys(
        (
            *("approvals", "calls", "db", "dev", "keys"),
            *("resume", "runner", "runs", "serve", "sessions"),
        ),
        "server",
    ),
}
BRINGS = {"cli": {"cli"}, "gateway": {"cli", "gateway"}}


def run(*words, **options):
    done = subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=environment(),
        **options,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def environment():
    """What the shell has, without what belongs to the environment of the tests."""
    ours = ("VIRTUAL_ENV", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT", "CHECKRAIL_DATABASE_URL")
    return {name: value for name, value in os.environ.items() if name not in ours}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = run(find_uv_bin(), "build", "--wheel", "--out-dir", folder, ROOT)
    assert done.returncode == 0, done.stderr
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def command(wheel, tmp_path_factory):
    """Give the `checkrail` of an environment that has one extra, or none."""
    made = {}

    def installed(extra):
        if extra not in made:
            folder = tmp_path_factory.mktemp(f"with_{extra}") / "env"
            run(find_uv_bin(), "venv", "--quiet", "--python", sys.executable, folder)
            wanted = f"checkrail[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
            done = run(find_uv_bin(), "pip", "install", "--python", folder / "bin/python", wanted)
            assert done.returncode == 0, done.stderr
            made[extra] = folder / "bin" / "checkrail"
        return made[extra]

    return installed


@pytest.fixture
def project(tmp_path):
    (tmp_path / "checkrail.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path


def test_every_command_is_here(command):
    listed = run(command("cli"), "--help").stdout.partition("Commands:")[2]
    assert re.findall(r"^  ([a-z-]+)  +\S", listed, re.MULTILINE) == sorted(NEEDED)


@pytest.mark.parametrize("extra", ["", *WITHOUT_THE_COMMAND])
def test_without_its_extra_the_command_names_it(command, extra, project):
    done = run(command(extra), "check", "checkrail.yaml", cwd=project)
    assert done.returncode == 1
    assert done.stderr == 'The checkrail command needs an extra: pip install "checkrail[cli]"\n'


@pytest.mark.parametrize("name", sorted(NEEDED))
@pytest.mark.parametrize("extra", ["cli", "gateway"])
def test_a_command_works_or_names_its_extra(command, extra, name, project):
    needed = NEEDED[name]
    assert run(command(extra), name, "--help").returncode == 0
    if needed in BRINGS[extra]:
        works(command(extra), name, project)
        return
    words = ENDING.get(name) or SERVING[name][0]
    done = run(command(extra), *words, cwd=project)
    assert done.returncode == 4
    assert f'pip install "checkrail[{needed}]"' in done.stderr
    assert f"`checkrail {name}" in done.stderr


@pytest.mark.parametrize(
    "name", sorted({*NEEDED} - {"approvals", "calls", "resume", "runner", "runs", "sessions"})
)
def test_with_the_server_every_command_works(command, name, project):
    works(command("server"), name, project)


def test_with_everything_a_server_starts(command, project):
    works(command("all"), "dev", project)


def test_commands_that_talk_to_a_server_work(command, project):
    checkrail, port = command("server"), free_port()
    url = f"http://127.0.0.1:{port}"
    with Serving(checkrail, project, "dev", "--port", port) as served:
        served.wait_for(f"{url}/ok")
        for words in (["runs", "ls"], ["approvals", "ls"], ["calls", "ls"], ["sessions", "ls"]):
            assert run(checkrail, *words, "--server", url, cwd=project).returncode == 0
        done = run(checkrail, *ENDING["resume"], "--server", url, cwd=project)
        assert (done.returncode, "404" in done.stderr) == (2, True)
        with Serving(checkrail, project, "runner", "--server", url, "--name", "outside") as runner:
            while not runner_names(url):
                assert runner.process.poll() is None, runner.log.read_text()
                time.sleep(0.1)


def runner_names(url):
    with urllib.request.urlopen(f"{url}/runners", timeout=10) as answer:
        return [each["name"] for each in json.load(answer) if each["name"] == "outside"]


def works(checkrail, name, project):
    if name in ENDING:
        done = run(checkrail, *ENDING[name], cwd=project)
        assert done.returncode == 0, done.stderr
        return
    words, path = SERVING[name]
    port = free_port()
    with Serving(checkrail, project, *words, "--port", port) as served:
        served.wait_for(f"http://127.0.0.1:{port}{path}")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Serving:
    """A command that goes on until it is told to stop, and then ends well."""

    def __init__(self, checkrail, folder, *words):
        self.log = folder / f"{words[0]}.log"
        with self.log.open("w") as log:
            started = [*map(str, (checkrail, *words))]
            self.process = subprocess.Popen(
                started, cwd=folder, stdout=log, stderr=log, env=environment()
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        told = self.log.read_text()
        assert "Traceback" not in told, told
        assert code == 0, told

    def wait_for(self, url):
        """Wait until it answers, whatever it answers."""
        while self.process.poll() is None:
            try:
                urllib.request.urlopen(url, timeout=10).close()
            except urllib.request.HTTPError:
                return
            except URLError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(self.log.read_text())
