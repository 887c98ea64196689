"""Verdicts on tool results are remembered for a while, and asked for anew when hooks change."""

from __future__ import annotations

import dataclasses

import pytest

from checkrail import Block, Continue, HookRegistry
from checkrail.engine.event import Context
from checkrail.engine.values import ToolCall, ToolResult
from checkrail.gateway.tool_memory import ToolMemory, ToolResultVerdict, result_key
from checkrail.gateway.tools import ToolResultHooks

HISTORY = [
    {"role": "user", "content": "Read it"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "the secret is 42"},
]


@pytest.fixture
def registry() -> HookRegistry:
    return HookRegistry()


def results(registry: HookRegistry, memory: ToolMemory, **ids: object) -> ToolResultHooks:
    return ToolResultHooks(registry.scope(**ids), memory)


async def test_a_result_that_is_sent_again_is_not_judged_again(registry):
    asked = []

    def redact(event, result):
        asked.append((result.name, result.id))
        return Continue(result.content.replace("42", "[redacted]"), redacted=True)

    registry.register(redact, "after_tool_call")
    memory = ToolMemory()
    first = await results(registry, memory, request_id="r1").check_messages(HISTORY)
    again = await results(registry, memory, request_id="r2").check_messages([*HISTORY, HISTORY[0]])
    assert first[2]["content"] == again[2]["content"] == "the secret is [redacted]"
    assert asked == [("read", "c1")]


def called(*names: str) -> dict:
    """Write calls that have all the same id, as some models make them."""
    functions = [{"name": name, "arguments": "{}"} for name in names]
    calls = [{"id": "c", "type": "function", "function": each} for each in functions]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def answered(content: str, **more: str) -> dict:
    return {"role": "tool", "tool_call_id": "c", "content": content, **more}


@pytest.mark.parametrize(
    "history",
    [
        [called("read"), answered("42"), called("look"), answered("fine")],
        [called("read", "look"), answered("42"), answered("fine")],
        [called("read"), called("look"), answered("42"), answered("fine")],
        [called("look"), HISTORY[0], called("read"), answered("42")],
        [called("read"), answered("42", name="look")],
    ],
)
async def test_a_result_is_that_of_its_call_whatever_else_goes_by_its_id_or_name(registry, history):
    registry.register(lambda event: Block("no"), "after_tool_call", tools=["read"])
    told = await results(registry, ToolMemory()).check_messages(history)
    contents = [message["content"] for message in told if message["role"] == "tool"]
    assert contents == ["no", "fine"][: len(contents)]


async def test_ids_that_are_none_break_nothing(registry):
    registry.register(lambda event: None, "after_tool_call")
    call = {"id": ["c"], "type": "function", "function": "read"}
    history = [{"role": "assistant", "tool_calls": [call]}, answered("x") | {"tool_call_id": ["c"]}]
    assert await results(registry, ToolMemory()).check_messages(history) is history


async def test_what_was_called_with_one_key_is_not_known_with_another(registry):
    names = []
    registry.register(lambda event, result: names.append(result.name), "after_tool_call")
    memory = ToolMemory()
    asked = [{"metadata": {"api_key": key}, "user": "ann"} for key in ("key-1", "key-2")]
    results(registry, memory, **asked[0]).store_tool_names([ToolCall("c", "read")])
    for who in asked:
        await results(registry, memory, **who).check_messages([answered("42")])
    assert names == ["read", ""]


async def test_observers_see_each_result_once_also_after_a_reload(registry):
    seen, judged = [], []
    registry.register(lambda event: seen.append(event.value.id), "after_tool_call", lane="observe")
    registry.register(lambda event: judged.append(1), "after_tool_call", name="gate", lane="gate")
    memory = ToolMemory()
    await results(registry, memory).check_messages(HISTORY)
    await results(registry, memory).check_messages(HISTORY)
    assert (seen, judged) == (["c1"], [1])
    registry.replace(lambda event: Block("no"), "after_tool_call", name="gate", lane="gate")
    told = await results(registry, memory).check_messages(HISTORY)
    assert told[2] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "no",
        "is_error": True,
    }
    assert seen == ["c1"]


async def test_a_verdict_for_one_person_is_not_that_for_another(registry):
    registry.register(lambda event: Block("not yours"), "after_tool_call", users=["bob"])
    memory = ToolMemory()
    assert await results(registry, memory, user="ann").check_messages(HISTORY) is HISTORY
    told = await results(registry, memory, user="bob").check_messages(HISTORY)
    assert told[2]["content"] == "not yours"
    assert await results(registry, memory, user="ann").check_messages(HISTORY) is HISTORY


async def test_what_a_failed_hook_left_is_not_remembered(registry):
    fails = [True]

    async def flaky(event):
        if fails.pop() if fails else False:
            raise OSError

    seen = []
    registry.register(flaky, "after_tool_call", lane="gate")
    registry.register(lambda event: seen.append(1), "after_tool_call", lane="observe", name="seen")
    memory = ToolMemory()
    told = await results(registry, memory).check_messages(HISTORY)
    assert told[2]["is_error"]
    assert await results(registry, memory).check_messages(HISTORY) is HISTORY
    assert seen == [1]


async def test_two_results_that_are_alike_are_two(registry):
    seen = []
    registry.register(lambda event: seen.append(event.value.id), "after_tool_call", lane="observe")
    memory = ToolMemory()
    for _ in range(2):
        await results(registry, memory).check_messages([*HISTORY, *HISTORY[1:]])
    assert seen == ["c1", "c1"]


async def test_an_error_passes_on_tool_error_as_the_hooks_before_left_it(registry):
    at = []
    registry.register(lambda event: at.append(str(event.point)), "after_tool_call", "on_tool_error")
    failed = [*HISTORY[:2], {**HISTORY[2], "is_error": True}]
    assert await results(registry, ToolMemory()).check_messages(failed) is failed
    assert at == ["after_tool_call", "on_tool_error"]


async def test_what_hooks_inject_stands_behind_the_results_of_the_turn_on_every_resend(registry):
    note = {"role": "user", "content": "Mind the licence"}
    registry.register(lambda event: Continue(inject=[note]), "after_tool_call")
    memory = ToolMemory()
    history = [*HISTORY, {"role": "assistant", "content": "I see"}]
    for _ in range(2):
        told = await results(registry, memory).check_messages(history)
        assert told[3:] == [note, history[3]]


async def test_a_result_that_comes_without_its_call_is_known_by_what_was_called(registry):
    registry.register(lambda event: Block("no"), "after_tool_call", tools=["read"])
    memory = ToolMemory()
    results(registry, memory, user="ann").store_tool_names([ToolCall("c1", "read")])
    alone = HISTORY[2:]
    assert (await results(registry, memory, user="ann").check_messages(alone))[0]["content"] == "no"
    assert await results(registry, memory, user="bob").check_messages(alone) is alone


def test_the_oldest_is_forgotten_when_there_are_too_many():
    memory = ToolMemory(kept=2)
    for name in (b"a", b"b"):
        memory.store_verdict(name, (), ToolResultVerdict())
    assert memory.find_verdict(b"a", ()) is not None
    memory.store_verdict(b"c", (), ToolResultVerdict())
    assert [memory.find_verdict(name, ()) is not None for name in (b"a", b"b", b"c")] == [
        True,
        False,
        True,
    ]


def test_large_results_push_out_others_and_the_largest_are_not_kept():
    memory = ToolMemory(weight=1000)
    large = ToolResultVerdict(ToolResult(content="x" * 700))
    memory.store_verdict(b"a", (), large)
    memory.store_verdict(b"b", (), large)
    memory.store_verdict(b"c", (), ToolResultVerdict(ToolResult(content="x" * 5000)))
    assert [memory.find_verdict(name, ()) is not None for name in (b"a", b"b", b"c")] == [
        False,
        True,
        False,
    ]


def test_a_result_is_named_by_what_it_is_and_whose_but_not_by_the_request():
    result = ToolResult("c1", "read", "text")
    name = result_key(Context(request_id="r1", user=None), result, {})
    assert name == result_key(Context(request_id="r2", iteration=4), result, {})
    assert name != result_key(Context(session_id="s"), result, {})
    assert name != result_key(Context(), dataclasses.replace(result, content="other"), {})
    assert name != result_key(Context(), result, {"arguments": "{}"})
    result_key(Context(), dataclasses.replace(result, content="half a letter \ud83d"), {})
