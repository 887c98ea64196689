"""What each decision means for the verdict."""

import asyncio

import pytest

from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.outcomes import (
    Block,
    Continue,
    Fail,
    Outcome,
    Reject,
    RejectRun,
    Replace,
    Retry,
    Stop,
)
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ToolCall


async def fired(fn, point="before_run", value=None, **options):
    registry = HookRegistry()
    registry.register(fn, point, name="h", **options)
    return await registry.fire(point, value if value is not None else {"a": 1})


async def test_a_hook_that_returns_nothing_continues():
    verdict = await fired(lambda event: None)
    assert (verdict.decision, verdict.value, verdict.reason) == ("continue", {"a": 1}, "")
    assert (verdict.status, verdict.code, verdict.hook, verdict.inject) == (None, None, None, ())


async def test_continue_with_and_without_a_value():
    assert (await fired(lambda event: Continue())).value == {"a": 1}
    assert (await fired(lambda event: Continue({"b": 2}))).value == {"b": 2}
    assert (await fired(lambda event: Continue(None))).value is None


async def test_block_says_why_with_403_unless_said():
    verdict = await fired(lambda event: Block("too late"))
    assert (verdict.decision, verdict.reason, verdict.hook) == ("block", "too late", "h")
    assert (verdict.status, verdict.named_status, verdict.code) == (403, None, None)
    verdict = await fired(lambda event: Block("too many", status=429, code="rate"))
    assert (verdict.status, verdict.named_status, verdict.code) == (429, 429, "rate")
    assert "h" in repr(verdict)


@pytest.mark.parametrize("answer", [Block(), Block(""), Fail(), Fail("")])
async def test_an_empty_reason_still_refuses_and_names_the_hook(answer):
    verdict = await fired(lambda event: answer)
    assert verdict.decision == answer.decision
    assert "'h'" in verdict.reason
    assert verdict.records[1].reason == verdict.reason


async def test_fail_ends_the_work_as_an_error():
    verdict = await fired(lambda event: Fail("broken", code="c"))
    assert (verdict.decision, verdict.reason, verdict.code) == ("fail", "broken", "c")
    assert verdict.status == 500


async def deep():
    await asyncio.sleep(0)
    raise Reject("no", status=409, code="busy")


async def in_a_gather(event):
    await asyncio.gather(deep(), asyncio.sleep(0))


async def in_a_group(event):
    async with asyncio.TaskGroup() as group:
        group.create_task(deep())


@pytest.mark.parametrize(
    "hook",
    [lambda event: deep(), in_a_gather, in_a_group],
    ids=["call", "gather", "group"],
)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_reject_anywhere_in_a_hook_is_a_block(hook, lane):
    verdict = await fired(hook, lane=lane)
    assert (verdict.decision, verdict.reason) == ("block", "no")
    assert (verdict.status, verdict.code) == (409, "busy")
    assert verdict.records[1].kind == "hook_blocked"


async def test_reject_in_a_thread_is_a_block():
    def refuse(event):
        raise Reject("no")

    verdict = await fired(refuse, thread=True)
    assert (verdict.decision, verdict.reason, verdict.status) == ("block", "no", 403)


async def test_reject_with_no_reason_names_the_hook():
    def refuse(event):
        raise Reject

    verdict = await fired(refuse)
    assert (verdict.decision, verdict.status) == ("block", 403)
    assert "'h'" in verdict.reason


async def test_reject_run_has_defaults_for_runs():
    def refuse(event):
        raise RejectRun

    verdict = await fired(refuse)
    assert (verdict.decision, verdict.status) == ("block", 429)
    assert verdict.reason == "Run rejected by hook"
    assert isinstance(RejectRun("x", 400), Reject)


async def test_a_retry_asks_the_model_again(sample):
    feedback = [{"role": "user", "content": "shorter"}]
    verdict = await fired(
        lambda event: Retry("too long", inject=feedback),
        "after_llm_call",
        sample("after_llm_call"),
    )
    assert (verdict.decision, verdict.reason, verdict.hook) == ("retry", "too long", "h")
    assert list(verdict.inject) == feedback
    assert verdict.value == sample("after_llm_call")


async def test_replace_and_stop_bring_their_value(sample):
    request = sample("before_llm_call")
    for answer in (Replace(AssistantMessage(content="r")), Stop(AssistantMessage(content="s"))):
        verdict = await fired(lambda event, *, answer=answer: answer, "before_llm_call", request)
        assert (verdict.decision, verdict.value) == (answer.decision, answer.value)


async def test_messages_are_injected_in_order_and_frozen(sample):
    registry = HookRegistry()
    message = {"role": "user", "content": ["one"]}
    registry.register(lambda e: Continue(inject=[message, {"n": 2}]), "before_llm_call", name="a")
    registry.register(lambda e: Continue(inject=({"n": 3},)), "before_llm_call", name="b")
    verdict = await registry.fire("before_llm_call", sample("before_llm_call"))
    message["content"].append("damage")
    assert list(verdict.inject) == [{"role": "user", "content": ["one"]}, {"n": 2}, {"n": 3}]
    with pytest.raises(TypeError):
        verdict.inject[0]["role"] = "system"


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        (Block("no"), False),
        (Fail("no"), False),
        (Stop("enough"), False),
        (Retry("again"), True),
        (Continue(), True),
    ],
)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_injected_messages_are_dropped_on_block_fail_and_stop(last, kept, lane, sample):
    registry = HookRegistry()
    registry.register(lambda event: Continue(inject=[{"n": 1}]), "after_llm_call", name="a")
    registry.register(lambda event: last, "after_llm_call", name="b", lane=lane)
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert verdict.decision == last.decision
    assert list(verdict.inject) == ([{"n": 1}] if kept else [])


LOOP = {
    "before_llm_call",
    "after_llm_call",
    "before_tool_call",
    "after_tool_call",
    "on_tool_error",
    "before_final_response",
}


@pytest.mark.parametrize("point", sorted(LOOP))
async def test_messages_can_be_injected_at_the_points_of_the_loop(point, sample):
    verdict = await fired(lambda event: Continue(inject=[{"n": 1}]), point, sample(point))
    assert list(verdict.inject) == [{"n": 1}]


@pytest.mark.parametrize("point", ["before_inbound", "before_run", "on_result", "before_outbound"])
async def test_messages_cannot_be_injected_elsewhere(point, sample):
    verdict = await fired(lambda event: Continue(inject=[{"n": 1}]), point, sample(point))
    assert verdict.records[1].failure == "invalid"
    assert list(verdict.inject) == []


@pytest.mark.parametrize("answer", [Continue(inject=[{"n": 1}]), Retry("x", inject=[{"n": 1}])])
async def test_only_transform_hooks_can_inject(answer, sample):
    value = sample("after_llm_call")
    verdict = await fired(lambda event: answer, "after_llm_call", value, lane="gate")
    assert verdict.records[1].failure == "invalid"
    assert verdict.decision == "fail"


@pytest.mark.parametrize("messages", [5, "text", {"role": "user"}, ["text"], [None]])
async def test_injected_messages_have_to_be_messages(messages, sample):
    verdict = await fired(
        lambda event: Continue(inject=messages), "after_llm_call", sample("after_llm_call")
    )
    assert verdict.records[1].failure == "invalid"
    assert verdict.decision == "fail"


async def test_an_injected_message_that_contains_itself_is_a_breach(sample):
    message = {}
    message["self"] = message
    verdict = await fired(
        lambda event: Continue(inject=[message]), "after_llm_call", sample("after_llm_call")
    )
    assert (verdict.decision, verdict.records[1].failure) == ("fail", "invalid")


class Incomparable:
    def __eq__(self, other):
        raise ValueError("like an array")

    __hash__ = None


@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
async def test_a_value_need_not_be_comparable(lane):
    verdict = await fired(lambda event: Continue(Incomparable()), "on_result", lane=lane)
    assert verdict.records[1].failure == (None if lane == "transform" else "invalid")


@pytest.mark.parametrize(
    "wrong", [True, False, 0, "", "block", {"a": 2}, [], object(), Block, Outcome()]
)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_a_bare_value_is_a_breach_of_contract(wrong, lane):
    verdict = await fired(lambda event: wrong, lane=lane)
    ending = verdict.records[1]
    assert (verdict.decision, ending.failure) == ("fail", "invalid")
    assert "'h'" in ending.error
    assert "before_run" in ending.error
    assert type(wrong).__name__ in ending.error
    assert "Continue" in ending.error


@pytest.mark.parametrize(
    ("raised", "failure"),
    [
        (UnreachableError("no route"), "unreachable"),
        (InvalidOutcomeError("bad json"), "invalid"),
        (ValueError("oops"), "error"),
    ],
)
async def test_what_a_hook_raises_tells_the_kind_of_failure(raised, failure):
    def hook(event):
        raise raised

    verdict = await fired(hook)
    assert verdict.records[1].failure == failure
    assert str(raised) in verdict.records[1].error


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "Zm9v"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
CALLS = [ToolCall("c1", "look", {})]


def spoken(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("content", "text", "content_after"),
    [
        ([THOUGHT, spoken("a")], "b", [THOUGHT, spoken("b")]),
        ([THOUGHT, HIDDEN], "b", [THOUGHT, HIDDEN, spoken("b")]),
        ([THOUGHT, spoken("a"), SEARCH, spoken("c")], "b", [THOUGHT, spoken("b"), SEARCH]),
        ([THOUGHT, "a"], "b", [THOUGHT, spoken("b")]),
        ([THOUGHT, spoken("a")], "", [THOUGHT]),
        ([spoken("a"), {"type": "refusal", "refusal": "no"}], "b", "b"),
        ("a", "b", "b"),
    ],
)
@pytest.mark.parametrize("goes_on", [{"tool_calls": CALLS}, {"stop_reason": "pause"}])
async def test_a_text_leaves_the_thoughts_that_the_model_needs_to_go_on(
    content, text, content_after, goes_on
):
    registry = HookRegistry()
    registry.register(lambda event: Continue(text), "after_llm_call")
    verdict = await registry.fire("after_llm_call", AssistantMessage(content, **goes_on))
    assert verdict.value.content == content_after


@pytest.mark.parametrize(
    ("point", "calls", "outcome"),
    [
        ("after_llm_call", [], Continue("b")),
        ("before_final_response", [], Continue("b")),
        ("after_llm_call", CALLS, Continue("b", redacted=True)),
    ],
)
async def test_of_a_final_or_redacted_answer_only_the_text_is_left(point, calls, outcome):
    registry = HookRegistry()
    registry.register(lambda event: outcome, point)
    verdict = await registry.fire(point, AssistantMessage([THOUGHT, spoken("a")], calls))
    assert verdict.value.content == "b"
