"""What is wrong with the agents of a file: all of it at once, each with its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.config import ConfigError, load, load_text
from checkrail.config.agent_keys import AGENT, KINDS, PROCEDURAL
from checkrail.config.agent_models import MODEL_KEYS
from checkrail.config.agent_tools import SERVER_KEYS


def agent(text: str) -> str:
    """Write keys as those of the agent `a`; its first key is on line 3."""
    lines = text.splitlines()
    return "agents:\n  a:\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("agents:\n", "1 agents: found nothing, expected agents by their names"),
        ("agents: [a]\n", "1 agents: found a list, expected agents by their names"),
        ("agents: {a: 5}\n", "1 agents.a: found the number 5, expected a mapping, or ./file.py:gr"),
        ("agents: {a: }\n", "1 agents.a: found nothing, expected a mapping, or ./file.py:graph"),
        ("agents: {a: openai/gpt-5}\n", "(write {model: openai/gpt-5})"),
        ("agents: {../a: {model: openai/m}}\n", "the agent name '../a', expected letters, digits"),
        ("agents: {a b: ./x.py:graph}\n", "the agent name 'a b'"),
        ("model: openai/m\n", "1: `name` is missing, expected the name of the agent"),
        ("model: openai/m\nname: a/b\n", "2 name: the agent name 'a/b', expected letters, dig"),
        ("model: openai/m\nname: 5\n", "2 name: the agent name 5, expected letters, digits"),
        ("name: a\ntype: autonomous\n", "1: `model` is missing, expected a model to ask"),
        (
            "name: a\nmodel: openai/m\ntols: []\n",
            "3 tols: unknown key 'tols' (did you mean 'tools'?)",
        ),
        (
            "name: a\nmodel: openai/m\nprompt: x\n",
            "3 prompt: unknown key 'prompt' (did you mean 's",
        ),
        (
            "hooks: {}\ntools: []\n",
            "2 tools: the key 'tools' at the top of the file (it goes under",
        ),
        (
            "agents: {}\nmodel: openai/m\n",
            "2 model: the key 'model' at the top of the file (it goes under `defaults`, as in",
        ),
        (
            "defaults: {model: opena/m}\nagents: {a: {}, b: {}}\n",
            "1 defaults.model: unknown provider 'opena'",
        ),
        ("defaults: {model: 5}\nagents: {a: {}}\n", "1 defaults.model: found the number 5"),
    ],
)
def test_problems_around_agents(told, text, expected):
    (problem,) = told(text)
    assert expected in problem


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("description: x", 2, ": `model` is missing, expected a model to ask (defaults: {model"),
        ("modle: openai/m", 3, ".modle: unknown key 'modle' (did you mean 'model'?)"),
        ("model: openai/m\ninstructions: x", 4, ".instructions: unknown key 'instructions' (did"),
        ("model: openai/m\nmcpServers: {}", 4, "did you mean 'mcp'?"),
        ("model: openai/m\ntimeout: 5", 4, "did you mean 'model_timeout'?"),
        ("model: openai/m\nname: b", 4, ".name: unknown key 'name'"),
        ("model: openai/m\ntype: autonomus", 4, ".type: unknown word 'autonomus' (did you mean 'a"),
        (
            "model: openai/m\nsystem_prompt: 5",
            4,
            ".system_prompt: found the number 5, expected a t",
        ),
        ("model: openai/m\nmax_iterations: 0", 4, "found the number 0, expected a whole number, 1"),
        ("model: openai/m\nmax_iterations: yes", 4, "found the text 'yes', expected a whole numbe"),
        ("model: openai/m\nmax_iterations: true", 4, "found true, expected a whole number, 1 or"),
        ("model: openai/m\nmodel_timeout: 5s", 4, "found the text '5s', expected seconds"),
        ("model: openai/m\noutput_schema: [x]", 4, ".output_schema: found a list, expected a map"),
        ("model: openai/m\noutput_schema: {type: objct}", 4, "expected a JSON Schema"),
        ("model: openai/m\noutput_schema: {$ref: 'http://h/x'}", 4, "is not fetched"),
        ("model: openai/m\nsystem_prompt: x ${HOME}", 4, "${HOME} is not allowed here"),
    ],
)
def test_problems_of_an_agent(told, text, line, expected):
    (problem,) = told(agent(text))
    assert problem.startswith(f"checkrail.yaml:{line} agents.a")
    assert expected in problem


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5", "found the text 'gpt-5', which names no provider, expected provider/name"),
        ("gpt-5", "(write openai/gpt-5, if it is OpenAI's)"),
        ("''", "found an empty text, expected provider/name, ./file.py:model, or a mapping"),
        ("", "found nothing, expected provider/name"),
        ("5", "found the number 5, expected provider/name"),
        ("opnai/gpt-5", "unknown provider 'opnai' (did you mean 'openai'?)"),
        (
            "groq/x",
            "expected one of: openai, anthropic, litellm (LiteLLM knows more: litellm/groq/x)",
        ),
        ("openai/${NOPE}", "${NOPE} is not allowed here"),
        ("./none.py:model", "there is no file"),
        ("json:nothing", "json has no 'nothing'"),
        ("json:dumps", "no model: it has no name, provider, params, complete, stream, expected an"),
        ("json:JSONDecoder", "the class JSONDecoder, expected an object (make one of it there)"),
        ("{provider: opnai, model: x}", "provider: unknown word 'opnai' (did you mean 'openai'?)"),
        ("{provider: openai}", "`model` is missing, expected the name of a model"),
        ("{}", "`model` is missing"),
        ("{model: gpt-5}", "a.model.model: found the text 'gpt-5', which names no provider"),
        ("{model: openai/m, api_key: 123}", "api_key: found something else, expected a text, such"),
        ("{model: openai/m, timeout: 0}", "timeout: found the number 0, expected seconds"),
        ("{model: openai/m, temperature: 0}", "temperature: unknown key 'temperature'"),
        ("{model: openai/m, params: {timeout: 3}}", "`timeout` among `params` (write `timeout` be"),
        ("{model: openai/m, params: {client: x}}", "params.client: `client` among `params`"),
        ("{provider: openai, model: m, replies: [x]}", "replies of a provider, expected provider"),
        ("{provider: scripted}", "`replies` is missing, expected a list of what the model is to"),
        ("{replies: []}", "replies: found an empty list, expected a list of what"),
        ("{replies: Hi}", "replies: found the text 'Hi', expected a list of what"),
        ("{replies: [x], api_key: abc}", "api_key: `api_key` of a script, expected `replies` al"),
        ("{replies: [5]}", "replies[0]: found the number 5, expected a text, {tool, args}, or"),
        ("{replies: [{}]}", "replies[0]: found a mapping, expected a text, {tool, args}, or"),
        ("{replies: [{tol: x}]}", "replies[0].tol: unknown key 'tol' (did you mean 'tool'?)"),
        ("{replies: [{args: {}}]}", "replies[0]: `tool` is missing, expected the name of a tool"),
        ("{replies: [{tool: 5}]}", "replies[0].tool: found the number 5, expected a text"),
        ("{replies: [{tool: x, args: 5}]}", "replies[0].args: found the number 5, expected a map"),
        ("{replies: [{tool: x, tool_calls: []}]}", "both `tool` and `tool_calls`, expected one"),
        ("{replies: [{tool_calls: x}]}", "tool_calls: found the text 'x', expected a list of {to"),
        ("{replies: [{tool_calls: [{}]}]}", "tool_calls[0]: `tool` is missing"),
        ("{replies: [{tool_calls: [{tol: x}]}]}", "tool_calls[0].tol: unknown key 'tol'"),
        ("{replies: [{content: 5}]}", "content: found the number 5, expected a text"),
    ],
)
def test_problems_of_a_model(told, model, expected):
    (problem,) = told(agent(f"model: {model}"))
    assert problem.startswith("checkrail.yaml:3 agents.a.model")
    assert expected in problem


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ("./tools.py:lookup", "tools: found the text './tools.py:lookup', expected a list of"),
        ("[5]", "tools[0]: found the number 5, expected ./file.py:function"),
        ("[{path: x}]", "tools[0]: found a mapping, expected ./file.py:function"),
        ("['./tools.py:lokup']", "./tools.py has no 'lokup' (did you mean 'lookup'?)"),
        ("['./tols.py:lookup']", "(did you mean 'tools.py'?)"),
        ("['./broken.py:lookup']", "ZeroDivisionError"),
        ("[lookup]", "'lookup' is no import reference"),
        ("['agent:b']", "tools[0]: unknown agent 'b'"),
        ("['agent:graph']", "the agent 'graph', which is of type graph, expected an autonomous"),
        ("['agent:o.k']", "'o.k', which is no name for a tool"),
        ("['agent:a']", "tools[0]: a circle: a → a, expected agents that come to an end"),
        ("['agent:other', 'agent:other']", "tools[1]: a tool of the name 'other' a second time"),
    ],
)
def test_problems_of_tools(told, write, tools, expected):
    write("tools.py", "def lookup(): ...\n")
    write("broken.py", "1 / 0\n")
    more = "  graph: ./x.py:graph\n  o.k: {model: openai/m}\n  other: {model: openai/m}\n"
    (problem,) = told(agent(f"model: openai/m\ntools: {tools}") + more)
    assert problem.startswith("checkrail.yaml:4 agents.a.tools")
    assert expected in problem


def test_a_module_that_breaks_is_one_problem_for_all_its_tools(told, write):
    write("broken.py", "1 / 0\n")
    (problem,) = told(agent("model: openai/m\ntools: ['./broken.py:a', './broken.py:b']"))
    assert "it is the same at agents.a.tools[1]" in problem


def test_a_circle_is_told_once_whichever_way_leads_into_it(told):
    text = """
        agents:
          start: { model: openai/m, tools: [agent:a] }
          a: { model: openai/m, tools: [agent:b] }
          b: { model: openai/m, tools: [agent:c, agent:leaf] }
          c: { model: openai/m, tools: [agent:a, agent:leaf] }
          leaf: { model: openai/m }
    """
    (problem,) = told(text)
    assert problem.startswith("checkrail.yaml:5 agents.c.tools[0]: a circle: a → b → c → a, ")


def test_two_circles_are_two_problems_and_a_diamond_is_none(told):
    text = """
        agents:
          top: { model: openai/m, tools: [agent:left, agent:right] }
          left: { model: openai/m, tools: [agent:bottom] }
          right: { model: openai/m, tools: [agent:bottom, agent:right] }
          bottom: { model: openai/m }
          one: { model: openai/m, tools: [agent:two, agent:top] }
          two: { model: openai/m, tools: [agent:one] }
    """
    found = [problem.partition(": a circle: ") for problem in told(text)]
    assert [(place, what.partition(",")[0]) for place, _, what in found] == [
        ("checkrail.yaml:4 agents.right.tools[1]", "right → right"),
        ("checkrail.yaml:7 agents.two.tools[0]", "one → two → one"),
    ]


def test_a_long_chain_of_agents_is_no_circle():
    names = [f"a{number}" for number in range(300)]
    calls = zip(names, [*names[1:], None], strict=True)
    agents = {
        name: {"tools": [f"agent:{to}"] if to else [], "model": "openai/m"} for name, to in calls
    }
    assert len(load_text(json.dumps({"agents": agents}), "json").agents) == 300


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("", "mcp.x: found nothing, expected a mapping with `command` or `url`"),
        ("serve", "mcp.x: found the text 'serve', expected a mapping"),
        ("{}", "mcp.x: a server that is nowhere, expected `command` or `url`"),
        ("{comand: [x]}", "mcp.x.comand: unknown key 'comand' (did you mean 'command'?)"),
        ("{command: serve}", "command: found the text 'serve', expected a program and its argum"),
        ("{command: []}", "command: found an empty list, expected a program"),
        ("{command: [serve], url: 'http://h'}", "url: both `command` and `url`, expected one"),
        ("{command: [serve], headers: {}}", "headers: `headers`, which is for a URL, expected on"),
        ("{url: 'http://h', cwd: .}", "cwd: `cwd`, which is for a program, expected one of: url"),
        ("{command: [serve], env: [A]}", "env: found a list, expected a mapping"),
        ("{command: [serve], env: {KEY: 123456}}", "env.KEY: found something else, expected a t"),
        ("{url: 'http://h', headers: {A: }}", "headers.A: found something else"),
        ("{url: 'http://h', include: 5}", "include: found the number 5, expected a pattern or"),
        ("{url: 'http://h', timeout: 0}", "timeout: found the number 0, expected seconds"),
    ],
)
def test_problems_of_mcp_servers(told, server, expected):
    (problem,) = told(agent(f"model: openai/m\nmcp: {{x: {server}}}"))
    assert problem.startswith("checkrail.yaml:4 agents.a.")
    assert expected in problem


def test_servers_are_a_mapping(told):
    (problem,) = told(agent("model: openai/m\nmcp: [x]"))
    assert "agents.a.mcp: found a list, expected a mapping" in problem


def test_problems_of_an_agents_hooks_have_the_whole_path(told):
    text = """
        agents:
          a:
            model: openai/m
            hooks:
              before_tool_cal: { block: No }
              before_tool_call:
                - { name: one, blok: No }
                - { name: two, block: No, when: toolcall.name == "x" }
                - { name: two, block: No }
          b:
            model: openai/m
            hooks: { timeout: 3 }
    """
    found = told(text)
    places = [problem.partition(": ")[0].removeprefix("checkrail.yaml:") for problem in found]
    assert places == [
        "5 agents.a.hooks.before_tool_cal",
        "7 agents.a.hooks.before_tool_call[0].blok",
        "8 agents.a.hooks.before_tool_call[1].when",
        "9 agents.a.hooks.before_tool_call[2].name",
        "12 agents.b.hooks.timeout",
    ]


def test_everything_is_told_at_once(told):
    text = """
        hooks:
          before_rn: { block: No }
        agents:
          a: { model: gpt-5, tools: [json:nothing], max_iterations: 0 }
          b: { modle: openai/m, mcp: { x: {} }, hooks: { before_run: { blok: No } } }
    """
    lines = [problem.split(" ")[0] for problem in told(text)]
    assert lines == [f"checkrail.yaml:{line}" for line in (2, 4, 4, 4, 5, 5, 5)]


def test_what_a_check_of_tools_refuses_is_a_problem_of_the_file(write):
    def check(owner, given):
        raise TypeError(f"{owner} cannot use {given[0].__name__}")

    path = write("checkrail.yaml", "agents: {a: {model: openai/m, tools: ['json:dumps']}}")
    with pytest.raises(ConfigError, match=r"a\.tools\[0\]: a cannot use dumps"):
        load(path, check_tools=check)


@pytest.mark.parametrize(
    "text",
    [
        "model: {model: openai/m, api_key: '${TOKEN}', params: {client: '${TOKEN}'}}",
        "model: '${TOKEN}'",
        "model: ./${TOKEN}.py:model",
        "model: openai/m\nmcp: {x: {url: '${TOKEN}', command: ['${TOKEN}']}}",
    ],
)
def test_no_secret_is_told(told, monkeypatch, text):
    monkeypatch.setenv("TOKEN", "very-secret-token")
    (problem,) = told("env: {allow: [TOKEN]}\n" + agent(text))
    assert "very-secret-token" not in problem


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=6)
    | st.sampled_from(["openai/m", "agent:a", "json:dumps", "./x.py:y", "${HOME}", "scripted"])
)
data = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
models = st.dictionaries(st.sampled_from([*MODEL_KEYS]), data, max_size=4)
servers = st.dictionaries(st.sampled_from([*SERVER_KEYS]), data, max_size=4)
called = st.fixed_dictionaries(
    {"type": st.just("agent"), "agent_name": st.sampled_from(["a", "b", "c"]) | scalars},
    optional={"on_error": st.just("block") | data, "mode": st.just("off")},
)
points = st.sampled_from(["on_run_start", "on_run_finish", "before_run", "on_result"])
keys = dict.fromkeys([*AGENT, *PROCEDURAL], data) | {
    "type": st.sampled_from(KINDS) | data,
    "hooks": data | st.dictionaries(points, called | st.lists(called, max_size=2), max_size=2),
    "model": data | models,
    "tools": data | st.lists(scalars, max_size=3),
    "mcp": data | st.dictionaries(st.text(max_size=2), servers | data, max_size=2),
}
agents = st.fixed_dictionaries({}, optional=keys)
names = st.sampled_from(["a", "b"]) | st.text(max_size=3)


@given(st.dictionaries(names, agents | data, max_size=3) | data)
def test_every_section_is_loaded_or_refused(section):
    try:
        load_text(json.dumps({"agents": section}, indent=1), "json")
    except ConfigError as error:
        found = error.problems
    else:
        return
    assert found
    assert all(problem.line and str(problem) for problem in found)
