"""What becomes of calls when hooks, files, models or callers fail."""

import asyncio

import pytest
from tests.gateway.behaviours import CLOSED, LIMIT, TEXT, apis, ways
from tests.gateway.dialects import PROXIED
from tests.gateway.provider import Fail, Say

CRASH = {"path": "./more.py:crash"}
SLEEP = {"path": "./more.py:sleep", "timeout": 0.5}
ON = {"before_llm_call": 'request.messages[0].content == "Hello"', "after_llm_call": "true"}
POINTS = pytest.mark.parametrize("point", ON)


@apis
@ways
@POINTS
async def test_a_gate_that_crashes_refuses(place, name, stream, point):
    await place.rules(**{point: [{**CRASH, "lane": "gate", "when": ON[point]}]})
    place.provider.say(Say(TEXT))
    got = await place.ask(name, stream=stream)
    assert got.status == 500
    assert "failed with RuntimeError" in got.heard.error["message"]
    assert b"a secret of the hook" not in got.raw
    assert b"quick" not in got.raw


@apis
@ways
@POINTS
async def test_other_hooks_that_crash_are_passed_over(place, name, stream, point):
    crashes = [{**CRASH, "lane": lane} for lane in ("transform", "observe")]
    await place.rules(**{point: crashes})
    assert (await place.ask(name, stream=stream)).heard.text == "Hello from the model."


@apis
@ways
@POINTS
async def test_a_gate_that_takes_too_long_refuses(place, name, stream, point):
    await place.rules(**{point: [{**SLEEP, "lane": "gate", "when": ON[point]}]})
    got = await place.ask(name, stream=stream)
    assert (got.status, "timed out" in got.heard.error["message"]) == (504, True)


async def test_a_file_that_breaks_later_changes_nothing_and_the_log_tells(proxy, place):
    await place.rules(before_llm_call=[CLOSED])
    (place.folder / "hooks.yaml").write_text("hooks: {before_llm_call: [{name: a, blok: no}]}")
    async with asyncio.timeout(60):
        while "was not reloaded, its hooks stay as they were" not in proxy.told():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
    assert (await place.ask("chat")).status == 451
    await place.rules()
    assert (await place.ask("chat")).status == 200


async def test_nothing_is_left_of_calls_that_ended_in_any_way(place):
    count = {"path": "./more.py:count", "lane": "observe"}
    counted = count | {"when": 'request.messages[0].content == "count"'}
    stop = {"stop": "Nobody is in.", "when": 'request.messages[0].content == "stop"'}
    await place.rules(before_llm_call=[counted, stop], before_tool_call=[LIMIT])

    async def round_of(name):
        place.provider.say(Say(TEXT, waits=6))
        async with place.calling(name, place.body(name, stream=True)) as response:
            await response.content.readany()
            response.close()
        await place.provider.until_gone()
        for stream in (False, True):
            place.provider.say(Fail(500))
            await place.ask(name, stream=stream)
            await place.ask(name, stream=stream)
            await place.ask(name, "stop", stream=stream)

    for _ in range(3):
        for name in PROXIED:
            await round_of(name)
    async with asyncio.timeout(60):
        while True:  # what LiteLLM logs with lives a little longer than its call
            await place.ask("chat", "count")
            left = (await place.until_seen(1))[-1]
            if (left["Call"], left["Streamed"], left["Chunks"]) == (1, 0, 0):  # this one
                break
            await asyncio.sleep(0.5)
    assert left["tasks"] < 30
