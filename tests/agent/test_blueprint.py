"""Agents from files: what was written there is what runs."""

import asyncio
import sys
import textwrap
from pathlib import Path

import pytest

from checkrail import HookRegistry, tool
from checkrail.agent import RunFailed
from checkrail.agent.blueprint import AgentBuilder, build_agent, check_tools
from checkrail.config import ConfigError, load, load_text
from checkrail.engine.errors import CheckrailError
from checkrail.testing import approve

from .models.servers.anthropic_wire import AnthropicWire
from .models.servers.openai_wire import OpenAIWire
from .models.servers.server import serving

MCP_SERVER = Path(__file__).parent / "tools" / "mcp_server.py"

TOOLS = """
    from checkrail import tool

    @tool
    def lookup(order: str) -> str:
        "Look up an order."
        return f"{order} is on its way"

    def refund(order: str, amount: int) -> str:
        "Give money back."
        return f"{amount} for {order}"

    def stream():
        yield 1

    both = [lookup, refund]
    number = 5
"""

SUPPORT = """
    hooks:
      before_tool_call:
        - name: limit
          tools: [refund]
          when: tool_call.args.amount > 100
          block: Refunds over 100 need the desk
    agents:
      support:
        model:
          provider: scripted
          replies:
            - { tool: lookup, args: { order: A-17 } }
            - { tool: refund, args: { order: A-17, amount: 5000 } }
            - It is on its way.
        system_prompt: Be brief.
        tools: [./tools.py:both]
        hooks:
          before_final_response:
            set: { content: Changed by its own. }
"""


@pytest.fixture
def loaded(tmp_path):
    """Load a text beside the tools of these tests, with what is known of tools checked."""

    def load_it(text):
        (tmp_path / "tools.py").write_text(textwrap.dedent(TOOLS))
        path = tmp_path / "checkrail.yaml"
        path.write_text(textwrap.dedent(text))
        return load(path, check_tools=check_tools)

    yield load_it
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def results(response):
    return [message["content"] for message in response.messages if message["role"] == "tool"]


async def test_an_agent_of_a_file_runs_with_its_tools_and_all_hooks(loaded):
    agent = build_agent(loaded(SUPPORT), "support")
    response = await agent.run("Where is A-17? Refund me.")
    assert results(response) == ["A-17 is on its way", "Refunds over 100 need the desk"]
    assert response.content == "Changed by its own."
    request = agent.model.requests[0]
    assert request.messages[0] == {"role": "system", "content": "Be brief."}
    assert [each["function"]["name"] for each in request.tools] == ["lookup", "refund"]
    assert [spec.name for spec in agent.registry.list()] == ["support.before_final_response"]


async def test_limits_and_schema_reach_the_agent(loaded):
    text = """
        agents:
          a:
            model: { replies: ["{}", "{}", "{}"] }
            description: Answers.
            max_iterations: 2
            model_timeout: 7
            output_schema: { type: object, required: [answer] }
    """
    agent = build_agent(loaded(text), "a")
    assert (agent.description, agent.model_timeout) == ("Answers.", 7)
    response = await agent.run("?")
    assert response.stop_reason == "max_iterations"
    assert '"answer" is a required property' in agent.model.requests[1].messages[-1]["content"]


def test_what_is_not_said_is_as_for_any_agent(loaded):
    agent = build_agent(loaded("agents: {a: {model: {replies: [x]}}}"), "a")
    assert (agent.max_iterations, agent.model_timeout, agent.output) == (15, 600.0, None)


TEAM = """
    hooks:
      before_llm_call:
        - { name: everywhere, set: { params.seen: true } }
    agents:
      lead:
        model:
          replies:
            - tool_calls:
                - { tool: search, args: { query: a } }
                - { tool: write, args: { query: b } }
            - Done.
        tools: [agent:search, agent:write]
        hooks:
          before_tool_call: { name: leads, tools: [fetch], block: Not under this lead }
      search:
        description: Finds things.
        model: { replies: [{ tool: fetch, args: {} }, Found.] }
        tools: [agent:fetch]
      write:
        model: { replies: [Written.] }
        hooks:
          before_final_response: { name: own, set: { content: Written well. } }
      fetch:
        model: { replies: [Fetched.] }
"""


async def test_agents_call_each_other_and_every_hook_above_holds(loaded):
    builder = AgentBuilder(loaded(TEAM))
    lead = builder.build("lead")
    assert {*builder.made} == {"lead", "search", "write", "fetch"}
    response = await lead.run("Go.")
    assert results(response) == ["Found.", "Written well."]
    assert lead.model.requests[0].tools[0]["function"]["description"] == "Finds things."
    for name in ("lead", "search", "write"):
        models = [request.params for request in builder.made[name].model.requests]
        assert all(params == {"seen": True} for params in models)
    refused = builder.made["search"].model.requests[1].messages[-1]
    assert (refused["content"], refused["is_error"]) == ("Not under this lead", True)
    assert builder.made["fetch"].model.requests == []


async def test_a_hook_around_all_agents_is_called_once_in_each(loaded):
    records = []
    builder = AgentBuilder(loaded(TEAM), sink=records.append)
    await builder.build("lead").run("Go.")
    seen = [record for record in records if record.hook == "everywhere" and record.decision]
    agents = [record.ids["agent_name"] for record in seen]
    assert sorted(agents) == ["lead", "lead", "search", "search", "write"]


async def test_an_agent_is_made_once(loaded):
    builder = AgentBuilder(loaded(TEAM))
    assert builder.build("write") is builder.build("write")
    builder.build("lead")
    assert builder.build("write") is builder.made["write"]


async def test_a_level_may_be_given(loaded):
    level = HookRegistry()
    level.register(lambda event: None, "query_end", name="mine")
    builder = AgentBuilder(loaded(SUPPORT), hooks=level)
    response = await builder.build("support").run("?")
    assert results(response) == ["A-17 is on its way", "5000 for A-17"]


async def test_settings_of_the_file_hold(loaded):
    text = """
        history: "off"
        max_retries: 1
        hooks:
          before_final_response: { name: again, retry: Better, max_retries: 5 }
        agents:
          a: { model: { replies: [one, two, three] } }
    """
    builder = AgentBuilder(loaded(text))
    assert (builder.hooks.history, builder.hooks.max_retries) == ("off", 1)
    with pytest.raises(RunFailed, match="the run's 1 retries are used up"):
        await builder.build("a").run("?")


ASKING = """
    agents:
      a:
        model: { replies: [{ tool: lookup, args: { order: x } }, Done.] }
        tools: [./tools.py:lookup]
        hooks:
          before_tool_call: { ask: May I }
"""


@pytest.mark.parametrize(
    ("ask", "result"), [(approve, "x is on its way"), (None, "May I, but there is nobody to ask")]
)
async def test_questions_of_an_agents_own_hooks_reach_who_was_given(ask, result, loaded):
    response = await build_agent(loaded(ASKING), "a", ask=ask).run("?")
    assert results(response) == [result]


async def test_hooks_in_the_background_can_be_waited_for(loaded, tmp_path):
    late = """
        import asyncio
        seen = []

        async def outer(event):
            await asyncio.sleep(0.01)
            seen.append("outer")

        async def own(event):
            await asyncio.sleep(0.01)
            seen.append("own")
    """
    (tmp_path / "late.py").write_text(textwrap.dedent(late))
    text = """
        hooks: { query_end: { path: ./late.py:outer, mode: async } }
        agents:
          a:
            model: { replies: [Hi] }
            hooks: { query_end: { path: ./late.py:own, mode: async } }
    """
    builder = AgentBuilder(loaded(text))
    await builder.build("a").run("?")
    await builder.wait_for_background_hooks()
    module = next(m for name, m in sys.modules.items() if name.startswith("checkrail_file_late"))
    assert sorted(module.seen) == ["outer", "own"]


@pytest.mark.parametrize(
    ("provider", "wire"), [("openai", OpenAIWire()), ("anthropic", AnthropicWire())]
)
async def test_a_model_of_a_provider_is_asked_as_the_file_says(provider, wire, monkeypatch):
    monkeypatch.setenv("DESK_KEY", "sk-secret-0123456789")
    with serving(wire, ["Hello."]) as endpoint:
        text = f"""
            env: {{ allow: [DESK_KEY] }}
            agents:
              a:
                model:
                  provider: {provider}
                  model: grand-1
                  base_url: {endpoint.base_url}
                  api_key: ${{DESK_KEY}}
                  timeout: 5
                  max_retries: 0
                  params: {{ temperature: 0.5, max_tokens: 12 }}
        """
        async with build_agent(load_text(text), "a") as agent:
            response = await agent.run("Hi")
    assert response.content == "Hello."
    (request,) = endpoint.requests
    assert request.body["model"] == "grand-1"
    assert (request.body["temperature"], request.body["max_tokens"]) == (0.5, 12)
    assert "sk-secret-0123456789" in str(request.headers)


async def test_the_tools_of_an_mcp_server_are_an_agents(loaded):
    text = f"""
        hooks:
          before_tool_call: {{ tools: [t_refuse], block: Not this one }}
        agents:
          a:
            model:
              replies:
                - {{ tool: t_add, args: {{ a: 2, b: 3 }} }}
                - {{ tool: t_refuse, args: {{ why: x }} }}
                - Done.
            mcp:
              sums:
                command: ["{sys.executable}", "{MCP_SERVER}", stdio]
                prefix: t_
                include: [add, refuse]
    """
    async with build_agent(loaded(text), "a") as agent:
        response = await agent.run("?")
    assert results(response) == ["5", "Not this one"]
    offered = [each["function"]["name"] for each in agent.model.requests[0].tools]
    assert offered == ["t_add", "t_refuse"]


async def test_an_mcp_server_that_is_not_there_ends_the_run(loaded):
    text = "agents: {a: {model: {replies: [x]}, mcp: {gone: {url: 'http://127.0.0.1:9/mcp'}}}}"
    async with build_agent(loaded(text), "a") as agent:
        with pytest.raises(RunFailed, match="cannot be reached"):
            await agent.run("?")


def test_what_cannot_be_made_is_told_with_its_place(loaded, tmp_path):
    text = "agents:\n  a:\n    model: {replies: [x]}\n    mcp: {x: {url: 'ftp://h'}}\n"
    with pytest.raises(CheckrailError) as caught:
        build_agent(loaded(text), "a")
    place = f"{tmp_path / 'checkrail.yaml'}:2 agents.a: "
    assert str(caught.value).startswith(place)
    assert "http:// or https://" in str(caught.value)


def test_the_place_is_that_of_the_agent_beneath(loaded):
    text = """
        agents:
          a: { model: { replies: [x] }, tools: [agent:b] }
          b: { model: { replies: [x] }, mcp: { x: { url: "ftp://h" } } }
    """
    with pytest.raises(CheckrailError, match=r":4 agents\.b: (?!.*agents)"):
        build_agent(loaded(text), "a")


def test_a_missing_package_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(CheckrailError) as caught:
        build_agent(load_text("agents: {a: {model: openai/gpt-5}}"), "a")
    assert str(caught.value) == (
        '<text>:1 agents.a: OpenAIModel needs openai: pip install "checkrail[openai]"'
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("suport", r"there is no agent 'suport' \(did you mean 'support'\?\)\. The agents are: su"),
        ("old", "agents of type graph cannot run here"),
    ],
)
def test_only_agents_of_the_file_can_be_made(name, told):
    loaded = load_text("agents: {support: {model: openai/m}, old: './x.py:graph'}")
    with pytest.raises(CheckrailError, match=told):
        build_agent(loaded, name)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("./tools.py:stream", r"tools\[0\]: it is a generator \(Return a list instead\)"),
        ("./tools.py:number", r"tools\[0\]: 5 is no tool: give functions, tools, agents or MCP"),
        ("json:JSONDecoder", r"tools\[0\]: it is a class, and no function \(Give a function\)"),
        ("./tools.py:both, ./tools.py:lookup", r"tools\[1\]: a tool of the name 'lookup' a second"),
        ("./tools.py:lookup, agent:lookup", r"tools\[1\]: a tool of the name 'lookup' a second"),
    ],
)
def test_what_is_no_tool_is_a_problem_of_the_file(reference, told, loaded):
    text = f"""
        agents:
          a: {{ model: openai/m, tools: [{reference}] }}
          lookup: {{ model: openai/m }}
    """
    with pytest.raises(ConfigError, match=told):
        loaded(text)


def test_names_of_tools_are_those_that_the_model_sees():
    @tool(name="renamed")
    def one() -> str:
        return ""

    def two() -> str:
        return ""

    class Source:
        async def tools(self): ...

        async def aclose(self): ...

    assert check_tools("a", [one, two, Source()]) == ["renamed", "two"]


async def test_an_agent_of_a_blueprint_has_the_hooks_of_its_file(loaded):
    text = """
        name: processor
        model: { replies: [{ tool: lookup, args: { order: x } }, Done.] }
        tools: [./tools.py:lookup]
        hooks:
          before_tool_call: { block: Not now }
    """
    agent = build_agent(loaded(text), "processor")
    response = await agent.run("?")
    assert results(response) == ["Not now"]


def test_agents_of_a_file_work_without_an_event_loop(loaded):
    agent = build_agent(loaded("agents: {a: {model: {replies: [one, two]}}}"), "a")
    assert (agent.run_sync("?").content, asyncio.run(agent.run("?")).content) == ("one", "two")
