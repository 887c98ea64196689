"""Asking a person: when, what, and what the answer means."""

import asyncio
from decimal import Decimal

import pytest

from checkrail.engine.asks import Approval, AskWithdrawn
from checkrail.engine.outcomes import Ask, Block, Continue, Retry, Stop
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import digest

YES = Approval(approved=True)
NO = Approval(approved=False)


class Desk:
    """A person who gives prepared answers, and remembers the questions."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.questions = []

    async def __call__(self, question):
        self.questions.append(question)
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def asked(self):
        return [question.hook for question in self.questions]


def asks(registry, name, lane="transform", point="on_run_start", ask=None):
    registry.register(lambda event: ask or Ask("may it?"), point, name=name, lane=lane)


@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_without_anybody_to_ask_it_blocks_and_says_so(lane):
    registry = HookRegistry()
    asks(registry, "h", lane)
    verdict = await registry.fire("on_run_start", {})
    assert (verdict.decision, verdict.status, verdict.hook) == ("block", 403, "h")
    assert verdict.code == "ask_unanswered"
    assert "nobody to ask" in verdict.reason


@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_an_approved_ask_counts_as_continue(lane):
    desk = Desk(YES)
    registry = HookRegistry(ask=desk)
    asks(registry, "h", lane)
    verdict = await registry.fire("on_run_start", {"a": 1})
    assert (verdict.decision, verdict.value) == ("continue", {"a": 1})
    assert desk.asked == ["h"]


async def test_a_question_shows_the_exact_value_and_where_it_stands():
    desk = Desk(YES)
    registry = HookRegistry(ask=desk)
    registry.register(lambda event: Continue({"a": 2}), "on_run_start", name="t", priority=1)
    asks(registry, "h", ask=Ask("may it?", timeout=9))
    await registry.fire("on_run_start", {"a": 1}, run_id="r")
    (question,) = desk.questions
    assert (question.hook, question.point) == ("h", "on_run_start")
    assert (question.reason, question.timeout) == ("may it?", 9)
    assert (question.value, question.digest) == ({"a": 2}, digest({"a": 2}))
    assert question.context.run_id == "r"
    with pytest.raises(TypeError):
        question.value["a"] = 3


@pytest.mark.parametrize(
    ("on_deny", "decision"), [("block", "block"), ("fail", "fail"), ("continue", "continue")]
)
async def test_a_denied_ask_blocks_unless_said_otherwise(on_deny, decision):
    registry = HookRegistry(ask=Desk(Approval(approved=False, reason="not today")))
    asks(registry, "h", ask=Ask("may it?", on_deny=on_deny))
    verdict = await registry.fire("on_run_start", {})
    assert verdict.decision == decision
    assert verdict.reason == ("" if decision == "continue" else "not today")


@pytest.mark.parametrize(
    ("on_timeout", "decision"), [("block", "block"), ("fail", "fail"), ("continue", "continue")]
)
async def test_no_answer_in_time_blocks_unless_said_otherwise(on_timeout, decision):
    async def silence(question):
        await asyncio.sleep(10)

    registry = HookRegistry(ask=silence)
    asks(registry, "h", ask=Ask("may it?", timeout=0.01, on_timeout=on_timeout))
    verdict = await registry.fire("on_run_start", {})
    assert verdict.decision == decision


async def test_waiting_for_a_person_is_not_under_the_hooks_timeout():
    async def slow(question):
        await asyncio.sleep(0.06)
        return YES

    registry = HookRegistry(ask=slow)

    async def hook(event):
        await asyncio.sleep(0)
        return Ask("may it?")

    registry.register(hook, "on_run_start", name="h", timeout=0.02)
    verdict = await registry.fire("on_run_start", {})
    assert verdict.decision == "continue"


@pytest.mark.parametrize("answer", [RuntimeError("desk on fire"), True, "yes"])
async def test_a_question_that_could_not_be_put_blocks(answer):
    registry = HookRegistry(ask=Desk(answer))
    asks(registry, "h")
    verdict = await registry.fire("on_run_start", {})
    assert (verdict.decision, verdict.code, verdict.status) == ("block", "ask_failed", 500)


async def test_a_question_that_is_withdrawn_blocks_whatever_a_no_would_mean():
    registry = HookRegistry(ask=Desk(AskWithdrawn("whoever asked has gone")))
    asks(registry, "h", ask=Ask("may it?", on_deny="continue", on_timeout="continue"))
    verdict = await registry.fire("on_run_start", {})
    assert (verdict.decision, verdict.code, verdict.status) == ("block", "ask_withdrawn", 503)
    assert verdict.reason.endswith("whoever asked has gone")
    assert verdict.records[1].answer == "withdrawn"


async def test_an_approval_can_edit_the_value_and_the_lane_goes_on_with_it():
    registry = HookRegistry(ask=Desk(Approval(approved=True, value={"a": 9})))
    seen = []
    registry.register(lambda e, v: seen.append(("gate", v)), "on_run_start", name="g", lane="gate")
    asks(registry, "h")
    registry.register(lambda e, v: seen.append(("after", v)), "on_run_start", name="after")
    verdict = await registry.fire("on_run_start", {"a": 1})
    assert verdict.value == {"a": 9}
    assert seen == [("gate", {"a": 1}), ("after", {"a": 9}), ("gate", {"a": 9})]


async def test_an_edited_value_that_does_not_fit_blocks(sample):
    registry = HookRegistry(ask=Desk(Approval(approved=True, value=5)))
    asks(registry, "h", point="before_tool_call")
    verdict = await registry.fire("before_tool_call", sample("before_tool_call"))
    assert (verdict.decision, verdict.code) == ("block", "ask_failed")


async def test_an_ask_ends_the_transform_lane_until_it_is_approved():
    seen = []
    desk = Desk(NO)
    registry = HookRegistry(ask=desk)
    asks(registry, "h")
    registry.register(lambda event: seen.append("after"), "on_run_start", name="after")
    registry.register(lambda event: seen.append("gate"), "on_run_start", name="g", lane="gate")
    verdict = await registry.fire("on_run_start", {})
    assert (verdict.decision, seen) == ("block", ["gate"])


async def test_gates_run_once_if_the_value_is_what_they_saw():
    seen = []
    registry = HookRegistry(ask=Desk(YES, YES))
    asks(registry, "h")
    asks(registry, "g", "gate")
    registry.register(lambda event: seen.append("gate"), "on_run_start", name="o", lane="gate")
    assert (await registry.fire("on_run_start", {})).decision == "continue"
    assert seen == ["gate"]


async def test_nothing_gets_past_a_gate_by_being_approved():
    registry = HookRegistry(ask=Desk(Approval(approved=True, value={"a": "evil"})))
    asks(registry, "h")
    registry.register(
        lambda event, value: Block("evil") if value["a"] == "evil" else None,
        "on_run_start",
        name="g",
        lane="gate",
    )
    verdict = await registry.fire("on_run_start", {"a": "good"})
    assert (verdict.decision, verdict.hook) == ("block", "g")


@pytest.mark.parametrize("stricter", [Block("no"), Retry("again")])
async def test_nobody_is_asked_where_something_stricter_was_decided(stricter, sample):
    desk = Desk()
    registry = HookRegistry(ask=desk)
    asks(registry, "a", "transform", "after_llm_call")
    asks(registry, "b", "gate", "after_llm_call")
    registry.register(lambda event: stricter, "after_llm_call", name="s", lane="gate")
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert (verdict.decision, verdict.hook) == (stricter.decision, "s")
    assert desk.asked == []


async def test_an_ask_is_stricter_than_stop_and_leaves_it_when_approved(sample):
    for answer, decision in ((YES, "stop"), (NO, "block")):
        desk = Desk(answer)
        registry = HookRegistry(ask=desk)
        registry.register(lambda event: Stop("enough"), "after_llm_call", name="t")
        asks(registry, "g", "gate", "after_llm_call")
        verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
        assert (verdict.decision, desk.asked) == (decision, ["g"])


async def test_every_ask_needs_its_approval():
    desk = Desk(YES, YES, NO)
    registry = HookRegistry(ask=desk)
    asks(registry, "t")
    asks(registry, "g1", "gate")
    asks(registry, "g2", "gate")
    verdict = await registry.fire("on_run_start", {})
    assert (verdict.decision, verdict.hook) == ("block", "g2")
    assert desk.asked == ["t", "g1", "g2"]


async def test_an_approval_holds_only_for_the_value_that_was_seen():
    desk = Desk(YES, Approval(approved=True, value={"a": 2}), YES, YES)
    registry = HookRegistry(ask=desk)
    asks(registry, "g1", "gate")
    asks(registry, "g2", "gate")
    verdict = await registry.fire("on_run_start", {"a": 1})
    assert (verdict.decision, verdict.value) == ("continue", {"a": 2})
    seen = [(question.hook, question.value) for question in desk.questions]
    assert seen == [("g1", {"a": 1}), ("g2", {"a": 1}), ("g1", {"a": 2})]


async def test_a_gates_word_on_a_value_that_was_edited_since_no_longer_counts(sample):
    registry = HookRegistry(ask=Desk(Approval(approved=True, value="fine")))
    registry.register(
        lambda event, value: Stop("cut") if value.content == "hello" else None,
        "after_llm_call",
        name="s",
        lane="gate",
    )
    registry.register(
        lambda event, value: Ask("?") if value.content == "hello" else None,
        "after_llm_call",
        name="a",
        lane="gate",
    )
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert (verdict.decision, verdict.value.content) == ("continue", "fine")


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("later", [Stop("cut"), Retry("again"), Block("no")])
async def test_what_the_rest_of_the_lane_decides_after_an_approval_counts(edited, later, sample):
    answer = Approval(approved=True, value="edited") if edited else YES
    registry = HookRegistry(ask=Desk(answer))
    asks(registry, "a", point="after_llm_call")
    registry.register(lambda event: later, "after_llm_call", name="later")
    registry.register(lambda event: None, "after_llm_call", name="g", lane="gate")
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert (verdict.decision, verdict.hook) == (later.decision, "later")


async def test_observers_run_once_after_the_answers():
    registry = HookRegistry(ask=Desk(YES, NO))
    seen = []
    asks(registry, "t")
    asks(registry, "g", "gate")
    registry.register(
        lambda event: seen.append(event.verdict.decision), "on_run_start", name="o", lane="observe"
    )
    await registry.fire("on_run_start", {})
    assert seen == ["block"]


async def test_nobody_further_in_answers_for_a_level_further_out():
    outer, inner = Desk(NO), Desk(YES)
    server, agent = HookRegistry(ask=outer), HookRegistry(ask=inner)
    asks(server, "h")
    scope = agent.scope(parent=server.scope())
    assert (await scope.fire("on_run_start", {})).decision == "block"
    scope = agent.scope(parent=server.scope(), ask=inner)
    assert (await scope.fire("on_run_start", {})).decision == "block"
    assert inner.questions == []


async def test_an_inner_hook_is_answered_at_its_own_level_or_around_it():
    outer, inner = Desk(NO), Desk(YES)
    server, agent = HookRegistry(ask=outer), HookRegistry()
    asks(agent, "h")
    assert (await agent.scope(parent=server.scope()).fire("on_run_start", {})).decision == "block"
    agent.ask = inner
    scope = agent.scope(parent=server.scope())
    assert (await scope.fire("on_run_start", {})).decision == "continue"


async def test_where_nobody_else_is_there_an_inner_desk_answers():
    server, agent = HookRegistry(), HookRegistry(ask=Desk(YES))
    asks(server, "h")
    scope = agent.scope(parent=server.scope())
    assert (await scope.fire("on_run_start", {})).decision == "continue"


async def test_a_scope_can_bring_a_desk_for_its_own_level():
    registry = HookRegistry(ask=Desk(NO))
    asks(registry, "h")
    outer = registry.scope()
    scope = registry.scope(parent=outer, ask=Desk(YES))
    assert (await scope.fire("on_run_start", {})).decision == "continue"
    assert (await outer.fire("on_run_start", {})).decision == "block"


async def test_a_handler_that_times_out_itself_is_no_silence():
    async def broken(question):
        raise TimeoutError("the chat did not answer")

    registry = HookRegistry(ask=broken)
    ask = Ask("?", timeout=60, on_timeout="continue")
    registry.register(lambda event: ask, "on_run_start", name="h")
    verdict = await registry.fire("on_run_start", {})
    assert (verdict.decision, verdict.code) == ("block", "ask_failed")


async def test_an_approval_holds_for_the_amount_that_was_seen():
    desk = Desk(YES, YES, YES)
    registry = HookRegistry(ask=desk)
    registry.register(lambda event: Ask("first?"), "on_run_start", name="first")
    more = {"amount": Decimal(1000000)}
    registry.register(lambda event: Continue(more), "on_run_start", name="more")
    asks(registry, "gate", "gate")
    await registry.fire("on_run_start", {"amount": Decimal(1)})
    assert [question.value["amount"] for question in desk.questions] == [1, 1, 1000000]


async def test_the_record_of_an_ask_waits_for_its_answer(told):
    async def waits(event):
        await asyncio.sleep(0)

    registry = HookRegistry(told.append, ask=Desk(YES))
    asks(registry, "h")
    registry.register(waits, "on_run_start", name="gate", lane="gate")
    seen = []
    registry.sinks = (lambda record: seen.append((record.hook, record.answer)),)
    await registry.fire("on_run_start", {})
    assert ("h", "approved") in seen


async def test_cancelling_the_caller_cancels_the_question():
    started = asyncio.Event()

    async def forever(question):
        started.set()
        await asyncio.sleep(60)

    registry = HookRegistry(ask=forever)
    asks(registry, "h")
    task = asyncio.create_task(registry.fire("on_run_start", {}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_question_about_any_text_can_be_put():
    desk = Desk(YES)
    registry = HookRegistry(ask=desk)
    asks(registry, "h")
    verdict = await registry.fire("on_run_start", {"text": "half a pair: \ud83d"})
    assert verdict.decision == "continue"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Approval(approved=True), "approved"),
        (Approval(approved=False), "denied"),
        (Approval(approved=True, value=Block), "approved"),
        ("yes", "failed"),
    ],
)
async def test_the_record_of_an_ask_says_what_came_of_it(answer, told):
    registry = HookRegistry(ask=Desk(answer))
    asks(registry, "h")
    verdict = await registry.fire("on_run_start", {})
    assert verdict.records[0].answer is None
    assert verdict.records[1].answer == verdict.records[1].wire()["answer"] == told


async def test_that_nobody_could_be_asked_is_told_too():
    registry = HookRegistry()
    asks(registry, "h")
    verdict = await registry.fire("on_run_start", {})
    assert verdict.records[1].answer == "nobody"
