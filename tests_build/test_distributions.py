"""The sdist and the wheel of `dist/`, each installed in an environment with nothing else in it.

`make build` makes them first. Nothing here imports Checkrail: its commands are started in a folder
elsewhere, so that a file that only the checkout has is missed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
UV = ROOT / os.environ.get("UV", ".tools/bin/uv")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
SDIST = DIST / f"checkrail-{VERSION}.tar.gz"
WHEEL = DIST / f"checkrail-{VERSION}-py3-none-any.whl"

OFFLINE_AGENT = """
from checkrail import Agent, Block, Hooks, ToolCall
from checkrail.testing import ScriptedModel

hooks = Hooks()

@hooks.before_tool_call(tools=["transfer"], lane="gate")
def limit(event, call):
    return Block("Too much") if call.args["amount"] > 1000 else None

def transfer(amount: int) -> str:
    return f"moved {amount}"

model = ScriptedModel([ToolCall("1", "transfer", {"amount": 5000}), "Sorry."])
response = Agent(model, tools=[transfer], hooks=hooks).run_sync("Move 5000")
print(response.content, response.messages[2]["content"])
"""

TYPED = """
from checkrail import Block, Event, Hooks, ToolCall

hooks = Hooks()

@hooks.before_tool_call(lane="gate")
async def limit(event: Event[ToolCall], call: ToolCall) -> Block | None:
    reveal_type(call.name)
    return None
"""


def shell_environment():
    """What a new shell would have: nothing that points to the checkout or to its environment."""
    kept = ("HOME", "LANG", "PATH", "SSL_CERT_FILE", "TMPDIR", "UV_SYSTEM_CERTS", "UV_CACHE_DIR")
    indexes = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "HTTPS_PROXY", "NO_PROXY")
    known = {name: os.environ[name] for name in (*kept, *indexes) if name in os.environ}
    return {**known, "COLUMNS": "100", "NO_COLOR": "1"}


def run(*words, cwd, code=0):
    """Return what a command prints, which has to end with this code."""
    done = subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env=shell_environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == code, f"$ {words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def install(distribution, extras, folder):
    """Install a distribution in a new environment, and return the folder of its commands."""
    environment = folder / "environment"
    run(UV, "venv", "--quiet", "--python", sys.executable, environment, cwd=folder)
    python = environment / "bin" / "python"
    wanted = f"checkrail{extras} @ {distribution.as_uri()}"
    run(UV, "pip", "install", "--quiet", "--python", python, wanted, cwd=folder)
    return environment / "bin"


@pytest.fixture(scope="module", params=[SDIST, WHEEL], ids=["sdist", "wheel"])
def commands(request, tmp_path_factory):
    """The commands of an environment that has the server, from each of the distributions."""
    return install(request.param, "[server]", tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module", params=[SDIST, WHEEL], ids=["sdist", "wheel"])
def bare_commands(request, tmp_path_factory):
    """The commands of an environment that has no extra, from each of the distributions."""
    return install(request.param, "", tmp_path_factory.mktemp("bare"))


@contextmanager
def serving(checkrail, *words, cwd):
    """Yield the address of a server while it is up; it has to end well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = cwd / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [checkrail, *words, "--port", str(port)],
            cwd=cwd,
            env=shell_environment(),
            stdout=out,
            stderr=out,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while not is_up(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def is_up(url):
    try:
        urllib.request.urlopen(f"{url}/ok", timeout=5).close()
    except urllib.error.URLError:
        return False
    return True


def tracked_files():
    """The files of the package, as Git knows them."""
    listed = run("git", "ls-files", "src/checkrail", cwd=ROOT)
    return {name.removeprefix("src/") for name in listed.splitlines()}


def test_the_wheel_has_the_whole_package_and_nothing_else():
    names = {name for name in zipfile.ZipFile(WHEEL).namelist() if ".dist-info/" not in name}
    assert names == tracked_files()


def test_the_sdist_has_the_whole_package():
    with tarfile.open(SDIST) as archive:
        names = {name.partition("/")[2].removeprefix("src/") for name in archive.getnames()}
    assert names >= tracked_files()
    assert names >= {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"}


def test_without_extras_an_agent_runs(bare_commands, tmp_path):
    python = bare_commands / "python"
    where = run(python, "-c", "import checkrail; print(checkrail.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(bare_commands.parent)
    printed = run(python, "-W", "error", "-c", OFFLINE_AGENT, cwd=tmp_path)
    assert printed == "Sorry. Too much\n"


def test_the_version_is_that_of_the_project(commands, tmp_path):
    assert VERSION in run(commands / "checkrail", "--version", cwd=tmp_path)


def test_help_names_the_commands(commands, tmp_path):
    listed = run(commands / "checkrail", "--help", cwd=tmp_path)
    assert "check  " in listed
    assert "dev  " in listed
    assert run(commands / "python", "-m", "checkrail", "--help", cwd=tmp_path) == listed


def test_type_checkers_see_its_types(bare_commands, tmp_path):
    (tmp_path / "rules.py").write_text(TYPED)
    checker = [sys.executable, "-m", "mypy", "--python-executable", bare_commands / "python"]
    printed = run(*checker, "--strict", "--cache-dir", tmp_path / "cache", "rules.py", cwd=tmp_path)
    assert 'Revealed type is "str"' in printed


def test_a_new_project_is_checked_and_run(commands, tmp_path):
    checkrail = commands / "checkrail"
    run(checkrail, "init", "desk", cwd=tmp_path)
    assert "order_numbers" in run(checkrail, "check", "desk", cwd=tmp_path)
    with serving(checkrail, "dev", "--config", "desk", cwd=tmp_path) as url:
        answer = post(f"{url}/runs/wait", question("Where is order A-17?"))
        assert answer["messages"][-1]["content"] == "Order A-17 is on its way."
        answer = post(f"{url}/runs/wait", question("Where is order B-17?"))
        assert answer["messages"][-1]["content"] == "Order numbers begin with A-"
        assert "docs/page.js" in get(f"{url}/docs")
        assert get(f"{url}/docs/page.js")


def question(text):
    return {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": text}]},
    }


def post(url, body):
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_an_agent_of_a_file_answers_from_its_script(commands, tmp_path):
    file = tmp_path / "checkrail.yaml"
    file.write_text("agents: {a: {model: {provider: scripted, replies: [Hello.]}}}\n")
    printed = run(commands / "checkrail", "chat", "checkrail.yaml", "-m", "hello", cwd=tmp_path)
    assert "Hello." in printed


def test_the_database_is_brought_up_to_date(commands, tmp_path):
    run(commands / "checkrail", "init", cwd=tmp_path)
    run(commands / "checkrail", "db", "upgrade", cwd=tmp_path)
    assert list(tmp_path.glob(".checkrail/*.db"))
