"""What is other in a LiteLLM proxy than in the gateway, and what is only there."""

import pytest
from tests.gateway.behaviours import LIMIT, NOTE, TEXT, TRANSFER, apis, ways
from tests.gateway.place import prepare
from tests.gateway.provider import Provider, Say

from .conftest import CALLBACK
from .proxy import config_for, started


@apis
@ways
async def test_the_model_cannot_be_asked_again(place, name, stream):
    await place.rules(after_llm_call=[{"retry": "Better, please"}])
    place.provider.say(Say(TEXT))
    got = await place.ask(name, stream=stream)
    assert got.status == 501
    assert "cannot do that" in got.heard.error["message"]
    assert b"quick" not in got.raw
    assert len(place.provider.requests) == 1


@apis
async def test_the_code_of_a_block_is_a_status_and_ours_stands_beside_it(place, name):
    await place.rules(before_llm_call=[{"block": "Too late", "status": 409, "code": "closed"}])
    got = await place.ask(name)
    assert got.status == 409
    if name == "messages":
        assert "code" not in got.heard.error
    else:
        assert got.heard.error["code"] == "409"
        assert got.heard.error["provider_specific_fields"]["error"]["code"] == "closed"


@apis
@ways
async def test_a_hook_can_answer_with_calls_of_tools_but_in_one_kind_of_stream(place, name, stream):
    call = {"id": "call_1", "name": "search", "args": {"for": "ü"}}
    await place.rules(before_llm_call=[{"replace": {"content": "Wait.", "tool_calls": [call]}}])
    got = await place.ask(name, stream=stream)
    assert place.provider.requests == []
    if name == "responses" and stream:
        assert got.status == 501
        assert "ask without stream" in got.heard.error["message"]
    else:
        assert (got.heard.text, got.heard.calls) == ("Wait.", [("search", {"for": "ü"})])


@apis
@ways
async def test_the_id_of_a_call_is_that_of_the_proxy(place, name, stream):
    await place.rules(before_llm_call=[NOTE], after_llm_call=[NOTE])
    got = await place.ask(name, stream=stream)
    seen = await place.until_seen(2)
    assert {each["request"] for each in seen} == {got.headers["x-litellm-call-id"]}


@apis
async def test_hooks_see_the_request_and_nothing_of_the_proxys_own(place, name):
    await place.rules(before_llm_call=[NOTE])
    more = {} if name == "responses" else {"max_tokens": 100}
    await place.send(name, place.body(name, temperature=0.5, **more), **{"x-api-key": place.key})
    (seen,) = await place.until_seen(1)
    assert seen["provider"] == ("anthropic" if name == "messages" else "openai")
    assert seen["params"] == sorted(["temperature", *more])
    assert place.key not in str(seen)
    for own in ("secret_fields", "litellm", "proxy_server_request"):
        assert own not in seen["all"]


@pytest.mark.parametrize(
    ("name", "of"), [("chat", "messages"), ("messages", "chat"), ("responses", "messages")]
)
@ways
async def test_a_rule_holds_where_the_proxy_translates_between_apis(place, name, of, stream):
    await place.rules(before_tool_call=[LIMIT])
    place.provider.say(Say("Look:", [TRANSFER, ("search", {"for": "a"})]))
    got = await place.ask(name, stream=stream, model=place.models[of])
    assert [call for call, _ in got.heard.calls] == ["search"]
    assert "finance desk" in got.heard.text
    assert b"98765.25" not in got.raw


@pytest.mark.parametrize(
    "hooks", ["hooks: {before_llm_call: [{name: a, blok: no}]}", None], ids=["broken", "missing"]
)
def test_a_proxy_whose_hooks_cannot_be_loaded_does_not_start(tmp_path, hooks):
    file = tmp_path / "hooks.yaml"
    if hooks is not None:
        prepare(tmp_path)
        file.write_text(hooks)
    with Provider() as provider:
        config = config_for(provider, callbacks=[CALLBACK])
        with started(tmp_path, config, CHECKRAIL_HOOKS=str(file)) as proxy:
            assert not proxy.wait()
    assert proxy.process.returncode != 0
    assert str(file) in proxy.told()
    assert hooks is None or "blok" in proxy.told()


@apis
@ways
async def test_a_refusal_says_that_nobody_need_ask_again(place, name, stream):
    await place.rules(before_llm_call=[{"block": "We are closed"}])
    got = await place.ask(name, stream=stream)
    assert got.status == 400
    assert "We are closed" in got.heard.error["message"]
    assert got.headers["x-should-retry"] == "false"
