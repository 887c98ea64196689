"""Questions of hooks over HTTP: who sees them, who may answer, and what is answered to whom."""

import uuid
from dataclasses import replace

import pytest
from langgraph_sdk import Auth
from tests.runs.support import until

from checkrail import Ask
from checkrail.config.server import ApprovalsConfig
from checkrail.engine.values import digest
from checkrail.server.auth import choose_authenticator

NOBODYS = uuid.UUID(int=7)


@pytest.fixture(autouse=True)
def four_eyes(services):
    """A hook that asks before a run starts, if its text says so."""

    def four_eyes(event):
        if event.value.get("text", "").startswith("ask"):
            return Ask("May it start?", timeout=3600)
        return None

    services.runs.parts.registry.register(four_eyes, "on_run_start", lane="gate")


async def begun(client, text="ask"):
    """Begin a run that asks, and give its id and the question."""
    body = {"assistant_id": "echo", "input": {"text": text}, "on_completion": "keep"}
    answer = await client.post("/runs", json=body)
    assert answer.status_code == 200, answer.text
    run_id = answer.json()["run_id"]
    [found] = await until(lambda: listed(client, run_id=run_id), "the question")
    return run_id, found


async def listed(client, **params):
    answer = await client.get("/approvals", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ended(client, run_id):
    async def over():
        run = (await client.get(f"/runs/{run_id}")).json()
        return run if run["ended_at"] else None

    return await until(over, "its end")


async def test_a_question_says_what_it_is_about_and_an_answer_lets_the_run_go_on(client):
    run_id, row = await begun(client)
    assert (await client.get(f"/runs/{run_id}")).json()["phase"] == "waiting"
    at = f"/approvals/{row['approval_id']}"
    shown = (await client.get(at)).json()
    assert shown == row
    assert (shown["run_id"], shown["agent_name"], shown["hook"]) == (run_id, "echo", "four_eyes")
    assert (shown["point"], shown["question"]) == ("on_run_start", "May it start?")
    assert (shown["value"], shown["status"]) == ({"text": "ask"}, "open")
    assert shown["digest"] == digest({"text": "ask"})
    assert shown["expires_at"] > shown["created_at"]
    answer = await client.post(f"{at}/approve", json={"reason": "fine", "digest": row["digest"]})
    told = answer.json()
    assert (answer.status_code, told["status"], told["reason"]) == (200, "approved", "fine")
    assert told["answered_by"] == "anonymous"
    assert (await ended(client, run_id))["output"]["log"] == ["ask"]
    assert (await client.get(at)).json()["used_at"] is not None


async def test_an_answer_needs_no_body(client):
    run_id, row = await begun(client)
    answer = await client.post(f"/approvals/{row['approval_id']}/deny")
    assert (answer.status_code, answer.json()["status"]) == (200, "denied")
    assert (await ended(client, run_id))["phase"] == "blocked"


async def test_an_edited_value_takes_the_place_of_the_other(client):
    run_id, row = await begun(client)
    body = {"value": {"text": "hello"}}
    answer = await client.post(f"/approvals/{row['approval_id']}/approve", json=body)
    assert answer.json()["edited"] == body
    assert (await ended(client, run_id))["output"]["log"] == ["hello"]


async def test_a_second_answer_is_a_conflict_that_tells_of_the_first(client):
    _, row = await begun(client)
    at = f"/approvals/{row['approval_id']}"
    await client.post(f"{at}/deny", json={"reason": "no"})
    for word in ("approve", "deny"):
        answer = await client.post(f"{at}/{word}")
        told = answer.json()
        assert (answer.status_code, told["error"]) == (409, "conflict")
        assert (told["info"]["status"], told["info"]["reason"]) == ("denied", "no")


async def test_an_answer_to_an_older_value_is_a_conflict(client):
    _, row = await begun(client)
    at = f"/approvals/{row['approval_id']}/approve"
    answer = await client.post(at, json={"digest": "sha256:0"})
    assert (answer.status_code, answer.json()["info"]["digest"]) == (409, row["digest"])
    assert (await client.post(at, json={"digest": row["digest"]})).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"valu": 1},
        {"reason": 7},
        {"reason": "\0"},
        {"value": {"a": "\0"}},
        {"reason": "x" * 10_001},
    ],
)
async def test_a_body_that_makes_no_sense_answers_nothing(client, body):
    _, row = await begun(client)
    answer = await client.post(f"/approvals/{row['approval_id']}/approve", json=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "invalid")
    assert (await listed(client, run_id=row["run_id"]))[0]["status"] == "open"


async def test_what_is_not_there_is_not_found(client):
    for method, path in (("GET", ""), ("POST", "/approve"), ("POST", "/deny")):
        answer = await client.request(method, f"/approvals/{NOBODYS}{path}")
        assert answer.status_code == 404
    assert (await client.get("/approvals", params={"before": str(NOBODYS)})).status_code == 404


async def test_questions_are_listed_the_newest_first_by_status_run_and_page(client):
    made = [await begun(client, f"ask {number}") for number in range(3)]
    ids = [row["approval_id"] for _, row in made]
    await client.post(f"/approvals/{ids[1]}/deny")

    async def found(**params):
        return [row["approval_id"] for row in await listed(client, **params)]

    assert await found() == ids[::-1]
    assert await found(status="open") == [ids[2], ids[0]]
    assert await found(status="denied") == [ids[1]]
    assert await found(run_id=made[0][0]) == [ids[0]]
    assert await found(limit=1) == [ids[2]]
    assert await found(limit=2, before=ids[2]) == [ids[1], ids[0]]


async def test_users_see_and_answer_what_their_own_runs_ask_and_admins_all(served):
    ada, bob = await served.as_user("ada"), await served.as_user("bob")
    root = await served.as_user("root")
    _, first = await begun(ada)
    _, second = await begun(bob)
    assert [row["approval_id"] for row in await listed(ada)] == [first["approval_id"]]
    assert len(await listed(root)) == 2
    at = f"/approvals/{first['approval_id']}"
    for answer in (
        await bob.get(at),
        await bob.post(f"{at}/approve"),
        await bob.post(f"{at}/deny"),
        await bob.get("/approvals", params={"before": first["approval_id"]}),
    ):
        assert answer.status_code == 404
    assert (await ada.post(f"{at}/approve")).json()["answered_by"] == "ada"
    other = await root.post(f"/approvals/{second['approval_id']}/approve")
    assert other.json()["answered_by"] == "root"


async def test_with_roles_for_admins_alone_nobody_approves_their_own(served):
    served.services.config = replace(
        served.services.config, approvals=ApprovalsConfig(roles=("admin",))
    )
    ada, root = await served.as_user("ada"), await served.as_user("root")
    _, row = await begun(ada)
    at = f"/approvals/{row['approval_id']}/approve"
    answer = await ada.post(at)
    assert (answer.status_code, answer.json()["info"]) == (403, {"needs": ["admin"]})
    assert (await root.post(at)).status_code == 200


async def test_a_viewer_reads_and_does_not_answer(served):
    auth = Auth()

    @auth.authenticate
    async def authenticate(headers):
        return {"identity": "ada", "role": headers["x-role"]}

    member = await served.enter(choose_authenticator(auth), **{"x-role": "member"})
    viewer = await served.enter(choose_authenticator(auth), **{"x-role": "viewer"})
    _, row = await begun(member)
    for word in ("approve", "deny"):
        assert (await viewer.post(f"/approvals/{row['approval_id']}/{word}")).status_code == 403
    assert [each["status"] for each in await listed(viewer)] == ["open"]


async def test_rules_of_an_auth_object_for_threads_hold_for_what_is_asked_on_them(served):
    auth = Auth()

    @auth.authenticate
    async def authenticate(headers):
        return {"identity": headers["x-user"], "role": "member"}

    @auth.on.threads
    async def own(ctx, value):
        value.setdefault("metadata", {})["team"] = ctx.user.identity
        return {"team": ctx.user.identity}

    ada = await served.enter(choose_authenticator(auth), **{"x-user": "ada"})
    bob = await served.enter(choose_authenticator(auth), **{"x-user": "bob"})
    _, row = await begun(ada)
    assert await listed(bob) == []
    assert await listed(bob, status="open") == []
    assert [each["approval_id"] for each in await listed(ada, status="open")] == [
        row["approval_id"]
    ]
    assert (await bob.post(f"/approvals/{row['approval_id']}/approve")).status_code == 404
    assert (await ada.post(f"/approvals/{row['approval_id']}/approve")).status_code == 200


async def test_the_stream_of_a_run_tells_of_its_questions(client):
    run_id, row = await begun(client)
    await client.post(f"/approvals/{row['approval_id']}/approve")
    await ended(client, run_id)
    stream = await client.get(f"/runs/{run_id}/events")
    events = [line for line in stream.text.splitlines() if line.startswith("event: ")]
    assert events.count("event: approval") == 2
    assert f'"approval_id":"{row["approval_id"]}"' in stream.text.replace(" ", "")
