"""`checkrail check` on files that were written for other servers."""

import pytest

RUN_HOOKS = """
    from checkrail.hooks import RunHooks

    hooks = RunHooks()

    @hooks.before_run
    async def subscription(ctx):
        if ctx.user.identity == "bob":
            raise hooks.RejectRun("Active subscription required", status_code=402)

    @hooks.after_run
    async def completed(ctx):
        pass

    @hooks.on_run_error
    async def failed(ctx):
        pass
"""

GRAPH = """
    from langgraph.graph import StateGraph

    graph = StateGraph(dict).add_node("only", lambda state: state).set_entry_point("only").compile()
"""

AEGRA = """{
  "graphs": { "agent": "./agent.py:graph" },
  "hooks": {
    "path": "./hooks.py:hooks",
    "timeout": 7
  }
}
"""

PROXY = """
    # Hooks execute in the order listed.
    hooks:
      pre_request:
        - name: provider_compat
          module: run_claude.hooks.builtin
          function: strip_provider_fields
          enabled: true

        - name: log_request
          module: run_claude.hooks.builtin
          function: log_request
          enabled: false  # for debugging
          config:
            verbose: false

        - name: last_only
          module: house_style
          function: last_only

      post_response:
        - name: log_response
          module: run_claude.hooks.builtin
          function: log_response
          enabled: false
          config:
            include_tokens: true

    python_path:
      - "${HOUSE}/custom"
"""

HOUSE_STYLE = """
    from checkrail.styles.proxy import HookContext

    async def last_only(ctx: HookContext) -> HookContext:
        ctx.messages = ctx.messages[-1:]
        return ctx
"""

BLUEPRINT = """{
  "name": "data-processor",
  "description": "Processes data",
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
      "on_error": "continue"
    }
  }
}
"""


def test_an_object_by_its_path_with_a_timeout(checkrail, write):
    write("hooks.py", RUN_HOOKS)
    write("agent.py", GRAPH)
    write("aegra.json", AEGRA)
    done = checkrail("check", "aegra.json")
    assert (done.code, done.err) == (0, "")
    hooks = [row[1:] for row in done.rows if row and row[0] == "1"]
    closed, watching = "block, invalid: fail", "continue"
    assert hooks == [
        [
            "subscription",
            "subscription",
            "transform",
            "100",
            "everything",
            "7 s",
            closed,
            "enforce",
        ],
        ["completed", "completed", "observe", "100", "everything", "7 s", watching, "enforce"],
        ["failed", "failed", "observe", "100", "everything", "7 s", watching, "enforce"],
    ]
    assert done.rows[-1] == ["aegra.json: 3 hooks at 3 of 16 points, 1 agent"]


def test_run_hooks_can_be_fired(invoke, write):
    write("hooks.py", RUN_HOOKS)
    write("aegra.json", AEGRA)
    ann = invoke("fire", "aegra.json", "before_run", "--context", '{"user": "ann"}')
    assert (ann.code, ann.rows[-1]) == (0, ["continue"])
    bob = invoke("fire", "aegra.json", "before_run", "--context", '{"user": "bob"}')
    assert bob.code == 3
    assert bob.rows[-1] == ["block by subscription (402): Active subscription required"]


def test_an_object_that_is_not_there_is_told(invoke, write):
    write("hooks.py", RUN_HOOKS)
    write("aegra.json", AEGRA.replace(":hooks", ":hoks"))
    done = invoke("check", "aegra.json")
    assert done.code == 1
    assert done.err.startswith("aegra.json:4 hooks.path: ./hooks.py has no 'hoks' (did you mean")


def test_a_module_of_the_other_server_inside_of_the_hooks_is_told_with_its_new_name(invoke, write):
    write("hooks.py", RUN_HOOKS.replace("checkrail.hooks", "aegra_api.hooks"))
    write("aegra.json", AEGRA)
    done = invoke("check", "aegra.json")
    assert done.code == 1
    assert done.err.startswith("aegra.json:4 hooks.path: ")
    assert "No module named 'aegra_api'" in done.err
    assert "aegra_api.hooks is checkrail.hooks here" in done.err


def test_modules_of_the_other_server_are_told_with_their_new_names(invoke, write, tmp_path):
    write("custom/house_style.py", HOUSE_STYLE)
    write("hooks.yaml", PROXY.replace("${HOUSE}", str(tmp_path)))
    done = invoke("check", "hooks.yaml")
    assert (done.code, done.out) == (1, "")
    *lines, count = done.err.splitlines()
    assert count == "3 problems in hooks.yaml"
    for line, (number, place) in zip(
        lines,
        [(5, "pre_request[0]"), (10, "pre_request[1]"), (22, "post_response[0]")],
        strict=True,
    ):
        assert line.startswith(f"hooks.yaml:{number} hooks.{place}.module: ")
        assert "rename it to checkrail.builtin" in line


def test_lists_of_modules_and_functions_with_a_python_path(checkrail, write, tmp_path):
    write("custom/house_style.py", HOUSE_STYLE)
    write("hooks.yaml", PROXY.replace("run_claude.hooks.builtin", "checkrail.builtin"))
    told = checkrail("check", "hooks.yaml", "--json", HOUSE=str(tmp_path))
    assert (told.code, told.err) == (0, "")
    assert told.data["off"] == ["log_request", "log_response"]
    (point, hooks), *others = told.data["plan"].items()
    assert (point, others) == ("before_llm_call", [])
    assert [(hook["name"], hook["target"], hook["declared"]) for hook in hooks] == [
        ("provider_compat", "strip_provider_fields", "pre_request"),
        ("last_only", "house_style:last_only", "pre_request"),
    ]
    request = """{"provider": "groq", "messages": [
        {"role": "user", "content": "first"},
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}]}"""
    fired = checkrail(
        *("fire", "hooks.yaml", "pre_request", "--value", request, "--json"), HOUSE=str(tmp_path)
    )
    assert fired.code == 0
    assert fired.data["value"]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]


def test_a_variable_of_the_python_path_that_is_not_set_is_told(invoke, write, monkeypatch):
    monkeypatch.delenv("HOUSE", raising=False)
    write("hooks.yaml", PROXY.replace("run_claude.hooks.builtin", "checkrail.builtin"))
    done = invoke("check", "hooks.yaml")
    assert done.code == 1
    assert "hooks.yaml:29 python_path[0]: ${HOUSE} is not set in the environment" in done.err
    assert "hooks.yaml:17 hooks.pre_request[2].module: there is no module 'house_style'" in done.err


def test_one_entry_a_point_with_a_type(invoke, write):
    write("agent.json", BLUEPRINT)
    done = invoke("check", "agent.json")
    assert done.code == 0
    assert [row[1:] for row in done.rows if row and row[0] == "1"] == [
        [
            "on_run_start",
            "input-validator",
            "transform",
            "100",
            "everything",
            "60 s",
            "block",
            "enforce",
        ],
        [
            "on_run_finish",
            "audit-logger",
            "observe",
            "100",
            "everything",
            "300 s",
            "continue",
            "enforce",
        ],
        [
            "on_run_finish",
            "audit-logger",
            "observe",
            "100",
            "everything",
            "300 s",
            "continue",
            "enforce",
        ],
    ]
    start, finish, older = done.err.splitlines()
    assert older.startswith("note: agent.json:9 hooks.on_run_start.timeout_seconds: ")
    assert "agent.json:5 hooks.on_run_start: agent hooks need the run server" in start
    assert "agent.json:11 hooks.on_run_finish: agent hooks need the run server" in finish
    plan = invoke("check", "agent.json", "--json").data["plan"]
    assert {point: (hooks[0]["type"], hooks[0]["target"]) for point, hooks in plan.items()} == {
        "on_run_start": ("agent", "input-validator"),
        "after_run": ("agent", "audit-logger"),
        "on_run_error": ("agent", "audit-logger"),
    }


def test_a_hook_without_its_server_fails_as_it_says(invoke, write):
    write("agent.json", BLUEPRINT)
    start = invoke("fire", "agent.json", "on_run_start", "--json")
    assert (start.code, start.data["status"], start.data["code"]) == (3, 502, "hook_unreachable")
    finish = invoke("fire", "agent.json", "after_run", "--json")
    assert (finish.code, finish.data["records"][-1]["failure"]) == (0, "unreachable")


@pytest.mark.parametrize("key", ["type", "parameters_schema", "output_schema"])
def test_the_other_keys_of_a_blueprint_are_left_alone(key, invoke, write):
    write("agent.json", BLUEPRINT.replace('"description": "Processes data"', f'"{key}": {{}}'))
    done = invoke("check", "agent.json", "--json")
    assert done.data["ok"] is True, done.data


def test_an_agent_that_does_not_say_what_happens_on_error_is_refused(invoke, write):
    write("agent.json", BLUEPRINT.replace('"on_error": "block",', ""))
    done = invoke("check", "agent.json")
    assert done.code == 1
    assert done.err.startswith("agent.json:5 hooks.on_run_start: `on_error` is missing")
