"""What the server tells of itself, and to whom."""

import re
from urllib.parse import urljoin

import pytest
from langgraph_sdk import Auth

from checkrail.server.auth import choose_authenticator
from checkrail.store.keys import Key

from .support import HERE, named_users

AGENTS = ["echo", "loud", "nested"]


class Keys:
    """Keys that say their roles."""

    async def find(self, digest):
        from checkrail.server.auth.keys import digest_of

        for role in ("admin", "member", "viewer", "runner"):
            if digest == digest_of(f"crk_{role}"):
                return Key("k", digest, role, role, role, created_at=0.0)
        return None


async def info(client):
    answer = await client.get("/info")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_whoever_sits_here_is_told_the_agents(client):
    assert (await info(client))["agents"] == AGENTS


@pytest.mark.parametrize("role", ["admin", "member", "viewer"])
async def test_who_may_list_agents_is_told_them(served, role):
    client = await served.enter(choose_authenticator(keys=Keys()), **{"x-api-key": f"crk_{role}"})
    assert (await info(client))["agents"] == AGENTS


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "crk_wrong"}, {"x-api-key": "crk_runner"}])
async def test_others_are_told_the_rest(served, headers):
    client = await served.enter(choose_authenticator(keys=Keys()), **headers)
    told = await info(client)
    assert told["version"]
    assert "agents" not in told
    assert not any(name in str(told) for name in AGENTS)


def only_loud() -> Auth:
    """Users who may see one agent alone."""
    auth = named_users()

    @auth.on.assistants
    async def one(ctx, value):
        return {"graph": "loud"}

    return auth


async def test_a_filter_of_the_project_s_own_auth_holds(served):
    client = await served.as_user("ann", only_loud())
    assert (await info(client))["agents"] == []
    stranger = await served.enter(choose_authenticator(only_loud()))
    assert "agents" not in await info(stranger)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/runs", {"agent_name": "none", "parameters": {}}),
        ("POST", "/runs", {"assistant_id": "none", "input": {}}),
        ("POST", "/runs/wait", {"assistant_id": "none", "input": {}}),
        ("GET", "/agents/none", None),
        ("GET", "/assistants/none", None),
        ("POST", "/assistants", {"graph_id": "none"}),
        ("POST", "/runs/crons", {"assistant_id": "none", "schedule": "* * * * *"}),
        (
            "POST",
            "/threads",
            {"metadata": {"graph_id": "none"}, "supersteps": [{"updates": []}]},
        ),
    ],
)
async def test_no_error_lists_agents_to_who_may_not_see_them(served, method, path, body):
    client = await served.as_user("ann", only_loud())
    answer = await client.request(method, path, json=body)
    assert answer.status_code in (404, 422), answer.text
    assert "none" in answer.text or answer.status_code == 422
    assert not any(name in answer.text for name in AGENTS), answer.text


class TestDocs:
    async def test_the_page_loads_nothing_from_elsewhere(self, client):
        page = await client.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert sorted(loaded) == ["docs/page.css", "docs/page.js", "openapi.json", "openapi.json"]
        for each in loaded:
            answer = await client.get(urljoin(f"{HERE}/docs", each))
            assert answer.status_code == 200
            assert "://" not in answer.text or each == "openapi.json"

    async def test_its_policy_allows_nothing_else(self, client):
        policy = (await client.get("/docs")).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        page = (await client.get("/docs")).text
        assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", page)

    @pytest.mark.parametrize("name", ["nothing.js", "page.html", "..%2Fapp.py", "page.js%00"])
    async def test_there_are_no_other_files(self, client, name):
        assert (await client.get(f"/docs/{name}")).status_code == 404

    async def test_it_is_there_for_everybody(self, served):
        client = await served.enter(choose_authenticator(keys=Keys()))
        for path in ("/docs", "/docs/page.js", "/docs/page.css", "/openapi.json"):
            assert (await client.get(path)).status_code == 200
