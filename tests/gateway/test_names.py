"""The names of models and providers: as they are asked, as they are sent, as they answer."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest

from checkrail import AssistantMessage, Block, Continue, HookRegistry, Replace
from checkrail.builtin import BUILTINS
from checkrail.config.gateway import GatewayConfig, PriceConfig, UpstreamConfig
from checkrail.gateway.call import Gateway, ModelCall
from checkrail.gateway.upstreams import Upstream, Upstreams
from checkrail.llm.formats import FORMATS
from checkrail.llm.wire_format import Refusal

from .dialects import DIALECTS
from .provider import CHAT, Fail, Provider, Say
from .talking import Talk


@pytest.fixture
def provider():
    with Provider() as running:
        yield running


@pytest.fixture
def other():
    with Provider() as running:
        yield running


@pytest.fixture(params=["at once", "streaming"])
def stream(request) -> bool:
    return request.param == "streaming"


@pytest.fixture(params=DIALECTS)
async def talk(request, stream, provider):
    """Somebody who asks for `test-model`, which answers as `model-1`."""
    async with Talk(DIALECTS[request.param], provider, stream=stream) as talking:
        yield talking


class Two:
    """A gateway with two upstreams of the chat API, of which the second is fallen back to."""

    def __init__(self, provider, other, **settings):
        first = {"models": ("*",), "provider": "one", **settings.pop("first", {})}
        second = {"models": ("*",), "provider": "two", **settings.pop("second", {})}
        configs = (
            UpstreamConfig("first", "chat", f"{provider.url}/v1", retries=0, **first),
            UpstreamConfig("second", "chat", f"{other.url}/v1", retries=0, **second),
        )
        self.hooks = HookRegistry()
        self.upstreams = Upstreams(configs)
        config = GatewayConfig(upstreams=configs, **settings)
        self.gateway = Gateway(self.hooks, self.upstreams, config)

    async def ask(self, model="test-model", **more):
        messages = [{"role": "user", "content": "Hi", "provider_specific_fields": {"a": "b"}}]
        body = json.dumps({"model": model, "messages": messages, **more}).encode()
        reply = await self.gateway.answer(ModelCall(FORMATS[CHAT], body))
        if isinstance(reply.content, bytes):
            return reply.status, json.loads(reply.content)
        return reply.status, b"".join([piece async for piece in reply.content])


@contextlib.asynccontextmanager
async def two(provider, other, **settings):
    made = Two(provider, other, **settings)
    try:
        yield made
    finally:
        await made.hooks.aclose()
        await made.upstreams.close()


class TestEitherName:
    @pytest.mark.parametrize("pattern", ["test-model", "model-1", "test-*"])
    async def test_a_rule_for_either_name_holds_on_an_answer(self, talk, pattern):
        talk.hooks.register(
            lambda event, message: Continue("hidden", redacted=True),
            "after_llm_call",
            models=[pattern],
            name="hide",
        )
        talk.provider.say(Say("secret", model="model-1"))
        assert (await talk.ask()).heard.text == "hidden"

    async def test_a_rule_for_another_name_does_not(self, talk):
        talk.hooks.register(lambda event: Block("no"), "after_llm_call", models=["model-2"])
        talk.provider.say(Say("said", model="model-1"))
        assert (await talk.ask()).heard.text == "said"

    @pytest.mark.parametrize("pattern", ["test-model", "chosen", "model-1"])
    async def test_the_name_that_a_hook_chose_is_one_of_them(self, talk, pattern):
        def choose(event, request):
            return Continue(dataclasses.replace(request, model="chosen"))

        seen = []
        talk.hooks.register(choose, "before_llm_call")
        talk.hooks.register(
            seen.append, "after_llm_call", lane="observe", models=[pattern], name="see"
        )
        talk.provider.say(Say("said", [("f", {})], model="model-1"))
        await talk.ask()
        await talk.hooks.aclose()
        (event,) = seen
        assert (event.model, event.value.model) == ("chosen", "model-1")
        assert event.metadata["requested_model"] == "test-model"

    @pytest.mark.parametrize("pattern", ["test-model", "model-1"])
    async def test_tool_calls_are_of_the_model_under_either_name(self, talk, pattern):
        talk.hooks.register(
            lambda event: Block("not with this model"), "before_tool_call", models=[pattern]
        )
        talk.provider.say(Say("", [("f", {})], model="model-1"))
        assert (await talk.ask()).heard.calls == []

    @pytest.mark.parametrize("pattern", ["test-model", "model-1"])
    async def test_a_price_for_either_name_counts(self, talk, pattern):
        seen = []
        talk.hooks.register(lambda event, said: seen.append(said.usage), "after_llm_call")
        prices = (PriceConfig(pattern, input=1.0, output=10.0),)
        talk.gateway.settings = dataclasses.replace(talk.gateway.settings, prices=prices)
        talk.provider.say(Say("said", model="model-1"))
        await talk.ask()
        assert seen[0]["cost"] > 0


class TestUnknownPrices:
    def budget(self, talk, prices=(), **config):
        made = BUILTINS["budget"]
        talk.hooks.register(
            made.make({"cost": 1, "by": [], **config}),
            *made.points,
            name="budget",
            lane="gate",
            observes=made.observes,
        )
        found = tuple(PriceConfig(name, input=1.0, output=1.0) for name in prices)
        talk.gateway.settings = dataclasses.replace(talk.gateway.settings, prices=found)

    async def test_a_request_whose_price_nobody_knows_is_not_sent(self, talk, caplog):
        self.budget(talk, ["gpt-*"])
        for _ in range(2):
            got = await talk.ask()
            assert got.status == 400
            assert "the price of the model 'test-model' is not known" in got.heard.error["message"]
        assert talk.provider.requests == []
        assert caplog.text.count("is not known") == 1

    @pytest.mark.parametrize("name", ["test-model", "test-model-2026", "*"])
    async def test_one_that_has_a_price_or_a_longer_name_that_has_one_is(self, talk, name):
        self.budget(talk, [name])
        talk.provider.say(Say("said", model="test-model-2026"))
        assert (await talk.ask()).heard.text == "said"

    async def test_so_is_one_that_the_budget_allows(self, talk):
        self.budget(talk, unknown_price="allow")
        talk.provider.say(Say("said"))
        assert (await talk.ask()).heard.text == "said"


class TestRetryAfter:
    async def test_a_block_says_when_to_ask_again(self, talk):
        talk.hooks.register(
            lambda event: Block("later", 429, "busy", retry_after=1.2), "before_llm_call"
        )
        got = await talk.ask()
        assert (got.status, got.headers[b"retry-after"]) == (429, b"2")

    async def test_without_a_time_there_is_no_header(self, talk):
        talk.hooks.register(lambda event: Block("never", 429), "before_llm_call")
        assert b"retry-after" not in (await talk.ask()).headers

    async def test_an_answer_that_is_refused_says_it_too(self, talk):
        talk.provider.say(Say("said"))
        talk.hooks.register(lambda event: Block("later", 429, retry_after=7), "after_llm_call")
        got = await talk.ask()
        assert (got.status, got.headers[b"retry-after"]) == (429, b"7")

    @pytest.mark.parametrize(
        ("name", "config"), [("rate_limit", {"limit": 1}), ("budget", {"tokens": 1})]
    )
    async def test_limits_and_budgets_say_it(self, talk, name, config):
        made = BUILTINS[name]
        hook = made.make({**config, "by": []})
        points = ("before_llm_call", *made.observes)
        talk.hooks.register(hook, *points, name=name, lane="gate", observes=made.observes)
        talk.provider.say(Say("said"))
        await talk.ask()
        got = await talk.ask()
        wait = int(got.headers[b"retry-after"])
        assert wait >= 1
        assert got.status == (429 if wait <= 120 else 400)


class TestFallback:
    async def test_hooks_see_the_provider_that_is_really_called(self, provider, other):
        provider.say(Fail(503))
        other.say(Say("from the second"))
        asked, answered = [], []
        async with two(provider, other) as there:
            there.hooks.register(
                lambda event: asked.append(event.provider), "before_llm_call", lane="observe"
            )
            there.hooks.register(
                lambda event: answered.append(event.provider), "after_llm_call", lane="observe"
            )
            status, body = await there.ask()
        assert (status, body["choices"][0]["message"]["content"]) == (200, "from the second")
        assert (asked, answered) == (["one", "two"], ["two"])

    async def test_what_a_strict_provider_refuses_is_taken_out_for_it_alone(self, provider, other):
        provider.say(Fail(503))
        other.say(Say("ok"))
        async with two(provider, other, second={"provider": "groq"}) as there:
            there.hooks.register(BUILTINS["strip_provider_fields"].make({}), "before_llm_call")
            await there.ask()
        assert b"provider_specific_fields" in provider.last.body
        assert b"provider_specific_fields" not in other.last.body

    async def test_a_provider_that_hooks_refuse_gets_nothing(self, provider, other, caplog):
        provider.say(Fail(503))

        def not_two(event):
            return Block("nothing of ours goes to two") if event.provider == "two" else None

        async with two(provider, other) as there:
            there.hooks.register(not_two, "before_llm_call", lane="gate")
            status, _ = await there.ask()
        assert (status, other.requests) == (503, [])
        assert "nothing of ours goes to two" in caplog.text

    async def test_a_hook_may_answer_in_its_place(self, provider, other):
        provider.say(Fail(503))

        def known(event):
            return Replace(AssistantMessage("known")) if event.provider == "two" else None

        async with two(provider, other) as there:
            there.hooks.register(known, "before_llm_call")
            status, body = await there.ask()
            assert (status, body["choices"][0]["message"]["content"]) == (200, "known")
            provider.say(Fail(503))
            status, raw = await there.ask(stream=True)
        assert (status, other.requests) == (200, [])
        assert b"known" in raw

    async def test_upstreams_of_one_provider_are_asked_about_once(self, provider, other):
        provider.say(Fail(503))
        other.say(Say("ok"))
        seen = []
        async with two(provider, other, second={"provider": "one"}) as there:
            there.hooks.register(lambda event: seen.append(event.provider), "before_llm_call")
            assert (await there.ask())[0] == 200
        assert seen == ["one"]

    async def test_a_redaction_holds_for_the_second_too(self, provider, other):
        provider.say(Fail(503))
        other.say(Say("ok"))
        async with two(provider, other) as there:
            redact = BUILTINS["redact"].make({"kinds": [], "patterns": {"word": "Hi"}})
            there.hooks.register(redact, "before_llm_call")
            assert (await there.ask())[0] == 200
        assert b"[redacted:word]" in other.last.body

    async def test_without_hooks_it_is_as_quick_as_ever(self, provider, other):
        provider.say(Fail(503))
        other.say(Say("ok"))
        async with two(provider, other) as there:
            assert (await there.ask())[0] == 200
        assert provider.last.body == other.last.body


class TestPrefixes:
    @pytest.mark.parametrize("hooks", [True, False])
    async def test_the_prefix_of_a_pattern_is_not_sent(self, provider, other, hooks):
        seen = []
        async with two(provider, other, first={"models": ("groq/*",), "provider": ""}) as there:
            if hooks:
                there.hooks.register(
                    lambda event: seen.append((event.model, event.provider)),
                    "before_llm_call",
                    "after_llm_call",
                    lane="observe",
                )
            provider.say(Say("ok"))
            assert (await there.ask("groq/llama3"))[0] == 200
        assert json.loads(provider.last.body)["model"] == "llama3"
        assert seen == [("groq/llama3", "groq")] * (2 if hooks else 0)

    @pytest.mark.parametrize(
        ("models", "model", "sent"),
        [
            ("groq/*", "groq/org/llama3", "org/llama3"),
            ("groq/llama*", "groq/llama3", "llama3"),
            ("org/llama3", "org/llama3", "org/llama3"),
            ("*", "org/llama3", "org/llama3"),
            ("*/llama3", "org/llama3", "org/llama3"),
            ("/^org/", "org/llama3", "org/llama3"),
            ("groq/*", "groq/", "groq/"),
        ],
    )
    async def test_only_what_a_pattern_spells_out_is(self, models, model, sent):
        config = UpstreamConfig("first", "chat", "http://127.0.0.1:1/v1", (models,))
        assert Upstream(config).own_name(model) == sent
        kept = dataclasses.replace(config, strip_prefix=False)
        assert Upstream(kept).own_name(model) == model

    @pytest.mark.parametrize("hooks", [True, False])
    @pytest.mark.parametrize("stream", [True, False])
    async def test_where_it_is_part_of_the_name_it_is_sent(self, provider, other, hooks, stream):
        kept = {"models": ("meta-llama/*",), "strip_prefix": False}
        async with two(provider, other, first=kept) as there:
            if hooks:
                there.hooks.register(lambda event: Continue(inject=[]), "before_llm_call")
            provider.say(Say("ok"))
            assert (await there.ask("meta-llama/llama3", stream=stream))[0] == 200
        assert json.loads(provider.last.body)["model"] == "meta-llama/llama3"

    async def test_each_upstream_is_asked_by_its_own_name(self, provider, other):
        provider.say(Fail(503))
        other.say(Say("ok"))
        async with two(provider, other, first={"models": ("groq/*",)}) as there:
            assert (await there.ask("groq/llama3"))[0] == 200
        assert json.loads(provider.last.body)["model"] == "llama3"
        assert json.loads(other.last.body)["model"] == "groq/llama3"

    async def test_all_else_in_the_body_stays(self, provider, other):
        async with two(provider, other, first={"models": ("groq/*",)}) as there:
            provider.say(Say("ok"))
            await there.ask("groq/llama3", user="groq/ann", temperature=0.5)
        sent = json.loads(provider.last.body)
        assert (sent["user"], sent["temperature"]) == ("groq/ann", 0.5)


@pytest.mark.parametrize("status", [200, 99, 600, 402.5, "402", None, True])
def test_no_refusal_leaves_with_a_status_that_is_none(status):
    refusal = Refusal(status, {"why": "no"})
    assert (refusal.status, refusal.message) == (500, "{'why': 'no'}")
