"""The plan of an agent, drafts that are checked, versions that are not overwritten."""

from dataclasses import astuple

import pytest

from checkrail import Block
from checkrail.llm.call_record import CallRecord
from checkrail.store import gateway_calls
from checkrail.store.gateway_calls import CallFilter

MODEL = {"provider": "scripted", "replies": ["hi"]}
GUARDED = {
    "name": "desk",
    "model": MODEL,
    "hooks": {"before_tool_call": {"name": "shut", "block": "no"}},
}


@pytest.fixture(autouse=True)
def door(services):
    services.runs.parts.registry.register(
        lambda _: Block("no"), "before_tool_call", name="door", lane="transform", tools="rm"
    )


def names(plan, point="before_tool_call"):
    return [row["name"] for row in plan.get(point, ())]


async def test_a_plan_has_the_hooks_of_the_server_and_of_the_agent_in_order(client):
    assert (await client.post("/agents", json=GUARDED)).status_code == 201
    everywhere = (await client.get("/plan")).json()["plan"]
    assert names(everywhere) == ["door"]
    assert everywhere["before_tool_call"][0]["match"] == {"tools": ["rm"]}
    own = (await client.get("/plan?agent_name=desk")).json()["plan"]
    assert names(own) == ["door", "shut"]
    assert [row["level"] for row in own["before_tool_call"]][-1] == "desk"
    assert (await client.get("/plan?agent_name=nobody")).status_code == 404


async def test_a_draft_is_checked_and_not_kept(client):
    draft = {**GUARDED, "name": "draft"}
    found = (await client.post("/agents/check", json=draft)).json()
    assert found["problems"] == []
    assert names(found["plan"]) == ["door", "shut"]
    assert (await client.get("/agents/draft")).status_code == 404
    draft["hooks"] = {"before_tool_call": {"name": "shut", "blok": "no"}}
    found = (await client.post("/agents/check", json=draft)).json()
    [problem, *_] = found["problems"]
    assert problem["path"].startswith("hooks")
    assert problem["message"]
    assert names(found["plan"]) == ["door"]
    assert (await client.post("/agents/check", json={"name": "../x"})).status_code == 422


async def test_a_draft_of_an_agent_that_exists_is_checked_too(client):
    await client.post("/agents", json=GUARDED)
    found = (await client.post("/agents/check", json={**GUARDED, "hooks": {}})).json()
    assert (found["problems"], names(found["plan"])) == ([], ["door"])
    assert (await client.get("/agents/desk")).json()["version"] == 1


async def test_a_change_of_another_version_is_refused(client):
    await client.post("/agents", json=GUARDED)
    first = await client.patch(
        "/agents/desk?note=calmer", json={"system_prompt": "a"}, headers={"If-Match": '"1"'}
    )
    assert first.json()["version"] == 2
    stale = await client.put("/agents/desk", json={"model": MODEL}, headers={"If-Match": "1"})
    assert (stale.status_code, stale.json()["error"]) == (412, "precondition_failed")
    wrong = await client.put("/agents/desk", json={"model": MODEL}, headers={"If-Match": "x"})
    assert wrong.status_code == 422
    free = await client.put("/agents/desk", json={"model": MODEL}, headers={"If-Match": "*"})
    assert free.json()["version"] == 3
    version = (await client.get("/agents/desk/versions/2")).json()
    assert (version["note"], version["blueprint"]["system_prompt"]) == ("calmer", "a")
    assert (await client.get("/agents/desk/versions/9")).status_code == 404


async def test_sessions_tell_their_runs_and_threads_and_are_searched(client):
    body = {"agent_name": "echo", "parameters": {"text": "x"}, "execution_mode": "sync"}
    run = (await client.post("/runs", json=body)).json()
    [session] = (await client.get("/sessions")).json()
    figures = (session["runs"], session["threads"], session["last_message"])
    assert figures == (1, 1, None)
    found = (await client.get(f"/sessions?q={run['session_id'][:13].upper()}")).json()
    assert [each["session_id"] for each in found] == [run["session_id"]]
    assert (await client.get("/sessions?q=100%25")).json() == []


async def test_calls_of_the_gateway_are_summed_by_key_and_model(services):
    def call(number, **more):
        said = {"format": "chat", "path": "/v1", "request_id": "r", "duration_ms": 1.0}
        return CallRecord(call_id=f"c{number}", created_at=float(number), **said | more)

    used = {"input_tokens": 3, "output_tokens": 4}
    calls = [
        call(1, key="ci", model="m", usage=used, cost=0.5, status=200),
        call(2, key="ci", model="n", usage={**used, "total_tokens": 9}, cost=0.25, status=200),
        call(3, key="ann", model="m", decision="block", status=400),
    ]
    await services.database.write(lambda tx: gateway_calls.add(tx, calls))

    async def sum_by(column, **wanted):
        return await services.database.read(
            lambda reads: gateway_calls.sum_calls(reads, CallFilter(**wanted), column)
        )

    assert [astuple(each) for each in await sum_by("key")] == [
        ("ci", 2, 16, 0.75, 0, 0),
        ("ann", 1, 0, None, 1, 1),
    ]
    by_model = await sum_by("model", key="ci")
    assert {each.name: each.tokens for each in by_model} == {"m": 7, "n": 9}
