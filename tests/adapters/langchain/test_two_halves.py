"""A tool call is changed when the model asks for it, and gated when it is made."""

import asyncio
import dataclasses

import pytest

from checkrail.adapters.langchain import RunEnded
from checkrail.engine.asks import Approval
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Replace
from checkrail.engine.registry import HookRegistry

from .support_graphs import RAN, async_graph, called, guard_of, hooks, pay, scripted

PAYS = called(("pay", {"amount": 5}, "c1"))


def more(event, call):
    return Continue(
        dataclasses.replace(call, args={**call.args, "amount": 1 + call.args["amount"]})
    )


async def run(registry, *replies):
    guard, model = guard_of(registry), scripted(*replies or (PAYS, "done"))
    with guard.activate():
        result = await async_graph(model).ainvoke({"messages": ["go"]})
    return result["messages"], model


def told(messages, id="c1"):
    return next(said for said in messages if getattr(said, "tool_call_id", None) == id)


async def test_hooks_that_change_a_call_are_called_once_and_gates_see_the_change():
    gated, seen = [], []
    registry = hooks(
        ("before_tool_call", more),
        ("before_tool_call", lambda e, call: gated.append(call.args), {"lane": "gate"}),
        ("before_tool_call", lambda e, call: seen.append(call.args), {"lane": "observe"}),
    )
    messages, _ = await run(registry)
    assert RAN == [("pay", 6, "bob")]
    assert messages[1].tool_calls[0]["args"] == {"amount": 6}
    assert gated == seen == [{"amount": 6}]


async def test_a_call_that_code_makes_is_seen_by_all_hooks_at_once():
    with guard_of(hooks(("before_tool_call", more))).activate():
        assert await pay.ainvoke({"amount": 5}) == "paid 6 to bob"


async def test_a_call_that_the_graph_changed_since_is_seen_by_all_hooks_again():
    guard = guard_of(hooks(("before_tool_call", more)))
    with guard.activate():
        answer = await scripted(PAYS).ainvoke("hi")
        (call,) = answer.tool_calls
        assert call["args"] == {"amount": 6}
        await pay.ainvoke(call)
        await pay.ainvoke({**call, "args": {"amount": 10}})
    assert RAN == [("pay", 6, "bob"), ("pay", 11, "bob")]


async def test_a_call_is_seen_by_hooks_that_came_since():
    registry = hooks(("before_tool_call", more))
    with guard_of(registry).activate():
        (call,) = (await scripted(PAYS).ainvoke("hi")).tool_calls
        registry.register(lambda event: Block("no more"), "before_tool_call", name="later")
        assert (await pay.ainvoke(call)).content == "no more"


async def test_what_the_first_half_blocked_stays_blocked_and_observers_see_it():
    fired, verdicts, gated = [], [], []

    def block(event):
        fired.append(event.value.id)
        return Block("too dear", 402, "money")

    registry = hooks(
        ("before_tool_call", block),
        ("before_tool_call", lambda event: gated.append(1), {"lane": "gate"}),
        ("before_tool_call", lambda event: verdicts.append(event.verdict), {"lane": "observe"}),
    )
    messages, _ = await run(registry)
    assert (told(messages).content, RAN, gated, fired) == ("too dear", [], [], ["c1"])
    (verdict,) = verdicts
    assert (verdict.decision, verdict.reason, verdict.code) == ("block", "too dear", "money")


async def test_a_replacement_of_the_first_half_still_passes_the_gates():
    replaced = ("before_tool_call", lambda event: Replace("for free"))
    messages, _ = await run(hooks(replaced))
    assert (told(messages).content, RAN) == ("for free", [])
    gate = ("before_tool_call", lambda event: Block("not even so"), {"lane": "gate"})
    messages, _ = await run(hooks(replaced, gate))
    assert (told(messages).content, RAN) == ("not even so", [])


async def test_a_fail_of_the_first_half_ends_the_run_with_the_answer():
    verdicts = []
    guard = guard_of(
        hooks(
            ("before_tool_call", lambda event: Fail("thief")),
            ("before_tool_call", lambda event: verdicts.append(event.verdict), {"lane": "observe"}),
        )
    )
    model = scripted(PAYS, "done")
    with guard.activate(), pytest.raises(RunEnded, match="thief"):
        await async_graph(model).ainvoke({"messages": ["go"]})
    assert [verdict.decision for verdict in verdicts] == ["fail"]
    assert (guard.ended.hook, guard.ended.point) == ("<lambda>", "before_tool_call")


async def test_a_person_is_asked_once_for_a_call():
    asked = []

    async def desk(question):
        asked.append(question.value.args)
        return Approval(approved=True)

    registry = HookRegistry(ask=desk)
    registry.register(lambda event: Ask("really?"), "before_tool_call")
    messages, _ = await run(registry)
    assert told(messages).content == "paid 5 to bob"
    assert asked == [{"amount": 5}]


async def test_records_tell_of_each_hook_call_once():
    records = []
    registry = HookRegistry(sink=records.append)
    registry.register(lambda event: Block("no"), "before_tool_call", name="stern")
    registry.register(lambda event: None, "before_tool_call", name="gate", lane="gate")
    registry.register(lambda event: None, "before_tool_call", name="watch", lane="observe")
    await run(registry)
    told_of = [(record.hook, record.kind) for record in records]
    assert told_of == [
        ("stern", "hook_start"),
        ("stern", "hook_blocked"),
        ("watch", "hook_start"),
        ("watch", "hook_complete"),
    ]


async def test_a_call_can_be_sent_to_another_tool_when_the_model_asks():
    def instead(event, call):
        return Continue(dataclasses.replace(call, name="look", args={"where": "the till"}))

    messages, _ = await run(hooks(("before_tool_call", instead, {"tools": "pay"})))
    assert told(messages).content == "nothing in the till"
    assert messages[1].tool_calls[0]["name"] == "look"


async def test_parallel_calls_are_each_changed_for_themselves():
    calls = called(("pay", {"amount": 1}, "c1"), ("pay", {"amount": 10}, "c2"))
    messages, _ = await run(hooks(("before_tool_call", more)), calls, "done")
    assert sorted(RAN) == [("pay", 2, "bob"), ("pay", 11, "bob")]
    assert told(messages, "c2").content == "paid 11 to bob"


async def test_a_gate_that_waits_holds_its_own_call_only():
    order = []

    async def slow(event):
        await asyncio.sleep(0.01)
        order.append("gate")

    calls = called(("pay", {"amount": 1}, "c1"), ("look", {"where": "x"}, "c2"))
    registry = hooks(
        ("before_tool_call", slow, {"lane": "gate", "tools": "pay"}),
        ("after_tool_call", lambda event: order.append(event.value.name)),
    )
    await run(registry, calls, "done")
    assert order == ["look", "gate", "pay"]
