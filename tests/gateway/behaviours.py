"""What callers of models may rely on, wherever hooks hold: in the gateway, or in a proxy."""

from __future__ import annotations

import json

import anthropic
import openai
import pytest

from .dialects import EVERY
from .place import PATHS, Place
from .provider import Fail, Say

TEXT = "The quick brown fox jumps over the lazy dog."
TRANSFER = ("transfer", {"amount": 98765.25, "to": "Ünal"})
SECRET = "sk-proj-Zx81Qw7vLm2Tt9Rb4Ky6Nc3Hd5"

NOTE = {"path": "./own.py:note", "lane": "observe"}
LIMIT = {
    "tools": ["transfer"],
    "when": "tool_call.args.amount > 1000",
    "block": "Transfers over 1000 need the finance desk",
}
REDACT = {"builtin": "redact", "config": {"kinds": ["secrets"]}}
CLOSED = {"block": "We are closed", "status": 451}
BROKEN = {"fail": "The rule is broken"}

apis = pytest.mark.parametrize("name", EVERY)
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def openai_at(place: Place) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key=place.key, max_retries=0)


def anthropic_at(place: Place) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=place.url, api_key=place.key, max_retries=0)


class Behaviours:
    """The suite; who inherits from it has a fixture `place`."""

    @apis
    @ways
    async def test_one_rule_blocks_a_tool(self, place, name, stream):
        await place.rules(before_tool_call=[LIMIT])
        for cut in (1, 50, None) if stream else (None,):
            said = [TRANSFER, ("transfer", {"amount": 5})]
            place.provider.say(Say("Look:", said, cut=cut))
            got = await place.ask(name, stream=stream)
            assert got.heard.calls == [("transfer", {"amount": 5})]
            assert got.heard.text.startswith("Look:")
            assert "finance desk" in got.heard.text
            assert got.heard.ended
            assert b"98765.25" not in got.raw

    @apis
    @ways
    async def test_a_block_says_when_to_ask_again(self, place, name, stream):
        later = {"block": "Come back later", "status": 429, "retry_after": 6.5}
        await place.rules(before_llm_call=[later])
        got = await place.ask(name, stream=stream)
        assert (got.status, got.headers["retry-after"]) == (429, "7")
        assert "Come back later" in got.heard.error["message"]

    @apis
    @ways
    async def test_a_rule_for_a_model_holds_under_the_name_that_was_asked(
        self, place, name, stream
    ):
        hide = {"models": [place.models[name]], "redact": "/quick/"}
        await place.rules(after_llm_call=[hide])
        place.provider.say(Say(TEXT, model="model-1-2026-11-16"))
        got = await place.ask(name, stream=stream)
        assert (got.status, "[redacted]" in got.heard.text) == (200, True)
        assert b"quick" not in got.raw

    @apis
    @ways
    async def test_an_answer_without_calls_left_ends_as_a_plain_one(self, place, name, stream):
        await place.rules(before_tool_call=[LIMIT])
        place.provider.say(Say("", [TRANSFER]))
        got = await place.ask(name, stream=stream)
        assert got.heard.calls == []
        assert got.heard.stop == EVERY[name].plain

    @apis
    @ways
    async def test_what_no_rule_is_about_arrives_as_it_was(self, place, name, stream):
        await place.rules(before_tool_call=[LIMIT], after_llm_call=[NOTE])
        place.provider.say(Say("Größe 😀", [("search", {"for": "ü"})]))
        got = await place.ask(name, stream=stream)
        assert (got.status, got.heard.text) == (200, "Größe 😀")
        assert got.heard.calls == [("search", {"for": "ü"})]
        assert (got.heard.stop, got.heard.ended) == (EVERY[name].calling, True)

    @apis
    @ways
    async def test_a_secret_in_a_prompt_is_redacted_before_it_leaves(self, place, name, stream):
        await place.rules(before_llm_call=[REDACT, NOTE])
        got = await place.ask(name, f"My key is {SECRET}, keep it.", stream=stream)
        assert got.heard.text == "Hello from the model."
        assert SECRET.encode() not in place.provider.last.body
        assert b"[redacted" in place.provider.last.body
        assert SECRET not in str(await place.until_seen(1))

    @apis
    @ways
    async def test_a_secret_in_an_answer_never_reaches_the_caller(self, place, name, stream):
        await place.rules(after_llm_call=[REDACT, NOTE])
        for cut in (1, 7, 50, None) if stream else (None,):
            place.provider.say(Say(f"The key is {SECRET}, keep it.", [TRANSFER], cut=cut))
            got = await place.ask(name, stream=stream)
            assert got.heard.text.startswith("The key is [redacted")
            assert got.heard.text.endswith(", keep it.")
            assert got.heard.calls == [TRANSFER]
            assert SECRET[3:12].encode() not in got.raw
        assert SECRET not in str(await place.until_seen(1))

    @apis
    @ways
    async def test_a_blocked_request_is_an_error_with_a_status(self, place, name, stream):
        await place.rules(before_llm_call=[CLOSED])
        got = await place.ask(name, stream=stream)
        assert got.status == 451
        assert got.heard.error["message"] == "We are closed"
        assert place.provider.requests == []

    @apis
    @ways
    async def test_a_blocked_answer_is_an_error_with_a_status(self, place, name, stream):
        await place.rules(after_llm_call=[CLOSED])
        place.provider.say(Say(TEXT))
        got = await place.ask(name, stream=stream)
        assert got.status == 451
        assert got.heard.error["message"] == "We are closed"
        assert b"quick" not in got.raw

    @apis
    async def test_a_failure_after_some_text_is_an_error_within_the_stream(self, place, name):
        await place.rules(before_tool_call=[BROKEN])
        place.provider.say(Say(TEXT, [TRANSFER]))
        got = await place.ask(name, stream=True)
        assert (got.status, got.heard.text, got.heard.stop) == (200, TEXT, None)
        assert "The rule is broken" in str(got.heard.error)
        assert b"98765.25" not in got.raw

    @apis
    async def test_a_block_behind_signs_of_life_is_an_error_within_the_stream(self, place, name):
        await place.rules(after_llm_call=[CLOSED])
        place.provider.say(Say(TEXT, waits=3))
        async with place.calling(name, place.body(name, stream=True)) as response:
            begun = await response.content.readany()
            place.provider.go_on()
            got = await place.read(name, response, begun)
        assert (got.status, got.heard.text, got.heard.stop) == (200, "", None)
        assert "We are closed" in str(got.heard.error)
        assert b"quick" not in got.raw

    @apis
    async def test_text_is_passed_on_as_it_comes(self, place, name):
        await place.rules(before_tool_call=[LIMIT], after_llm_call=[NOTE])
        place.provider.say(Say(TEXT, waits=6))
        begun = b""
        async with place.calling(name, place.body(name, stream=True)) as response:
            while b"The q" not in EVERY[name].shown(begun):
                begun += await response.content.readany()
            assert b"lazy" not in EVERY[name].shown(begun)
            place.provider.go_on()
            got = await place.read(name, response, begun)
        assert (got.heard.text, got.heard.ended) == (TEXT, True)

    @apis
    @ways
    async def test_observers_get_usage_and_cost_under_one_id(self, place, name, stream):
        await place.rules(before_llm_call=[NOTE], after_llm_call=[NOTE])
        got = await place.ask(name, stream=stream)
        assert got.heard.usage is not (name == "chat" and stream)  # there it is for who asks
        before, after = await place.until_seen(2)
        assert [before["point"], after["point"]] == ["before_llm_call", "after_llm_call"]
        assert before["request"] == after["request"]
        used = {key: after["usage"][key] for key in ("input_tokens", "output_tokens", "cost")}
        assert used == {"input_tokens": 11, "output_tokens": 7, "cost": 81e-6}
        assert after["said"] == "Hello from the model."

    async def test_a_caller_who_asks_for_the_usage_of_a_chat_stream_gets_it(self, place):
        await place.rules(after_llm_call=[NOTE])
        options = {"include_usage": True}
        assert (await place.ask("chat", stream=True, stream_options=options)).heard.usage

    @apis
    async def test_calls_tell_whose_they_are_but_never_a_key(self, place, name):
        await place.rules(before_llm_call=[NOTE])
        ids = {"x-checkrail-session-id": "s-1", "x-checkrail-run-id": "r-1"}
        await place.send(name, place.body(name), **ids, **{"x-checkrail-user": "ann"})
        (seen,) = await place.until_seen(1)
        assert (seen["session"], seen["run"], seen["user"]) == ("s-1", "r-1", "ann")
        assert seen["metadata"]["api_key"].startswith("key-")
        assert place.key not in json.dumps(seen)

    @apis
    @ways
    async def test_a_hook_can_answer_in_place_of_the_model(self, place, name, stream):
        await place.rules(before_llm_call=[{"stop": "Nobody is in."}])
        got = await place.ask(name, stream=stream)
        assert (got.status, got.heard.text, got.heard.ended) == (200, "Nobody is in.", True)
        assert place.provider.requests == []

    @apis
    @ways
    async def test_a_tool_result_is_judged_before_it_leaves(self, place, name, stream):
        await place.rules(after_tool_call=[REDACT])
        body = EVERY[name].with_result(f"token: {SECRET}", stream=stream)
        got = await place.send(name, body | {"model": place.models[name]})
        assert got.heard.text == "Hello from the model."
        assert SECRET.encode() not in place.provider.last.body
        assert "[redacted" in EVERY[name].result(place.provider.last.json)

    @apis
    async def test_a_hook_can_choose_another_model(self, place, name):
        other = {"set": {"model": place.models[f"{name}-2"]}}
        await place.rules(before_llm_call=[other])
        assert (await place.ask(name)).status == 200
        assert place.provider.last.json["model"].endswith("other")

    @apis
    @ways
    async def test_what_the_model_refuses_its_caller_is_told(self, place, name, stream):
        await place.rules(after_llm_call=[REDACT])
        place.provider.say(Fail(429, "slow down"))
        got = await place.ask(name, stream=stream)
        assert got.status == 429
        assert "slow down" in got.heard.error["message"]

    @apis
    async def test_a_stream_that_breaks_off_ends_with_an_error(self, place, name):
        await place.rules(before_tool_call=[LIMIT], after_llm_call=[NOTE])
        place.provider.say(Say(TEXT, waits=6, dies=6))
        begun = b""
        async with place.calling(name, place.body(name, stream=True)) as response:
            while b"The q" not in EVERY[name].shown(begun):
                begun += await response.content.readany()
            place.provider.go_on()
            got = await place.read(name, response, begun)
        assert TEXT.startswith(got.heard.text)
        assert got.heard.error
        assert got.heard.stop is None
        (seen,) = await place.until_seen(1)
        assert "broke off" in seen["cut_off"]

    @apis
    async def test_a_caller_who_goes_away_ends_the_call_of_the_model(self, place, name):
        await place.rules(after_llm_call=[NOTE])
        place.provider.say(Say(TEXT, waits=6))
        async with place.calling(name, place.body(name, stream=True)) as response:
            await response.content.readany()
            await place.provider.until_reached()
            response.close()
        await place.provider.until_gone()
        (seen,) = await place.until_seen(1)
        assert seen["cut_off"] == "the caller went away"

    @ways
    async def test_a_rule_holds_for_the_clients_of_openai(self, place, stream):
        await place.rules(before_tool_call=[LIMIT])
        async with openai_at(place) as client:
            asked = {"model": place.models["chat"], "messages": [{"role": "user", "content": "Hi"}]}
            place.provider.say(Say("Look:", [TRANSFER, ("search", {})]))
            if stream:
                async with client.chat.completions.stream(**asked) as events:
                    chat = await events.get_final_completion()
            else:
                chat = await client.chat.completions.create(**asked)
            assert "finance desk" in chat.choices[0].message.content
            (call,) = chat.choices[0].message.tool_calls
            assert call.function.name == "search"
            asked = {"model": place.models["responses"], "input": "Hi"}
            place.provider.say(Say("Look:", [TRANSFER, ("search", {})]))
            if stream:
                async with client.responses.stream(**asked) as events:
                    response = await events.get_final_response()
            else:
                response = await client.responses.create(**asked)
            assert "finance desk" in response.output_text
            calls = [item.name for item in response.output if item.type == "function_call"]
            assert calls == ["search"]

    @ways
    async def test_a_rule_holds_for_the_clients_of_anthropic(self, place, stream):
        await place.rules(before_tool_call=[LIMIT])
        place.provider.say(Say("Look:", [TRANSFER, ("search", {})]))
        hi = {"role": "user", "content": "Hi"}
        asked = {"model": place.models["messages"], "max_tokens": 100, "messages": [hi]}
        async with anthropic_at(place) as client:
            if stream:
                async with client.messages.stream(**asked) as events:
                    message = await events.get_final_message()
            else:
                message = await client.messages.create(**asked)
        texts = "".join(part.text for part in message.content if part.type == "text")
        assert "finance desk" in texts
        assert [part.name for part in message.content if part.type == "tool_use"] == ["search"]

    @ways
    async def test_clients_raise_what_is_blocked_as_errors_of_their_own(self, place, stream):
        blocked = {"block": "We are closed"}
        await place.rules(before_llm_call=[blocked])
        hi = {"role": "user", "content": "Hi"}
        async with openai_at(place) as client:
            with pytest.raises(openai.BadRequestError, match="We are closed"):
                await client.chat.completions.create(
                    model=place.models["chat"], messages=[hi], stream=stream
                )
            with pytest.raises(openai.BadRequestError, match="We are closed"):
                await client.responses.create(
                    model=place.models["responses"], input="Hi", stream=stream
                )
        async with anthropic_at(place) as other:
            with pytest.raises(anthropic.BadRequestError, match="We are closed"):
                await other.messages.create(
                    model=place.models["messages"], max_tokens=9, messages=[hi], stream=stream
                )

    async def test_clients_raise_errors_within_streams_too(self, place):
        await place.rules(before_tool_call=[BROKEN])
        hi = {"role": "user", "content": "Hi"}
        asked = {"messages": [hi], "stream": True}
        place.provider.say(*[Say(TEXT, [TRANSFER])] * 3)
        async with openai_at(place) as client:
            chat = await client.chat.completions.create(model=place.models["chat"], **asked)
            with pytest.raises(openai.APIError, match="The rule is broken"):
                [chunk async for chunk in chat]
            response = await client.responses.create(
                model=place.models["responses"], input="Hi", stream=True
            )
            with pytest.raises(openai.APIError, match="The rule is broken"):
                [event async for event in response]
        async with anthropic_at(place) as other:
            message = await other.messages.create(
                model=place.models["messages"], max_tokens=9, **asked
            )
            with pytest.raises(anthropic.APIStatusError, match="The rule is broken"):
                [event async for event in message]

    def test_all_apis_are_here(self):
        assert PATHS.keys() == EVERY.keys()
