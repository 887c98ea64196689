"""What `checkrail check` says of a file that is right, but hardly as it was meant."""

import json
import sqlite3

import pytest

FILE = """
hooks:
  before_tool_call:
    - name: limit
      tools: [{tool}]
      block: No
  {point}:
    - {{ name: clean, builtin: redact }}
agents:
  desk:
    model: {{ provider: {provider}, model: m, replies: [Hi] }}
    tools: [./tools.py:pay]
    {more}
"""

TOOLS = """
def pay(amount: int) -> str:
    \"\"\"Pay.\"\"\"
    return "paid"
"""


@pytest.fixture
def warned(invoke, tmp_path):
    def warned(tool="pay", point="after_llm_call", provider="scripted", more=""):
        told = FILE.format(tool=tool, point=point, provider=provider, more=more)
        if provider != "scripted":
            told = told.replace(", replies: [Hi]", "")
        (tmp_path / "checkrail.yaml").write_text(told)
        (tmp_path / "tools.py").write_text(TOOLS)
        done = invoke("check", "checkrail.yaml", "--json")
        assert done.code == 0, done.out
        people = invoke("check", "checkrail.yaml")
        warnings = done.data["warnings"]
        assert all(item["found"] in people.err for item in warnings)
        return [f"{item['path']}: {item['found']} ({item['hint']})" for item in warnings]

    return warned


def test_a_file_that_is_as_it_was_meant_gets_no_advice(warned):
    assert warned() == []
    assert warned(tool='"p*"') == []


@pytest.mark.parametrize("tool", ["payy", "pays"])
def test_a_rule_for_a_tool_that_nobody_has_is_told(warned, tool):
    (told,) = warned(tool=tool)
    assert told == f"'limit': no agent of this file has a tool {tool!r} (did you mean 'pay'?)"


def test_a_tool_that_is_like_none_is_told_with_those_that_are_there(warned):
    assert warned(tool="zzz")[0].endswith("(they have: pay)")


def test_tools_of_mcp_servers_are_not_known_before_they_run(warned):
    assert warned(tool="payy", more="mcp: { notes: { command: [notes] } }") == []


def test_a_redaction_that_misses_the_text_beside_tool_calls_is_told(warned):
    (told,) = warned(point="before_final_response")
    assert told.startswith("'clean': it does not see the text beside tool calls")


def test_a_redaction_that_agents_do_not_take_back_is_told(invoke, tmp_path):
    file = tmp_path / "checkrail.yaml"
    hooks = "hooks: {before_llm_call: {name: r, redact: {kinds: [secrets], restore: tools}}}\n"
    told = []
    for agents in ("", "agents: {a: {model: {replies: [hello]}}}\n"):
        file.write_text(hooks + agents)
        told.append(
            [each["found"] for each in invoke("check", str(file), "--json").data["warnings"]]
        )
    found = "`restore` holds at the gateway: in the agents of this file nothing is put back"
    assert told == [[], [found]]


def test_an_index_that_sqlite_cannot_have_is_told(invoke, tmp_path):
    file = tmp_path / "checkrail.yaml"
    index = "{dims: 2, embed: './embed.py:embed'}"
    told = []
    for database in ("sqlite:///kept.db", "postgresql://localhost/kept"):
        file.write_text(f"database: {database}\nstore: {{index: {index}}}\n")
        told.append(
            [item["found"] for item in invoke("check", str(file), "--json").data["warnings"]]
        )
    able = hasattr(sqlite3.Connection, "enable_load_extension")
    lacking = "store.index needs SQLite extensions, and this Python was built without them"
    assert told == [[] if able else [lacking], []]


def test_a_package_that_is_not_installed_is_told(warned):
    (told,) = warned(provider="litellm")
    assert told == (
        "'desk': it needs the package litellm, which is not installed here"
        ' (pip install "litellm")'
    )
    assert warned(provider="openai") == []


def test_the_module_is_the_command(tmp_path):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "checkrail", "hooks", "redact", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["name"] == "redact"


BLOCKING = """
import subprocess
import time

from checkrail import Hooks

hooks = Hooks()


@hooks.before_run
def sleeps(event):
    time.sleep(1)


@hooks.before_run
async def starts(event):
    subprocess.run(["true"])


@hooks.before_run(thread=True)
def aside(event):
    time.sleep(1)


@hooks.before_run
def quick(event):
    return time.time() and None
"""


def test_a_hook_that_stalls_its_process_is_told(invoke, tmp_path):
    (tmp_path / "blocking.py").write_text(BLOCKING)
    (tmp_path / "checkrail.yaml").write_text("hooks: { path: ./blocking.py:hooks }\n")
    warnings = invoke("check", "checkrail.yaml", "--json").data["warnings"]
    found = {item["path"]: item["found"].split()[2] for item in warnings}
    assert found == {"'sleeps'": "time.sleep", "'starts'": "subprocess.run"}
    assert all("thread: true" in item["hint"] for item in warnings)


SEARCHING = """
hooks:
  path: ./hooks.py:hooks
  before_tool_call:
    - name: no_force
      when: tool_call.args.command.contains("push --force")
      block: No
  after_llm_call:
    - { name: no_secrets, when: 'message.content.contains("secret")', block: No }
    - { name: said, when: 'message.text.contains("secret")', block: No }
"""
HOOKS = """
from checkrail import Hooks
hooks = Hooks()

@hooks.after_llm_call(when="message.content.startsWith('x')")
def in_python(event):
    pass
"""


def test_a_search_of_what_may_be_no_text_is_told(invoke, tmp_path):
    (tmp_path / "checkrail.yaml").write_text(SEARCHING)
    (tmp_path / "hooks.py").write_text(HOOKS)
    done = invoke("check", "checkrail.yaml", "--json")
    assert {(item["line"], item["path"], item["hint"]) for item in done.data["warnings"]} == {
        (
            5,
            "'no_force'",
            "write text(tool_call.args.command).contains(…), which searches all text in it",
        ),
        (9, "'no_secrets'", "write message.text.contains(…), which searches all text in it"),
        (5, "'in_python'", "write message.text.startsWith(…), which searches all text in it"),
    }


OPEN = """
from checkrail import Block, Continue, Hook, Hooks

hooks = Hooks()


@hooks.before_tool_call
def limit(event, call):
    return Block("no") if call.args["amount"] > 5 else None


def cap(event, call):
    return Block("no") if call.name == "x" else Continue(call)


class Door(Hook):
    name = "door"
    points = ("before_inbound",)

    def execute(self, event, ctx):
        return Block("closed")


@hooks.before_tool_call(lane="gate")
def gate(event, call):
    return Block("no")


every = [hooks, Door()]
"""


def test_a_hook_that_refuses_but_fails_open_is_told_with_its_remedy(invoke, tmp_path):
    (tmp_path / "house.py").write_text(OPEN)
    (tmp_path / "objects.yaml").write_text("hooks: {path: ./house.py:every}\n")
    (tmp_path / "entries.yaml").write_text(
        "hooks:\n  before_tool_call:\n    - path: ./house.py:limit\n"
        "    - path: ./house.py:cap\n    - {path: ./house.py:limit, lane: gate, name: g}\n"
        "    - {path: ./house.py:limit, on_error: continue, name: o}\n"
    )
    risk = "it can refuse, but in lane transform its failure or timeout lets the work go on"
    done = invoke("check", "objects.yaml", "--json")
    told = [(each["path"], each["found"], each["hint"]) for each in done.data["warnings"]]
    assert told == [("'limit'", risk, 'say lane="gate"'), ("'door'", risk, 'say lane="gate"')]
    assert done.err == ""
    done = invoke("check", "entries.yaml", "--json")
    told = [(each["found"], each["hint"]) for each in done.data["warnings"]]
    assert told == [(risk, "say lane: gate"), (risk, "say on_error: block")]
    people = invoke("check", "entries.yaml")
    assert people.err.count("fails open") == 0
    assert people.err.count("lets the work go on") == 2
