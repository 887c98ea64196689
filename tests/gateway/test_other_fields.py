"""Texts of an answer in places that its API does not know: hooks see them, and what they leave."""

from __future__ import annotations

import json

import pytest

from checkrail import Continue
from checkrail.builtin import BUILTINS

from .dialects import DIALECTS, events
from .provider import Provider, Raw, Say
from .provider_wire import events as wire_events
from .provider_wire import whole
from .talking import Talk

MAIL = "ann@example.com"
MORE = {"sources": [{"title": f"Mail of {MAIL}", "id": MAIL}], "note": MAIL}
STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


@pytest.fixture
def provider():
    with Provider() as running:
        yield running


@pytest.fixture(params=["at once", "streaming"])
def stream(request) -> bool:
    return request.param == "streaming"


@pytest.fixture(params=DIALECTS)
async def talk(request, stream, provider):
    async with Talk(DIALECTS[request.param], provider, stream=stream) as talking:
        yield talking


def holder(name: str, told: dict) -> dict:
    """Find the object of an event that stands for the whole answer."""
    within = {"messages": "message", "responses": "response"}
    return told.get(within[name]) if name in within else told


def tainted(talk: Talk, said: Say) -> Raw:
    """Write an answer as its provider does, with texts where the API knows none."""
    name, path = talk.dialect.name, talk.format.path
    if not talk.stream:
        return Raw([json.dumps({**whole(path, said), **MORE}).encode()], headers=JSON)
    pieces = []
    for piece in wire_events(path, said, talk.dialect.request(stream=True)):
        for kind, told in events(piece):
            if isinstance(told, str):
                pieces.append(piece)
                continue
            if isinstance(found := holder(name, told), dict):
                found.update(MORE)
            if told.get("type") == "message_delta":
                told["delta"]["why"] = MAIL
                told["also"] = MAIL
            head = f"event: {kind}\n" if kind else ""
            pieces.append(f"{head}data: {json.dumps(told)}\n\n".encode())
    return Raw(pieces, headers=STREAM)


def redacting(talk: Talk) -> None:
    made = BUILTINS["redact"].make({"kinds": ["email"]})
    talk.hooks.register(made, "after_llm_call", name="redact")


async def test_every_text_of_an_answer_is_redacted(talk):
    redacting(talk)
    talk.provider.say(tainted(talk, Say("Nothing to hide", [("f", {"a": 1})])))
    got = await talk.ask()
    assert got.status == 200
    assert MAIL.encode() not in got.raw
    assert b"[redacted:email]" in got.raw
    assert (got.heard.text, got.heard.calls) == ("Nothing to hide", [("f", {"a": 1})])
    assert got.heard.ended


async def test_what_a_hook_leaves_out_is_left_out(talk):
    def bare(event, message):
        return Continue(type(message)(message.content, model=message.model, usage=message.usage))

    talk.hooks.register(bare, "after_llm_call")
    talk.provider.say(tainted(talk, Say("Said")))
    got = await talk.ask()
    assert (got.heard.text, MAIL.encode() in got.raw) == ("Said", False)


async def test_where_nothing_is_found_every_byte_stays(talk):
    talk.hooks.register(
        BUILTINS["redact"].make({"kinds": ["card"]}), "after_llm_call", name="redact"
    )
    talk.provider.say(reply := tainted(talk, Say("Said")))
    assert (await talk.ask()).raw == b"".join(reply.pieces)


async def test_observers_see_them_and_known_fields_are_none(talk):
    seen = []
    talk.hooks.register(
        lambda event, message: seen.append(message.metadata), "after_llm_call", lane="observe"
    )
    talk.provider.say(tainted(talk, Say("Said")), Say("Plain"))
    await talk.ask()
    await talk.ask()
    await talk.hooks.aclose()
    assert seen[0]["other_fields"]["note"] == MAIL
    assert "other_fields" not in seen[1]


async def test_what_repeats_the_request_is_no_text_of_the_answer(provider):
    """Else a rule for answers would find the words of the instructions in each of them."""
    async with Talk(DIALECTS["responses"], provider, stream=False) as talk:
        redacting(talk)
        body = {**whole(talk.format.path, Say("Said")), "instructions": f"Never tell {MAIL}"}
        seen = []
        talk.hooks.register(
            lambda event, message: seen.append(message.text), "after_llm_call", lane="observe"
        )
        provider.say(Raw([json.dumps(body).encode()], headers=JSON))
        got = await talk.ask()
    assert MAIL.encode() in got.raw
    assert MAIL not in seen[0]


@pytest.mark.parametrize("name", DIALECTS)
async def test_an_event_that_nobody_knows_is_redacted_too(name, provider):
    async with Talk(DIALECTS[name], provider, stream=True) as talk:
        redacting(talk)
        said = Say("Nothing to hide")
        pieces = wire_events(talk.format.path, said, talk.dialect.request(stream=True))
        told = {"type": "response.mood", "text": MAIL, "mood": MAIL}
        odd = f"event: response.mood\ndata: {json.dumps(told)}\n\n".encode()
        provider.say(Raw([*pieces[:-2], odd, *pieces[-2:]], headers=STREAM))
        got = await talk.ask()
        assert (got.status, MAIL.encode() in got.raw) == (200, False)
        assert got.heard.text == "Nothing to hide"


async def test_a_field_that_changes_in_the_middle_of_a_stream_is_seen_each_time(provider):
    async with Talk(DIALECTS["chat"], provider, stream=True) as talk:
        redacting(talk)
        pieces = wire_events(talk.format.path, Say("Hello there"), talk.dialect.request())
        notes = [MAIL, *["fine"] * 99]
        noted = [
            piece if isinstance(told, str) else f"data: {json.dumps(told | {'note': note})}\n\n"
            for piece, note in zip(pieces, notes, strict=False)
            for _, told in events(piece)
        ]
        raw = [piece.encode() if isinstance(piece, str) else piece for piece in noted]
        provider.say(Raw(raw, headers=STREAM))
        got = await talk.ask()
        assert (got.heard.text, MAIL.encode() in got.raw) == ("Hello there", False)


@pytest.mark.parametrize("streams", [False, True])
async def test_what_stands_beside_the_message_of_a_choice_is_seen(provider, streams):
    async with Talk(DIALECTS["chat"], provider, stream=streams) as talk:
        redacting(talk)
        if streams:
            first, *rest = wire_events(talk.format.path, Say("Hi"), talk.dialect.request())
            (_, told), *_ = events(first)
            told["choices"][0]["filter"] = {"why": MAIL}
            first = f"data: {json.dumps(told)}\n\n".encode()
            provider.say(Raw([first, *rest], headers=STREAM))
        else:
            body = whole(talk.format.path, Say("Hi"))
            body["choices"][0]["filter"] = {"why": MAIL}
            provider.say(Raw([json.dumps(body).encode()], headers=JSON))
        got = await talk.ask()
        assert (got.heard.text, MAIL.encode() in got.raw) == ("Hi", False)
