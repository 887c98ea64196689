"""Hooks of a model proxy, as users of that in seed 002 know them: same inputs, same answers."""

import asyncio
import dataclasses
import json
import logging
import sys

import pytest
from tests.gateway.dialects import DIALECTS
from tests.gateway.provider import Provider, Say
from tests.gateway.talking import Talk

from checkrail import Block, Reject
from checkrail.builtin import log_request, log_response, strip_provider_fields
from checkrail.config import ConfigError
from checkrail.engine.errors import HookRefusedError, InvalidOutcomeError
from checkrail.styles import HookChain, HookContext, HookEvent, load_hooks_from_config

MARK = {"type": "ephemeral"}


class TestEventModel:
    def test_the_events(self):
        assert [event.value for event in HookEvent] == [
            "pre_request",
            "post_response",
            "pre_tool_call",
            "post_tool_call",
        ]

    def test_a_context_has_these_fields_and_is_empty_unless_said(self):
        ctx = HookContext(HookEvent.PRE_REQUEST, "test", None, "r1", 1.0)
        assert dataclasses.asdict(ctx) == {
            "event": "pre_request",
            "model": "test",
            "provider": None,
            "request_id": "r1",
            "timestamp": 1.0,
            "messages": None,
            "tools": None,
            "response": None,
            "metadata": {},
            "stop_chain": False,
        }


def context(event=HookEvent.PRE_REQUEST, model="test", **more):
    known = {"provider": None, "request_id": "0123456789", "timestamp": 1.0}
    return HookContext(event=event, model=model, **{**known, **more})


class TestHookChain:
    async def test_execute_runs_all_hooks(self):
        chain = HookChain()
        results = []

        async def hook_a(ctx):
            results.append("a")
            return ctx

        async def hook_b(ctx):
            results.append("b")
            return ctx

        chain.register(HookEvent.PRE_REQUEST, "a", hook_a)
        chain.register(HookEvent.PRE_REQUEST, "b", hook_b)
        await chain.execute(context())
        assert results == ["a", "b"]

    async def test_error_isolation(self, caplog):
        chain = HookChain()

        async def bad_hook(ctx):
            raise ValueError("boom")

        async def good_hook(ctx):
            ctx.metadata["reached"] = True
            return ctx

        chain.register(HookEvent.PRE_REQUEST, "bad", bad_hook)
        chain.register(HookEvent.PRE_REQUEST, "good", good_hook)
        ctx = await chain.execute(context())
        assert ctx.metadata["reached"] is True
        assert "'bad' at before_llm_call failed with ValueError" in caplog.text
        (line,) = caplog.records
        assert (line.levelname, line.exc_info[0]) == ("WARNING", ValueError)

    async def test_what_hooks_did_not_touch_stays_as_it_was(self):
        chain = HookChain()

        def add(ctx):
            ctx.messages.append({"role": "user", "content": "and now?"})
            return ctx

        chain.register(HookEvent.PRE_REQUEST, "add", add)
        ctx = await chain.execute(context(messages=[]))
        assert ctx.messages == [{"role": "user", "content": "and now?"}]
        assert (ctx.tools, ctx.response) == (None, None)

    def test_a_name_is_there_once(self):
        """What differs on purpose: records name the hook, whatever its event."""
        chain = HookChain()
        chain.register(HookEvent.PRE_REQUEST, "log", lambda ctx: ctx)
        with pytest.raises(HookRefusedError, match="there is a hook of that name"):
            chain.register(HookEvent.POST_RESPONSE, "log", lambda ctx: ctx)

    async def test_a_hook_can_stop_the_chain(self):
        chain = HookChain()

        def stop(ctx):
            ctx.metadata["stopped"] = True
            ctx.stop_chain = True
            return ctx

        def never(ctx):
            raise AssertionError

        chain.register("pre_request", "stop", stop)
        chain.register("pre_request", "never", never)
        ctx = await chain.execute(context("pre_request"))
        assert (ctx.stop_chain, ctx.metadata) == (True, {"stopped": True})
        again = await chain.execute(ctx)
        assert again is ctx

    async def test_hooks_of_other_events_are_not_called(self):
        chain = HookChain()
        chain.register(HookEvent.POST_RESPONSE, "later", lambda ctx: 1 / 0)
        given = context(messages=[{"role": "user", "content": "hi"}])
        assert await chain.execute(given) == given

    def test_hooks_are_listed_by_event_or_all_together(self):
        chain = HookChain()
        assert chain.list_hooks() == []
        chain.register(HookEvent.POST_RESPONSE, "log", lambda ctx: ctx)
        chain.register(HookEvent.PRE_REQUEST, "a", lambda ctx: ctx)
        chain.register(HookEvent.PRE_REQUEST, "b", lambda ctx: ctx)
        assert chain.list_hooks(HookEvent.PRE_REQUEST) == ["a", "b"]
        assert chain.list_hooks() == ["pre_request:a", "pre_request:b", "post_response:log"]

    @pytest.mark.parametrize(
        ("event", "fields", "changed"),
        [
            (HookEvent.PRE_REQUEST, {"messages": [{"role": "user", "content": "hi"}]}, "messages"),
            (HookEvent.POST_RESPONSE, {"response": {"content": "hi"}}, "response"),
            (
                HookEvent.PRE_TOOL_CALL,
                {"tools": [{"name": "f", "args": {"content": "x"}}]},
                "tools",
            ),
            (HookEvent.POST_TOOL_CALL, {"response": {"name": "f", "content": "hi"}}, "response"),
        ],
    )
    async def test_each_event_has_its_value_where_it_was(self, event, fields, changed):
        def shout(ctx):
            target = getattr(ctx, changed)
            place = target[0] if isinstance(target, list) else target
            place = place.get("args", place)
            place["content"] = place["content"].upper()
            return ctx

        chain = HookChain()
        chain.register(event, "shout", shout)
        after = getattr(await chain.execute(context(event, **fields)), changed)
        assert json.dumps(fields[changed], sort_keys=True).lower() != json.dumps(after)
        assert any(word in json.dumps(after) for word in ('"HI"', '"X"'))

    async def test_what_refuses_is_raised(self):
        chain = HookChain()

        def no(event):
            return Block("not here", 451, "closed", 5)

        chain.registry.register(no, "pre_request", lane="gate")
        with pytest.raises(Reject, match="not here") as caught:
            await chain.execute(context())
        assert (caught.value.status, caught.value.code, caught.value.retry_after) == (
            451,
            "closed",
            5,
        )

    async def test_an_answer_in_another_form_is_named(self):
        with pytest.raises(InvalidOutcomeError, match="'choices' that is not known"):
            await HookChain().execute(context(HookEvent.POST_RESPONSE, response={"choices": []}))


FILE = """
# Hooks execute in order listed. Errors are logged but don't stop the chain.
hooks:
  pre_request:
    - name: provider_compat
      module: checkrail.builtin
      function: strip_provider_fields
      enabled: true

    - name: log_request
      module: checkrail.builtin
      function: log_request
      enabled: false  # Enable for debugging
      config:
        verbose: false

    - name: custom
      module: my_hooks
      function: greet
      config:
        word: hello

    - name: plain
      module: my_hooks
      function: plain

  post_response:
    - name: log_response
      module: checkrail.builtin
      function: log_response
      enabled: false
      config:
        include_tokens: true

    - name: after
      module: my_hooks
      function: after

# Additional Python paths for custom hooks
python_path:
  - "${MY_HOME}/my-custom-hooks"
"""

TEMPLATE = """
# Hook configuration for the proxy
# Hooks execute in order listed. Errors are logged but don't stop the chain.

hooks:
  pre_request:
    - name: provider_compat
      module: checkrail.builtin
      function: strip_provider_fields
      enabled: true

    - name: log_request
      module: checkrail.builtin
      function: log_request
      enabled: false  # Enable for debugging
      config:
        verbose: false

  post_response:
    - name: log_response
      module: checkrail.builtin
      function: log_response
      enabled: false
      config:
        include_tokens: true

# Additional Python paths for custom hooks
python_path: []
  # - "${HOME}/my-custom-hooks"
"""

MODULE = """
from checkrail.styles import HookContext

SEEN = []


async def greet(ctx: HookContext) -> HookContext:
    ctx.metadata["greeted"] = ctx.metadata["hook_config"]["word"]
    ctx.messages.append({"role": "user", "content": ctx.metadata["greeted"]})
    return ctx


def plain(ctx):
    SEEN.append(("plain", ctx.model, ctx.provider, dict(ctx.metadata)))


async def after(ctx):
    SEEN.append(("after", ctx.model, ctx.provider, ctx.response["usage"], dict(ctx.metadata)))
"""


@pytest.fixture
def hooks_file(tmp_path, monkeypatch):
    (tmp_path / "my-custom-hooks").mkdir()
    (tmp_path / "my-custom-hooks" / "my_hooks.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setenv("MY_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_hooks", raising=False)
    file = tmp_path / "hooks.yaml"
    file.write_text(FILE, encoding="utf-8")
    yield file
    sys.modules.pop("my_hooks", None)  # other tests have modules of that name


class TestLoader:
    def test_the_template_has_one_hook_that_is_enabled(self, tmp_path):
        file = tmp_path / "hooks.yaml"
        file.write_text(TEMPLATE, encoding="utf-8")
        chain = HookChain()
        assert load_hooks_from_config(file, chain) == 1
        assert chain.list_hooks() == ["pre_request:provider_compat"]

    def test_all_three_of_the_template_can_be_enabled(self, tmp_path):
        file = tmp_path / "hooks.yaml"
        file.write_text(TEMPLATE.replace("enabled: false", "enabled: true"), encoding="utf-8")
        chain = HookChain()
        assert load_hooks_from_config(file, chain) == 3

    def test_the_old_module_is_named_with_the_new_one(self, tmp_path):
        file = tmp_path / "hooks.yaml"
        text = TEMPLATE.replace("checkrail.builtin", "run_claude.hooks.builtin")
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=r"rename it to checkrail\.builtin"):
            load_hooks_from_config(file, HookChain())

    def test_a_hook_that_cannot_be_imported_is_left_out_if_it_is_optional(self, tmp_path):
        file = tmp_path / "hooks.yaml"
        hook = {"name": "custom", "module": "no_such_module", "function": "greet"}
        file.write_text(json.dumps({"hooks": {"pre_request": [hook]}}), encoding="utf-8")
        with pytest.raises(ConfigError, match="no module 'no_such_module'"):
            load_hooks_from_config(file, HookChain())
        hook["optional"] = True
        file.write_text(json.dumps({"hooks": {"pre_request": [hook]}}), encoding="utf-8")
        assert load_hooks_from_config(file, HookChain()) == 0

    def test_it_counts_those_that_are_enabled(self, hooks_file):
        chain = HookChain()
        assert load_hooks_from_config(hooks_file, chain) == 4
        assert chain.list_hooks() == [
            "pre_request:provider_compat",
            "pre_request:custom",
            "pre_request:plain",
            "post_response:after",
        ]

    async def test_sync_and_async_hooks_are_called_with_their_config(self, hooks_file):
        chain = HookChain()
        load_hooks_from_config(hooks_file, chain)
        messages = [{"role": "user", "content": [{"text": "hi", "cache_control": MARK}]}]
        ctx = await chain.execute(context(model="groq/llama3", provider="groq", messages=messages))
        assert ctx.messages == [
            {"role": "user", "content": [{"text": "hi"}]},
            {"role": "user", "content": "hello"},
        ]
        assert ctx.metadata == {"greeted": "hello"}
        assert messages[0]["content"][0]["cache_control"] == MARK

    def test_what_is_wrong_in_the_file_is_an_error_and_no_hook_is_left_out(self, hooks_file):
        hooks_file.write_text(FILE.replace("function: greet", "function: gret"), encoding="utf-8")
        chain = HookChain()
        with pytest.raises(ConfigError, match="gret"):
            load_hooks_from_config(hooks_file, chain)
        assert chain.list_hooks() == []


class TestBuiltinHooks:
    async def test_strip_provider_fields_strict(self):
        ctx = context(
            model="groq/llama3",
            provider="groq",
            messages=[
                {
                    "role": "user",
                    "provider_specific_fields": {"a": 1},
                    "content": [
                        {
                            "type": "text",
                            "text": "hi",
                            "cache_control": MARK,
                            "provider_specific_fields": {},
                        }
                    ],
                }
            ],
            tools=[{"cache_control": MARK, "function": {"name": "f", "cache_control": MARK}}],
        )
        ctx = await strip_provider_fields(ctx)
        assert ctx.messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
        assert ctx.tools == [{"function": {"name": "f"}}]

    async def test_strip_provider_fields_non_strict_passthrough(self):
        messages = [{"content": [{"cache_control": MARK}]}]
        given = context(model="anthropic/claude", provider="anthropic", messages=messages)
        ctx = await strip_provider_fields(given)
        assert "cache_control" in ctx.messages[0]["content"][0]

    @pytest.mark.parametrize("provider", ["groq", "cerebras", "together", "anyscale"])
    async def test_every_strict_provider_is_one(self, provider):
        messages = [{"content": [{"cache_control": MARK}]}]
        ctx = await strip_provider_fields(context(provider=provider, messages=messages))
        assert ctx.messages == [{"content": [{}]}]

    async def test_a_hook_of_ones_own_can_call_it(self):
        async def compat(ctx):
            ctx = await strip_provider_fields(ctx)
            ctx.metadata["stripped"] = True
            return ctx

        chain = HookChain()
        chain.register(HookEvent.PRE_REQUEST, "compat", compat)
        messages = [{"content": [{"cache_control": MARK}]}]
        ctx = await chain.execute(context(provider="groq", messages=messages))
        assert (ctx.messages, ctx.metadata) == ([{"content": [{}]}], {"stripped": True})

    async def test_a_request_is_logged_shortly_or_with_its_last_message(self, caplog):
        caplog.set_level(logging.INFO)
        messages = [{"role": "user", "content": "hi there"}]
        await log_request(context(messages=messages))
        config = {"hook_config": {"verbose": True}}
        await log_request(context(messages=messages, metadata=config))
        await log_request(context())
        long = [{"role": "user", "content": "a" * 150}]
        await log_request(context(messages=long, metadata=config))
        assert [record.getMessage() for record in caplog.records] == [
            "request to test: 1 message, id 0123456789",
            "request to test: 1 message, id 0123456789, last from user: 'hi there'",
            "request to test: 0 messages, id 0123456789",
            f"request to test: 1 message, id 0123456789, last from user: {'a' * 100!r}...",
        ]

    async def test_an_answer_is_logged_with_its_tokens_or_without(self, caplog):
        caplog.set_level(logging.INFO)
        given = {"response": {"content": "hi", "usage": {"total_tokens": 7}}}
        await log_response(context(HookEvent.POST_RESPONSE, **given))
        config = {"hook_config": {"include_tokens": False}}
        await log_response(context(HookEvent.POST_RESPONSE, **given, metadata=config))
        await log_response(context(HookEvent.POST_RESPONSE, response={"content": "hi"}))
        assert [record.getMessage() for record in caplog.records] == [
            "answer from test: 7 tokens, id 0123456789",
            "answer from test, id 0123456789",
            "answer from test: ? tokens, id 0123456789",
        ]


async def test_in_front_of_a_model_the_same_file_holds_for_every_request(hooks_file):
    """As the callback did: the request is changed, and both hooks see the client's metadata."""
    with Provider() as provider:
        async with Talk(DIALECTS["chat"], provider) as talk:
            load_hooks_from_config(hooks_file, HookChain(talk.hooks))
            provider.say(Say("Hi", model="llama3-2026"), Say("Hi", model="llama3-2026"))
            body = {"model": "groq/llama3", "messages": [], "metadata": {"team": "blue"}}
            got = await asyncio.gather(talk.ask(body), talk.ask({**body, "metadata": {}}))
    assert [each.status for each in got] == [200, 200]
    (hello,) = json.loads(provider.last.body)["messages"]
    assert hello == {"role": "user", "content": "hello"}
    import my_hooks

    plain = [seen for seen in my_hooks.SEEN if seen[0] == "plain"]
    after = [seen for seen in my_hooks.SEEN if seen[0] == "after"]
    for seen in (plain, after):
        assert {each[1:3] for each in seen} == {("groq/llama3", "us")}
        teams = sorted(each[-1].get("team", "") for each in seen)
        assert teams == ["", "blue"]
        assert all(each[-1]["greeted"] == "hello" for each in seen)
    assert all(each[3]["total_tokens"] == 18 for each in after)
