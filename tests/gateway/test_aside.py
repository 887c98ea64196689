"""Requests aside, to be counted or compacted: the conversation leaves as it would for an answer."""

import aiohttp
import pytest

from checkrail import Block, HookRegistry, Replace
from checkrail.builtin import BUILTINS
from checkrail.engine.values import AssistantMessage

from .provider import Provider
from .serving import gateway_at, upstreams_at

SECRET = "AKIAIOSFODNN7EXAMPLE"
PATHS = {
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": f"I am {SECRET}"}]},
    "/v1/responses/input_tokens": {"input": f"I am {SECRET}"},
    "/v1/responses/compact": {"input": f"I am {SECRET}"},
}


@pytest.fixture
def provider():
    with Provider() as running:
        yield running


@pytest.fixture(params=PATHS)
def path(request):
    return request.param


async def counted(provider, path, registry=None, **settings):
    with gateway_at(*upstreams_at(provider), registry=registry, **settings) as address:
        body = {"model": "m", **PATHS[path.casefold().replace("//", "/")]}
        async with (
            aiohttp.ClientSession() as client,
            client.post(address + path, json=body) as answer,
        ):
            return answer.status, await answer.json()


@pytest.mark.parametrize("spelled", [str, str.upper, lambda path: path.replace("/", "//")])
async def test_what_is_redacted_for_a_model_is_redacted_for_its_counting(provider, path, spelled):
    registry = HookRegistry()
    hook = BUILTINS["redact"].make({"kinds": ["secrets"]})
    registry.register(hook, "before_llm_call", name="redact")
    await counted(provider, spelled(path), registry)
    assert provider.last.path == path
    assert SECRET.encode() not in provider.last.body
    assert b"I am" in provider.last.body


async def test_without_hooks_it_leaves_as_it_came(provider, path):
    await counted(provider, path)
    assert SECRET.encode() in provider.last.body


async def test_a_request_that_is_refused_is_not_counted_either(provider, path):
    registry = HookRegistry()
    registry.register(lambda event: Block("not today", 402), "before_llm_call", name="no")
    status, body = await counted(provider, path, registry)
    assert (status, provider.requests) == (402, [])
    assert body["error"]["message"] == "not today"


async def test_a_request_that_no_model_would_see_has_no_tokens(provider, path):
    registry = HookRegistry()
    registry.register(lambda event: Replace(AssistantMessage("known")), "before_llm_call")
    status, told = await counted(provider, path, registry)
    if path.endswith("compact"):
        assert (status, told["error"]["code"]) == (400, "hook_answers")
    else:
        assert (status, told) == (200, {"input_tokens": 0})
    assert provider.requests == []


async def test_nothing_else_is_passed_on_where_the_file_says_so(provider, path):
    assert (await counted(provider, path, pass_through=False))[0] == 200
    with gateway_at(*upstreams_at(provider), pass_through=False) as address:
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{address}/v1/responses/resp_1") as answer:
                assert answer.status == 403
            async with client.post(f"{address}/v1/embeddings", json={"model": "m"}) as answer:
                assert "nothing else" in (await answer.json())["error"]["message"]
            async with client.get(f"{address}/v1/models") as answer:
                assert answer.status == 200
    assert [each.path for each in provider.requests] == [path, "/v1/models"]
