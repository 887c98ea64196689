"""The three shapes that users have, each as its first users write it."""

import json
import sys

import pytest

from checkrail import HookPoint, HookRegistry
from checkrail.config import ConfigError, load, load_text
from checkrail.engine.points import Lane
from checkrail.engine.values import ModelRequest, RunError, RunResult, ToolCall

RUN_HOOKS = """
    from checkrail.hooks import RunHooks

    hooks = RunHooks()
    seen = []

    @hooks.before_run
    async def gate(ctx):
        if ctx.graph_id == "paid":
            raise hooks.RejectRun("a subscription is needed", status_code=402)

    @hooks.after_run
    async def report(ctx):
        seen.append(ctx.status)
"""


def registry_of(loaded) -> HookRegistry:
    registry = HookRegistry()
    registry.swap(loaded.specs)
    return registry


async def test_an_object_of_run_hooks_beside_the_keys_of_a_server(write):
    write("hooks.py", RUN_HOOKS)
    config = {
        "graphs": {"agent": "./agent.py:graph"},
        "auth": {"path": "./auth.py:auth"},
        "http": {"app": "./app.py:app"},
        "hooks": {"path": "./hooks.py:hooks", "timeout": 7},
    }
    loaded = load(write("aegra.json", json.dumps(config)))
    assert [(spec.name, spec.timeout) for spec in loaded.specs] == [("gate", 7.0), ("report", 7.0)]
    verdict = await registry_of(loaded).fire("before_run", {}, agent_name="paid")
    assert (verdict.decision, verdict.status) == ("block", 402)
    assert {path.name for path in loaded.files} == {"aegra.json", "hooks.py"}


def test_an_object_of_run_hooks_has_ten_seconds_unless_said(write):
    write("hooks.py", RUN_HOOKS)
    loaded = load(write("aegra.json", '{"hooks": {"path": "./hooks.py:hooks"}}'))
    assert {spec.timeout for spec in loaded.specs} == {10.0}


OBJECTS = """
    from checkrail import Hook, HookRegistry
    from checkrail.styles.decorators import Hooks

    hooks = Hooks()

    @hooks.before_run
    def check(event):
        pass

    @hooks.before_run(name="slow", timeout=60)
    def slow(event):
        pass

    registry = HookRegistry()
    registry.register(lambda event: None, "after_run", name="watch")
    registry.register(check, "on_run_error")

    class Audit(Hook):
        name = "audit"
        points = ["after_run"]

        def execute(self, event):
            pass

    audit = Audit()
    spec = registry.list()[0]
    several = [hooks, audit, registry]
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hooks", {"check": 3.0, "slow": 60.0}),
        ("registry", {"watch": 3.0, "check": 3.0}),
        ("audit", {"audit": 3.0}),
        ("spec", {"watch": 3.0}),
        ("several", {"check": 3.0, "slow": 60.0, "audit": 3.0, "watch": 3.0, "check_2": 3.0}),
    ],
)
def test_other_objects_that_hold_hooks(write, name, expected):
    write("objects.py", OBJECTS)
    loaded = load(write("checkrail.yaml", f"hooks: {{path: ./objects.py:{name}, timeout: 3}}\n"))
    assert {spec.name: spec.timeout for spec in loaded.specs} == expected


PROXY_HOOKS = """
    from checkrail.styles.proxy import HookContext

    async def shorten(ctx: HookContext) -> HookContext:
        ctx.messages = ctx.messages[-ctx.metadata["hook_config"]["keep"]:]
        return ctx

    def mark(ctx):
        ctx.messages = [*ctx.messages, {"role": "user", "content": "marked"}]
        return ctx
"""

PROXY_CONFIG = """
    # Hooks run in the order in which they are listed.
    hooks:
      pre_request:
        - name: provider_compat
          module: checkrail.builtin
          function: strip_provider_fields
          enabled: true

        - name: shorten
          module: my_proxy_hooks
          function: shorten
          config:
            keep: 1

        - name: mark
          module: my_proxy_hooks
          function: mark

        - name: log_request
          module: checkrail.builtin
          function: log_request
          enabled: false  # for debugging
          config:
            verbose: false

      post_response:
        - name: log_response
          module: checkrail.builtin
          function: log_response
          enabled: false
          config:
            include_tokens: true

      pre_tool_call: []
      post_tool_call:

    python_path:
      - "${PROXY_HOME}/custom"
"""


async def test_lists_per_point_of_a_proxy(write, tmp_path, monkeypatch):
    monkeypatch.setenv("PROXY_HOME", str(tmp_path))
    write("custom/my_proxy_hooks.py", PROXY_HOOKS)
    loaded = load(write("hooks.yaml", PROXY_CONFIG))
    assert [(spec.name, spec.mode) for spec in loaded.specs] == [
        ("provider_compat", "enforce"),
        ("shorten", "enforce"),
        ("mark", "enforce"),
        ("log_request", "off"),
        ("log_response", "off"),
    ]
    assert loaded.settings.python_path == (tmp_path / "custom",)
    registry = registry_of(loaded)
    assert [spec.name for spec in registry.list("before_llm_call")] == [
        *("provider_compat", "shorten", "mark"),
    ]
    said = [{"role": "user", "content": text} for text in ("one", "two")]
    request = ModelRequest(model="groq/x", messages=said)
    verdict = await registry.fire("before_llm_call", request)
    assert [message["content"] for message in verdict.value.messages] == ["two", "marked"]


def test_python_path_expands_the_home_folder_and_is_relative_to_the_file(
    write, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    loaded = load(write("conf/checkrail.toml", 'python_path = ["~/hooks", "../beside"]\n'))
    assert loaded.settings.python_path == (tmp_path / "home/hooks", tmp_path / "beside")
    assert sys.path[:2] == [str(tmp_path / "home/hooks"), str(tmp_path / "beside")]
    assert [warning.line for warning in loaded.warnings] == [1, 1]
    assert "a folder that does not exist" in str(loaded.warnings[0])


async def test_a_single_entry_per_point_with_a_type():
    loaded = load_text(
        """
        {
          "hooks": {
            "on_run_start": {
              "type": "agent",
              "agent_name": "input-validator",
              "on_error": "block",
              "timeout_seconds": 60
            },
            "on_run_finish": {
              "type": "agent",
              "agent_name": "audit-logger",
              "on_error": "block"
            },
            "on_result": {
              "type": "http",
              "url": "https://audit.example/log",
              "mode": "async",
              "on_error": "ignore"
            }
          }
        }
        """,
        "json",
    )
    start, finish, notify = loaded.specs
    assert (start.name, start.target_type, start.target_name, start.timeout) == (
        *("on_run_start", "agent", "input-validator"),
        60.0,
    )
    assert [str(place.point) for place in finish.places] == ["after_run", "on_run_error"]
    assert finish.timeout == 300.0
    assert (notify.background, notify.mode, notify.on_error_text) == (True, "enforce", "continue")
    assert [warning.line for warning in loaded.warnings] == [4, 10]
    assert "agent hooks need the run server" in str(loaded.warnings[0])

    registry = registry_of(loaded)
    verdict = await registry.fire("on_run_start", {})
    assert (verdict.decision, verdict.status) == ("block", 502)
    await registry.fire("after_run", RunResult(status="success"))
    await registry.aclose()


async def test_on_run_finish_stands_at_success_and_error(write):
    write(
        "ends.py",
        """
        seen = []

        def note(event):
            seen.append((str(event.point), event.value.status))
        """,
    )
    loaded = load(
        write("checkrail.yaml", "hooks: {on_run_finish: {path: './ends.py:note'}}\n"),
    )
    registry = registry_of(loaded)
    await registry.fire("after_run", RunResult(status="success"))
    await registry.fire("after_run", RunResult(status="interrupted"))
    await registry.fire("on_run_error", RunError(status="timeout"))
    (module,) = [sys.modules[name] for name in loaded.modules]
    assert module.seen == [("after_run", "success"), ("on_run_error", "timeout")]


RULE = {
    "yaml": """
        hooks:
          before_tool_call:
            - name: limit
              tools: [transfer]
              when: tool_call.args.amount > 1000
              lane: gate
              block: Transfers over 1000 need the finance desk
    """,
    "json": """
        {"hooks": {"before_tool_call": [{
          "name": "limit",
          "tools": ["transfer"],
          "when": "tool_call.args.amount > 1000",
          "lane": "gate",
          "block": "Transfers over 1000 need the finance desk"
        }]}}
    """,
    "toml": """
        [[hooks.before_tool_call]]
        name = "limit"
        tools = ["transfer"]
        when = "tool_call.args.amount > 1000"
        lane = "gate"
        block = "Transfers over 1000 need the finance desk"
    """,
}


@pytest.mark.parametrize("kind", RULE)
async def test_one_rule_in_three_formats(write, kind):
    path = write(f"checkrail.{kind}", RULE[kind])
    loaded = load(path)
    (spec,) = loaded.specs
    assert (spec.lane, spec.when_text) == (Lane.GATE, "tool_call.args.amount > 1000")
    assert spec.source == f"{path}:{ {'yaml': 3, 'json': 1, 'toml': 1}[kind] }"
    assert (spec.target_type, spec.target_name) == ("rule", "rule")
    registry = registry_of(loaded)
    for amount, decision in ((10, "continue"), (5000, "block")):
        call = ToolCall(id="1", name="transfer", args={"amount": amount})
        verdict = await registry.fire("before_tool_call", call)
        assert verdict.decision == decision
    assert verdict.reason == "Transfers over 1000 need the finance desk"


def test_every_point_and_alias_can_be_named():
    points = [*HookPoint, "pre_request", "on_tool_call", "on_timeout", "on_run_finish"]
    text = "".join(f"  {point}: {{command: [audit]}}\n" for point in points)
    loaded = load_text(f"hooks:\n{text}")
    assert [spec.places[0].declared for spec in loaded.specs] == points
    assert len({spec.name for spec in loaded.specs}) == len(points)


def test_a_file_without_hooks_holds_none(write):
    loaded = load(write("langgraph.json", '{"graphs": {}, "dependencies": ["."], "env": ".env"}'))
    assert loaded.specs == ()
    assert "env" in str(loaded.warnings[0])
    assert load_text("hooks: {}").specs == ()


@pytest.mark.parametrize("text", ["", "# later\n", "{}", "hooks:\n", "hooks: null\n"])
def test_a_file_that_says_nothing_is_refused(text):
    with pytest.raises(ConfigError, match=r"if no hooks are meant, write hooks: \{\}"):
        load_text(text)
