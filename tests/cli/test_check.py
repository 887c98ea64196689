"""`checkrail check` on files that are right: the plan that it prints, for people and machines."""

import json
from pathlib import Path

import pytest

OWN = """
from checkrail import Hooks

hooks = Hooks()

def watch(event):
    pass

@hooks.before_run(when=lambda event: True, timeout=None)
def free(event):
    pass
"""

YAML = """
hooks:
  before_tool_call:
    - name: late
      priority: 200
      set: { args.unit: celsius }
    - name: watch
      path: ./own.py:watch
      mode: async
    - name: limit
      lane: gate
      tools: [transfer, /^pay_/]
      users: ann
      when: tool_call.args.amount > 1000
      block: Too much
      timeout: 0.5
      on_error: { timeout: continue }
    - name: early
      lane: transform
      priority: 1
      mode: shadow
      block: Not yet
  pre_request:
    name: rules
    inject: Be brief.
    timeout_seconds: 2
    on_error: block
  on_run_finish:
    - name: audit
      path: ./own.py:watch
    - name: asleep
      enabled: false
      path: ./own.py:watch
"""

TOML = """
[[hooks.before_tool_call]]
name = "late"
priority = 200
set = { "args.unit" = "celsius" }

[[hooks.before_tool_call]]
name = "watch"
path = "./own.py:watch"
mode = "async"

[[hooks.before_tool_call]]
name = "limit"
lane = "gate"
tools = ["transfer", "/^pay_/"]
users = "ann"
when = "tool_call.args.amount > 1000"
block = "Too much"
timeout = 0.5
on_error = { timeout = "continue" }

[[hooks.before_tool_call]]
name = "early"
lane = "transform"
priority = 1
mode = "shadow"
block = "Not yet"

[hooks.pre_request]
name = "rules"
inject = "Be brief."
timeout_seconds = 2
on_error = "block"

[[hooks.on_run_finish]]
name = "audit"
path = "./own.py:watch"

[[hooks.on_run_finish]]
name = "asleep"
enabled = false
path = "./own.py:watch"
"""

NOTES = [f"note: checkrail.yaml:{line}" for line in (8, 25, 31)]  # of older spellings
HEAD = ["#", "hook", "does", "lane", "priority", "matches", "timeout", "on_error", "mode"]
OPEN = "continue, invalid: fail"
CLOSED = "block, timeout: continue, invalid: fail"
LIMIT = "tools: transfer, /^pay_/; users: ann; when: tool_call.args.amount > 1000"

PLAN = [
    ["before_llm_call"],
    HEAD,
    ["1", "rules", "rule: change", "transform", "100", "everything", "2 s", "block", "enforce"],
    [],
    ["before_tool_call"],
    HEAD,
    ["1", "early", "rule: block", "transform", "1", "everything", "5 s", OPEN, "shadow"],
    ["2", "late", "rule: change", "transform", "200", "everything", "5 s", OPEN, "enforce"],
    ["3", "limit", "rule: block", "gate", "100", LIMIT, "0.5 s", CLOSED, "enforce"],
    [
        "4",
        "watch",
        "./own.py:watch",
        "observe (background)",
        "100",
        "everything",
        "5 s",
        "continue",
        "enforce",
    ],
    [],
    ["after_run"],
    HEAD,
    ["1", "audit", "./own.py:watch", "observe", "100", "everything", "5 s", "continue", "enforce"],
    [],
    ["on_run_error"],
    HEAD,
    ["1", "audit", "./own.py:watch", "observe", "100", "everything", "5 s", "continue", "enforce"],
    [],
    ["switched off: asleep"],
    ["checkrail.yaml: 6 hooks at 4 of 16 points"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("plan")
    (found / "own.py").write_text(OWN)
    (found / "checkrail.yaml").write_text(YAML.lstrip())
    (found / "checkrail.toml").write_text(TOML.lstrip())
    return found


@pytest.fixture(scope="module")
def told(start, folder):
    """What is told of the YAML file."""
    done = start("check", "checkrail.yaml", "--json", cwd=folder)
    assert (done.code, done.err) == (0, "")
    return done.data


def test_the_plan_shows_every_hook_in_the_order_of_its_calls(start, folder):
    done = start("check", "checkrail.yaml", cwd=folder)
    assert (done.code, [line.partition(" hooks")[0] for line in done.err.splitlines()]) == (
        0,
        NOTES,
    )
    assert done.rows == PLAN


def test_without_a_file_it_is_that_of_the_folder(start, tmp_path):
    (tmp_path / "checkrail.yaml").write_text("hooks: { before_run: { name: no, block: no } }\n")
    done = start("check", "--json", cwd=tmp_path)
    assert (done.code, done.data["file"]) == (0, "checkrail.yaml")
    assert [hook["name"] for hook in done.data["plan"]["before_run"]] == ["no"]


def test_without_any_file_it_says_so(start, tmp_path):
    done = start("check", cwd=tmp_path)
    assert done.code == 1
    assert "checkrail.yaml" in done.err


def test_the_plan_as_json_has_the_same_hooks_in_the_same_order(told):
    assert told.keys() == {"file", "ok", "warnings", "notes", "plan", "off"}
    assert (told["file"], told["ok"], told["warnings"]) == ("checkrail.yaml", True, [])
    assert told["off"] == ["asleep"]
    assert {point: [hook["name"] for hook in hooks] for point, hooks in told["plan"].items()} == {
        "before_llm_call": ["rules"],
        "before_tool_call": ["early", "late", "limit", "watch"],
        "after_run": ["audit"],
        "on_run_error": ["audit"],
    }


def test_a_hook_as_json_tells_all_that_decides_how_it_is_treated(told):
    assert told["plan"]["before_tool_call"][2] == {
        "name": "limit",
        "lane": "gate",
        "priority": 100,
        "match": {"tools": ["transfer", "/^pay_/"], "users": ["ann"]},
        "when": "tool_call.args.amount > 1000",
        "timeout": 0.5,
        "on_error": {
            "error": "block",
            "timeout": "continue",
            "unreachable": "block",
            "invalid": "fail",
        },
        "mode": "enforce",
        "background": False,
        "stream": "whole",
        "may": ["block"],
        "declared": "before_tool_call",
        "type": "rule",
        "target": "rule",
        "source": "checkrail.yaml:9",
    }
    watch = told["plan"]["before_tool_call"][3]
    assert (watch["background"], watch["type"], watch["target"]) == (
        True,
        "python",
        "./own.py:watch",
    )
    assert told["plan"]["before_llm_call"][0]["declared"] == "pre_request"
    assert told["plan"]["before_llm_call"][0]["when"] is False
    assert told["plan"]["after_run"][0]["declared"] == "on_run_finish"


def test_a_finish_hook_that_says_block_is_shown_as_what_it_is(start, tmp_path):
    (tmp_path / "own.py").write_text("def watch(event): ...\n")
    (tmp_path / "checkrail.yaml").write_text(
        "hooks:\n  on_run_finish: {name: audit, path: ./own.py:watch, on_error: block}\n"
    )
    done = start("check", "checkrail.yaml", cwd=tmp_path)
    assert "block (logged as an error: the run is over)" in " ".join(done.out.split())
    told = start("check", "checkrail.yaml", "--json", cwd=tmp_path).data
    assert {*told["plan"]["after_run"][0]["on_error"].values()} == {"block"}


def without_sources(plan):
    return {
        point: [{key: told for key, told in hook.items() if key != "source"} for hook in hooks]
        for point, hooks in plan.items()
    }


def test_toml_gives_the_same_plan(start, folder, told):
    done = start("check", "checkrail.toml", "--json", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert without_sources(done.data["plan"]) == without_sources(told["plan"])
    sources = [hook["source"] for hook in done.data["plan"]["before_tool_call"]]
    assert sources == [f"checkrail.toml:{line}" for line in (21, 1, 11, 6)]


def test_json_gives_the_same_plan(start, folder, told):
    import tomllib

    (folder / "checkrail.json").write_text(json.dumps(tomllib.loads(TOML), indent=1))
    done = start("check", "checkrail.json", "--json", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert without_sources(done.data["plan"]) == without_sources(told["plan"])
    assert done.data["plan"]["before_tool_call"][1]["source"] == "checkrail.json:4"


def test_hooks_of_a_python_object_may_have_no_timeout_and_a_condition_in_code(invoke, write):
    write("own.py", OWN)
    write("checkrail.json", '{"hooks": {"path": "./own.py:hooks"}}')
    rows = invoke("check", "checkrail.json").rows
    assert rows[2] == [
        *("1", "free", "free", "transform", "100", "when: (code)", "none"),
        *("block, invalid: fail", "enforce"),
    ]
    (hook,) = invoke("check", "checkrail.json", "--json").data["plan"]["before_run"]
    assert (hook["timeout"], hook["when"]) == (None, True)
    assert hook["source"].endswith("own.py:8")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.yaml", "hooks: {}\n"),
        ("nothing.json", '{"hooks": {"before_run": []}}'),
    ],
)
def test_a_file_without_hooks_is_right_and_says_so(name, text, invoke, write):
    write(name, text)
    done = invoke("check", name)
    assert (done.code, done.out) == (0, f"{name}: 0 hooks at 0 of 16 points\n")
    told = invoke("check", name, "--json").data
    assert told == {"file": name, "ok": True, "warnings": [], "plan": {}, "off": []}


def test_one_hook_is_one_hook(invoke, write):
    write("one.json", '{"hooks": {"on_error": {"path": "./own.py:watch"}}}')
    write("own.py", OWN)
    assert invoke("check", "one.json").rows[-1] == ["one.json: 1 hook at 1 of 16 points"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.yaml", ""),
        ("empty.json", ""),
        ("empty.toml", ""),
        ("comment.yaml", "# nothing yet\n"),
        ("nothing.yaml", "hooks:\n"),
    ],
)
def test_a_file_that_says_nothing_is_a_problem(name, text, invoke, write):
    write(name, text)
    done = invoke("check", name)
    assert done.code == 1
    assert "write hooks: {}" in done.err
