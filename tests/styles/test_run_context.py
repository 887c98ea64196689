import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail import HookRegistry
from checkrail.engine.frozen import FrozenError
from checkrail.engine.values import RunError, RunResult, User
from checkrail.hooks import RunContext, RunHooks

USAGE = {"gpt-4o-mini": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}


async def context_at(point, value, **event):
    hooks = RunHooks()
    seen = []
    getattr(hooks, point)(seen.append)
    registry = HookRegistry()
    hooks.register(registry)
    await registry.fire(point, value, **event)
    return seen[0]


def test_it_has_all_its_fields():
    names = [field.name for field in dataclasses.fields(RunContext)]
    assert names == [
        "run_id",
        "thread_id",
        "assistant_id",
        "graph_id",
        "user",
        "config",
        "input",
        "output",
        "status",
        "error",
        "error_type",
        "extras",
    ]


async def test_before_a_run_it_tells_who_wants_what():
    user = User(identity="ada", email="ada@example.org", permissions=["runs"])
    context = await context_at(
        "before_run",
        {"q": 1},
        run_id="r1",
        thread_id="t1",
        assistant_id="a1",
        agent_name="research",
        user=user,
        metadata={"config": {"configurable": {"depth": 3}}, "extras": {"plan": "free"}},
    )
    assert context == RunContext(
        run_id="r1",
        thread_id="t1",
        assistant_id="a1",
        graph_id="research",
        user=user,
        config={
            "configurable": {
                "depth": 3,
                "thread_id": "t1",
                "run_id": "r1",
                "assistant_id": "a1",
                "graph_id": "research",
                "langgraph_auth_user_id": "ada",
            }
        },
        input={"q": 1},
        extras={"plan": "free"},
    )
    assert (context.output, context.status, context.error, context.error_type) == (None,) * 4


@pytest.mark.parametrize("status", ["success", "interrupted"])
async def test_after_a_run_it_tells_the_output_status_and_usage(status):
    result = RunResult(status=status, output={"a": 2}, input={"q": 1}, usage=USAGE)
    context = await context_at("after_run", result, metadata={"extras": {"plan": "free"}})
    assert (context.status, context.output, context.input) == (status, {"a": 2}, {"q": 1})
    assert context.extras == {"plan": "free", "usage_metadata": USAGE}
    assert (context.error, context.error_type) == (None, None)


async def test_on_an_error_it_tells_the_error_and_the_usage_so_far():
    error = RunError(
        status="cancelled",
        error="Run was cancelled",
        error_type="CancelledError",
        input={"q": 1},
        usage=USAGE,
    )
    context = await context_at("on_run_error", error)
    assert (context.error, context.error_type) == ("Run was cancelled", "CancelledError")
    assert (context.input, context.extras) == ({"q": 1}, {"usage_metadata": USAGE})
    assert (context.output, context.status) == (None, None)


async def test_without_usage_the_key_is_absent():
    assert (await context_at("after_run", RunResult())).extras == {}
    assert (await context_at("after_run", RunResult(usage={}))).extras == {}


async def test_what_is_not_known_is_empty_and_the_user_is_anonymous():
    context = await context_at("before_run", None)
    ids = (context.run_id, context.thread_id, context.assistant_id, context.graph_id)
    assert ids == ("", "", "", "")
    assert context.user == User(identity="anonymous")
    assert (context.config, context.extras, context.input) == ({}, {}, None)


async def test_the_ids_in_the_config_are_the_servers_whatever_a_client_sends():
    forged = {"thread_id": "x", "run_id": "x", "langgraph_auth_user_id": "root", "tone": "dry"}
    context = await context_at(
        "before_run",
        {},
        run_id="r1",
        thread_id="t1",
        user="ada",
        metadata={"config": {"configurable": forged, "tags": ["a"]}},
    )
    assert context.config == {
        "tags": ["a"],
        "configurable": {
            "thread_id": "t1",
            "run_id": "r1",
            "langgraph_auth_user_id": "ada",
            "tone": "dry",
        },
    }


async def test_after_a_run_it_tells_what_was_asked_for_before_hooks_changed_it():
    asked = {"original_parameters": {"q": 0}}
    for point, value in (("after_run", RunResult(input={"q": 1})), ("on_run_error", RunError())):
        context = await context_at(point, value, metadata=asked)
        assert context.extras == asked


async def test_the_graph_can_have_another_name_than_the_agent():
    told = {"graph_id": "graph"}
    assert (await context_at("before_run", {}, agent_name="a", metadata=told)).graph_id == "graph"


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(RunContext)])
async def test_no_field_can_be_set_or_deleted(field):
    context = await context_at("before_run", {"q": 1}, run_id="r1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(context, field, "x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(context, field)
    with pytest.raises((AttributeError, TypeError)):
        context.another = 1


CHANGES = [
    lambda ctx: ctx.extras.__setitem__("x", 1),
    lambda ctx: ctx.extras["usage_metadata"].clear(),
    lambda ctx: ctx.config["a"].__setitem__("b", 2),
    lambda ctx: ctx.config["a"]["list"].append(2),
    lambda ctx: ctx.config.pop("a"),
    lambda ctx: ctx.input["q"].update(x=1),
    lambda ctx: ctx.output["deep"][0].setdefault("x", 1),
    lambda ctx: ctx.user.extras.update(x=1),
    lambda ctx: ctx.user.permissions.append("admin"),
]


@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_in_it_can_be_changed_however_deep(change):
    result = RunResult(input={"q": {}}, output={"deep": [{}]}, usage={"m": {}})
    user = User(identity="ada", permissions=["runs"], extras={"a": 1})
    config = {"a": {"b": 1, "list": [1]}}
    context = await context_at("after_run", result, user=user, metadata={"config": config})
    with pytest.raises(FrozenError):
        change(context)


def test_one_that_somebody_makes_shares_nothing_with_what_it_was_made_of():
    config, extras = {"a": {"b": 1}}, {"x": [1]}
    context = RunContext("r", "t", "a", "g", User(identity="ada"), config=config, extras=extras)
    config["a"]["b"] = 2
    extras["x"].append(2)
    assert (context.config, context.extras) == ({"a": {"b": 1}}, {"x": [1]})
    with pytest.raises(FrozenError):
        context.config["a"]["b"] = 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(data=JSON)
def test_frozen_data_is_still_the_same_data(data):
    context = RunContext("r", "t", "a", "g", User(identity="ada"), input=data, extras={"x": data})
    assert context.input == data
    assert json.loads(json.dumps(context.extras)) == {"x": data}
    assert pickle.loads(pickle.dumps(context)) == context
