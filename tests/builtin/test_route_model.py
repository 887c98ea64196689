import pytest

from checkrail import Continue, ModelRequest
from checkrail.builtin import BUILTINS, route_model
from checkrail.testing import RecordingRegistry, assert_changed, event

TOOL = {"type": "function", "function": {"name": "read_file"}}


def route(*rules, user=None, **fields):
    made = event("before_llm_call", ModelRequest(**{"model": "gpt-5", **fields}), user=user)
    outcome = BUILTINS["route_model"].make({"rules": list(rules)})(made, made.value)
    assert outcome is None or isinstance(outcome, Continue)
    return None if outcome is None else outcome.value


def test_a_rule_without_conditions_holds_for_all():
    assert route({"to": "gpt-5-mini"}).model == "gpt-5-mini"


def test_the_first_rule_that_holds_wins():
    rules = ({"models": ["claude*"], "to": "a"}, {"models": ["gpt*"], "to": "b"}, {"to": "c"})
    assert route(*rules).model == "b"
    assert route(*rules, model="claude-x").model == "a"
    assert route(*rules, model="llama").model == "c"


def test_a_model_that_the_first_rule_keeps_is_not_swapped_by_the_next():
    rules = ({"users": ["ann"], "to": "gpt-5"}, {"to": "gpt-5-mini"})
    assert route(*rules, user="ann") is None
    assert route(*rules, user="bob").model == "gpt-5-mini"


@pytest.mark.parametrize(
    ("models", "holds"),
    [
        (["gpt-5"], True),
        (["gpt"], False),
        (["gpt-*"], True),
        (["/^g.*5$/"], True),
        (["x", "*5"], True),
    ],
)
def test_models_are_names_globs_or_expressions(models, holds):
    assert (route({"models": models, "to": "x"}) is not None) is holds


def test_users_are_matched_where_somebody_is_named():
    rule = {"users": ["*@example.com"], "to": "x"}
    assert route(rule, user="ann@example.com").model == "x"
    assert route(rule, user="ann@example.org") is None
    assert route(rule) is None


@pytest.mark.parametrize(
    ("tools", "offered", "holds"),
    [
        (True, [TOOL], True),
        (True, [], False),
        (False, [TOOL], False),
        (False, [], True),
        (["read_*"], [TOOL], True),
        (["write_*"], [TOOL], False),
        (["read_*"], [], False),
        (["web_*"], [TOOL, {"type": "web_search"}], True),
        (["lookup"], [{"type": "custom", "name": "lookup"}], True),
    ],
)
def test_tools_that_are_offered_or_not(tools, offered, holds):
    assert (route({"tools": tools, "to": "x"}, tools=offered) is not None) is holds


@pytest.mark.parametrize(
    ("messages", "count"),
    [
        ([], 0),
        ([{"role": "user", "content": "12345"}], 5),
        ([{"role": "system", "content": "123"}, {"role": "user", "content": "45"}], 5),
        (
            [{"role": "user", "content": [{"type": "text", "text": "123"}, {"type": "image_url"}]}],
            3,
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}],
                },
                {"role": "tool", "content": "ok"},
            ],
            10,
        ),
    ],
)
def test_characters_are_those_of_all_messages(messages, count):
    assert route({"max_characters": count, "to": "x"}, messages=messages) is not None
    if count:
        assert route({"max_characters": count - 1, "to": "x"}, messages=messages) is None


def test_everything_that_a_rule_says_has_to_hold():
    rule = {"models": ["gpt-5"], "users": ["ann"], "tools": False, "max_characters": 10, "to": "x"}
    assert route(rule, user="ann").model == "x"
    assert route(rule, user="bob") is None
    assert route(rule, user="ann", tools=[TOOL]) is None
    assert route(rule, user="ann", model="o3") is None
    assert route(rule, user="ann", messages=[{"role": "user", "content": "x" * 11}]) is None


@pytest.mark.parametrize(
    ("rule", "provider"),
    [
        ({"to": "gpt-5-mini"}, "openai"),
        ({"to": "groq/llama3"}, "groq"),
        ({"to": "llama3", "provider": "cerebras"}, "cerebras"),
        ({"to": "groq/llama3", "provider": "mine"}, "mine"),
    ],
)
def test_the_provider_goes_with_the_model(rule, provider):
    routed = route(rule, provider="openai")
    assert (routed.model, routed.provider) == (rule["to"], provider)


def test_nothing_else_is_touched():
    fields = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [TOOL],
        "params": {"temperature": 0.5},
        "stream": True,
        "raw": {"model": "gpt-5"},
    }
    routed = route({"to": "x"}, **fields)
    assert {name: getattr(routed, name) for name in fields} == fields


async def test_as_a_plain_function_under_the_name_that_proxies_use():
    registry = RecordingRegistry()
    registry.register(route_model, "pre_request", config={"rules": [{"to": "groq/llama3"}]})
    verdict = await registry.fire("before_llm_call", ModelRequest("gpt-5", "openai"))
    assert_changed(verdict, by="route_model")
    assert (verdict.value.model, verdict.value.provider) == ("groq/llama3", "groq")
