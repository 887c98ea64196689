"""`checkrail check` on the agents of a file: what it lists, refuses, and keeps to itself."""

import pytest

TOOLS = """
    from checkrail import tool

    @tool(name="find")
    def lookup(order: str) -> str:
        return order

    def refund(order: str, amount: int) -> str:
        return "done"

    def endless():
        yield 1
"""

GRAPH = """
    from langgraph.graph import StateGraph

    graph = StateGraph(dict).add_node("only", lambda state: state).set_entry_point("only").compile()
"""

AGENTS = """
    env: { allow: [TOKEN] }
    hooks:
      before_tool_call:
        - { name: limit, tools: [refund], block: Too much }
    agents:
      support:
        description: Answers with ${TOKEN}.
        model: { provider: openai, model: gpt-5, api_key: "${TOKEN}" }
        tools: [./tools.py:lookup, ./tools.py:refund, agent:researcher]
        mcp:
          docs: { url: "https://docs.example/${TOKEN}", headers: { Authorization: "${TOKEN}" } }
        max_iterations: 5
        hooks:
          before_final_response:
            - { redact: secrets }
            - { name: asleep, mode: off, path: ./tools.py:none }
      researcher: { model: anthropic/claude-sonnet-5 }
      old: ./support.py:graph
"""


@pytest.fixture
def file(write, monkeypatch):
    monkeypatch.setenv("TOKEN", "very-secret-token")
    write("tools.py", TOOLS)
    write("support.py", GRAPH)
    return write("checkrail.yaml", AGENTS)


def test_agents_stand_under_the_plan(file, invoke):
    done = invoke("check", "checkrail.yaml")
    assert (done.code, done.err) == (0, "")
    rows = [row for row in done.rows if row]
    start = rows.index(["agents"])
    assert rows[start - 1][:3] == ["1", "limit", "rule: block"]
    assert rows[start + 1 : start + 5] == [
        ["agent", "type", "model", "calls"],
        ["support", "autonomous", "openai/gpt-5", "find, refund, researcher, docs (MCP)"],
        ["researcher", "autonomous", "anthropic/claude-sonnet-5"],
        ["old", "graph", "./support.py:graph"],
    ]
    assert rows[start + 5] == ["before_final_response of support"]
    assert rows[start + 7][:2] == ["1", "support.before_final_response"]
    assert rows[-2:] == [
        ["switched off in support: asleep"],
        ["checkrail.yaml: 2 hooks at 2 of 16 points, 3 agents"],
    ]


def test_agents_are_told_to_machines(file, invoke):
    told = invoke("check", "checkrail.yaml", "--json").data
    assert [*told["plan"]] == ["before_tool_call"]
    support, researcher, old = told["agents"].values()
    plan = support.pop("plan")
    assert support == {
        "type": "autonomous",
        "model": "openai/gpt-5",
        "path": None,
        "command": None,
        "description": "Answers with ${TOKEN}.",
        "tools": ["find", "refund", "researcher"],
        "mcp": ["docs"],
        "max_iterations": 5,
        "model_timeout": None,
        "off": ["asleep"],
    }
    (hook,) = plan["before_final_response"]
    assert (hook["name"], hook["lane"]) == ("support.before_final_response", "transform")
    assert (researcher["model"], researcher["tools"]) == ("anthropic/claude-sonnet-5", [])
    assert (old["type"], old["model"], old["path"]) == ("graph", None, "./support.py:graph")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_secret_is_shown(form, file, invoke):
    done = invoke("check", "checkrail.yaml", *form)
    assert "very-secret-token" not in done.out + done.err


def test_one_agent_is_one_agent(write, invoke):
    write("checkrail.yaml", "agents: {a: {model: openai/m}}\n")
    done = invoke("check", "checkrail.yaml")
    assert done.rows[-1] == ["checkrail.yaml: 0 hooks at 0 of 16 points, 1 agent"]


def test_a_blueprint_is_checked_as_a_file_of_its_own(write, invoke):
    write("a.yaml", "name: a\nmodel: openai/m\nhooks: {before_tool_call: {block: No}}\n")
    told = invoke("check", "a.yaml", "--json").data
    assert told["plan"]["before_tool_call"][0]["name"] == "a.before_tool_call"
    assert told["agents"]["a"]["model"] == "openai/m"
    fired = invoke("fire", "a.yaml", "before_tool_call", "--json")
    assert (fired.code, fired.data["hook"]) == (3, "a.before_tool_call")


def test_what_is_wrong_with_agents_is_told_with_everything_else(write, invoke):
    write("tools.py", TOOLS)
    write(
        "checkrail.yaml",
        """
        hooks:
          before_tool_cal: { block: No }
        agents:
          a: { model: opnai/m, tools: [./tools.py:endless, ./tools.py:refnd] }
          b: { model: openai/m, tools: [agent:c], hooks: { before_run: { blok: x } } }
        """,
    )
    done = invoke("check", "checkrail.yaml")
    assert done.code == 1
    *lines, count = done.err.splitlines()
    assert count == "6 problems in checkrail.yaml"
    for line, said in zip(
        lines,
        [
            "checkrail.yaml:2 hooks.before_tool_cal: unknown point 'before_tool_cal' (did you",
            "checkrail.yaml:4 agents.a.model: unknown provider 'opnai' (did you mean 'openai'?)",
            "checkrail.yaml:4 agents.a.tools[0]: it is a generator (Return a list instead)",
            "checkrail.yaml:4 agents.a.tools[1]: ./tools.py has no 'refnd' (did you mean 'refund",
            "checkrail.yaml:5 agents.b.hooks.before_run.blok: unknown key 'blok' (did you mean '",
            "checkrail.yaml:5 agents.b.tools[0]: unknown agent 'c'",
        ],
        strict=True,
    ):
        assert line.startswith(said)
