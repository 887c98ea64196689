"""Agents that are hooks of agents: they have to be there, and to come to an end."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.config import load, load_blueprint_hooks
from checkrail.config.agent_cycles import find_agent_hook_problems, find_cycles, is_reachable

POINTS = ("before_run", "on_run_start", "on_run_finish", "on_result", "on_run_error")


def hooks_of(name, **calls):
    """Make the hooks of an agent: at each point one that is the agent of that name."""
    told = {
        point: {"type": "agent", "agent_name": target, "on_error": "continue"}
        for point, target in calls.items()
    }
    return load_blueprint_hooks(name, told)


def wrong(**agents):
    """Find what is wrong with agents, each with the agents that are its hooks by their points."""
    return find_agent_hook_problems(
        {name: hooks_of(name, **calls) for name, calls in agents.items()}
    )


def test_nothing_is_wrong_with_a_chain_and_a_diamond():
    assert (
        wrong(
            a={"on_run_start": "check", "on_run_finish": "b"},
            b={"on_run_start": "check", "on_run_finish": "log", "on_result": "c"},
            c={"on_run_finish": "log"},
            check={"on_run_finish": "log"},
            log={},
        )
        == []
    )


@pytest.mark.parametrize("point", POINTS)
def test_an_agent_is_no_hook_of_its_own(point):
    ((agent, hook, told),) = wrong(a={point: "a"}, b={})
    assert (agent, hook) == ("a", f"a.{point}")
    assert told.startswith("a circle: a → a. ")


def test_two_finish_hooks_that_call_each_other_are_a_circle():
    ((agent, hook, told),) = wrong(a={"on_run_finish": "b"}, b={"on_run_finish": "a"})
    assert (agent, hook) == ("b", "b.on_run_finish")
    assert told.startswith("a circle: a → b → a. ")


@pytest.mark.parametrize("last", POINTS)
def test_three_in_a_circle_by_whatever_points(last):
    found = wrong(
        start={"on_run_finish": "a"},
        a={"on_run_start": "b"},
        b={"on_run_finish": "c"},
        c={last: "a"},
    )
    ((agent, _, told),) = found
    assert (agent, told.partition(". ")[0]) == ("c", "a circle: a → b → c → a")


def test_each_circle_is_told_once():
    found = wrong(
        a={"on_run_finish": "b"},
        b={"on_run_finish": "a"},
        c={"on_run_finish": "c", "on_result": "a"},
        d={"on_run_start": "e"},
        e={"on_run_start": "d"},
    )
    assert sorted(told.partition(". ")[0].removeprefix("a circle: ") for *_, told in found) == [
        *("a → b → a", "c → c", "d → e → d"),
    ]


def test_an_agent_that_is_not_there_is_told():
    ((agent, hook, told),) = wrong(a={"on_run_finish": "audit-loger"}, **{"audit-logger": {}})
    assert (agent, hook) == ("a", "a.on_run_finish")
    assert told == (
        "there is no agent 'audit-loger' (did you mean 'audit-logger'?). "
        "The agents are: a, audit-logger"
    )


@pytest.mark.parametrize("own", [{"before_run": "log"}, {"on_run_start": "log"}])
@pytest.mark.parametrize("point", ["before_run", "on_run_start"])
def test_an_agent_with_start_hooks_is_no_start_hook(point, own):
    ((agent, hook, told),) = wrong(a={point: "check"}, check=own, log={})
    assert (agent, hook) == ("a", f"a.{point}")
    assert told.startswith("the agent 'check' has start hooks of its own (check.")


def test_start_hooks_of_any_type_count():
    own = load_blueprint_hooks("check", {"on_run_start": {"block": "No"}})
    found = find_agent_hook_problems({"a": hooks_of("a", on_run_start="check"), "check": own})
    assert len(found) == 1


def test_an_agent_with_start_hooks_may_be_a_finish_hook():
    assert wrong(a={"on_run_finish": "check"}, check={"on_run_start": "log"}, log={}) == []


def test_a_hook_that_is_off_calls_nobody():
    off = {"type": "agent", "agent_name": "a", "on_error": "block", "mode": "off"}
    hooks = load_blueprint_hooks("a", {"on_run_start": off, "on_run_finish": off})
    assert find_agent_hook_problems({"a": hooks}) == []
    assert find_agent_hook_problems({"a": hooks, "b": hooks_of("b", on_run_start="a")}) == []


names = st.sampled_from("abcdef")
graphs = st.dictionaries(names, st.lists(names, max_size=4), max_size=6)


@given(graphs)
def test_what_is_left_without_the_calls_that_were_told_has_no_circle(graph):
    calls = {
        name: [((name, number), to) for number, to in enumerate(targets)]
        for name, targets in graph.items()
    }
    told = [*find_cycles(calls)]
    for name, _, way in told:
        steps = way.split(" → ")
        assert steps[0] == steps[-1]
        assert steps[-2] == name
        assert all(b in graph[a] for a, b in itertools.pairwise(steps))
    without = {call for _, call, _ in told}
    left = {name: [c for c in made if c[0] not in without] for name, made in calls.items()}
    assert [*find_cycles(left)] == []
    for name, made in left.items():
        assert not any(is_reachable(left, to, name) for _, to in made if to in left)


PROJECT = """
    hooks:
      on_run_start: { type: agent, agent_name: %s, on_error: block }
    definitions:
      log: { type: agent, agent_name: logger, on_error: continue }
    agents:
      a:
        model: openai/m
        hooks:
          on_run_start:
            name: check
            type: agent
            agent_name: %s
            on_error: block
          on_run_finish: { $ref: log }
      checker: { command: [check] }
      logger: { command: [log] }
      guarded: { command: [x], hooks: { before_run: { block: No } } }
"""


def test_a_file_whose_agents_are_all_there_loads(write):
    loaded = load(write("checkrail.yaml", PROJECT % ("checker", "checker")))
    assert [spec.target_name for spec in loaded.agents["a"].hooks] == ["checker", "logger"]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("cheker", "checker", "2 hooks.on_run_start.agent_name: there is no agent 'cheker' (did"),
        ("guarded", "checker", "2 hooks.on_run_start.agent_name: the agent 'guarded' has start h"),
        ("checker", "nobody", "12 agents.a.hooks.on_run_start.agent_name: there is no agent 'nob"),
        ("checker", "guarded", "12 agents.a.hooks.on_run_start.agent_name: the agent 'guarded' h"),
        ("checker", "a", "12 agents.a.hooks.on_run_start.agent_name: a circle: a → a"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(told, outer, inner, expected):
    (problem,) = told(PROJECT % (outer, inner))
    assert problem.startswith(f"checkrail.yaml:{expected}")


def test_a_hook_by_reference_is_told_at_its_own_place(told):
    (problem,) = told(
        (PROJECT % ("checker", "checker")).replace("agent_name: logger", "agent_name: log")
    )
    assert problem.startswith("checkrail.yaml:14 agents.a.hooks.on_run_finish: there is no agent")


TARGET = """
    hooks: {}
    agents:
      a:
        model: openai/m
        hooks:
          %s: { type: agent, agent_name: target, on_error: block }
      target: { %s }
"""
SENT = {
    "on_run_start": "parameters, agent_name, session_id, run_id",
    "on_run_finish": (
        "parameters, result_text, result_data, status, error, agent_name, session_id, run_id"
    ),
}


@pytest.mark.parametrize("point", SENT)
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{required: [prompt]}", '"prompt" is a required property'),
        (
            "{properties: {parameters: {}}, additionalProperties: false}",
            "Additional properties are not allowed",
        ),
        ("{type: array}", 'not of type "array"'),
        ("{properties: {run_id: {type: integer}}}", 'not of type "integer"'),
        ("{allOf: [{required: [x]}]}", '"x" is a required property'),
    ],
)
def test_an_agent_that_could_never_take_what_it_is_sent_is_told(told, point, schema, why):
    (problem,) = told(TARGET % (point, f"command: [x], parameters_schema: {schema}"))
    assert f"the agent 'target' cannot take what it is sent ({SENT[point]}): " in problem
    assert why in problem
    assert problem.endswith("Change its parameters_schema")


@pytest.mark.parametrize("point", SENT)
def test_an_agent_that_takes_a_prompt_is_no_hook(told, point):
    (problem,) = told(TARGET % (point, "model: openai/m"))
    assert f"the agent 'target' takes a prompt, but a hook is sent {SENT[point]}" in problem


@pytest.mark.parametrize("point", [*SENT, "on_result"])
@pytest.mark.parametrize(
    "takes",
    [
        "command: [x]",
        "path: ./graph.py:graph, type: graph",
        "command: [x], parameters_schema: {required: [parameters, run_id]}",
        "model: openai/m, parameters_schema: {type: object}",
        "command: [x], parameters_schema: {properties: {parameters: {required: [city]}}}",
        "command: [x], parameters_schema: {if: {required: [run_id]}, then: {required: [city]}}",
    ],
)
def test_an_agent_that_may_take_what_it_is_sent_is_a_hook(write, point, takes):
    assert load(write("checkrail.yaml", TARGET % (point, takes))).agents.keys() == {"a", "target"}


def test_the_original_parameters_are_sent_at_the_end_alone(write, told):
    schema = "{required: [original_parameters], properties: {original_parameters: {}}}"
    takes = f"command: [x], parameters_schema: {schema}"
    assert load(write("checkrail.yaml", TARGET % ("on_run_finish", takes)))
    (problem,) = told(TARGET % ("on_run_start", takes))
    assert '"original_parameters" is a required property' in problem
