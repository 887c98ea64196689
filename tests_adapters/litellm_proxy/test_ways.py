"""Every way in that leads to a model: hooks hold there, or nobody gets in."""

import asyncio
import json

import aiohttp
import pytest
from tests.gateway.behaviours import CLOSED, LIMIT, NOTE, REDACT, SECRET, TEXT, TRANSFER, apis, ways
from tests.gateway.dialects import PROXIED
from tests.gateway.provider import Fail, Raw, Say

from .proxy import FALLS, FALLS_FAR

OTHER_PATHS = [
    ("/chat/completions", "chat"),
    ("/engines/gpt-test/chat/completions", "chat"),
    ("/openai/deployments/gpt-test/chat/completions", "chat"),
    ("/cursor/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/openai/v1/responses", "responses"),
]

PASS_THROUGH = [
    ("/anthropic/v1/messages", "messages"),
    ("/anthropic/v1//messages", "messages"),
    ("/openai/chat/completions", "chat"),
    ("/openai_passthrough/v1/responses", "responses"),
]

PAST_HOOKS = [
    ("/queue/chat/completions", "chat", {"priority": 1}),
    ("/vllm/v1/chat/completions", "chat", {"model": "local"}),
    ("/cursor/chat/completions", "responses", {}),
]


async def post(place, path, body, **headers):
    headers = {"authorization": f"Bearer {place.key}", **headers}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session,
        session.post(place.url + path, json=body, headers=headers) as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize(("path", "name"), OTHER_PATHS)
async def test_rules_hold_on_other_paths_of_the_three_apis(place, path, name):
    await place.rules(before_llm_call=[CLOSED])
    assert (await post(place, path, place.body(name)))[0] == 451
    assert place.provider.requests == []


@pytest.mark.parametrize(("path", "name"), PASS_THROUGH)
@ways
async def test_requests_on_pass_through_routes_are_judged(place, path, name, stream):
    closed = {**CLOSED, "when": 'request.messages[0].content == "bad"'}
    stop = {"stop": "Nobody is in.", "when": 'request.messages[0].content == "stop"'}
    await place.rules(before_llm_call=[REDACT, closed, stop, NOTE])
    status, _ = await post(place, path, place.body(name, f"key {SECRET}", stream=stream))
    assert status == 200
    assert SECRET.encode() not in place.provider.last.body
    assert b"[redacted" in place.provider.last.body
    place.provider.requests.clear()
    status, told = await post(place, path, place.body(name, "bad", stream=stream))
    assert (status, "We are closed" in told) == (451, True)
    status, told = await post(place, path, place.body(name, "stop", stream=stream))
    assert (status, "cannot answer" in told) == (501, True)
    assert place.provider.requests == []
    assert SECRET not in str(await place.until_seen(1))


@pytest.mark.parametrize(("path", "name"), PASS_THROUGH)
async def test_pass_through_routes_are_shut_where_answers_have_to_be_seen(place, path, name):
    await place.rules(before_tool_call=[LIMIT])
    status, told = await post(place, path, place.body(name))
    assert (status, "have to see the answer" in told) == (403, True)
    assert place.provider.requests == []


@pytest.mark.parametrize(("path", "name", "more"), PAST_HOOKS)
@ways
async def test_ways_past_hooks_are_shut(place, path, name, more, stream):
    await place.rules(before_tool_call=[LIMIT])
    status, told = await post(place, path, place.body(name, stream=stream, **more))
    assert (status, "hooks of this proxy do not see" in told) == (403, True)
    assert place.provider.requests == []


async def test_websockets_are_shut(place):
    await place.rules(before_tool_call=[LIMIT])
    headers = {"authorization": f"Bearer {place.key}"}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{place.url}/v1/responses", headers=headers) as socket,
    ):
        await socket.send_json({"type": "response.create", "model": "gpt-test", "input": "Hi"})
        told = await socket.receive_json(timeout=30)
    assert "do not see WebSockets" in told["error"]["message"]
    assert place.provider.requests == []


@apis
@ways
async def test_the_answer_of_a_hook_is_not_kept_for_others(place, name, stream):
    await place.rules(before_llm_call=[{"stop": "Nobody is in.", "users": ["bob"]}])
    body = place.body(name, f"Who is in, {name} {stream}?", stream=stream)
    body["cache"] = {"use-cache": True}
    bob = await place.send(name, body, **{"x-checkrail-user": "bob"})
    ann = await place.send(name, body, **{"x-checkrail-user": "ann"})
    assert (bob.heard.text, ann.heard.text) == ("Nobody is in.", "Hello from the model.")


@ways
async def test_answers_from_the_cache_pass_hooks(place, stream):
    body = place.body("chat", f"Once more {stream}", stream=stream, cache={"use-cache": True})
    await place.rules(before_tool_call=[LIMIT])
    place.provider.say(Say("Look:", [("transfer", {"amount": 98765.25})]))
    for _ in range(2):
        got = await place.send("chat", body)
        assert (got.heard.calls, "finance desk" in got.heard.text) == ([], True)
    assert len(place.provider.requests) == 1


async def test_calls_with_the_same_id_are_not_taken_for_each_other(place):
    stop = {"stop": "Nobody is in.", "when": 'request.messages[0].content == "stop"'}
    await place.rules(before_llm_call=[stop], before_tool_call=[{**LIMIT, "models": ["gpt-test"]}])
    place.provider.always(Say("Look:", [TRANSFER]))
    for number in range(5):
        own = {"x-litellm-call-id": f"same-{number}"}
        bodies = [
            ("chat", place.body("chat")),
            ("chat", place.body("chat", model=place.models["chat-2"])),
            ("messages", place.body("messages", "stop")),
        ]
        calls = (place.send(name, body, **own) for name, body in bodies)
        ruled, free, stopped = await asyncio.gather(*calls)
        assert (ruled.heard.calls, "finance desk" in ruled.heard.text) == ([], True)
        assert free.heard.calls == [TRANSFER]
        assert stopped.heard.text == "Nobody is in."
    place.provider.always(Say("Hello from the model."))


async def test_many_streams_at_once_are_each_their_callers(place):
    await place.rules(before_llm_call=[NOTE], before_tool_call=[LIMIT], after_llm_call=[NOTE])
    place.provider.always(Say("Look:", [TRANSFER]))

    async def one(number):
        name = list(PROXIED)[number % 3]
        ids = {"x-checkrail-user": f"user-{number}", "x-checkrail-session-id": f"s-{number}"}
        return await place.send(name, place.body(name, f"<{number}>", stream=True), **ids)

    for got in await asyncio.gather(*(one(number) for number in range(200))):
        assert (got.status, got.heard.calls, got.heard.ended) == (200, [], True)
        assert "finance desk" in got.heard.text
    place.provider.always(Say("Hello from the model."))
    seen = await place.until_seen(400)
    of_calls = {}
    for each in seen:
        of_calls.setdefault(each["request"], []).append(each)
        if each["point"] == "before_llm_call":
            assert f"<{each['user'].removeprefix('user-')}>" in each["all"]
    assert len(of_calls) == 200
    for before, after in of_calls.values():
        assert (before["user"], before["session"]) == (after["user"], after["session"])


@ways
async def test_hooks_are_asked_once_where_litellm_falls_back_on_another_model(place, stream):
    await place.rules(before_llm_call=[NOTE], after_llm_call=[NOTE])
    place.provider.say(Fail(500, "no"))
    got = await place.ask("chat", stream=stream, model=FALLS)
    assert got.heard.text == "Hello from the model."
    assert [sent.json["model"] for sent in place.provider.requests] == [FALLS, "gpt-test"]
    before, after = await place.until_seen(2)
    assert f"model='{FALLS}'" in before["all"]
    assert before["request"] == after["request"]


async def test_a_rule_holds_for_each_of_several_choices(place):
    await place.rules(before_tool_call=[LIMIT])
    function = {"name": "transfer", "arguments": '{"amount": 98765.25}'}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    said = [{"role": "assistant", "content": "Well"}, {"role": "assistant", "tool_calls": calls}]
    choices = [
        {"index": number, "message": message, "finish_reason": "stop"}
        for number, message in enumerate(said)
    ]
    answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    whole = json.dumps(answer | {"choices": choices}).encode()
    place.provider.say(Raw([whole], headers={"content-type": "application/json"}))
    got = await place.ask("chat", n=2)
    assert (got.status, b"finance desk" in got.raw) == (200, True)
    assert b"98765.25" not in got.raw


@apis
async def test_callers_cannot_turn_hooks_off(place, name):
    await place.rules(before_llm_call=[CLOSED])
    said = {
        "no-log": True,
        "disable_global_guardrails": True,
        "litellm_disabled_callbacks": ["checkrail"],
        "callbacks": [],
        "mock_response": "Mine",
        "call_type": "embedding",
        "litellm_call_id": "mine",
        "litellm_logging_obj": "mine",
        "proxy_server_request": {"body": {}},
        "_checkrail_call": "mine",
    }
    body = place.body(name) | said
    got = await place.send(name, body, **{"x-litellm-disable-callbacks": "checkrail"})
    assert got.status == 451
    assert place.provider.requests == []


@ways
async def test_an_answer_is_of_the_provider_that_was_called_in_the_end(place, stream):
    refused = {"when": 'provider == "hosted_vllm"', "block": "Nothing comes from there"}
    await place.rules(after_llm_call=[refused])
    place.provider.say(Fail(500), Say(TEXT))
    got = await place.ask("chat", stream=stream, model=FALLS_FAR)
    assert [sent.json["model"] for sent in place.provider.requests] == [FALLS_FAR, "local"]
    assert "Nothing comes from there" in got.heard.error["message"]
    assert b"quick" not in got.raw
