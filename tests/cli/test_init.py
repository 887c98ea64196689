"""`checkrail init` makes a project that is right, runs offline, and harms nothing that is there."""

import ast
import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from checkrail.config import load
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall, User

DOCS = Path(__file__).parents[2] / "docs"

FILES = [
    "checkrail.yaml",
    "agent.py",
    "hooks.py",
    "checkrail.schema.json",
    ".gitignore",
    "README.md",
]


def test_a_project_is_made_and_passes_its_check(checkrail, tmp_path):
    done = checkrail("init", "shop")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == f"shop: made {', '.join(FILES)}"
    steps = [line.strip() for line in done.out.partition("Next:")[2].splitlines() if line.strip()]
    assert steps == ["cd shop", "checkrail check checkrail.yaml", "checkrail dev"]
    checked = checkrail("check", "shop/checkrail.yaml")
    assert (checked.code, checked.err) == (0, "")
    assert checked.rows[-1] == ["shop/checkrail.yaml: 4 hooks at 4 of 16 points, 1 agent"]
    assert sorted(path.name for path in (tmp_path / "shop").iterdir()) == sorted(FILES)


def test_the_folder_itself_will_do_and_machines_are_told(invoke, tmp_path):
    done = invoke("init", "--json")
    assert done.code == 0
    assert done.data == {
        "folder": ".",
        "ok": True,
        "created": FILES,
        "kept": [],
        "next": ["checkrail check checkrail.yaml", "checkrail dev"],
    }
    assert (tmp_path / "agent.py").is_file()


async def test_its_graph_runs_with_its_tool_and_without_a_network(invoke, tmp_path):
    invoke("init", "shop")
    loaded = load(tmp_path / "shop" / "checkrail.yaml")
    agent = loaded.agents["agent"]
    graph = loaded.load_object(agent.path, "the graph 'agent'")
    question = {"messages": [{"role": "user", "content": "Where is order A-17?"}]}
    for answer in (graph.invoke(question), await graph.ainvoke(question)):
        kinds = [message.type for message in answer["messages"]]
        assert kinds == ["human", "ai", "tool", "ai"]
        assert answer["messages"][-1].content == "Order A-17 is on its way."


async def test_its_hooks_refuse_a_user_and_a_call(invoke, tmp_path):
    invoke("init", "shop")
    registry = HookRegistry()
    registry.swap(load(tmp_path / "shop" / "checkrail.yaml").specs)
    told = {}
    for name in ("alice", "bob"):
        verdict = await registry.fire("before_run", {}, user=User(identity=name))
        told[name] = (verdict.decision, verdict.reason, verdict.status)
    assert told["alice"][0] == "continue"
    assert told["bob"] == ("block", "Active subscription required", 402)
    for order, decision in (("A-17", "continue"), ("B-17", "block")):
        call = ToolCall(id="1", name="lookup", args={"order": order})
        assert (await registry.fire("before_tool_call", call)).decision == decision


async def test_hooks_of_the_docs_can_be_put_into_its_hooks(invoke, tmp_path):
    invoke("init", "shop")
    hooks = tmp_path / "shop" / "hooks.py"
    page = (DOCS / "run-hooks.md").read_text(encoding="utf-8")
    gate = re.search(r"<!-- file: gate.py -->\n```python\n(.*?)```", page, re.DOTALL)[1]
    functions = gate.partition("hooks = RunHooks()")[2].replace('"research"', '"agent"')
    assert "@hooks.before_run" in functions
    hooks.write_text(hooks.read_text(encoding="utf-8") + functions, encoding="utf-8")
    registry = HookRegistry()
    registry.swap(load(tmp_path / "shop" / "checkrail.yaml").specs)
    ids = {"agent_name": "agent", "user": User(identity="carol")}
    assert (await registry.fire("before_run", {}, **ids)).status == 402


def test_its_file_names_its_schema_and_fits_it(invoke, tmp_path):
    invoke("init", ".")
    first, *_ = (tmp_path / "checkrail.yaml").read_text(encoding="utf-8").splitlines()
    assert first == "# yaml-language-server: $schema=./checkrail.schema.json"
    schema = json.loads((tmp_path / "checkrail.schema.json").read_text(encoding="utf-8"))
    assert schema == invoke("schema", "--file").data
    file = YAML(typ="safe", pure=True).load(tmp_path / "checkrail.yaml")
    jsonschema_rs.validator_for(schema).validate(file)
    file["hooks"]["before_tool_call"][0]["tool"] = ["lookup"]
    assert not jsonschema_rs.validator_for(schema).is_valid(file)


def test_its_readme_has_three_commands_and_a_script_of_five_lines(invoke, tmp_path):
    invoke("init", ".")
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    (\S.*)$", readme, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["pip", "checkrail", "checkrail"]
    script = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    ast.parse(script)
    assert len([line for line in script.splitlines() if line]) == 5
    port = load(tmp_path / "checkrail.yaml").server.port
    assert f"http://127.0.0.1:{port}" in script


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ("checkrail.yaml", "has checkrail.yaml already: start it with `checkrail dev`"),
        ("langgraph.json", "has langgraph.json already: start it with `checkrail dev`"),
        ("hooks.py", "has hooks.py already: choose another folder, or move them"),
        (
            "checkrail.schema.json",
            "has checkrail.schema.json already: choose another folder, or move them",
        ),
    ],
)
def test_nothing_is_overwritten(invoke, write, tmp_path, there, says):
    write(f"shop/{there}", "mine")
    done, told = invoke("init", "shop"), invoke("init", "shop", "--json")
    assert (done.code, done.out, told.code) == (1, "", 1)
    assert done.err == f"shop {says}. Nothing was written.\n"
    assert told.data == {"folder": "shop", "ok": False, "problem": says}
    assert [path.name for path in (tmp_path / "shop").iterdir()] == [there]
    assert (tmp_path / "shop" / there).read_text(encoding="utf-8") == "mine"


def test_what_a_folder_has_of_common_files_is_kept(invoke, write, tmp_path):
    write("README.md", "mine")
    done = invoke("init")
    assert done.code == 0
    assert "kept as they were: README.md" in done.out
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / ".gitignore").is_file()


def test_a_file_is_no_folder(invoke, write):
    write("shop", "")
    done = invoke("init", "shop")
    assert (done.code, done.out) == (1, "")
    assert done.err == "shop is a file, and no folder. Nothing was written.\n"
    below = invoke("init", "shop/inner")
    assert (below.code, below.out) == (1, "")
    assert "shop/inner cannot be written to: Not a directory" in below.err


def test_what_is_not_installed_is_a_step(invoke, monkeypatch):
    monkeypatch.setattr("checkrail.cli.init.is_installed", lambda name: False)
    steps = invoke("init", "shop", "--json").data["next"]
    assert steps[1] == 'pip install "checkrail[server]"'
