"""The hooks of a model proxy, in YAML: order, `enabled`, `config`, `python_path`, `HookContext`."""

import logging

import pytest

from checkrail import AssistantMessage, HookRegistry, ModelRequest
from checkrail.config import ConfigError, load

FILE = """
# Hooks execute in the order listed.
hooks:
  pre_request:
    - name: provider_compat
      module: checkrail.builtin
      function: strip_provider_fields
      enabled: true

    - name: log_request
      module: checkrail.builtin
      function: log_request
      enabled: {logs}
      config:
        verbose: {verbose}

  post_response:
    - name: log_response
      module: checkrail.builtin
      function: log_response
      enabled: {logs}
      config:
        include_tokens: {tokens}

python_path: []
  # - "${{HOME}}/my-custom-hooks"
"""

CUSTOM = """
hooks:
  pre_request:
    - {name: first, module: own_hooks, function: first, config: {word: one}}
    - {name: never, module: own_hooks, function: never, enabled: false}
    - {name: second, module: own_hooks, function: second}
    - {name: last, module: own_hooks, function: last}
    - {name: not_reached, module: own_hooks, function: never}
  post_response:
    - {name: shout, module: own_hooks, function: shout}
python_path:
  - "${HOOKS_HOME}/custom"
"""

OWN = """
from checkrail.styles import HookContext


async def first(ctx: HookContext) -> HookContext:
    ctx.messages.append({"role": "user", "content": ctx.metadata["hook_config"]["word"]})
    return ctx


def second(ctx: HookContext) -> HookContext:
    assert "hook_config" not in ctx.metadata
    ctx.messages.append({"role": "user", "content": f"two for {ctx.provider}"})
    return ctx


async def last(ctx):
    ctx.stop_chain = True
    return ctx


def never(ctx):
    raise AssertionError("never called")


def shout(ctx):
    ctx.response["content"] = ctx.response["content"].upper()
    return ctx
"""

MARK = {"type": "ephemeral"}
SECRET = "the launch code is 0000"


def registry_of(folder, text):
    file = folder / "hooks.yaml"
    file.write_text(text, encoding="utf-8")
    registry = HookRegistry()
    registry.swap(load(file).specs)
    return registry


def proxy(folder, *, logs="true", verbose="false", tokens="true"):
    return registry_of(folder, FILE.format(logs=logs, verbose=verbose, tokens=tokens))


def request(model="groq/llama3", **fields):
    part = {"type": "text", "text": SECRET, "cache_control": MARK}
    tool = {"type": "function", "cache_control": MARK, "function": {"name": "f"}}
    messages = [{"role": "user", "content": [part], "provider_specific_fields": {"a": 1}}]
    return ModelRequest(model=model, messages=messages, tools=[tool], **fields)


async def test_a_strict_provider_is_sent_nothing_that_it_refuses(tmp_path):
    verdict = await proxy(tmp_path).fire("pre_request", request())
    part = {"type": "text", "text": SECRET}
    assert verdict.value.messages == [{"role": "user", "content": [part]}]
    assert verdict.value.tools == [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    "given", [request("anthropic/claude"), request("claude"), request(provider="anthropic")]
)
async def test_any_other_provider_is_sent_the_very_request(tmp_path, given):
    assert (await proxy(tmp_path).fire("pre_request", given)).value is given


@pytest.mark.parametrize(
    ("verbose", "line"),
    [
        ("false", "request to groq/llama3: 1 message, id 0123456789abcdef"),
        (
            "true",
            f"request to groq/llama3: 1 message, id 0123456789abcdef, last from user: {SECRET!r}",
        ),
    ],
)
async def test_a_request_is_logged_as_its_options_say_and_no_more(tmp_path, caplog, verbose, line):
    caplog.set_level(logging.DEBUG)
    registry = proxy(tmp_path, verbose=verbose)
    await registry.fire("pre_request", request(), request_id="0123456789abcdef")
    assert [record.getMessage() for record in caplog.records] == [line]


@pytest.mark.parametrize(
    ("tokens", "line"),
    [("true", "answer from groq/llama3: 52 tokens"), ("false", "answer from groq/llama3")],
)
async def test_an_answer_is_logged_as_its_options_say_and_no_more(tmp_path, caplog, tokens, line):
    caplog.set_level(logging.DEBUG)
    answer = AssistantMessage(SECRET, model="groq/llama3", usage={"total_tokens": 52})
    await proxy(tmp_path, tokens=tokens).fire("post_response", answer)
    assert [record.getMessage() for record in caplog.records] == [line]


async def test_what_is_not_enabled_does_nothing(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    registry = proxy(tmp_path, logs="false", verbose="true")
    await registry.fire("pre_request", request())
    await registry.fire("post_response", AssistantMessage(SECRET))
    assert not caplog.records


async def test_functions_of_ones_own_are_called_in_order_with_a_context(tmp_path, monkeypatch):
    (tmp_path / "custom").mkdir()
    (tmp_path / "custom" / "own_hooks.py").write_text(OWN, encoding="utf-8")
    monkeypatch.setenv("HOOKS_HOME", str(tmp_path))
    registry = registry_of(tmp_path, CUSTOM)
    verdict = await registry.fire("pre_request", ModelRequest("groq/llama3"))
    said = [message["content"] for message in verdict.value.messages]
    assert (verdict.decision, said) == ("continue", ["one", "two for groq"])
    answer = await registry.fire("post_response", AssistantMessage("hello"))
    assert answer.value.content == "HELLO"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("function: strip_provider_fieldz", "did you mean 'strip_provider_fields'?"),
        ("function: strip_provider_fields, config: {provider: [x]}", "providers"),
    ],
)
def test_a_bad_entry_is_an_error_at_the_start_and_not_a_silent_skip(tmp_path, wrong, told):
    with pytest.raises(ConfigError) as caught:
        registry_of(tmp_path, f"hooks: {{pre_request: [{{module: checkrail.builtin, {wrong}}}]}}")
    assert told in str(caught.value)
