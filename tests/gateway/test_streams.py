"""Streams: passed on as they come, or held as far as hooks need it, and ended as their API does."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from checkrail import Block, Continue, Fail, Retry
from checkrail.gateway.relay import ReplyStream

from .dialects import DIALECTS, Heard
from .provider import Fail as Refusing
from .provider import Provider, Raw, Say
from .provider_wire import events
from .talking import Talk

TEXT = "The quick brown fox jumps over the lazy dog."
TRANSFER = ("transfer", {"amount": 98765.25, "to": "Ünal"})

NOTHING, OBSERVED, TOOLS, ALL = "no hooks", "observers", "a rule on tools", "a rule on answers"


@pytest.fixture
def provider():
    with Provider() as running:
        yield running


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return DIALECTS[request.param]


@pytest.fixture
async def talk(dialect, provider):
    async with Talk(dialect, provider, stream=True, keep_alive_seconds=20) as talking:
        yield talking


def hook(talk: Talk, kind: str) -> list:
    """Set up hooks of a kind; all that they see of answers is in the list."""
    seen: list = []
    if kind != NOTHING:
        talk.hooks.register(
            lambda event, message: seen.append(message), "after_llm_call", lane="observe"
        )
    if kind == TOOLS:
        talk.hooks.register(lambda event: None, "before_tool_call")
    if kind == ALL:
        talk.hooks.register(lambda event: None, "after_llm_call", lane="gate")
    return seen


def pieces(talk: Talk, said: Say) -> list[bytes]:
    """Give the events that the provider sends."""
    asked = {"stream_options": {"include_usage": True}} if talk.hooks.list() else {}
    return events(talk.format.path, said, asked)


async def until(flow: ReplyStream, wanted: bytes) -> bytes:
    """Read on until something has come."""
    got = b""
    while wanted not in got:
        got += await anext(flow)
    return got


def heard(talk: Talk, raw: bytes) -> Heard:
    return talk.dialect.heard_stream(raw)


class TestPassing:
    @pytest.mark.parametrize("kind", [NOTHING, OBSERVED, TOOLS])
    async def test_text_is_passed_on_as_it_comes(self, talk, kind):
        seen = hook(talk, kind)
        talk.provider.say(Say(TEXT, waits=6))
        reply = await talk.reply()
        got = await until(reply.content, b"The q")
        assert b"lazy" not in got
        assert seen == []
        talk.provider.go_on()
        got += b"".join([piece async for piece in reply.content])
        assert heard(talk, got).text == TEXT
        assert heard(talk, got).ended
        await talk.hooks.aclose()
        assert [message.content for message in seen] == ([] if kind == NOTHING else [TEXT])

    async def test_a_tool_call_waits_and_the_text_before_it_does_not(self, dialect, provider):
        async with Talk(dialect, provider, stream=True, keep_alive_seconds=0.01) as talk:
            hook(talk, TOOLS)
            said = Say(TEXT, [TRANSFER])
            sent = pieces(talk, said)
            call = next(number for number, piece in enumerate(sent) if b'"transfer"' in piece)
            provider.say(dataclasses.replace(said, waits=call + 1))
            reply = await talk.reply()
            got = await until(reply.content, b"dog.")
            got += await until(reply.content, talk.format.keep_alive)
            assert b"transfer" not in got
            provider.go_on()
            got += b"".join([piece async for piece in reply.content])
        assert heard(talk, got).calls == [TRANSFER]

    async def test_what_is_held_and_not_changed_leaves_every_byte(self, talk):
        talk.hooks.register(lambda event: None, "before_tool_call")
        talk.provider.say(said := Say(TEXT, [TRANSFER], thinking="Hm, hm"))
        assert (await talk.ask()).raw == b"".join(events(talk.format.path, said, {}))
        talk.hooks.register(lambda event: None, "after_llm_call")
        body = talk.dialect.request(stream=True, stream_options={"include_usage": True})
        talk.provider.say(said)
        got = await talk.ask(body)
        assert got.raw == b"".join(events(talk.format.path, said, body))

    @pytest.mark.parametrize("cut", [1, 2, 7, 50, 100_000])
    @pytest.mark.parametrize("kind", [OBSERVED, TOOLS, ALL])
    async def test_pieces_may_be_cut_anywhere(self, talk, kind, cut):
        seen = hook(talk, kind)
        talk.provider.say(Say("Größe 😀", [TRANSFER], cut=cut))
        got = await talk.ask()
        assert (got.heard.text, got.heard.calls) == ("Größe 😀", [TRANSFER])
        assert seen[0].content == "Größe 😀"
        assert seen[0].tool_calls[0].args == TRANSFER[1]

    async def test_the_last_event_may_lack_its_empty_line(self, talk):
        seen = hook(talk, OBSERVED)
        raw = b"".join(pieces(talk, Say(TEXT))).rstrip(b"\n")
        talk.provider.say(Raw([raw], headers={"content-type": "text/event-stream"}))
        got = await talk.ask()
        assert got.heard.text == TEXT
        assert seen[0].content == TEXT

    async def test_a_rule_that_is_loaded_in_mid_stream_holds_from_there(self, talk):
        hook(talk, OBSERVED)
        talk.provider.say(Say(TEXT, waits=6))
        reply = await talk.reply()
        got = await until(reply.content, b"The q")
        talk.hooks.register(lambda event: Block("not any more"), "after_llm_call", name="late")
        talk.provider.go_on()
        got += b"".join([piece async for piece in reply.content])
        told = heard(talk, got)
        assert b"lazy" not in got
        assert "not any more" in str(told.error)
        assert not told.ended

    async def test_a_rule_that_is_loaded_in_mid_stream_cannot_change_what_was_sent(self, talk):
        hook(talk, OBSERVED)
        talk.provider.say(Say(TEXT, waits=6))
        reply = await talk.reply()
        got = await until(reply.content, b"The q")
        talk.hooks.register(lambda event: Continue("No."), "after_llm_call", name="late")
        talk.provider.go_on()
        got += b"".join([piece async for piece in reply.content])
        told = heard(talk, got)
        assert "a part of the answer was sent" in str(told.error)
        assert not told.ended

    @pytest.mark.parametrize("kind", [OBSERVED, ALL])
    async def test_what_comes_after_the_end_is_no_part_of_the_answer(self, talk, kind):
        seen = hook(talk, kind)
        raw = [*pieces(talk, Say(TEXT)), b"data: {half\n\n"]
        talk.provider.say(Raw(raw, headers={"content-type": "text/event-stream"}))
        reply = await talk.reply()
        got = b"".join([piece async for piece in reply.content])
        assert got.endswith(b"{half\n\n") is (kind == OBSERVED)
        assert [message.content for message in seen] == [TEXT]

    async def test_an_event_without_end_is_passed_on_in_parts(self, talk):
        long = b"data: " + b"x" * 200_000
        talk.provider.say(Raw([long, b"\n\n"], headers={"content-type": "text/event-stream"}))
        reply = await talk.reply()
        assert b"".join([piece async for piece in reply.content]) == long + b"\n\n"


class TestHolding:
    async def test_a_held_stream_gives_signs_of_life_and_then_the_answer(self, dialect, provider):
        async with Talk(dialect, provider, stream=True, keep_alive_seconds=0.01) as talk:
            hook(talk, ALL)
            provider.say(Say(TEXT, waits=3))
            reply = await talk.reply()
            for _ in range(3):
                assert await anext(reply.content) == talk.format.keep_alive
            provider.go_on()
            raw = b"".join([piece async for piece in reply.content])
        assert heard(talk, raw).text == TEXT

    async def test_a_block_in_mid_stream_ends_with_an_error_of_the_api(self, dialect, provider):
        async with Talk(dialect, provider, stream=True, keep_alive_seconds=0.01) as talk:
            talk.hooks.register(lambda event: Block("not to be said"), "after_llm_call")
            provider.say(Say(TEXT, waits=3))
            reply = await talk.reply()
            got = await anext(reply.content)
            provider.go_on()
            got += b"".join([piece async for piece in reply.content])
        told = heard(talk, got)
        assert (reply.status, told.text, told.ended) == (200, "", False)
        assert "not to be said" in str(told.error)
        assert b"quick" not in got

    @pytest.mark.parametrize("answers", [True, False])
    async def test_the_model_is_asked_again_behind_signs_of_life(self, dialect, provider, answers):
        async with Talk(dialect, provider, stream=True, keep_alive_seconds=0.01) as talk:
            talk.hooks.register(
                lambda event, message: Retry("again") if message.content == TEXT else None,
                "after_llm_call",
            )
            provider.say(Say(TEXT, waits=3), Say("Better.") if answers else Refusing(503))
            reply = await talk.reply()
            got = await anext(reply.content)
            provider.go_on()
            got += b"".join([piece async for piece in reply.content])
        told = heard(talk, got)
        assert b"quick" not in got
        assert (told.text, told.ended) == (("Better.", True) if answers else ("", False))
        assert bool(told.error) is not answers

    async def test_a_failure_after_some_text_ends_with_an_error_of_the_api(self, talk):
        talk.hooks.register(lambda event: Fail("broken"), "before_tool_call")
        talk.provider.say(Say(TEXT, [TRANSFER]))
        got = await talk.ask()
        assert (got.status, got.heard.text, got.heard.ended) == (200, TEXT, False)
        assert "broken" in str(got.heard.error)
        assert b"98765.25" not in got.raw

    @pytest.mark.parametrize("cut", [1, 3, 40, 100_000])
    async def test_what_is_redacted_is_never_sent(self, talk, cut):
        def redact(event, message):
            return Continue(message.content.replace("sk-12345", "[redacted]"), redacted=True)

        talk.hooks.register(redact, "after_llm_call")
        talk.provider.say(Say("The key is sk-12345, keep it.", [TRANSFER], cut=cut))
        got = await talk.ask()
        assert got.heard.text == "The key is [redacted], keep it."
        assert got.heard.calls == [TRANSFER]
        assert b"12345" not in got.raw
        assert "12345" not in talk.told


class TestUsage:
    async def test_a_chat_stream_is_asked_for_its_usage_which_is_ours_alone(self, provider):
        async with Talk(DIALECTS["chat"], provider, stream=True) as talk:
            for kind in (OBSERVED, ALL):
                seen = hook(talk, kind)
                provider.say(Say("Hi"))
                got = await talk.ask()
                assert provider.last.json["stream_options"] == {"include_usage": True}
                assert (got.heard.text, got.heard.usage) == ("Hi", False)
                assert seen[0].usage["total_tokens"] == 18
                talk.hooks.swap([])

    async def test_a_caller_who_asked_gets_the_usage(self, provider):
        async with Talk(DIALECTS["chat"], provider, stream=True) as talk:
            hook(talk, OBSERVED)
            body = talk.dialect.request(stream=True, stream_options={"include_usage": True})
            assert (await talk.ask(body)).heard.usage

    async def test_it_is_not_asked_for_where_that_is_turned_off(self, provider):
        async with Talk(DIALECTS["chat"], provider, stream=True, ask_usage=False) as talk:
            seen = hook(talk, OBSERVED)
            body = json.dumps(talk.dialect.request(stream=True)).encode()
            await talk.ask(body)
            assert provider.last.body == body
            assert seen[0].usage is None


class TestClientsThatGoAway:
    @pytest.mark.parametrize("kind", [NOTHING, OBSERVED, TOOLS, ALL])
    @pytest.mark.parametrize("how", ["close", "cancel"])
    async def test_the_upstream_is_closed_at_once(self, dialect, provider, kind, how):
        async with Talk(dialect, provider, stream=True, keep_alive_seconds=0.01) as talk:
            seen = hook(talk, kind)
            provider.say(Say(TEXT, waits=6))
            reply = await talk.reply()
            await provider.until_reached()
            wanted = talk.format.keep_alive if kind == ALL else b"The q"
            if how == "close":
                await until(reply.content, wanted)
                await reply.content.aclose()
            else:
                begun = asyncio.Event()
                reading = asyncio.create_task(_read(reply.content, wanted, begun))
                await begun.wait()
                reading.cancel()
                await asyncio.wait([reading])
            await provider.until_gone()
            await talk.hooks.aclose()
        if kind == NOTHING:
            return
        (message,) = seen
        assert TEXT.startswith(message.content)
        assert message.metadata["cut_off"] == "the caller went away"

    @pytest.mark.parametrize("kind", [NOTHING, OBSERVED, TOOLS, ALL])
    async def test_a_reply_that_nobody_begins_to_read(self, dialect, provider, kind):
        async with Talk(dialect, provider, stream=True, keep_alive_seconds=0.01) as talk:
            hook(talk, kind)
            provider.say(Say(TEXT, waits=6))
            reply = await talk.reply()
            await provider.until_reached()
            await reply.content.aclose()
            await provider.until_gone()

    async def test_a_call_that_is_cancelled_before_its_reply(self, talk):
        hook(talk, ALL)
        talk.provider.say(Say(TEXT, waits=6))
        asking = asyncio.create_task(talk.reply())
        await talk.provider.until_reached()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        await talk.provider.until_gone()

    async def test_observers_get_the_answer_of_a_caller_who_does_not_wait_for_them(self, talk):
        seen = hook(talk, OBSERVED)
        talk.provider.say(Say("Hi"))
        reply = await talk.reply()
        got = b""
        while not heard(talk, got).ended:
            got += await anext(reply.content)
        await reply.content.aclose()
        await talk.hooks.aclose()
        (message,) = seen
        assert (message.content, message.usage["total_tokens"]) == ("Hi", 18)
        assert "cut_off" not in message.metadata

    async def test_observers_end_although_the_caller_goes_away_meanwhile(self, talk):
        began, go, over = asyncio.Event(), asyncio.Event(), []

        async def slow(event, message):
            began.set()
            await go.wait()
            over.append(message.usage["total_tokens"])

        talk.hooks.register(slow, "after_llm_call", lane="observe")
        talk.hooks.register(lambda event: None, "after_llm_call", lane="gate")
        talk.provider.say(Say("Hi"))
        asking = asyncio.create_task(talk.ask())
        await began.wait()
        asking.cancel()
        await asyncio.wait([asking])
        go.set()
        await talk.hooks.aclose()
        assert over == [18]


class TestUpstreamsThatDie:
    @pytest.mark.parametrize("kind", [NOTHING, OBSERVED, TOOLS])
    async def test_a_stream_that_breaks_off_ends_with_an_error_of_the_api(self, talk, kind):
        seen = hook(talk, kind)
        talk.provider.say(Say(TEXT, dies=6))
        got = await talk.ask()
        assert TEXT.startswith(got.heard.text)
        assert got.heard.text
        assert got.heard.error
        assert not got.heard.ended
        if kind != NOTHING:
            (message,) = seen
            assert message.content == got.heard.text
            assert "broke off" in message.metadata["cut_off"]

    async def test_one_that_is_held_is_an_error_with_a_status(self, talk):
        seen = hook(talk, ALL)
        talk.provider.say(Say(TEXT, dies=6))
        got = await talk.ask()
        assert (got.status, bool(got.heard.error)) == (502, True)
        assert b"The q" not in got.raw
        assert TEXT.startswith(seen[0].content)

    @pytest.mark.parametrize("kind", [NOTHING, OBSERVED, TOOLS])
    async def test_half_an_event_is_not_sent(self, talk, kind):
        hook(talk, kind)
        size = len(b"".join(pieces(talk, Say(TEXT))[:5])) + 9
        talk.provider.say(Say(TEXT, cut=size, dies=1))
        got = await talk.ask()
        assert TEXT.startswith(got.heard.text)
        assert got.heard.error

    @pytest.mark.parametrize("kind", [OBSERVED, TOOLS, ALL])
    async def test_a_stream_that_ends_too_early_does_so_too(self, talk, kind):
        hook(talk, kind)
        raw = pieces(talk, Say(TEXT))[:6]
        talk.provider.say(Raw(raw, headers={"content-type": "text/event-stream"}))
        got = await talk.ask()
        assert got.heard.error
        assert not got.heard.ended

    @pytest.mark.parametrize("kind", [OBSERVED, TOOLS, ALL])
    async def test_garbage_in_mid_stream_ends_it_with_an_error(self, talk, kind):
        hook(talk, kind)
        raw = [*pieces(talk, Say(TEXT))[:6], b"data: {half\n\n", *pieces(talk, Say(TEXT))[6:]]
        talk.provider.say(Raw(raw, headers={"content-type": "text/event-stream"}))
        got = await talk.ask()
        assert got.heard.error
        assert b"{half" not in got.raw

    @pytest.mark.parametrize("kind", [NOTHING, OBSERVED, TOOLS, ALL])
    async def test_an_error_that_the_upstream_tells_is_passed_on(self, talk, kind):
        seen = hook(talk, kind)
        error = {
            "chat": b'data: {"error": {"message": "overloaded", "code": 529}}\n\n',
            "gemini": b'{"error": {"code": 503, "message": "overloaded"}}\n\n',
            "messages": b'event: error\ndata: {"type": "error", "error": '
            b'{"type": "overloaded_error", "message": "overloaded"}}\n\n',
            "responses": b'event: error\ndata: {"type": "error", "code": "overloaded", '
            b'"message": "overloaded", "param": null, "sequence_number": 9}\n\n',
        }[talk.dialect.name]
        raw = [*pieces(talk, Say(TEXT))[:6], error]
        talk.provider.say(Raw(raw, headers={"content-type": "text/event-stream"}))
        got = await talk.ask()
        assert got.raw.endswith(error)
        assert got.raw == error if kind == ALL else b"The q" in got.raw
        assert [TEXT.startswith(message.content) for message in seen] == [True] * len(seen)


async def _read(flow: ReplyStream, wanted: bytes, begun: asyncio.Event) -> None:
    got = b""
    async for piece in flow:
        got += piece
        if wanted in got:
            begun.set()
