"""One call of a model through the gateway: the same hooks, whatever the API, streaming or not."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging

import pytest

from checkrail import Block, Continue, Fail, Replace, Retry, Stop
from checkrail.config.gateway import PriceConfig
from checkrail.engine.containment import contain_tasks
from checkrail.gateway.call import Reply

from .dialects import DIALECTS
from .provider import Fail as Failing
from .provider import Garbage, Provider, Raw, Say
from .provider_wire import events, whole
from .talking import Talk

TRANSFER = ("transfer", {"amount": 98765.25, "to": "Ünal"})
SEARCH = ("search", {"q": "x"})


@pytest.fixture
def provider():
    with Provider() as running:
        yield running


@pytest.fixture(params=["at once", "streaming"])
def stream(request) -> bool:
    return request.param == "streaming"


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return DIALECTS[request.param]


@pytest.fixture
async def talk(dialect, stream, provider):
    async with Talk(dialect, provider, stream=stream) as talking:
        yield talking


def expected(talk: Talk, said: Say) -> bytes:
    """Give the very bytes that the provider sends."""
    body = talk.dialect.request(stream=talk.stream)
    if talk.stream:
        return b"".join(events(talk.format.path, said, body))
    return json.dumps(whole(talk.format.path, said)).encode()


def block_transfers(talk: Talk) -> None:
    talk.hooks.register(
        lambda event: Block("too much"), "before_tool_call", tools=["transfer"], name="limit"
    )


class TestUntouched:
    ODD = b'{ "model":"test-model" ,"stream": %s, "messages" : [], "input": [], "x": 1.50 }'

    async def test_without_hooks_bytes_go_through_unread(self, talk):
        talk.provider.say(said := Say("Hi", [TRANSFER]))
        body = self.ODD % (b"true" if talk.stream else b"false")
        got = await talk.ask(body)
        assert talk.provider.last.body == body
        assert got.raw == expected(talk, said)

    async def test_without_hooks_not_even_json_is_asked_for(self, talk):
        talk.provider.say(Raw([b"no json"], 418))
        reply = await talk.reply(b"\xff no json")
        assert (reply.status, reply.content) == (418, b"no json")
        assert talk.provider.last.body == b"\xff no json"

    async def test_what_observers_see_goes_through_as_it_is(self, talk):
        seen = []
        for point in ("before_llm_call", "after_llm_call", "before_tool_call"):
            talk.hooks.register(lambda event: seen.append(str(event.point)), point, lane="observe")
        talk.provider.say(said := Say("Hi", [TRANSFER, SEARCH]))
        body = json.dumps(talk.dialect.request(stream=False)).encode()
        talk.stream = False
        got = await talk.ask(body)
        assert talk.provider.last.body == body
        assert got.raw == expected(talk, said)
        assert seen == ["before_llm_call", "after_llm_call", *["before_tool_call"] * 2]

    async def test_hooks_that_change_nothing_leave_every_byte(self, talk):
        for point in ("before_llm_call", "before_tool_call", "after_tool_call"):
            talk.hooks.register(lambda event: None, point)
        talk.provider.say(said := Say("Hi", [TRANSFER], thinking="Hm"))
        asked = talk.dialect.with_result("text", stream=talk.stream)
        body = json.dumps(talk.dialect.sent("", asked)[1]).encode()
        got = await talk.ask(body)
        assert talk.provider.last.body == body
        assert got.raw == expected(talk, said)

    async def test_hooks_of_other_points_do_not_count(self, talk):
        def never(event):
            raise AssertionError

        talk.hooks.register(never, "before_final_response")
        talk.hooks.register(never, "query_end")
        assert (await talk.ask()).heard.text == "Hello from the model."

    async def test_errors_of_the_upstream_go_through_as_they_are(self, talk):
        talk.hooks.register(lambda event: None, "after_llm_call")
        talk.provider.say(Failing(429, "slow down", {"retry-after": "3"}))
        got = await talk.ask()
        assert (got.status, got.heard.error["message"]) == (429, "slow down")
        assert got.headers[b"retry-after"] == b"3"


class TestRequests:
    async def test_a_changed_request_is_what_the_model_gets(self, talk):
        def polite(event, request):
            messages = [{**m, "content": "Hello, please"} for m in request.messages]
            return Continue(dataclasses.replace(request, messages=messages))

        talk.hooks.register(polite, "before_llm_call")
        await talk.ask()
        assert talk.dialect.said(talk.provider.last.json) == ["Hello, please"]

    async def test_injected_messages_reach_the_model(self, talk):
        note = {"role": "user", "content": "Be brief"}
        talk.hooks.register(lambda event: Continue(inject=[note]), "before_llm_call")
        await talk.ask()
        assert "Be brief" in str(talk.provider.last.json)

    async def test_another_model_is_asked_for(self, talk):
        talk.hooks.register(
            lambda event, request: Continue(dataclasses.replace(request, model="other")),
            "before_llm_call",
        )
        await talk.ask()
        assert talk.provider.last.json["model"] == "other"

    async def test_a_hook_that_will_not_end_holds_nobody_up(self, talk):
        async def stubborn(event):
            for _ in range(2):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)
            await asyncio.sleep(60)

        talk.hooks.register(stubborn, "before_llm_call", name="stubborn", timeout=0.05)
        got = await talk.ask()
        assert (got.status, talk.provider.requests) == (504, [])
        assert "'stubborn' at before_llm_call timed out" in got.heard.error["message"]

    async def test_a_block_is_an_error_of_the_api_before_any_byte(self, talk):
        talk.hooks.register(lambda event: Block("not today", 451), "before_llm_call")
        got = await talk.ask()
        assert (got.status, got.heard.error["message"]) == (451, "not today")
        assert got.headers[b"content-type"] == b"application/json"
        assert talk.provider.requests == []

    async def test_a_failure_is_an_error_of_the_api(self, talk):
        talk.hooks.register(lambda event: Fail("broken"), "before_llm_call")
        got = await talk.ask()
        assert (got.status, got.heard.error["message"]) == (500, "broken")

    @pytest.mark.parametrize("kind", [Replace, Stop])
    async def test_a_synthetic_answer_comes_as_the_caller_wants_it(self, talk, kind):
        talk.hooks.register(lambda event: kind("from the cache"), "before_llm_call")
        got = await talk.ask()
        assert (got.status, got.heard.text) == (200, "from the cache")
        assert got.heard.ended
        assert got.heard.stop == talk.dialect.plain
        assert talk.provider.requests == []

    async def test_a_secret_is_redacted_before_it_leaves_and_is_in_no_record(self, talk, caplog):
        def redact(event, request):
            messages = [{**m, "content": "my key is [redacted]"} for m in request.messages]
            return Continue(dataclasses.replace(request, messages=messages), redacted=True)

        talk.hooks.register(redact, "before_llm_call")
        talk.hooks.register(
            lambda event, request: Continue(dataclasses.replace(request, params={"top_p": 1})),
            "before_llm_call",
        )
        with caplog.at_level(logging.DEBUG):
            await talk.ask(talk.dialect.request("my key is sk-123", stream=talk.stream))
        assert "[redacted]" in str(talk.provider.last.json)
        for place in (str(talk.provider.last.json), talk.told, caplog.text):
            assert "sk-123" not in place

    async def test_a_request_that_cannot_be_read_is_refused_where_hooks_stand(self, talk):
        talk.hooks.register(lambda event: None, "before_llm_call")
        for body in (b"{", b"[]", b'{"model": 1, "messages": 5, "input": {}}'):
            got = await talk.ask(body)
            assert got.status == 400
            assert got.heard.error["message"]

    async def test_a_model_that_nobody_takes_is_an_error_of_the_api(self, dialect, provider):
        async with Talk(dialect, provider, models=("other-*",)) as talk:
            for _ in range(2):
                got = await talk.ask()
                assert (got.status, "other-*" in got.heard.error["message"]) == (404, True)
                talk.hooks.register(lambda event: None, "before_llm_call")


class TestToolResults:
    async def test_a_result_is_changed_on_every_resend_and_observed_once(self, talk):
        seen, asked = [], []

        def redact(event, result):
            asked.append(result.name)
            return Continue("[redacted]", redacted=True)

        talk.hooks.register(redact, "after_tool_call")
        talk.hooks.register(
            lambda event: seen.append(event.value.content), "after_tool_call", lane="observe"
        )
        for _ in range(3):
            await talk.ask(talk.dialect.with_result("the secret", stream=talk.stream))
            assert talk.dialect.result(talk.provider.last.json) == "[redacted]"
        assert (asked, seen) == (["read"], ["[redacted]"])
        assert "the secret" not in talk.told

    async def test_a_blocked_result_is_an_error_that_the_model_sees(self, talk):
        errors = []
        talk.hooks.register(lambda event: Block("not for models"), "after_tool_call")
        talk.hooks.register(lambda event: errors.append(event.value.error), "on_tool_error")
        await talk.ask(talk.dialect.with_result("the secret", stream=talk.stream))
        assert talk.dialect.result(talk.provider.last.json) == "not for models"
        assert "the secret" not in str(talk.provider.last.json)
        assert errors == ["not for models"]

    async def test_a_failure_refuses_the_request(self, talk):
        talk.hooks.register(lambda event: Fail("broken"), "after_tool_call")
        got = await talk.ask(talk.dialect.with_result("x", stream=talk.stream))
        assert (got.status, got.heard.error["message"]) == (500, "broken")


class TestAnswers:
    async def test_a_changed_answer_is_all_that_the_caller_gets(self, talk, caplog):
        talk.hooks.register(lambda event: Continue("[redacted]", redacted=True), "after_llm_call")
        talk.provider.say(Say("The secret is 42."))
        with caplog.at_level(logging.DEBUG):
            got = await talk.ask()
        assert (got.heard.text, got.heard.stop) == ("[redacted]", talk.dialect.plain)
        assert got.heard.ended
        for place in (got.raw.decode(), talk.told, caplog.text):
            assert "secret" not in place

    async def test_a_block_refuses_the_answer(self, talk, caplog):
        talk.hooks.register(lambda event: Block("not to be said", 451), "after_llm_call")
        talk.provider.say(Say("The secret is 42.", [TRANSFER]))
        with caplog.at_level(logging.DEBUG):
            got = await talk.ask()
        assert (got.status, got.heard.error["message"]) == (451, "not to be said")
        for place in (got.raw.decode(), talk.told, caplog.text):
            assert "secret" not in place

    async def test_stop_gives_its_message_without_calls(self, talk):
        talk.hooks.register(
            lambda event, message: Stop(dataclasses.replace(message, content="enough")),
            "after_llm_call",
        )
        talk.provider.say(Say("Hi", [TRANSFER]))
        got = await talk.ask()
        assert (got.heard.text, got.heard.calls) == ("enough", [])
        assert got.heard.stop == talk.dialect.plain

    async def test_a_retry_asks_again_and_observers_see_both(self, talk):
        usage = []

        def check(event, message):
            return Retry("Say it nicely.") if message.content == "No." else None

        talk.hooks.register(check, "after_llm_call")
        talk.hooks.register(
            lambda event, message: usage.append(message.usage["total_tokens"]),
            "after_llm_call",
            lane="observe",
            name="meter",
        )
        talk.provider.say(Say("No.", usage=(10, 1)), Say("With pleasure.", usage=(20, 2)))
        got = await talk.ask()
        assert got.heard.text == "With pleasure."
        assert b"No." not in got.raw
        told = talk.dialect.said(talk.provider.last.json)
        assert told == ["Hello", "Say it nicely."]
        assert usage == [11, 22]

    async def test_when_retries_are_used_up_the_call_fails(self, talk):
        talk.hooks.register(lambda event: Retry("again"), "after_llm_call", max_retries=1)
        got = await talk.ask()
        assert got.status == 500
        assert "used up" in got.heard.error["message"]
        assert len(talk.provider.requests) == 2

    async def test_an_upstream_that_fails_when_asked_again(self, talk):
        talk.hooks.register(lambda event: Retry("again"), "after_llm_call")
        talk.provider.say(Say("No."), Failing(503, "out of order"))
        got = await talk.ask()
        assert got.status == 503
        assert got.heard.error["message"]

    async def test_observers_get_usage_and_cost(self, talk):
        seen = []
        talk.hooks.register(
            lambda event, message: seen.append(message.usage), "after_llm_call", lane="observe"
        )
        prices = (PriceConfig("model-*", input=1.0, output=10.0),)
        talk.gateway.settings = dataclasses.replace(talk.gateway.settings, prices=prices)
        talk.provider.say(Say("Hi", usage=(1000, 100)))
        got = await talk.ask()
        assert seen[0]["total_tokens"] == 1100
        assert seen[0]["cost"] == pytest.approx(0.002)
        assert b"cost" not in got.raw

    async def test_one_id_from_the_request_to_the_end(self, talk):
        for point in ("before_llm_call", "after_llm_call", "before_tool_call"):
            talk.hooks.register(lambda event: None, point)
        talk.provider.say(Say("Hi", [TRANSFER]))
        await talk.ask(request_id="req-1", session_id="s-1", user="ann")
        ids = {(r.ids["request_id"], r.ids["session_id"], r.ids["user_id"]) for r in talk.records}
        assert ids == {("req-1", "s-1", "ann")}
        assert {str(r.point) for r in talk.records} == {
            "before_llm_call",
            "after_llm_call",
            "before_tool_call",
        }

    async def test_without_an_id_there_is_one_all_the_same(self, talk):
        talk.hooks.register(lambda event: None, "before_llm_call", "after_llm_call")
        await talk.ask()
        assert len({record.ids["request_id"] for record in talk.records}) == 1

    async def test_hooks_know_whose_model_it_is(self, talk):
        seen = []
        talk.hooks.register(
            lambda event: seen.append((event.model, event.provider)),
            "before_llm_call",
            "before_tool_call",
        )
        talk.provider.say(Say("Hi", [SEARCH]))
        await talk.ask()
        assert seen == [("test-model", "us")] * 2


class TestToolCalls:
    async def test_arguments_are_rewritten(self, talk):
        talk.hooks.register(
            lambda event, call: Continue(dataclasses.replace(call, args={"amount": 1})),
            "before_tool_call",
            tools=["transfer"],
        )
        talk.provider.say(Say("I will.", [TRANSFER, SEARCH]))
        got = await talk.ask()
        assert got.heard.calls == [("transfer", {"amount": 1}), SEARCH]
        assert (got.heard.text, got.heard.stop) == ("I will.", talk.dialect.calling)
        assert b"98765.25" not in got.raw

    async def test_one_of_several_calls_is_blocked(self, talk):
        block_transfers(talk)
        talk.provider.say(Say("I will.", [TRANSFER, SEARCH]))
        got = await talk.ask()
        assert got.heard.calls == [SEARCH]
        assert got.heard.text.startswith("I will.")
        assert got.heard.text.endswith("transfer was not called: too much")
        assert got.heard.stop == talk.dialect.calling
        assert got.heard.ended
        assert b"98765.25" not in got.raw

    async def test_the_only_call_is_blocked(self, talk):
        block_transfers(talk)
        talk.provider.say(Say("", [TRANSFER]))
        got = await talk.ask()
        assert (got.heard.calls, got.heard.stop) == ([], talk.dialect.plain)
        assert got.heard.text == "transfer was not called: too much"

    async def test_a_blocked_call_is_left_out(self, dialect, stream, provider):
        async with Talk(dialect, provider, stream=stream, blocked_tool="drop") as talk:
            block_transfers(talk)
            provider.say(Say("I will.", [TRANSFER]))
            got = await talk.ask()
        assert (got.heard.text, got.heard.calls) == ("I will.", [])
        assert got.heard.stop == dialect.plain

    async def test_the_model_is_asked_again_with_the_error(self, dialect, stream, provider):
        async with Talk(dialect, provider, stream=stream, blocked_tool="continue") as talk:
            block_transfers(talk)
            provider.say(Say("I will.", [TRANSFER]), Say("Then I will not."))
            got = await talk.ask()
        joined = stream and dialect.name != "responses"  # which keeps answers under their names
        had = "I will.\n\n" if joined else ""  # what has been streamed cannot be taken back
        assert (got.heard.text, got.heard.calls) == (f"{had}Then I will not.", [])
        assert dialect.result(provider.last.json) == "too much"

    async def test_a_failure_refuses_the_answer(self, talk):
        talk.hooks.register(lambda event: Fail("broken"), "before_tool_call")
        talk.provider.say(Say("", [TRANSFER]))
        got = await talk.ask()
        assert got.heard.error["message"] == "broken"
        assert not got.heard.ended
        assert b"98765.25" not in got.raw

    async def test_arguments_that_are_no_json_do_not_get_past_a_rule(self, talk):
        block_transfers(talk)
        talk.provider.say(Say("", [("transfer", '{"amount": 98765.25')]))
        got = await talk.ask()
        assert got.heard.calls == []
        assert "transfer was not called" in got.heard.text
        assert b"98765.25" not in got.raw


class TestGarbage:
    @pytest.mark.parametrize("lane", ["observe", "gate"])
    async def test_an_answer_that_is_no_json_is_an_error_of_the_api(self, talk, lane):
        talk.hooks.register(lambda event: None, "after_llm_call", lane=lane)
        kind = "text/event-stream" if talk.stream else "application/json"
        body = b"data: {half\n\n" if talk.stream else b"{half"
        talk.provider.say(Raw([body], headers={"content-type": kind}))
        got = await talk.ask()
        assert (got.status, bool(got.heard.error)) == (502, True)

    async def test_an_answer_that_is_no_answer_is_refused_where_hooks_have_to_see_it(self, talk):
        talk.hooks.register(lambda event: None, "after_llm_call")
        kind = "text/event-stream" if talk.stream else "application/json"
        data = b'{"choices": 7, "output": 7, "content": 7, "candidates": 7, "type": 7}'
        body = b"data: %b\n\n" % data if talk.stream else data
        talk.provider.say(Raw([body], headers={"content-type": kind}))
        got = await talk.ask()
        assert (got.status, bool(got.heard.error)) == (502, True)

    async def test_observers_do_not_stop_an_answer_that_is_odd(self, talk, caplog):
        seen = []
        talk.hooks.register(
            lambda event: seen.append(event.value), "after_llm_call", lane="observe"
        )
        kind = "text/event-stream" if talk.stream else "application/json"
        data = (
            b'{"choices": 7, "output": 7, "content": 7, "candidates": 7, "type": %b}'
            % {
                "chat": b"7",
                "gemini": b"7",
                "messages": b'"content_block_delta"' if talk.stream else b'"message"',
                "responses": b'"response.output_item.added"' if talk.stream else b"7",
            }[talk.dialect.name]
        )
        body = b"data: %b\n\ndata: %b\n\n" % (data, data) if talk.stream else data
        talk.provider.say(Raw([body], headers={"content-type": kind}))
        reply = await talk.reply()
        assert (reply.status, await content(reply)) == (200, body)
        assert "passed on unread" in caplog.text
        await talk.hooks.aclose()
        assert [message.content for message in seen] == ([""] if talk.stream else [])

    @pytest.mark.parametrize("hooked", [False, True])
    async def test_an_answer_that_breaks_off(self, dialect, provider, hooked):
        async with Talk(dialect, provider) as talk:
            if hooked:
                talk.hooks.register(lambda event: None, "after_llm_call")
            provider.say(Say("Hi", dies=1))
            got = await talk.ask()
        assert (got.status, bool(got.heard.error)) == (502, True)

    @pytest.mark.parametrize("hooked", [False, True])
    async def test_an_upstream_that_speaks_no_http(self, talk, hooked):
        if hooked:
            talk.hooks.register(lambda event: None, "after_llm_call")
        talk.provider.say(Garbage())
        got = await talk.ask()
        assert (got.status, bool(got.heard.error)) == (502, True)


async def test_what_is_fetched_later_cannot_get_past_hooks(provider):
    async with Talk(DIALECTS["responses"], provider) as talk:
        body = talk.dialect.request(background=True)
        assert (await talk.ask(body)).status == 200
        talk.hooks.register(lambda event: None, "after_llm_call")
        got = await talk.ask(body)
    assert got.status == 400
    assert len(provider.requests) == 1


async def content(reply: Reply) -> bytes:
    """Read all of a reply."""
    told = reply.content
    return told if isinstance(told, bytes) else b"".join([piece async for piece in told])


async def test_an_answer_that_no_hook_wants_to_see_is_not_read(talk):
    talk.hooks.register(lambda event: None, "before_llm_call")
    kind = "text/event-stream" if talk.stream else "application/json"
    talk.provider.say(Raw([b"data: {half\n\n"], headers={"content-type": kind}))
    reply = await talk.reply()
    assert (reply.status, await content(reply)) == (200, b"data: {half\n\n")


async def test_where_it_depends_on_the_model_it_goes_to_who_takes_it(dialect, provider):
    async with Talk(dialect, provider, models=("test-*",)) as talk:
        assert (await talk.ask()).status == 200
        body = talk.dialect.request() | {"model": "other"}
        got = await talk.ask(body)
        assert (got.status, "test-*" in got.heard.error["message"]) == (404, True)
        talk.hooks.register(
            lambda event, request: Continue(dataclasses.replace(request, model="test-2")),
            "before_llm_call",
        )
        assert (await talk.ask(body)).status == 200
        assert provider.last.json["model"] == "test-2"


class TestExits:
    """Code of a hook that would end the process is an error of that hook."""

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), BaseException("own")])
    @pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_tool_call"])
    async def test_a_hook_that_exits_fails_and_the_call_goes_on(self, talk, point, error):
        contain_tasks()  # as a gateway does that is served
        called = []

        async def leave(event):
            called.append(event.point)
            raise error

        talk.hooks.register(leave, point, name="leaves", on_error="continue")
        talk.provider.say(Say("Hi", [SEARCH]))
        got = await talk.ask()
        assert called
        assert (got.status, got.heard.text) == (200, "Hi")
