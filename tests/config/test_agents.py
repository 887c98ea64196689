"""Agents of a file: what may be written, and what of it is read."""

import json
from pathlib import Path

import pytest

from checkrail import AssistantMessage, ToolCall
from checkrail.agent.models.model import PROVIDERS as NAMED
from checkrail.config import ConfigError, load, load_blueprint, load_text
from checkrail.config.agent_models import PROTOCOL, PROVIDERS

TOOLS = """
    def lookup(order: str) -> str:
        return order

    def refund(order: str, amount: float) -> str:
        return "done"

    both = [lookup, refund]
"""

MODEL = """
    class Own:
        name, provider, params = "own", None, {}

        async def complete(self, request): ...

        async def stream(self, request): ...

    model = Own()
"""


def only(text: str, **options):
    """Load a text with one agent, and give that agent."""
    (agent,) = load_text(text, **options).agents.values()
    return agent


def test_everything_that_can_be_said_of_an_agent(write, tmp_path):
    write("tools.py", TOOLS)
    path = write(
        "checkrail.yaml",
        """
        agents:
          support:
            type: autonomous
            description: Answers questions about orders.
            model: openai/gpt-5
            system_prompt: |
              You are the support desk.
            tools: [./tools.py:lookup, "json:dumps"]
            mcp:
              files:
                command: [python, server.py]
                env: { LEVEL: debug }
                cwd: ./servers
                prefix: files_
                include: [read_*]
                timeout: 5
              docs:
                url: https://docs.example/mcp
                headers: { X-Team: support }
            max_iterations: 4
            model_timeout: 30
            output_schema: { type: object, required: [answer] }
            hooks:
              before_tool_call: { tools: [refund], block: Ask the desk }
            parameters_schema: { type: object }
            tags: [desk]
            demands: [gpu, eu-west]
            on_crash: restart
            timeout_seconds: 90
            enabled: true
        """,
    )
    (agent,) = load(path).agents.values()
    assert (agent.name, agent.kind) == ("support", "autonomous")
    assert agent.source == f"{path}:2 agents.support"
    assert agent.description == "Answers questions about orders."
    assert agent.system_prompt == "You are the support desk.\n"
    assert (agent.model.provider, agent.model.name) == ("openai", "gpt-5")
    assert [tool.label for tool in agent.tools] == ["./tools.py:lookup", "json:dumps"]
    assert agent.tools[0].given[0]("A-17") == "A-17"
    assert agent.tools[1].given == (json.dumps,)
    files, docs = agent.mcp
    assert (files.name, files.command) == ("files", ("python", "server.py"))
    assert files.options == {
        "env": {"LEVEL": "debug"},
        "cwd": tmp_path / "servers",
        "prefix": "files_",
        "include": ["read_*"],
        "timeout": 5,
    }
    assert (docs.name, docs.url) == ("docs", "https://docs.example/mcp")
    assert docs.options == {"headers": {"X-Team": "support"}}
    assert (agent.max_iterations, agent.model_timeout) == (4, 30)
    assert agent.output_schema == {"type": "object", "required": ["answer"]}
    assert [spec.name for spec in agent.hooks] == ["support.before_tool_call"]
    assert agent.parameters_schema == {"type": "object"}
    assert (agent.tags, agent.demands) == (("desk",), ("gpu", "eu-west"))
    assert (agent.on_crash, agent.timeout_seconds, agent.enabled) == ("restart", 90, True)


def test_little_has_to_be_said():
    agent = only("agents: {a: {model: anthropic/claude-sonnet-5}}")
    assert (agent.system_prompt, agent.tools, agent.mcp, agent.hooks) == ("", (), (), ())
    assert (agent.max_iterations, agent.model_timeout, agent.output_schema) == (None, None, None)


def test_json_and_toml_say_the_same():
    said = {"agents": {"a": {"model": {"provider": "openai", "model": "m", "timeout": 3}}}}
    toml = '[agents.a.model]\nprovider = "openai"\nmodel = "m"\ntimeout = 3\n'
    by_json, by_toml = only(json.dumps(said), format="json"), only(toml, format="toml")
    assert by_json.model == by_toml.model
    assert by_toml.model.options == {"timeout": 3}


def test_the_providers_are_those_that_agents_know():
    assert {*PROVIDERS} == NAMED.keys()


@pytest.mark.parametrize(
    ("model", "provider", "name", "label"),
    [
        ("openai/gpt-5", "openai", "gpt-5", "openai/gpt-5"),
        ("litellm/groq/llama3:8b", "litellm", "groq/llama3:8b", "litellm/groq/llama3:8b"),
        ("{provider: openai, model: a/b}", "openai", "a/b", "openai/a/b"),
        ("{model: anthropic/c}", "anthropic", "c", "anthropic/c"),
        ("{provider: scripted, replies: [Hi]}", "scripted", "scripted", "scripted"),
        ("{replies: [Hi], model: fake}", "scripted", "fake", "scripted"),
    ],
)
def test_a_model_by_its_name(model, provider, name, label):
    found = only(f"agents: {{a: {{model: {model}}}}}").model
    assert (found.provider, found.name, found.label) == (provider, name, label)


def test_options_and_params_of_a_model_go_the_same_way(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-of-the-desk")
    text = """
        env: { allow: [MY_KEY] }
        agents:
          a:
            model:
              provider: openai
              model: gpt-5
              base_url: http://localhost:8000/v1
              api_key: ${MY_KEY}
              timeout: 20
              max_retries: 0
              params: { temperature: 0, max_tokens: 100 }
    """
    assert only(text).model.options == {
        "base_url": "http://localhost:8000/v1",
        "api_key": "sk-of-the-desk",
        "timeout": 20,
        "max_retries": 0,
        "temperature": 0,
        "max_tokens": 100,
    }


@pytest.mark.parametrize("reference", ["./model.py:model", "models/model.py:model", "model:model"])
def test_a_model_may_be_an_object(reference, write, tmp_path):
    write("model.py", MODEL)
    write("models/model.py", MODEL)
    text = f"python_path: .\nagents: {{a: {{model: '{reference}'}}}}\n"
    loaded = load(write("checkrail.yaml", text))
    model = loaded.agents["a"].model
    assert (type(model.given).__name__, model.label) == ("Own", reference)
    assert [file.name for file in loaded.files] == ["checkrail.yaml", "model.py"]


def test_a_script_says_texts_and_calls_tools():
    text = """
        agents:
          a:
            model:
              provider: scripted
              replies:
                - Hello
                - { tool: lookup, args: { order: A-17 } }
                - { content: Both, tool_calls: [{ tool: lookup }, { tool: refund, args: {} }] }
                - { content: "" }
    """
    hello, one, two, nothing = only(text).model.replies
    assert hello == "Hello"
    assert one == AssistantMessage(
        "", [ToolCall("call-1", "lookup", {"order": "A-17"})], stop_reason="tool_calls"
    )
    assert two.content == "Both"
    assert [(call.id, call.name) for call in two.tool_calls] == [
        *(("call-2", "lookup"), ("call-3", "refund")),
    ]
    assert nothing == AssistantMessage("", stop_reason="stop")


def test_a_path_may_name_a_list_of_tools(write):
    write("tools.py", TOOLS)
    path = write("checkrail.yaml", "agents: {a: {model: openai/m, tools: ['./tools.py:both']}}")
    (tool,) = load(path).agents["a"].tools
    assert [fn.__name__ for fn in tool.given] == ["lookup", "refund"]


@pytest.mark.parametrize("form", ["agent:b", "{agent: b}", "agent: b"])
def test_an_agent_of_the_file_may_be_a_tool_of_another(form):
    text = f"agents: {{a: {{model: openai/m, tools: [{form}]}}, b: {{model: openai/m}}}}"
    (tool,) = load_text(text).agents["a"].tools
    assert (tool.agent, tool.names, tool.given) == ("b", ("b",), ())


def test_a_program_runs_beside_the_file_unless_it_says_where(write, tmp_path):
    text = "agents: {a: {model: openai/m, mcp: {x: {command: [serve]}, y: {url: 'http://h'}}}}"
    x, y = load(write("deep/checkrail.yaml", text)).agents["a"].mcp
    assert x.options == {"cwd": tmp_path / "deep"}
    assert y.options == {}


def test_the_hooks_of_an_agent_are_hooks_as_anywhere(write, monkeypatch):
    monkeypatch.setenv("DESK", "the desk")
    write("own.py", "def watch(event): ...\n")
    path = write(
        "checkrail.yaml",
        """
        env: { allow: [DESK] }
        defaults: { timeout: 3 }
        definitions:
          money: { tools: [transfer], lane: gate }
        hooks:
          before_tool_call: { name: outer, block: No }
        agents:
          a:
            model: openai/m
            hooks:
              before_tool_call:
                - { $ref: money, block: "Ask ${DESK}" }
                - { path: ./own.py:watch, name: watch, mode: async }
          b:
            model: openai/m
            hooks:
              before_tool_call: { name: watch, block: No }
        """,
    )
    loaded = load(path)
    assert [spec.name for spec in loaded.specs] == ["outer"]
    first, watch = loaded.agents["a"].hooks
    assert (first.name, first.timeout, watch.name) == ("a.before_tool_call", 3.0, "watch")
    assert first.source == f"{path}:12"
    assert [spec.name for spec in loaded.agents["b"].hooks] == ["watch"]
    assert {file.name for file in loaded.files} == {"checkrail.yaml", "own.py"}


def test_a_graph_is_read_but_not_imported():
    loaded = load_text(
        """
        agents:
          plain: ./support.py:graph
          short: { path: package.module:graph }
          graph:
            type: graph
            path: ./support.py:graph
            description: Helps.
            on_crash: restart
            timeout_seconds: 90
            tags: [eu]
            enabled: false
            parameters_schema: { type: object }
            hooks: { before_tool_call: { block: No } }
          job: { type: procedural, command: [run, it], parameters_schema: { type: object } }
        """
    )
    assert {agent.name: (agent.kind, agent.path) for agent in loaded.agents.values()} == {
        "plain": ("graph", "./support.py:graph"),
        "short": ("graph", "package.module:graph"),
        "graph": ("graph", "./support.py:graph"),
        "job": ("procedural", ""),
    }
    plain, graph = loaded.agents["plain"], loaded.agents["graph"]
    assert (plain.on_crash, plain.timeout_seconds, plain.enabled) == ("resume", None, True)
    assert (graph.on_crash, graph.timeout_seconds, graph.enabled) == ("restart", 90, False)
    assert (graph.description, graph.tags) == ("Helps.", ("eu",))
    assert graph.parameters_schema == {"type": "object"}
    assert [spec.name for spec in graph.hooks] == ["graph.before_tool_call"]
    assert loaded.agents["job"].on_crash == "fail"


BLUEPRINT = """
    name: data-processor
    description: Processes data
    model: openai/gpt-5
    system_prompt: Process.
    max_iterations: 3
    max_retries: 2
    hooks:
      before_tool_call: { block: No }
      after_tool_call: { name: second, set: { content: x } }
"""


def test_a_file_may_be_the_blueprint_of_one_agent(write):
    path = write("agents/processor.yaml", BLUEPRINT)
    loaded = load(path)
    (agent,) = loaded.agents.values()
    assert (agent.name, agent.source) == ("data-processor", f"{path}:1")
    assert (agent.description, agent.max_iterations) == ("Processes data", 3)
    assert [spec.name for spec in loaded.specs] == ["data-processor.before_tool_call", "second"]
    assert (agent.hooks, loaded.settings.max_retries) == ((), 2)


def test_a_file_of_a_blueprint_without_a_model_is_left_to_others():
    text = "name: x\ntype: graph\nparameters_schema: {}\nhooks: {before_run: {block: No}}\n"
    loaded = load_text(text)
    assert dict(loaded.agents) == {}
    assert [spec.name for spec in loaded.specs] == ["before_run"]


def test_variables_are_put_in_where_they_are_allowed(monkeypatch):
    monkeypatch.setenv("TOKEN", "very-secret-token")
    monkeypatch.setenv("MODEL", "gpt-5")
    loaded = load_text(
        """
        env: { allow: [TOKEN, MODEL] }
        agents:
          a:
            model: openai/${MODEL}
            system_prompt: You are ${MODEL}, not $${MODEL}.
            mcp:
              one: { url: "https://h/${TOKEN}", headers: { Authorization: "Bearer ${TOKEN}" } }
              two: { command: [serve, "--key=${TOKEN}"], env: { KEY: "${TOKEN}" } }
        """
    )
    agent = loaded.agents["a"]
    one, two = agent.mcp
    assert (agent.model.name, agent.model.label) == ("gpt-5", "openai/${MODEL}")
    assert agent.system_prompt == "You are gpt-5, not ${MODEL}."
    assert one.options["headers"] == {"Authorization": "Bearer very-secret-token"}
    assert two.command == ("serve", "--key=very-secret-token")
    assert two.options["env"] == {"KEY": "very-secret-token"}
    assert "very-secret-token" not in repr(loaded)
    assert loaded.scrub("it is very-secret-token") == "it is ${TOKEN}"


def test_a_key_that_stands_in_the_file_is_a_secret_too():
    loaded = load_text("agents: {a: {model: {model: openai/m, api_key: sk-in-the-file}}}")
    assert "sk-in-the-file" not in repr(loaded)
    assert loaded.scrub("401: sk-in-the-file is wrong") == "401: (the api_key) is wrong"


def test_whoever_loads_may_look_at_the_tools_too(write):
    def check(owner, given):
        return [f"{owner}.{fn.__name__}" for fn in given]

    write("tools.py", TOOLS)
    path = write("checkrail.yaml", "agents: {a: {model: openai/m, tools: ['./tools.py:both']}}")
    (tool,) = load(path, check_tools=check).agents["a"].tools
    assert tool.names == ("a.lookup", "a.refund")


def test_a_file_of_agents_alone_is_a_file():
    assert load_text("agents: {a: {model: openai/m}}").specs == ()


def test_files_of_tools_belong_to_the_file(write):
    write("tools.py", TOOLS)
    path = write("checkrail.yaml", "agents: {a: {model: openai/m, tools: ['./tools.py:lookup']}}")
    before = load(path)
    assert [Path(file).name for file in before.files] == ["checkrail.yaml", "tools.py"]
    write("tools.py", TOOLS + "\n# changed\n")
    assert load(path).digest != before.digest


def test_the_protocol_of_a_model_is_that_of_agents():
    from checkrail.agent.models.model import Model

    assert {*PROTOCOL} == {name for name in vars(Model) if not name.startswith("_")}


def test_a_broken_file_is_told_in_one_error(write):
    with pytest.raises(ConfigError, match="2 problems"):
        load(write("checkrail.yaml", "agents: {a: {modle: openai/m}, b: {model: gpt}}\n"))


def test_agents_that_name_no_model_have_the_default_one(write, tmp_path):
    write("agents/third.yaml", "name: third\nsystem_prompt: In a file of its own\n")
    path = write(
        "checkrail.yaml",
        """
        defaults: { model: { model: openai/gpt-5, params: { temperature: 0 } } }
        agents:
          first: { system_prompt: Be kind }
          second: { model: anthropic/claude-sonnet-5 }
          graph: ./graph.py:graph
        """,
    )
    loaded = load(path)
    labels = {name: agent.model and agent.model.label for name, agent in loaded.agents.items()}
    assert labels == {
        "first": "openai/gpt-5",
        "second": "anthropic/claude-sonnet-5",
        "graph": None,
        "third": "openai/gpt-5",
    }
    assert loaded.agents["first"].model.options == {"temperature": 0}
    made = load_blueprint({"name": "made", "description": "over HTTP"}, settings=loaded.settings)
    assert made.model == loaded.agents["first"].model


def test_the_default_model_may_be_an_object(write, tmp_path):
    write("own.py", MODEL)
    path = write("checkrail.yaml", "defaults: {model: './own.py:model'}\nagents: {a: {}}\n")
    assert load(path).agents["a"].model.given.name == "own"
