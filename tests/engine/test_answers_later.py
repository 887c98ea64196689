"""Handlers that leave the work until there is an answer, and those that keep the time."""

import asyncio

import pytest

from checkrail.engine.asks import AnswerLater, Approval, NoAnswer, midway
from checkrail.engine.outcomes import Ask, Block, Continue
from checkrail.engine.registry import HookRegistry

YES = Approval(approved=True)


class Desk:
    """Says that the answer comes later, until it has one."""

    keeps_time = True

    def __init__(self, answer=None):
        self.answer = answer
        self.questions = []

    async def __call__(self, question):
        self.questions.append(question)
        await asyncio.sleep(0)
        if self.answer is None:
            raise AnswerLater
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def registered(*hooks, sink=None, ask=None):
    registry = HookRegistry(sink=sink, ask=ask)
    for hook, lane in hooks:
        registry.register(hook, "on_run_start", lane=lane)
    return registry


def careful(event):
    return Ask("may it?", timeout=0.01, on_timeout="fail")


@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_a_dispatch_that_is_left_raises_and_can_be_fired_again(lane):
    records, desk = [], Desk()
    seen = []

    def before(event):
        seen.append("before")

    def watch(event):
        seen.append(f"after {event.verdict.decision}")

    hooks = ((before, "transform"), (careful, lane), (watch, "observe"))
    registry = registered(*hooks, sink=records.append, ask=desk)
    with pytest.raises(AnswerLater):
        await registry.fire("on_run_start", {})
    desk.answer = YES
    verdict = await registry.fire("on_run_start", {})
    assert verdict.decision == "continue"
    assert seen == ["before", "before", "after continue"]
    endings = [record for record in records if record.hook == "careful" and record.decision]
    assert [(record.decision, record.answer) for record in endings] == [
        ("ask", "waiting"),
        ("ask", "approved"),
    ]
    starts = [record for record in records if record.kind == "hook_start"]
    assert len(records) == 2 * len(starts) == 10


async def test_what_was_changed_before_is_not_told_if_a_later_hook_might_have_redacted_it():
    records = []

    def change(event, value):
        return Continue({"card": "4111"})

    def redact(event, value):
        return Continue({"card": "****"}, redacted=True)

    hooks = ((change, "transform"), (careful, "transform"), (redact, "transform"))
    with pytest.raises(AnswerLater):
        await registered(*hooks, sink=records.append, ask=Desk()).fire("on_run_start", {})
    assert "4111" not in str([record.wire() for record in records])


async def test_nobody_is_left_waiting_if_a_gate_refuses_anyway():
    def closed(event):
        return Block("closed")

    desk = Desk()
    registry = registered((careful, "gate"), (closed, "gate"), ask=desk)
    assert (await registry.fire("on_run_start", {})).reason == "closed"
    assert desk.questions == []


async def test_a_handler_that_keeps_the_time_is_not_cut_off_and_says_when_it_is_over():
    class Slow(Desk):
        async def __call__(self, question):
            await asyncio.sleep(0.05)
            return await super().__call__(question)

    verdict = await registered((careful, "gate"), ask=Slow(YES)).fire("on_run_start", {})
    assert verdict.decision == "continue"
    verdict = await registered((careful, "gate"), ask=Desk(NoAnswer())).fire("on_run_start", {})
    assert (verdict.decision, verdict.code) == ("fail", "ask_timeout")


async def test_a_question_names_its_hook_with_its_level_and_what_silence_means():
    desk = Desk(YES)
    registry = HookRegistry(label="support", ask=desk)
    registry.register(careful, "on_run_start", lane="gate")
    await registry.fire("on_run_start", {})
    [question] = desk.questions
    assert (question.key, question.on_timeout) == ("support/careful", "fail")


async def test_a_scope_can_ask_somebody_else_and_its_own_stays_as_it_is():
    outer, inner = HookRegistry(ask=Desk(YES)), HookRegistry()
    inner.register(careful, "on_run_start", lane="gate")
    scope = inner.scope(parent=outer.scope(run_id="1"))
    with pytest.raises(AnswerLater):
        await scope.with_ask_handler(Desk()).fire("on_run_start", {})
    assert (await scope.fire("on_run_start", {})).decision == "continue"


async def test_a_question_says_whether_it_came_up_inside_of_something():
    desk = Desk(YES)
    registry = registered((careful, "gate"), ask=desk)

    async def hook(event):
        await registry.fire("on_run_start", {"from": "a hook"})

    outer = HookRegistry()
    outer.register(hook, "before_run")
    await registry.fire("on_run_start", {})
    with midway():
        await registry.fire("on_run_start", {})
    await registry.fire("on_run_start", {})
    await outer.fire("before_run", {})
    assert [question.inside for question in desk.questions] == [False, True, False, True]
