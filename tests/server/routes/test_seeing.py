"""Who sees which sessions and events: their own, and admins all."""

from langgraph_sdk import Auth

from checkrail.engine.values import User
from checkrail.runs.admit.requests import Principal
from checkrail.server.routes.events import filter_visible
from checkrail.store import records

ASKED = {"agent_name": "echo", "parameters": {"text": "x"}, "execution_mode": "sync"}


async def ran(client, **more):
    answer = await client.post("/runs", json={**ASKED, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_sessions_are_seen_by_whose_they_are_and_by_admins(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    root = await served.as_user("root")
    mine, theirs = await ran(ann), await ran(bob)
    for client, seen in ((ann, [mine]), (bob, [theirs]), (root, [theirs, mine])):
        listed = (await client.get("/sessions")).json()
        assert [each["session_id"] for each in listed] == [each["session_id"] for each in seen]
    path = f"/sessions/{mine['session_id']}"
    for below in ("", "/runs"):
        assert (await bob.get(path + below)).status_code == 404
        assert (await root.get(path + below)).status_code == 200
    assert (await bob.post(f"{path}/resume", json={"prompt": "x"})).status_code == 404
    for key in ("session_id", "parent_session_id"):
        body = {**ASKED, key: mine["session_id"]}
        assert (await bob.post("/runs", json=body)).status_code == 404


async def test_the_filters_of_auth_handlers_hold_for_sessions(served):
    auth = Auth()

    @auth.authenticate
    async def authenticate(headers):
        name, team = headers["x-user"].split("@")
        return {"identity": name, "team": team}

    @auth.on.threads
    async def within(ctx, value):
        if ctx.action == "create_run":
            value.setdefault("metadata", {})["team"] = ctx.user["team"]
        return {"team": ctx.user["team"]}

    ann = await served.as_user("ann@red", auth)
    bob = await served.as_user("bob@red", auth)
    eve = await served.as_user("eve@blue", auth)
    run = await ran(ann)
    assert (await bob.get(f"/sessions/{run['session_id']}")).status_code == 200
    assert (await eve.get(f"/sessions/{run['session_id']}")).status_code == 404
    assert (await eve.get("/sessions")).json() == []


async def test_events_are_for_whose_they_are_and_for_admins(served, services):
    """What is read for a stream, asked for by itself: the stream would never end."""
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    services.runs.parts.registry.register(lambda event: None, "on_result", name="look")
    mine, theirs = await ran(ann), await ran(bob)
    rows = await services.database.read(lambda reads: records.load_after(reads, 0, (), 500))
    assert {row.event_type for row in rows} >= {"run_created", "run_ended", "hook_complete"}
    for owner, seen in (("ann", {mine["run_id"]}), ("bob", {theirs["run_id"]})):
        told = await filter_visible(services, rows, Principal(User(owner), owner))
        assert {row.run_id for row in told} == seen
        assert len({row.event_type for row in told}) == 5
    told = await filter_visible(services, rows, Principal(User("root")))
    assert told == rows
    filtered = Principal(User("eve"), None, {"team": "blue"})
    assert await filter_visible(services, rows, filtered) == []
