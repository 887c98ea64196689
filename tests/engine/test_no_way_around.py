"""Ways around a rule that were tried, and are closed."""

import asyncio
from decimal import Decimal
from uuid import UUID

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.hook import declare
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import CONTRACTS, HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall, digest, plain

POINT = "on_result"
SECRET = "sk-swordfish"
BLOCKABLE = [point for point in HookPoint if CONTRACTS[point].block]


@pytest.mark.parametrize("skipped", [{"tools": ["transfer"]}, {"when": lambda event: False}])
async def test_a_gate_that_was_not_called_holds_for_the_tasks_of_one_that_was(skipped):
    registry, tasks, verdicts = HookRegistry(), [], []
    transfer = ToolCall(name="transfer")

    async def later():
        await asyncio.sleep(0)
        verdicts.append(await registry.fire("before_tool_call", transfer))

    def start():
        tasks.append(asyncio.get_running_loop().create_task(later()))

    def audit(event, call):
        if call.name == "search":
            start()

    registry.register(audit, "before_tool_call", name="audit")
    registry.register(
        lambda event: Block("no"), "before_tool_call", name="limit", lane="gate", **skipped
    )
    await registry.fire("before_tool_call", ToolCall(name="search"))
    if "when" in skipped:
        registry.replace(lambda event: Block("no"), "before_tool_call", name="limit", lane="gate")
    await asyncio.gather(*tasks)
    assert [verdict.decision for verdict in verdicts] == ["block"]


@pytest.mark.parametrize("point", BLOCKABLE)
async def test_a_rule_of_an_outer_level_holds_on_every_way_in(point, sample):
    server, run, agent = HookRegistry(), HookRegistry(), HookRegistry()
    server.register(lambda event: Block("no"), point, name="rule", lane="gate")
    value = sample(point)
    outer = server.scope(run_id="r")
    inner = agent.scope(parent=run.scope(parent=outer))
    fired = [
        await server.fire(point, value),
        await outer.fire(point, value),
        await outer.fire(point, value, request_id="q"),
        await outer.bind(iteration=1).fire(point, value),
        await inner.fire(point, value),
        await inner.bind(iteration=1).fire(point, value),
    ]
    assert [verdict.decision for verdict in fired] == ["block"] * 6


@pytest.mark.parametrize("context", [{"parent": None}, {"ask": None}, {"runid": "r"}])
async def test_what_is_no_field_of_an_event_is_refused_with_and_without_hooks(context):
    registry = HookRegistry()
    for place in (registry, registry.scope()):
        with pytest.raises(TypeError, match="no field"):
            await place.fire(POINT, {}, **context)
    registry.register(lambda event: None, POINT)
    with pytest.raises(TypeError, match="no field"):
        await registry.fire(POINT, {}, **context)


async def test_what_hooks_say_of_a_secret_is_held_until_it_may_have_been_redacted(told):
    wired = []
    registry = HookRegistry(lambda record: wired.append(str(record.wire())))

    def fails(event, value):
        raise ValueError(value["text"])

    async def slow(event):
        await asyncio.sleep(0)

    registry.register(fails, POINT, name="fails")
    registry.register(lambda e, value: Block(value["text"]), POINT, name="trial", mode="shadow")
    registry.register(slow, POINT, name="slow")
    registry.register(lambda event: Continue({"text": "***"}, redacted=True), POINT, name="redact")
    await registry.fire(POINT, {"text": SECRET})
    assert len(wired) == 8
    assert SECRET not in "".join(wired)


async def test_a_decision_that_keeps_a_redaction_from_running_keeps_no_values():
    registry = HookRegistry()
    registry.register(lambda event, value: Continue({**value, "n": 1}), POINT, name="changes")
    registry.register(lambda event: Block("no"), POINT, name="decides")
    registry.register(lambda event: None, POINT, name="redact", redacts=True)
    verdict = await registry.fire(POINT, {"text": SECRET})
    assert SECRET not in str([record.wire() for record in verdict.records])


async def test_one_sink_at_two_levels_gets_each_record_once(told):
    sink = told.append
    server, agent = HookRegistry(sink), HookRegistry(sink)
    server.register(lambda event: None, POINT, name="h")
    await agent.scope(parent=server.scope()).fire(POINT, {})
    assert len(told) == 2


async def test_history_can_be_switched_off_for_scopes_that_are_there_already():
    registry = HookRegistry()
    registry.register(lambda event: Continue({"text": "other"}), POINT, name="h")
    scope = registry.scope()
    registry.history = "off"
    verdict = await scope.fire(POINT, {"text": SECRET})
    assert SECRET not in str(verdict.records[1].wire())


def test_options_for_a_spec_are_refused():
    spec = declare(lambda event: None, [POINT], "h")
    with pytest.raises(HookRefusedError, match="takes no points or options"):
        HookRegistry().register(spec, mode="shadow")


def test_a_matcher_that_can_never_match_is_refused():
    with pytest.raises(HookRefusedError, match="`tools` is empty"):
        HookRegistry().register(lambda event: None, "before_tool_call", tools=[])


@pytest.mark.parametrize("tags", [{"external": True}, [["external"]], [1], None])
async def test_tags_of_another_form_match_nothing_and_break_nothing(tags):
    registry = HookRegistry()
    registry.register(lambda event: Block("no"), POINT, name="h", tags=["external"])
    verdict = await registry.fire(POINT, {}, metadata={"tags": tags})
    assert (verdict.decision, verdict.records) == ("continue", ())


def test_what_has_a_known_written_form_is_written_in_it():
    uuid = UUID("01a1de8f-f6dd-79df-bdbe-1ac99f672549")
    value = {"amount": Decimal("1.50"), "id": uuid, "raw": b"ab\xff", "set": {"b", "a"}}
    value["point"] = HookPoint.ON_RESULT
    assert plain(value) == {
        "amount": "1.50",
        "id": str(uuid),
        "raw": "ab\\xff",
        "set": ["a", "b"],
        "point": "on_result",
    }


class Opaque:
    """Something that JSON has no form for."""


class Breaking:
    """Something whose form cannot be had."""

    def model_dump(self, mode):
        raise RuntimeError(mode)


def test_what_has_none_is_named_and_told_apart():
    one, other = Opaque(), Opaque()
    assert plain(one) == plain(other) == "<Opaque>"
    assert plain(Breaking()) == "<Breaking>"
    assert digest(one) == digest(one)
    assert digest(one) != digest(other)


async def test_finish_hooks_that_start_each_others_runs_come_to_an_end():
    registry, seen = HookRegistry(), []

    def chained(name, point, value):
        async def hook(event):
            seen.append(name)
            await registry.fire(point, value)

        return hook

    from checkrail.engine.values import RunError, RunResult

    registry.register(chained("a", "on_run_error", RunError()), "after_run", name="a")
    registry.register(chained("b", "after_run", RunResult()), "on_run_error", name="b")
    await registry.fire("after_run", RunResult())
    assert seen == ["a", "b"]
