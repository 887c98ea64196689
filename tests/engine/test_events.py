"""What an event carries, and that it never changes after a hook has seen it."""

import time

import pytest

from checkrail.engine.event import dispatch_of
from checkrail.engine.frozen import FrozenError
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ModelRequest, User

IDS = (
    "session_id",
    "thread_id",
    "run_id",
    "parent_run_id",
    "agent_name",
    "assistant_id",
    "request_id",
    "tool_call_id",
)


async def event_of(value=None, *, point="before_run", config=None, **context):
    registry = HookRegistry()
    seen = []
    registry.register(seen.append, point, name="h", config=config or {})
    await registry.fire(point, value, **context)
    return seen[0]


async def test_every_id_that_was_bound_is_carried():
    event = await event_of(**{name: f"{name}-1" for name in IDS})
    assert {name: getattr(event, name) for name in IDS} == {name: f"{name}-1" for name in IDS}


async def test_what_is_absent_is_none():
    event = await event_of()
    assert [getattr(event, name) for name in IDS] == [None] * len(IDS)
    assert [event.user, event.model, event.provider, event.iteration] == [None] * 4
    assert (event.attempt, event.metadata, event.config, event.verdict) == (1, {}, {}, None)


async def test_what_else_an_event_carries():
    before = time.time()
    event = await event_of(
        {"a": 1},
        config={"limit": 3},
        user={"identity": "u1", "permissions": ["read"]},
        model="m",
        provider="p",
        attempt=2,
        iteration=4,
        metadata={"tags": ["x"]},
    )
    assert (event.point, event.value, event.original) == ("before_run", {"a": 1}, {"a": 1})
    assert event.config == {"limit": 3}
    assert event.user == User(identity="u1", permissions=["read"])
    assert (event.model, event.provider) == ("m", "p")
    assert (event.attempt, event.iteration, event.metadata) == (2, 4, {"tags": ["x"]})
    assert before - 1 < event.timestamp < time.time() + 1
    assert "before_run" in repr(event)


async def test_a_name_is_enough_for_a_user():
    assert (await event_of(user="u1")).user == User(identity="u1")


async def test_the_values_own_model_counts_before_the_contexts():
    request = ModelRequest(model="own", provider="theirs")
    event = await event_of(request, point="before_llm_call", model="m", provider="p")
    assert (event.model, event.provider) == ("own", "theirs")


async def test_an_unknown_field_is_refused_with_the_likely_one():
    registry = HookRegistry()
    registry.register(print, "before_run")
    with pytest.raises(TypeError, match=r"'run_idd'.*'run_id'"):
        await registry.fire("before_run", {}, run_idd="r")


async def test_the_time_of_an_event_is_the_same_whenever_it_is_read():
    event = await event_of()
    assert len({event.timestamp for _ in range(50)}) == 1


@pytest.mark.parametrize("name", ["value", "original", "config", "context", "verdict", "new"])
async def test_an_event_cannot_be_changed(name):
    event = await event_of({"a": 1})
    with pytest.raises(FrozenError, match=name):
        setattr(event, name, 1)


async def test_nothing_can_be_deleted_from_an_event():
    event = await event_of({"a": 1})
    with pytest.raises(FrozenError, match="value"):
        del event.value


async def test_the_context_of_an_event_cannot_be_changed():
    event = await event_of(run_id="r")
    with pytest.raises(AttributeError):
        event.context.run_id = "other"


async def test_context_is_frozen_in_depth():
    event = await event_of(
        user={"identity": "u", "extras": {"team": ["a"]}},
        metadata={"tags": ["x"]},
        config={"words": ["w"]},
    )
    for inner in (event.user.extras["team"], event.metadata["tags"], event.config["words"]):
        with pytest.raises(FrozenError):
            inner.append("y")
    with pytest.raises(FrozenError):
        event.metadata["new"] = 1
    with pytest.raises(FrozenError):
        event.config["new"] = 1


async def test_what_the_caller_gave_stays_the_callers():
    given, tags = {"a": [1]}, {"tags": ["x"]}
    event = await event_of(given, metadata=tags)
    given["a"].append(2)
    tags["tags"].append("y")
    assert (event.value, event.metadata) == ({"a": [1]}, {"tags": ["x"]})


async def test_each_hook_sees_its_own_config():
    registry = HookRegistry()
    seen = {}
    for name in ("one", "two"):
        registry.register(
            lambda event, value: seen.__setitem__(event.config["name"], value),
            "before_run",
            name=name,
            config={"name": name},
            when=lambda event: event.config["name"],
        )
    await registry.fire("before_run", 5)
    assert seen == {"one": 5, "two": 5}


@pytest.mark.parametrize(
    ("field", "wrong", "told"),
    [
        ("user", 5, "a user is a name, a mapping or a User, not int"),
        ("attempt", "x", "attempt is a whole number, not str"),
        ("iteration", 1.5, "iteration is a whole number, not float"),
    ],
)
def test_what_no_event_can_carry_is_refused(field, wrong, told):
    with pytest.raises(TypeError, match=told):
        HookRegistry().scope(**{field: wrong})


async def test_events_of_one_dispatch_can_be_told_from_those_of_another():
    registry, seen = HookRegistry(), []
    registry.register(lambda event: seen.append(dispatch_of(event)), "before_run", name="a")
    registry.register(
        lambda event: seen.append(dispatch_of(event)), "before_run", name="b", config={"x": 1}
    )
    await registry.fire("before_run", {})
    await registry.fire("before_run", {})
    assert seen[0] is seen[1]
    assert seen[2] is seen[3]
    assert seen[0] is not seen[2]
