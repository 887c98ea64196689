"""What lists of approvals, runners and events tell, and who is calling."""

import pytest
from tests.runs.support import until

from checkrail import Ask
from checkrail.runs.events.follower import Feed
from checkrail.runs.steps import build_attempts
from checkrail.store.events import RunEvent
from checkrail.store.records import FeedFilter
from checkrail.store.runs import Run


async def test_a_caller_learns_who_they_are_and_what_their_role_allows(served):
    root = await served.as_user("root")
    told = (await root.get("/me")).json()
    assert (told["identity"], told["role"]) == ("root", "admin")
    assert {"GET /runners", "POST /runs", "GET /me"} <= {*told["allowed"]}
    ada = await served.as_user("ada")
    told = (await ada.get("/me")).json()
    assert (told["identity"], told["role"]) == ("ada", "member")
    assert "GET /runners" not in told["allowed"]
    assert "POST /runs" in told["allowed"]


@pytest.fixture
async def asked(client, services):
    services.runs.parts.registry.register(
        lambda _: Ask("May it?"), "on_run_start", name="sign", source="here.py:3"
    )
    answer = await client.post("/runs", json={"assistant_id": "echo", "input": {"text": "x"}})
    run_id = answer.json()["run_id"]

    async def find_open():
        return (await client.get("/approvals?status=open")).json()

    [question] = await until(find_open, "the question")
    return run_id, question


async def test_a_question_says_who_asks_and_who_may_answer(client, asked):
    run_id, question = asked
    assert question["hook_source"] == "here.py:3"
    assert question["can_answer"] is True
    run = (await client.get(f"/runs/{run_id}")).json()
    assert question["asked_by"] == run["user_id"]
    assert (await client.get("/approvals/count?status=open")).json() == {
        "count": 1,
        "capped": False,
    }
    path = f"/approvals/{question['approval_id']}"
    assert (await client.post(f"{path}/approve")).json()["can_answer"] is False
    assert (await client.get("/approvals/count?status=open")).json()["count"] == 0

    async def ended():
        run = (await client.get(f"/runs/{run_id}")).json()
        return run if run["ended_at"] else None

    run = await until(ended, "the end of the run")
    assert [each["end"] for each in run["attempts"]] == ["waiting", "success"]
    assert run["attempts"][1]["host"]
    assert run["hooks"]["asked"] >= 1
    steps = (await client.get(f"/runs/{run_id}/steps")).json()["steps"]
    [person] = [step for step in steps if step["kind"] == "person"]
    assert person["result"] == "approved"


async def test_the_feed_is_filtered_and_loses_no_number(client, services):
    for agent in ("echo", "loud"):
        await client.post("/runs/wait", json={"assistant_id": agent, "input": {"text": "x"}})
    parts = services.runs.parts
    await parts.log.flush()

    async def read(only):
        feed = Feed(parts.database, parts.hub, 0, only)
        _, rows = await anext(feed.follow())
        return rows

    rows = await read(FeedFilter(["run_s*", "run_ended"], "loud"))
    assert [row.event_type for row in rows if row.event_type] == ["run_started", "run_ended"]
    assert [row.seq for row in rows] == [row.seq for row in await read(FeedFilter())]
    assert (await client.get("/events?types=RUN")).status_code == 422


async def test_a_server_says_when_it_was_seen_and_what_waits(client, services):
    [one] = (await client.get("/runners")).json()
    assert one["lease_expires_at"] > one["last_seen_at"]
    assert one["kinds"] == ["graph", "autonomous", "procedural"]
    await client.post("/runs", json={"agent_name": "echo", "parameters": {}, "demands": ["gpu"]})
    [need] = (await client.get("/queue")).json()
    told = {name: need[name] for name in ("agent_name", "tags", "waiting", "runners")}
    assert told == {"agent_name": "echo", "tags": ["gpu"], "waiting": 1, "runners": []}
    assert need["missing_tags"] == ["gpu"]


def test_attempts_end_as_lost_unless_somebody_was_asked():
    def started(number, at):
        return RunEvent(0, "attempt_started", (), {"attempt": number, "host": f"h{number}"}, at=at)

    marks = [started(1, 1.0), RunEvent(0, "approval", at=2.0), started(2, 9.0), started(3, 12.0)]
    run = Run("r", "t", "a", "g", {}, {}, phase="error", started_at=1.0, ended_at=20.0)
    found = build_attempts(run, marks)
    assert [(each["host"], each["ended_at"], each["end"]) for each in found] == [
        ("h1", 2.0, "waiting"),
        ("h2", 9.0, "lost"),
        ("h3", 20.0, "error"),
    ]
