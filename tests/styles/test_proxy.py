import asyncio
import copy
import dataclasses
from typing import Any

import pytest

from checkrail import (
    AssistantMessage,
    Continue,
    HookRegistry,
    ModelRequest,
    RunResult,
    ToolCall,
    ToolResult,
)
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.points import HookPoint, find_places
from checkrail.hooks import RunContext
from checkrail.styles import proxy
from checkrail.styles.proxy import EVENTS, HookContext, HookEvent, adapt, is_proxy_hook

REQUEST = ModelRequest(
    model="groq/llama3",
    messages=[{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}],
    tools=[{"name": "search"}],
    params={"temperature": 0},
    raw={"messages": "as they came"},
)
ANSWER = AssistantMessage(
    content="hello",
    tool_calls=[ToolCall(id="c1", name="search", args={"q": "x"})],
    model="llama3",
    usage={"total_tokens": 7},
    stop_reason="stop",
    metadata={"cache": "miss"},
)
CALL = ToolCall(id="c1", name="search", args={"q": ["x"]}, context="r1")
RESULT = ToolResult(id="c1", name="search", content="found", duration_ms=3.0)
VALUES = {
    HookEvent.PRE_REQUEST: REQUEST,
    HookEvent.POST_RESPONSE: ANSWER,
    HookEvent.PRE_TOOL_CALL: CALL,
    HookEvent.POST_TOOL_CALL: RESULT,
}


async def fire(event, *hooks, config=None, **context):
    registry = HookRegistry()
    for hook in hooks:
        registry.register(adapt(hook, config), event)
    return await registry.fire(event, VALUES[event], **context)


async def seen_at(event, config=None, **context):
    seen = []

    def look(ctx):
        seen.append(ctx)
        return ctx

    await fire(event, look, config=config, **context)
    return seen[0]


def test_a_context_has_its_ten_fields_and_can_be_made_by_hand():
    names = [field.name for field in dataclasses.fields(HookContext)]
    assert names == [
        "event",
        "model",
        "provider",
        "request_id",
        "timestamp",
        "messages",
        "tools",
        "response",
        "metadata",
        "stop_chain",
    ]
    made = HookContext(HookEvent.PRE_REQUEST, "m", None, "q", 0.0)
    assert (made.messages, made.tools, made.response) == (None, None, None)
    assert (made.metadata, made.stop_chain) == ({}, False)


def test_every_event_is_a_point():
    assert {event: find_places(event)[0].point for event in HookEvent} == {
        event: point for point, event in EVENTS.items()
    }


@pytest.mark.parametrize("event", HookEvent)
async def test_a_context_tells_where_it_stands(event):
    ctx = await seen_at(event, request_id="q1", model="m", provider="p", metadata={"k": [1]})
    assert (ctx.event, ctx.request_id, ctx.metadata) == (event, "q1", {"k": [1]})
    assert ctx.provider == "p"
    assert ctx.model == ("groq/llama3" if event is HookEvent.PRE_REQUEST else "m")
    assert isinstance(ctx.timestamp, float)
    assert ctx.stop_chain is False


async def test_a_context_carries_the_value_in_the_fields_of_its_event():
    ctx = await seen_at(HookEvent.PRE_REQUEST)
    assert (ctx.messages, ctx.tools, ctx.response) == (REQUEST.messages, REQUEST.tools, None)
    ctx = await seen_at(HookEvent.POST_RESPONSE)
    assert (ctx.messages, ctx.tools) == (None, None)
    assert ctx.response == {
        "content": "hello",
        "tool_calls": [{"id": "c1", "name": "search", "args": {"q": "x"}, "context": "chat"}],
        "model": "llama3",
        "usage": {"total_tokens": 7},
        "stop_reason": "stop",
        "metadata": {"cache": "miss"},
    }
    ctx = await seen_at(HookEvent.PRE_TOOL_CALL)
    call = {"id": "c1", "name": "search", "args": {"q": ["x"]}, "context": "r1"}
    assert (ctx.messages, ctx.tools, ctx.response) == (None, [call], None)
    ctx = await seen_at(HookEvent.POST_TOOL_CALL)
    assert (ctx.messages, ctx.tools) == (None, None)
    assert ctx.response == {
        "id": "c1",
        "name": "search",
        "content": "found",
        "is_error": False,
        "error": None,
        "duration_ms": 3.0,
    }


async def test_the_provider_is_read_from_the_model_if_nobody_says_it():
    assert (await seen_at(HookEvent.PRE_REQUEST)).provider == "groq"
    assert (await seen_at(HookEvent.PRE_TOOL_CALL)).provider is None
    assert (await seen_at(HookEvent.PRE_TOOL_CALL)).model == "unknown"
    assert (await seen_at(HookEvent.PRE_TOOL_CALL)).request_id == ""


@pytest.mark.parametrize("event", HookEvent)
async def test_returned_as_it_was_it_changes_nothing(event):
    async def same(ctx):
        return ctx

    verdict = await fire(event, same)
    assert verdict.value is VALUES[event]
    assert verdict.records[1].changed is False


@pytest.mark.parametrize("event", HookEvent)
async def test_a_copy_that_is_equal_changes_nothing_either(event):
    verdict = await fire(event, copy.deepcopy)
    assert verdict.value is VALUES[event]


async def test_messages_changed_in_place_are_the_change():
    async def strip(ctx):
        for message in ctx.messages:
            for block in message["content"]:
                block.pop("cache_control", None)
        return ctx

    verdict = await fire(HookEvent.PRE_REQUEST, strip)
    assert verdict.value.messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    kept = dataclasses.replace(verdict.value, messages=REQUEST.messages)
    assert kept == REQUEST
    assert REQUEST.messages[0]["content"][0]["cache_control"] == {}


async def test_new_tools_are_the_change():
    def no_tools(ctx):
        return dataclasses.replace(ctx, tools=[])

    verdict = await fire(HookEvent.PRE_REQUEST, no_tools)
    assert verdict.value == dataclasses.replace(REQUEST, tools=[])


async def test_none_means_not_changed():
    def forget(ctx):
        ctx.messages = ctx.tools = ctx.response = None
        return ctx

    for event in HookEvent:
        assert (await fire(event, forget)).value is VALUES[event]


async def test_fields_of_other_events_and_metadata_are_not_read():
    def fill(ctx):
        ctx.model = "other"
        ctx.metadata["x"] = 1
        if ctx.response is None:
            ctx.response = {"content": "?"}
        else:
            ctx.messages, ctx.tools = [{}], [{}]
        return ctx

    for event in HookEvent:
        assert (await fire(event, fill)).value is VALUES[event]


async def test_the_changed_response_is_read_back():
    async def rewrite(ctx):
        ctx.response["content"] = "HELLO"
        ctx.response["usage"]["total_tokens"] = 8
        ctx.response["tool_calls"][0]["args"]["q"] = "y"
        return ctx

    verdict = await fire(HookEvent.POST_RESPONSE, rewrite)
    assert verdict.value == dataclasses.replace(
        ANSWER,
        content="HELLO",
        usage={"total_tokens": 8},
        tool_calls=[ToolCall(id="c1", name="search", args={"q": "y"})],
    )
    assert isinstance(verdict.value.tool_calls[0], ToolCall)


async def test_what_is_left_out_of_a_response_is_gone_but_for_its_model_and_cost():
    verdict = await fire(
        HookEvent.POST_RESPONSE,
        lambda ctx: dataclasses.replace(ctx, response={"content": "only this"}),
    )
    assert verdict.value == AssistantMessage(
        "only this",
        model="llama3",
        usage={"total_tokens": 7},
    )

    def no_calls(ctx):
        del ctx.response["tool_calls"]
        return ctx

    verdict = await fire(HookEvent.POST_RESPONSE, no_calls)
    assert verdict.value == dataclasses.replace(ANSWER, tool_calls=[])


async def test_a_changed_call_is_read_back():
    def rewrite(ctx):
        ctx.tools[0]["args"] = {"q": "safe"}
        return ctx

    verdict = await fire(HookEvent.PRE_TOOL_CALL, rewrite)
    assert verdict.value == dataclasses.replace(CALL, args={"q": "safe"})


async def test_a_changed_result_is_read_back_and_stays_with_its_call():
    verdict = await fire(
        HookEvent.POST_TOOL_CALL,
        lambda ctx: dataclasses.replace(ctx, response={"content": "hidden", "is_error": True}),
    )
    assert verdict.value == ToolResult(id="c1", name="search", content="hidden", is_error=True)


@pytest.mark.parametrize(
    ("event", "changes", "told"),
    [
        ("pre_request", {"messages": "text"}, "messages in the context has to be a list of dicts"),
        ("pre_request", {"tools": ["search"]}, "tools in the context has to be a list of dicts"),
        ("post_response", {"response": "text"}, "ctx.response is str, not a dict"),
        ("post_response", {"response": {"contents": "x"}}, "'contents' that is not known (did you"),
        ("post_response", {"response": {"tool_calls": ["x"]}}, "tool_calls in the context has to"),
        ("post_response", {"response": {"tool_calls": [{"nam": 1}]}}, "tool_calls[0] has a key"),
        ("pre_tool_call", {"tools": []}, "ctx.tools holds the one call, but has 0 now"),
        ("pre_tool_call", {"tools": [{}, {}]}, "ctx.tools holds the one call, but has 2 now"),
        ("pre_tool_call", {"tools": [{"args": "x"}]}, "arguments of a call are a dict, not str"),
        ("post_tool_call", {"response": {"text": 1}}, "ctx.response has a key 'text'"),
    ],
)
async def test_a_change_that_does_not_fit_breaks_the_contract(event, changes, told):
    verdict = await fire(HookEvent(event), lambda ctx: dataclasses.replace(ctx, **changes))
    assert (verdict.decision, verdict.code) == ("fail", "hook_invalid")
    assert told in verdict.reason


@pytest.mark.parametrize("answer", [{}, "ctx", True])
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_returning_anything_but_the_context_breaks_the_contract(answer, asynchronous):
    def sync(ctx):
        return answer

    async def async_(ctx):
        return answer

    verdict = await fire(HookEvent.PRE_REQUEST, async_ if asynchronous else sync)
    assert (verdict.decision, verdict.code) == ("fail", "hook_invalid")
    assert f"it returned {type(answer).__name__}, not the HookContext" in verdict.reason


async def test_stop_chain_ends_the_lane():
    seen = []

    def changing(ctx):
        seen.append("changing")
        ctx.stop_chain = True
        return dataclasses.replace(ctx, messages=[])

    def later(ctx):
        seen.append("later")
        return ctx

    verdict = await fire(HookEvent.PRE_REQUEST, changing, later)
    assert (verdict.value.messages, seen) == ([], ["changing"])


async def test_stop_chain_ends_the_lane_without_a_change_too():
    seen = []

    async def quiet(ctx):
        ctx.stop_chain = True
        return ctx

    def later(ctx):
        seen.append("later")
        return ctx

    verdict = await fire(HookEvent.POST_RESPONSE, quiet, later)
    assert (verdict.decision, seen) == ("continue", [])
    assert verdict.value is ANSWER


async def test_each_hook_sees_the_value_as_the_one_before_left_it():
    def add(text):
        def hook(ctx):
            ctx.messages.append({"role": "user", "content": text})
            return ctx

        return hook

    verdict = await fire(HookEvent.PRE_REQUEST, add("a"), add("b"))
    assert [message["content"] for message in verdict.value.messages[1:]] == ["a", "b"]


async def test_a_hook_that_fails_does_not_break_the_chain_nor_leave_half_a_change():
    def broken(ctx):
        ctx.messages.clear()
        raise ValueError("boom")

    seen = []

    def good(ctx):
        seen.append(len(ctx.messages))
        return ctx

    verdict = await fire(HookEvent.PRE_REQUEST, broken, good)
    assert (verdict.value, seen) == (REQUEST, [1])


@pytest.mark.parametrize("way", ["adapt", "register"])
async def test_the_config_is_there_for_its_own_hook_alone(way):
    registry = HookRegistry()
    seen = []

    def look(ctx):
        seen.append(ctx.metadata)
        ctx.metadata.get("hook_config", {}).update(changed=True)
        return ctx

    config = {"verbose": True, "deep": [1]}
    if way == "adapt":
        registry.register(adapt(look, config), "pre_request", name="with")
    else:
        registry.register(adapt(look), "pre_request", name="with", config=config)
    registry.register(adapt(look), "pre_request", name="without")
    registry.register(adapt(look, {}), "pre_request", name="empty")
    for _ in range(2):
        seen.clear()
        await registry.fire("pre_request", REQUEST, metadata={"k": 1})
        changed = {"k": 1, "hook_config": {**config, "changed": True}}
        assert seen == [changed, {"k": 1}, {"k": 1}]
    assert config == {"verbose": True, "deep": [1]}


async def test_async_hooks_may_suspend_and_sync_ones_may_hand_on_an_awaitable():
    async def slow(ctx):
        await asyncio.sleep(0)
        return dataclasses.replace(ctx, tools=[])

    def handed_on(ctx):
        return slow(ctx)

    assert (await fire(HookEvent.PRE_REQUEST, slow)).value.tools == []
    assert (await fire(HookEvent.PRE_REQUEST, handed_on)).value.tools == []


async def test_a_sync_hook_can_be_moved_into_a_thread():
    registry = HookRegistry()
    hook = adapt(lambda ctx: dataclasses.replace(ctx, tools=[]))
    registry.register(hook, "pre_request", thread=True)
    assert (await registry.fire("pre_request", REQUEST)).value.tools == []


async def test_at_another_point_it_breaks_the_contract_and_says_where_it_can_stand():
    registry = HookRegistry()
    registry.register(adapt(lambda ctx: ctx), "after_run")
    verdict = await registry.fire("after_run", RunResult())
    assert "after_run has not: it can stand at before_llm_call" in verdict.records[1].error
    assert HookPoint.AFTER_RUN not in EVENTS


async def test_a_hook_keeps_the_name_and_place_of_its_function():
    def stamp(ctx):
        return ctx

    spec = HookRegistry().register(adapt(stamp), "pre_request")
    assert (spec.name, spec.target_name) == ("stamp", "stamp")
    assert spec.source == f"{__file__}:{stamp.__code__.co_firstlineno}"


async def annotated(context: HookContext) -> HookContext:
    return context


def quoted(context: "proxy.HookContext"):
    return context


def unresolved(context: "gone.HookContext"):  # noqa: F821
    return context


def with_default(given: HookContext, more=None):
    return given


class Methods:
    def bound(self, ctx: HookContext):
        return ctx

    async def __call__(self, ctx: HookContext) -> HookContext:
        return ctx


@pytest.mark.parametrize(
    "fn",
    [
        annotated,
        quoted,
        unresolved,
        with_default,
        Methods().bound,
        Methods(),
    ],
)
def test_a_proxy_hook_is_known_by_the_annotation_of_its_one_parameter(fn):
    assert is_proxy_hook(fn)


def any_context(ctx: Any) -> Any:
    return ctx


def run_hook(ctx: RunContext) -> None: ...


@pytest.mark.parametrize(
    "fn",
    [
        lambda event: None,
        lambda event, value: None,
        lambda event, ctx: None,
        lambda *ctx: None,
        lambda *, ctx: None,
        lambda: None,
        run_hook,
        lambda ctx: None,
        any_context,
        Methods.bound,
        max,
        3,
        None,
    ],
)
def test_other_functions_are_not_taken_for_one(fn):
    assert not is_proxy_hook(fn)


@pytest.mark.parametrize("fn", [any_context, lambda ctx: None, eval("lambda event: None")])
def test_where_no_annotation_says_it_the_entry_does(fn):
    assert is_proxy_hook(fn, unless_annotated=True)


@pytest.mark.parametrize("fn", [run_hook, lambda event, value: None, lambda: None])
def test_an_entry_says_nothing_of_a_function_that_is_none(fn):
    assert not is_proxy_hook(fn, unless_annotated=True)


async def test_making_a_context_for_a_point_without_one_raises():
    seen = []
    registry = HookRegistry()
    registry.register(seen.append, "after_run")
    await registry.fire("after_run", RunResult())
    with pytest.raises(InvalidOutcomeError):
        proxy.context_of(seen[0])


@pytest.mark.parametrize("event", HookEvent)
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_hook_that_returns_nothing_continues(event, asynchronous):
    seen = []

    def sync(ctx):
        seen.append(ctx.event)

    async def async_(ctx):
        seen.append(ctx.event)

    verdict = await fire(event, async_ if asynchronous else sync)
    assert (verdict.decision, seen) == ("continue", [event])
    assert verdict.value is VALUES[event]


async def test_what_it_changed_in_place_holds_all_the_same():
    def hide(ctx):
        ctx.messages[0]["content"] = "hidden"

    verdict = await fire(HookEvent.PRE_REQUEST, hide)
    assert verdict.value.messages == [{"role": "user", "content": "hidden"}]


async def test_metadata_is_carried_from_hook_to_hook_and_from_point_to_point():
    seen = []

    def first(ctx):
        ctx.metadata["began"] = 1
        ctx.metadata["list"].append("first")
        ctx.metadata.pop("gone")
        return ctx

    def second(ctx):
        seen.append(copy.deepcopy(ctx.metadata))
        ctx.metadata["list"].append("second")

    def last(ctx):
        seen.append(copy.deepcopy(ctx.metadata))

    registry = HookRegistry()
    registry.register(adapt(first, {"own": True}), HookEvent.PRE_REQUEST, name="first")
    registry.register(adapt(second), HookEvent.PRE_REQUEST, name="second")
    registry.register(adapt(last), HookEvent.POST_RESPONSE, name="last")
    scope = registry.scope(metadata={"list": [], "gone": 1, "stays": 2})
    await scope.fire(HookEvent.PRE_REQUEST, REQUEST)
    await scope.bind(tool_call_id="1").fire(HookEvent.POST_RESPONSE, ANSWER)
    assert seen == [
        {"list": ["first"], "stays": 2, "began": 1},
        {"list": ["first", "second"], "stays": 2, "began": 1},
    ]
    other = registry.scope(metadata={"list": [], "gone": 1})
    await other.fire(HookEvent.POST_RESPONSE, ANSWER)
    assert seen[-1] == {"list": [], "gone": 1}
    assert scope.context.metadata == {"list": [], "gone": 1, "stays": 2}


async def test_what_one_hook_keeps_of_its_metadata_another_cannot_change():
    kept = []

    def first(ctx):
        ctx.metadata["list"] = [1]
        kept.append(ctx.metadata["list"])

    def second(ctx):
        kept[0].append(2)
        kept.append(ctx.metadata["list"])

    await fire(HookEvent.PRE_REQUEST, first, second)
    assert kept[1] == [1]


async def test_the_clients_metadata_is_there_as_hooks_left_it():
    seen = []

    def look(ctx):
        seen.append(ctx.metadata)

    def without_name(event, request):
        kept = {key: item for key, item in request.params["metadata"].items() if key != "name"}
        return Continue(dataclasses.replace(request, params={"metadata": kept}))

    registry = HookRegistry()
    registry.register(adapt(look), HookEvent.PRE_REQUEST, name="before")
    registry.register(without_name, HookEvent.PRE_REQUEST)
    registry.register(adapt(look), HookEvent.PRE_REQUEST, name="after")
    request = dataclasses.replace(REQUEST, params={"metadata": {"team": "blue", "name": "Ann"}})
    await registry.fire(HookEvent.PRE_REQUEST, request, metadata={"api_key": "key-1"})
    assert seen == [
        {"team": "blue", "name": "Ann", "api_key": "key-1"},
        {"team": "blue", "api_key": "key-1"},
    ]


async def test_a_client_cannot_say_what_only_the_event_may():
    request = dataclasses.replace(REQUEST, params={"metadata": {"api_key": "somebody else's"}})
    seen = []
    registry = HookRegistry()
    registry.register(adapt(lambda ctx: seen.append(ctx.metadata)), HookEvent.PRE_REQUEST)
    await registry.fire(HookEvent.PRE_REQUEST, request, metadata={"api_key": "key-1"})
    assert seen == [{"api_key": "key-1"}]


@pytest.mark.parametrize("metadata", [None, ["a"], "x"])
async def test_metadata_that_is_no_dict_breaks_the_contract(metadata):
    def wrong(ctx):
        ctx.metadata = metadata
        return ctx

    verdict = await fire(HookEvent.PRE_REQUEST, wrong)
    assert (verdict.decision, verdict.code) == ("fail", "hook_invalid")
    assert "ctx.metadata" in verdict.reason


async def test_a_hook_in_shadow_leaves_no_metadata_behind():
    seen = []

    def would(ctx):
        ctx.metadata["would"] = True

    registry = HookRegistry()
    registry.register(adapt(would), HookEvent.PRE_REQUEST, mode="shadow", name="would")
    registry.register(adapt(lambda ctx: seen.append(ctx.metadata)), HookEvent.PRE_REQUEST)
    await registry.fire(HookEvent.PRE_REQUEST, REQUEST)
    assert seen == [{}]
