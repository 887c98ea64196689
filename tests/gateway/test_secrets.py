"""A secret leaves in no prompt, reaches nobody in an answer, and is in no log and no record."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from checkrail.config import load_text

from .command import gateway_process, here
from .dialects import DIALECTS
from .provider import Fail, Provider, Raw, Say
from .provider_wire import events
from .sdks import ALL_SDKS, WAYS
from .talking import Talk

HIDDEN = "Qz7Xw9Kv3Jh5Gm2Yt8Rb"
SECRET = f"sk-proj-{HIDDEN}"
RULES = """
hooks:
  before_llm_call:
    - {name: asked, builtin: log_request, config: {verbose: true}}
    - {name: clean_request, builtin: redact}
  after_llm_call:
    - {name: answered, builtin: log_response}
    - {name: clean_answer, builtin: redact}
  before_tool_call:
    - {name: no_deletes, tools: [delete], block: never}
"""
LABEL = "[redacted:secrets]"
TOOL = {"type": "object", "properties": {"key": {"type": "string"}}}


def leaks(*places: Any) -> set[str]:
    """Find pieces of the secret, however small, in what somebody got to see."""
    found = " ".join(place.decode() if isinstance(place, bytes) else str(place) for place in places)
    grams = {HIDDEN[at : at + 4] for at in range(len(HIDDEN) - 3)}
    return {gram for gram in grams if gram in found}


def chat_request() -> dict[str, Any]:
    function = {"name": "look", "description": f"With {SECRET}", "parameters": TOOL}
    arguments = json.dumps({"key": SECRET})
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": f"The key is {SECRET}."},
            {"role": "user", "content": [{"type": "text", "text": f"Use {SECRET}"}]},
            {"role": "assistant", "content": f"I use {SECRET}", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": f"Welcome, {SECRET}"},
            {"role": "user", "content": f"and {SECRET}?"},
        ],
        "tools": [{"type": "function", "function": function}],
        "metadata": {"note": SECRET},
    }


def messages_request() -> dict[str, Any]:
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"key": SECRET}}
    said = [{"type": "text", "text": f"I use {SECRET}"}, use]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": f"Welcome, {SECRET}"}
    parts = [{"type": "text", "text": f"Welcome, {SECRET}"}]
    listed = {"type": "tool_result", "tool_use_id": "c2", "content": parts, "is_error": True}
    again = {**use, "id": "c2"}
    return {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": f"The key is {SECRET}."}],
        "messages": [
            {"role": "user", "content": f"Use {SECRET}"},
            {"role": "assistant", "content": [*said, again]},
            {"role": "user", "content": [result, listed, {"type": "text", "text": SECRET}]},
        ],
        "tools": [{"name": "look", "description": f"With {SECRET}", "input_schema": TOOL}],
        "metadata": {"user_id": SECRET},
    }


def responses_request() -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "c1", "name": "look"}
    tool = {"type": "function", "name": "look", "description": SECRET, "parameters": TOOL}
    return {
        "model": "m",
        "instructions": f"The key is {SECRET}.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": f"Use {SECRET}"}]},
            {"role": "assistant", "content": f"I use {SECRET}"},
            {**call, "arguments": json.dumps({"key": SECRET})},
            {"type": "function_call_output", "call_id": "c1", "output": f"Welcome, {SECRET}"},
            {"role": "user", "content": f"and {SECRET}?"},
        ],
        "tools": [tool],
        "metadata": {"note": SECRET},
    }


def gemini_request() -> dict[str, Any]:
    function = {"name": "look", "description": f"With {SECRET}", "parametersJsonSchema": TOOL}
    call = {"functionCall": {"name": "look", "args": {"key": SECRET}}}
    results = [{"result": f"Welcome, {SECRET}"}, {"error": {"message": [f"No {SECRET}"]}}]
    given = [{"functionResponse": {"name": "look", "response": result}} for result in results]
    return {
        "model": "m",
        "system_instruction": {"parts": {"text": f"The key is {SECRET}."}},
        "contents": [
            {"role": "user", "parts": [{"text": f"Use {SECRET}"}]},
            {"role": "model", "parts": [{"text": f"I use {SECRET}"}, call, call]},
            {"role": "user", "parts": [*given, {"text": SECRET}]},
        ],
        "tools": [{"function_declarations": [function]}],
        "labels": {"note": SECRET},
    }


REQUESTS = {
    "chat": chat_request,
    "messages": messages_request,
    "responses": responses_request,
    "gemini": gemini_request,
}
ANSWERS = {
    "the text": Say(f"The key is {SECRET}, keep it."),
    "thoughts": Say("Done.", thinking=f"I know {SECRET}"),
    "a call": Say("I look.", [("look", {"key": SECRET, "to": "you"})]),
    "a blocked call": Say("I look.", [("delete", {"key": SECRET})]),
    "both": Say(f"With {SECRET}", [("look", {"key": f"Bearer {SECRET}"}), ("look", {})]),
    "arguments that are no JSON": Say("", [("look", f'{{"key": "{SECRET}"')]),
}


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return DIALECTS[request.param]


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
async def talk(request, dialect, provider):
    async with Talk(dialect, provider, stream=request.param) as made:
        made.hooks.swap(load_text(RULES).specs)
        yield made


def kept(talk: Talk, log: pytest.LogCaptureFixture) -> tuple[str, ...]:
    """Give all that is left when a call is over."""
    return talk.told, *map(repr, talk.records), log.text


async def all_of(talk: Talk, reply: Any) -> bytes:
    """Read a reply to its end as bytes, whatever they say."""
    raw = reply.content
    if not isinstance(raw, bytes):
        raw = b"".join([piece async for piece in raw])
    await talk.hooks.aclose()
    return raw


class TestPrompts:
    async def test_nothing_of_it_leaves_or_is_kept(self, talk, provider, log):
        asked = REQUESTS[talk.dialect.name]()
        got = await talk.ask({**asked, "stream": talk.stream})
        assert got.heard.text == "Hello from the model."
        assert provider.last.body.decode().count(LABEL) == json.dumps(asked).count(SECRET)
        assert leaks(provider.last.body, *kept(talk, log), got.raw) == set()
        assert "request to m" in log.text
        assert any(record.hook == "clean_request" for record in talk.records)

    async def test_nothing_of_it_leaves_when_the_model_is_asked_again(self, talk, provider, log):
        again = "{name: better, when: 'message.content == \"Bad.\"', retry: Say more}"
        rules = RULES.replace("  before_tool_call:", f"    - {again}\n  before_tool_call:")
        talk.hooks.swap(load_text(rules).specs)
        provider.say(Say("Bad."), Say("Better."))
        got = await talk.ask({**REQUESTS[talk.dialect.name](), "stream": talk.stream})
        assert got.heard.text == "Better."
        assert len(provider.requests) == 2
        sent = [each.body for each in provider.requests]
        assert leaks(*sent, *kept(talk, log), got.raw) == set()

    async def test_an_upstream_that_refuses_it_cannot_tell_it(self, talk, provider, log):
        provider.say(Fail(400, "no"))
        got = await talk.ask({**REQUESTS[talk.dialect.name](), "stream": talk.stream})
        assert got.status == 400
        assert leaks(provider.last.body, *kept(talk, log)) == set()

    async def test_a_request_that_cannot_be_read_is_told_without_it(self, talk, provider, log):
        for body in (f'{{"model": "m", "messages": "{SECRET}"', f'["{SECRET}"]'):
            got = await talk.ask(body.encode())
            assert got.status == 400
            assert leaks(got.raw, *kept(talk, log)) == set()
        assert provider.requests == []


class TestAnswers:
    @pytest.mark.parametrize("where", ANSWERS)
    async def test_nothing_of_it_arrives_or_is_kept(self, where, talk, provider, log):
        provider.say(ANSWERS[where])
        reply = await talk.reply()
        assert reply.status == 200
        assert leaks(await all_of(talk, reply), *kept(talk, log)) == set()
        assert any(record.hook == "clean_answer" for record in talk.records)

    async def test_the_rest_of_the_answer_arrives(self, talk, provider):
        provider.say(ANSWERS["both"])
        got = await talk.ask()
        assert got.heard.text == f"With {LABEL}"
        assert got.heard.calls == [("look", {"key": f"Bearer {LABEL}"}), ("look", {})]
        assert got.heard.ended


class TestStreams:
    @pytest.fixture
    async def talk(self, dialect, provider):
        async with Talk(dialect, provider, stream=True) as made:
            made.hooks.swap(load_text(RULES).specs)
            yield made

    @pytest.mark.parametrize("shift", range(5))
    @pytest.mark.parametrize("cut", [None, 1, 2, 3, 7, 29, 100_000])
    async def test_it_may_be_split_anywhere(self, cut, shift, talk, provider, log):
        before = "." * shift
        said = Say(f"{before}{SECRET} it is", [("look", {"key": before + SECRET})], cut=cut)
        provider.say(said)
        got = await talk.ask()
        assert got.heard.text == f"{before}{LABEL} it is"
        assert got.heard.calls[0][0] == "look"
        assert leaks(got.raw, *kept(talk, log)) == set()

    @pytest.mark.parametrize("how", ["dies", "ends", "garbage", "error"])
    async def test_a_stream_that_fails_keeps_it_too(self, how, talk, provider, log):
        said = Say(f"The key is {SECRET} and so on, and so on.")
        made = events(talk.format.path, said, {"stream_options": {"include_usage": True}})
        near = len(made) - 6
        if how == "dies":
            provider.say(Say(said.text, dies=near))
        else:
            last = {
                "ends": [],
                "garbage": [b"data: {half " + SECRET.encode() + b"\n\n"],
                "error": [b'event: error\ndata: {"type": "error", "error": {"message": "no"}}\n\n'],
            }[how]
            raw = [*made[:near], *last]
            provider.say(Raw(raw, headers={"content-type": "text/event-stream"}))
        got = await talk.ask()
        assert got.heard.error
        assert leaks(got.raw, *kept(talk, log)) == set()
        assert any(record.hook == "clean_answer" for record in talk.records)

    async def test_a_caller_who_goes_away_leaves_nothing_of_it_behind(self, dialect, provider, log):
        async with Talk(dialect, provider, stream=True, keep_alive_seconds=0.01) as talk:
            talk.hooks.swap(load_text(RULES).specs)
            said = Say(f"The key is {SECRET} and so on.")
            made = events(talk.format.path, said, {"stream_options": {"include_usage": True}})
            provider.say(Say(said.text, waits=len(made) - 4))
            reply = await talk.reply()
            await provider.until_reached()
            got = await anext(reply.content)
            await reply.content.aclose()
            await provider.until_gone()
            await talk.hooks.aclose()
            assert any(record.hook == "clean_answer" for record in talk.records)
            assert leaks(got, *kept(talk, log)) == set()


@pytest.fixture(scope="module")
def upstream():
    with Provider() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_process(folder, RULES, {"here": here(upstream)}) as running:
        yield running


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ALL_SDKS)
async def test_through_the_command_neither_side_gets_it_and_the_log_has_none(
    name, way, upstream, gateway
):
    sdk = ALL_SDKS[name]
    client = sdk.client(gateway.url, sync=False)
    upstream.say(Say(f"The key is {SECRET}.", [("forecast", {"city": SECRET, "days": 1})]))
    told = await getattr(sdk, way)(client, sdk.question(f"My key is {SECRET}, and yours?"))
    await sdk.close(client)
    assert told.text == f"The key is {LABEL}."
    assert told.calls == [(sdk.first_id, "forecast", {"city": LABEL, "days": 1})]
    assert DIALECTS[name].said(upstream.last.json)[-1] == f"My key is {LABEL}, and yours?"
    assert f"last from user: 'My key is {LABEL}, and yours?'" in gateway.log
    assert leaks(upstream.last.body, gateway.log) == set()
