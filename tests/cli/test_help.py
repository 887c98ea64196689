"""Help that helps: every command, an example for each that works, and what is missing."""

import importlib.metadata
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from checkrail.cli.extras import PACKAGES

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

COMMANDS = ["chat", "check", "fire", "hooks", "init", "schema"]
OF_THE_SERVER = [
    "approvals",
    "calls",
    "db",
    "dev",
    "keys",
    "resume",
    "runner",
    "runs",
    "serve",
    "sessions",
]
OF_THE_GATEWAY = ["gateway", "litellm-config", "with"]
"""Their examples are in tests of their own."""

RULES = """
    hooks:
      before_tool_call:
        - name: limit
          tools: [transfer]
          when: tool_call.args.amount > 1000
          block: Transfers over 1000 need the finance desk
    agents:
      support: { model: { provider: scripted, replies: [It is on its way.] } }
"""

EXAMPLES_SAY = {
    "chat": (0, "It is on its way."),
    "check": (0, "limit"),
    "fire": (3, "Transfers over 1000 need the finance desk"),
    "hooks": (0, "takes secrets, e-mail addresses and card numbers out"),
    "init": (0, "my-project: made checkrail.yaml"),
    "schema": (0, '"point": "before_tool_call"'),
}

WITHOUT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
sys.argv = ["checkrail", *{args!r}]
from checkrail.cli import main
main()
"""

HELP_AND_IMPORTS = """
import sys
sys.argv = ["checkrail", "--help"]
from checkrail.cli import main
try:
    main()
finally:
    heavy = {"cel", "fastapi", "httpx2", "jsonschema_rs", "pydantic", "rich.console"}
    heavy |= {"ruamel.yaml", "sqlalchemy"}
    print(sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_help_names_every_command_and_exit_code(installed):
    done = installed("--help")
    assert (done.code, done.err) == (0, "")
    listed = done.out.partition("Commands:")[2]
    assert re.findall(r"^  ([a-z-]+)  +\S", listed, re.MULTILINE) == sorted(
        COMMANDS + OF_THE_SERVER + OF_THE_GATEWAY
    )
    codes = " ".join(done.out.split())
    for told in ("0 fine", "1 the file has problems", "2 the command", "3 blocked", "4 failed"):
        assert told in codes
    assert "Example: checkrail check checkrail.yaml" in done.out


def test_help_imports_nothing_heavy():
    done = python(HELP_AND_IMPORTS)
    assert done.stdout.startswith("Usage: checkrail")
    assert done.stderr == "[]\n"


CHECK_AND_IMPORTS = """
import sys
sys.argv = ["checkrail", "check", {file!r}]
from checkrail.cli import main
try:
    main()
finally:
    others = {{"cel.cli", "checkrail.actions.http", "checkrail.agent", "checkrail.builtin"}}
    others |= {{"checkrail.config.agents", "langgraph", "openai", "prompt_toolkit"}}
    others |= {{"sqlalchemy", "typer"}}
    print(sorted(others & sys.modules.keys()), file=sys.stderr)
"""


def test_check_imports_what_a_file_needs_and_no_more(write):
    file = write(
        "checkrail.yaml",
        """
        hooks:
          before_tool_call:
            - { name: limit, when: tool_call.args.amount > 1000, block: Too much }
        """,
    )
    done = python(CHECK_AND_IMPORTS.format(file=str(file)))
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_version_is_that_of_the_package(installed):
    done = installed("--version")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"checkrail, version {importlib.metadata.version('checkrail')}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_in_the_help_of_a_command_works(name, installed, invoke, write):
    write("checkrail.yaml", RULES)
    help_text = invoke(name, "--help")
    assert help_text.code == 0
    assert help_text.out == invoke(name, "-h").out
    assert help_text.out.startswith(f"Usage: checkrail {name} ")
    program, *words = shlex.split(" ".join(help_text.out.partition("Example:")[2].split()))
    assert (program, words[0]) == ("checkrail", name)
    done = installed(*words)
    code, says = EXAMPLES_SAY[name]
    assert (done.code, done.err) == (code, "")
    assert says in done.out


def test_the_commands_tell_their_options(invoke):
    said = {name: invoke(name, "--help").out for name in COMMANDS}
    assert all("--json" in text for text in said.values())
    for option in ("--value JSON", "--context JSON", "--approve / --deny"):
        assert option in said["fire"]
    assert "Leaves with 3 if the hooks block and with 4 if they fail." in said["fire"]


@pytest.mark.parametrize("name", OF_THE_SERVER + OF_THE_GATEWAY)
def test_the_commands_of_the_server_have_an_example_too(name, invoke):
    done = invoke(name, "--help")
    assert (done.code, done.out) == (0, invoke(name, "-h").out)
    assert done.out.startswith(f"Usage: checkrail {name} ")
    assert f"Example: checkrail {name}" in done.out


def test_no_command_shows_the_help(invoke):
    done = invoke()
    assert done.code == 2
    assert "Commands:" in done.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["chekc"], "did you mean 'check'?"),
        (["fire", "checkrail.yaml"], "Missing argument 'POINT'"),
        (["check", "--jsn", "checkrail.yaml"], "--json"),
        (["hooks", "redact", "twice"], "unexpected extra argument (twice)"),
    ],
)
def test_misuse_is_told_in_a_line_and_leaves_with_2(args, says, invoke, write):
    write("checkrail.yaml", RULES)
    done = invoke(*args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert "--help' for help." in done.err


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_its_extra_the_command_says_what_to_install(package, write):
    file = write("checkrail.json", '{"hooks": {}}')
    done = python(WITHOUT.format(package=package, args=["check", str(file)]))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'The checkrail command needs an extra: pip install "checkrail[cli]"\n'


def test_without_ruamel_a_yaml_file_says_what_to_install(write):
    file = write("checkrail.yaml", RULES)
    done = python(WITHOUT.format(package="ruamel", args=["check", str(file)]))
    assert (done.returncode, done.stdout) == (1, "")
    assert 'pip install "checkrail[config]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("package", "extra", "args"),
    [
        ("structlog", "server", ["dev"]),
        ("orjson", "server", ["serve"]),
        ("orjson", "server", ["runner"]),
        ("httpx2", "server", ["runs", "ls"]),
        ("sqlalchemy", "server", ["keys", "ls"]),
        ("aiohttp", "gateway", ["gateway"]),
    ],
)
def test_a_command_says_which_extra_it_needs(package, extra, args, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package, args=args)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        f"Error: `checkrail {' '.join(args)}` needs packages that are not installed here: "
        f'{package}. Install them: pip install "checkrail[{extra}]"\n'
    )


NAMES = {
    "langgraph": "langgraph.pregel",
    "langgraph-checkpoint": "langgraph.checkpoint.base",
    "langgraph-checkpoint-postgres": "langgraph.checkpoint.postgres",
    "langgraph-checkpoint-sqlite": "langgraph.checkpoint.sqlite",
    "opentelemetry-api": "opentelemetry",
}
"""Packages that are imported by another name than their own."""


def brought(extras, extra):
    """The packages that an extra brings wherever it is installed, as they are imported."""
    for line in extras[extra]:
        name, _, more = re.match(r"([\w.-]+)(\[([\w,]+)\])?", line).groups()
        if name == "checkrail":
            for inner in more.split(","):
                yield from brought(extras, inner)
        elif ";" not in line:
            yield NAMES.get(name, name.replace("-", "_"))


@pytest.mark.parametrize("extra", sorted(PACKAGES))
def test_all_that_an_extra_brings_is_looked_for(extra):
    extras = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = extras["optional-dependencies"]
    needed = {*brought(extras, extra)} - {*brought(extras, "cli")}
    assert sorted(needed) == sorted(PACKAGES[extra])
