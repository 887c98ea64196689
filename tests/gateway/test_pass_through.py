"""What the gateway passes on although no hook sees it, by `pass_through`, keys and hooks."""

from __future__ import annotations

import json

import aiohttp
import pytest
from yarl import URL

from checkrail.config.gateway import PassedPath
from checkrail.engine.registry import HookRegistry

from .provider import CHAT, MESSAGES, RESPONSES, Provider
from .serving import gateway_at, upstreams_at

KEYS = {"ann": "not-a-real-key-of-ann"}
NAMED = (
    PassedPath("/v1/embeddings", "POST"),
    PassedPath("/v1/files*", "GET"),
    PassedPath("/v1/Messages/batches"),
    PassedPath("/v1beta/models/*:embedContent", "POST"),
    PassedPath("/upload/v1beta/files"),
    PassedPath("/v1beta/models/m:generateContent/x"),
)


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture
def registry():
    made = HookRegistry()
    made.register(lambda _event: None, "before_llm_call", lane="observe", name="watch")
    return made


async def called(address, line, **more):
    """Call, and return the status and what an error says."""
    method, path = line.split()
    headers = {"authorization": f"Bearer {KEYS['ann']}", **more.pop("headers", {})}
    url = URL(address + path, encoded=True)
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.request(method, url, **more) as response,
    ):
        data = await response.read()
        told = (json.loads(data).get("error") if data else None) or {}
        return response.status, told.get("message", ""), response.headers


CLOSED = [
    "POST /v1/embeddings",
    "POST /v1/completions",
    "POST /v1/batches",
    "GET /v1/files",
    "GET /v1/responses/r1",
    "DELETE /v1/responses/r1",
    "GET /v1/chat/completions",
    "POST /v1/chat/completions/c1",
    "GET /v1/organization/admin_api_keys",
    "POST /v1/organizations/api_keys",
    "POST /v1/messages/batches",
    "DELETE /v1/models/m",
    "GET /v1/models/m",
    "GET /v1beta/models/m",
    "POST /v1beta/models/m:embedContent",
    "POST /v1beta/cachedContents",
    "GET /v1beta/files",
    "POST /upload/v1beta/files",
]


@pytest.mark.parametrize("said", [{}, {"pass_through": False}, {"pass_through": ()}])
async def test_with_keys_nothing_is_passed_on_unless_the_file_names_it(said, provider):
    with gateway_at(*upstreams_at(provider, key="sk-team"), keys=KEYS, **said) as address:
        for line in CLOSED:
            status, told, _ = await called(address, line)
            assert status == 403
            assert "and nothing else" in told
            method, path = line.split()
            remedy = f'write under gateway: pass_through: ["{method} {path.lower()}"]'
            assert told.endswith(remedy)
        assert provider.requests == []
        for path in (CHAT, MESSAGES, RESPONSES):
            assert (await called(address, f"POST {path}", json={"model": "m"}))[0] == 200
        for path in ("/v1/models", "/models"):
            assert (await called(address, f"GET {path}"))[0] == 200
    assert all(
        each.header("authorization") != f"Bearer {KEYS['ann']}" for each in provider.requests
    )


LISTED = {
    "POST /v1/embeddings": True,
    "POST /v1/embeddings/": True,
    "POST /v1/Embeddings": True,
    "GET /v1/embeddings": False,
    "POST /v1/embeddings/x": False,
    "POST /v1/x/embeddings": False,
    "GET /v1/files": True,
    "GET /v1/files/f1/content": True,
    "GET /v1/files/a%2Fb": True,
    "HEAD /v1/files/f1": True,
    "DELETE /v1/files/f1": False,
    "GET /v1/files/../organization/keys": False,
    "GET /v1/files%3F/../organization/keys": False,
    "GET /v1/files%2F..%2Forganization": False,
    "GET /v1/files;/..;/organization": False,
    "GET /v1/organization/keys%3F/v1/files": False,
    "GET /v1//files": False,
    "GET /v1/f%2569les": False,
    "GET /v1/files%00": False,
    f"GET /v1/files/{'x' * 2000}": False,
    "POST /v1/messages/batches": True,
    "PUT /v1/messages/batches": True,
    "POST /v1/messages/batches/b1": False,
    "POST /v1/v1/messages": False,
    "POST /v1beta/models/m:embedContent": True,
    "POST /v1beta/models/M:EmbedContent": True,
    "GET /v1beta/models/m:embedContent": False,
    "POST /v1beta/models/m:batchEmbedContents": False,
    "POST /v1beta/models/m%3AembedContent": True,
    "POST /v1beta/models/m%253AembedContent": False,
    "POST /v1beta/interactions": False,
    "POST /upload/v1beta/files": True,
    "POST /v1beta/models/m:generateContent/x": True,
    "POST /v1beta/x/models/m:generateContent": False,
    "GET /v1beta/models": True,
    "GET /v1beta/models/m": False,
}


@pytest.mark.parametrize("keys", [KEYS, {}])
async def test_a_list_opens_what_it_names_and_nothing_else(keys, provider, registry):
    place = upstreams_at(provider, key="sk-team")
    with gateway_at(*place, registry=registry, keys=keys, pass_through=NAMED) as address:
        for line, passes in LISTED.items():
            provider.requests.clear()
            status, _, _ = await called(address, line)
            assert (line, status == 200, len(provider.requests)) == (line, passes, passes)
            assert status in (200, 403, 404)


@pytest.mark.parametrize("keys", [KEYS, {}])
async def test_true_opens_everything_that_cannot_be_a_call(keys, provider, registry):
    place = upstreams_at(provider, key="sk-team")
    with gateway_at(*place, registry=registry, keys=keys, pass_through=True) as address:
        assert (await called(address, "POST /v1/embeddings", json={}))[0] == 200
        assert (await called(address, "GET /v1/responses/resp_1"))[0] == 200
        assert (await called(address, "POST /v1/responses/resp_1/cancel"))[0] == 200
        assert len(provider.requests) == 3
        for line, status in {
            "PUT /v1/embeddings": 405,
            "PATCH /v1/chat/completions": 405,
            "POST /v1/messages/foo": 404,
            "POST /v1/chat/completions/x/y": 404,
            "GET /v1/messages": 404,
            "POST /v1/models/m:embedContent": 404,
        }.items():
            got, told, headers = await called(address, line)
            assert (got, "pass_through: [" in told) == (status, True)
            assert ("allow" in headers) is (status == 405)
        got, told, _ = await called(address, "GET /v1/files", data=b"x")
        assert (got, told) == (400, "A request with GET has no body here")
    assert len(provider.requests) == 3


async def test_without_hooks_and_keys_all_of_it_passes(provider):
    with gateway_at(*upstreams_at(provider)) as address:
        for line in ("PUT /v1/embeddings", "POST /v1/messages/foo", "PATCH /v1/files/f1"):
            assert (await called(address, line, data=b"x"))[0] == 200
    assert len(provider.requests) == 3


async def test_a_refusal_is_in_the_shape_of_the_callers_api(provider, registry):
    with gateway_at(*upstreams_at(provider), registry=registry) as address:
        async with aiohttp.ClientSession() as client:
            async with client.post(f"{address}/v1/messages/foo") as response:
                assert (await response.json())["type"] == "error"
            async with client.post(f"{address}/v1/responses/foo") as response:
                assert "type" in (await response.json())["error"]


async def test_hooks_that_come_later_close_what_was_open(provider):
    registry = HookRegistry()
    with gateway_at(*upstreams_at(provider), registry=registry) as address:
        assert (await called(address, "POST /v1/messages/batches"))[0] == 200
        registry.register(lambda _event: None, "before_tool_call", lane="observe", name="watch")
        assert (await called(address, "POST /v1/messages/batches"))[0] == 404
