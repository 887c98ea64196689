import asyncio

import pytest

from checkrail import Ask, Block, Continue, HookRegistry, Stop, ToolCall
from checkrail.engine.errors import UnknownPointError
from checkrail.engine.event import Event
from checkrail.engine.frozen import FrozenError
from checkrail.engine.points import ALIASES, CONTRACTS, FIRED_AS, HookPoint
from checkrail.testing import (
    RecordingRegistry,
    approve,
    assert_allowed,
    assert_blocked,
    assert_called,
    assert_changed,
    capture,
    deny,
    event,
    sample,
    timeline,
)


def nothing(event):
    return None


def refuse(event):
    return Block("not today", status=409, code="busy")


def tag(event, value):
    return Continue({**value, "tag": 1})


def registry_with(*hooks, **options):
    registry = RecordingRegistry(**options)
    for hook in hooks:
        registry.register(hook, "before_run")
    return registry


async def fired(*hooks, value=None, **options):
    return await registry_with(*hooks, **options).fire("before_run", value or {})


@pytest.mark.parametrize("point", [*HookPoint, *FIRED_AS])
async def test_a_sample_is_a_value_of_its_point(point):
    contract = CONTRACTS[FIRED_AS[point]]
    assert isinstance(sample(point), contract.value)
    registry = HookRegistry()
    registry.register(nothing, point)
    assert (await registry.fire(point, sample(point))).value == sample(point)


def test_an_alias_for_two_points_has_no_sample():
    assert "on_run_finish" in ALIASES
    with pytest.raises(Exception, match="fire after_run or on_run_error instead"):
        sample("on_run_finish")


def test_an_unknown_point_is_named():
    with pytest.raises(UnknownPointError, match="did you mean 'before_run'"):
        event("before_runn")


@pytest.mark.parametrize("point", HookPoint)
def test_an_event_is_what_a_hook_gets(point):
    made = event(point)
    assert isinstance(made, Event)
    assert made.point is point
    assert made.value == made.original == sample(point)
    assert made.config == {}
    with pytest.raises(FrozenError):
        made.value = 1


def test_an_event_with_everything():
    call = ToolCall("1", "f", {"a": [1]})
    made = event(
        "pre_tool_call",
        call,
        config={"limit": 3},
        run_id="r",
        user="ann",
        model="m",
        metadata={"tags": ["x"]},
        attempt=2,
    )
    assert made.point is HookPoint.BEFORE_TOOL_CALL
    assert made.value == call
    assert (made.config, made.run_id, made.user.identity) == ({"limit": 3}, "r", "ann")
    assert (made.model, made.metadata, made.attempt) == ("m", {"tags": ["x"]}, 2)
    assert made.timestamp > 0


def test_the_value_of_an_event_is_frozen():
    made = event("before_run", {"a": []})
    with pytest.raises(FrozenError):
        made.value["a"].append(1)


def test_an_event_of_a_wrong_value_or_context_is_refused():
    with pytest.raises(TypeError, match="before_tool_call carries a ToolCall"):
        event("before_tool_call", {})
    with pytest.raises(TypeError, match="no field 'run'"):
        event("before_run", {}, run="r")


def test_an_event_may_carry_none_where_the_point_allows_it():
    assert event("query_end", None).value is None


async def test_events_can_be_made_while_a_loop_runs():
    assert event("before_run", {"a": 1}).value == {"a": 1}


async def test_a_hook_can_be_called_with_an_event():
    made = event("before_run", {"a": 1})
    assert tag(made, made.value).value == {"a": 1, "tag": 1}


async def test_a_recording_registry_keeps_its_records():
    registry = registry_with(nothing, tag)
    verdict = await registry.fire("before_run", {})
    assert registry.records == list(verdict.records)
    assert_called(registry, "nothing", "tag")
    registry.clear()
    assert registry.records == []
    await registry.fire("before_run", {})
    assert_called(registry, "nothing", "tag")


async def test_a_recording_registry_takes_other_sinks_too():
    more, most = [], []
    for sink in (more.append, [more.append, most.append]):
        registry = RecordingRegistry(sink)
        registry.register(nothing, "before_run")
        await registry.fire("before_run", {})
        assert len(registry.records) == 2
    assert (len(more), len(most)) == (4, 2)


async def test_a_recording_registry_has_the_options_of_any_other():
    registry = registry_with(tag, history="off", ask=approve, max_retries=1)
    await registry.fire("before_run", {})
    assert registry.records[-1].after is None
    assert (registry.ask, registry.max_retries) == (approve, 1)


async def test_capture_hears_what_is_fired_meanwhile():
    heard = []
    registry = HookRegistry(heard.append)
    registry.register(nothing, "before_run")
    await registry.fire("before_run", {})
    with capture(registry) as records:
        await registry.fire("before_run", {})
        assert_called(records, "nothing")
    await registry.fire("before_run", {})
    assert len(records) == 2
    assert len(heard) == 6
    assert registry.sinks == (heard.append,)


async def test_capture_lets_go_also_after_an_error():
    registry = HookRegistry()

    def failing():
        with capture(registry):
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert registry.sinks == ()


async def test_approve_and_deny_answer_every_question():
    for handler, decision in ((approve, "continue"), (deny, "block")):
        registry = RecordingRegistry(ask=handler)
        registry.register(lambda event: Ask("sure?"), "on_run_start", name="asks")
        assert (await registry.fire("on_run_start", {})).decision == decision


async def test_assert_allowed():
    assert_allowed(await fired(nothing))
    assert_allowed(await fired())
    with pytest.raises(AssertionError) as caught:
        assert_allowed(await fired(nothing, refuse))
    assert str(caught.value) == (
        "expected the work to go on, but got <Verdict block by refuse: not today>:\n"
        "  before_run  transform  nothing  continue\n"
        "  before_run  transform  refuse  block: not today"
    )


async def test_assert_allowed_takes_no_other_ending_for_going_on():
    registry = RecordingRegistry()
    registry.register(lambda event: Stop("bye"), "before_inbound", name="stops")
    with pytest.raises(AssertionError, match="the work to go on"):
        assert_allowed(await registry.fire("before_inbound", sample("before_inbound")))


async def test_assert_blocked():
    verdict = await fired(refuse)
    assert_blocked(verdict)
    assert_blocked(verdict, by="refuse", reason="today", status=409, code="busy")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"by": "other"}, "expected a block by 'other'"),
        ({"reason": "never"}, "expected a reason with 'never'"),
        ({"status": 403}, r"expected status 403 \(it has 409 and 'busy'\)"),
        ({"code": "full"}, r"expected code 'full' \(it has 409 and 'busy'\)"),
    ],
)
async def test_assert_blocked_says_what_is_different(wrong, told):
    with pytest.raises(AssertionError, match=told):
        assert_blocked(await fired(refuse), **wrong)


async def test_assert_blocked_says_that_no_hook_was_called():
    with pytest.raises(AssertionError) as caught:
        assert_blocked(await fired())
    told = "expected a block, but got <Verdict continue>:\n  (no hook was called)"
    assert str(caught.value) == told


async def test_assert_blocked_shows_failures_and_shadows():
    def broken(event):
        raise ValueError("out of order")

    registry = RecordingRegistry()
    registry.register(broken, "before_run", on_error="continue")
    registry.register(refuse, "before_run", mode="shadow")
    with pytest.raises(AssertionError) as caught:
        assert_blocked(await registry.fire("before_run", {}))
    assert "broken  failed (error): ValueError: out of order" in str(caught.value)
    assert "refuse  in shadow: block: not today" in str(caught.value)


async def test_assert_changed():
    verdict = await fired(nothing, tag, value={"a": 1})
    assert_changed(verdict)
    assert_changed(verdict, {"a": 1, "tag": 1}, by="tag", a=1, tag=1)
    registry = RecordingRegistry()
    registry.register(lambda event: Continue('{"b": 2}'), "before_tool_call", name="args")
    verdict = await registry.fire("before_tool_call", ToolCall("1", "f", {}))
    assert_changed(verdict, ToolCall("1", "f", {"b": 2}), by="args", name="f", args={"b": 2})


@pytest.mark.parametrize(
    ("arguments", "wrong", "told"),
    [
        ((), {"by": "nothing"}, "the value to be changed by 'nothing'"),
        (({},), {}, "expected the value {} (it is {'tag': 1})"),
        ((), {"tag": 2}, "expected tag to be 2 (it is 1)"),
        ((), {"more": 2}, "expected more to be 2 (it is None)"),
    ],
)
async def test_assert_changed_says_what_is_different(arguments, wrong, told):
    with pytest.raises(AssertionError) as caught:
        assert_changed(await fired(nothing, tag), *arguments, **wrong)
    assert told in str(caught.value)
    assert "tag  continue with {'tag': 1}" in str(caught.value)


async def test_what_a_shadow_would_have_changed_is_no_change():
    registry = RecordingRegistry()
    registry.register(tag, "before_run", mode="shadow")
    with pytest.raises(AssertionError, match="expected the value to be changed"):
        assert_changed(await registry.fire("before_run", {}))


async def test_a_redaction_is_a_change_whose_values_are_not_shown():
    def hide(event):
        return Continue({"a": "***"}, redacted=True)

    verdict = await fired(hide, value={"a": "top-secret"})
    assert_changed(verdict, {"a": "***"}, by="hide")
    assert timeline(verdict) == ("  before_run  transform  hide  continue with the value redacted")


async def test_assert_called_minds_order_and_number():
    registry = registry_with(nothing, tag)
    verdict = await registry.fire("before_run", {})
    await registry.fire("before_run", {})
    assert_called(verdict, "nothing", "tag")
    assert_called(registry, "nothing", "tag", "nothing", "tag")
    assert_called((record for record in verdict.records), "nothing", "tag")
    for wrong in ((), ("tag", "nothing"), ("nothing",), ("nothing", "tag", "tag")):
        with pytest.raises(AssertionError) as caught:
            assert_called(iter(verdict.records), *wrong)
        assert "but got nothing, tag:\n  before_run  transform  nothing" in str(caught.value)


async def test_assert_called_with_nothing_called():
    registry = registry_with()
    await registry.fire("before_run", {})
    assert_called(registry)
    with pytest.raises(AssertionError, match="expected calls of a, but got no hook"):
        assert_called(registry, "a")


async def test_a_call_that_has_not_ended_was_called_nevertheless():
    registry = RecordingRegistry()

    at_work = asyncio.Event()

    async def waits(event):
        asyncio.get_running_loop().call_soon(at_work.set)
        await asyncio.sleep(10)

    registry.register(waits, "before_run")
    work = asyncio.create_task(registry.fire("before_run", {}))
    await at_work.wait()
    assert_called(registry, "waits")
    work.cancel()
    await asyncio.wait([work])
    assert "waits  failed (cancelled)" in timeline(registry)
