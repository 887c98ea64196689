"""Runs by their own ids: who sees them, page by page, with their hooks and events."""

import asyncio
import json
import uuid

from langgraph_sdk import Auth

from checkrail import Block, Continue
from checkrail.server.auth import choose_authenticator
from checkrail.store.keys import Key

NOBODYS = uuid.UUID(int=7)
LATER = {"after_seconds": 3600}


async def wait_for(client, text="hello", path="/runs/wait", **body):
    """Carry out a run, and give its id."""
    asked = {"assistant_id": "echo", "input": {"text": text}, **body}
    answer = await client.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    return answer.headers["content-location"].rpartition("/")[2]


async def ask_for(client, **body):
    """Ask for a run that stays, and give it."""
    answer = await client.post("/runs", json={"assistant_id": "echo", **LATER, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(client, **params):
    answer = await client.get("/runs", params=params)
    assert answer.status_code == 200, answer.text
    return [run["run_id"] for run in answer.json()]


def register(services, fn, point, **options):
    services.runs.parts.registry.register(fn, point, **options)


def frames(text):
    """Read server-sent events: their fields, in order."""
    parts = [part for part in text.split("\n\n") if part and not part.startswith(":")]
    return [dict(line.split(": ", 1) for line in part.splitlines()) for part in parts]


async def test_runs_are_listed_the_newest_first_with_those_that_are_over(client):
    first, second = await wait_for(client), await wait_for(client)
    third = (await ask_for(client))["run_id"]
    assert await listed(client) == [third, second, first]
    assert await listed(client, limit=2) == [third, second]


async def test_pages_go_on_before_a_run_and_new_runs_do_not_move_them(client):
    made = [(await ask_for(client))["run_id"] for _ in range(5)]
    pages, last = [], {}
    while page := await listed(client, limit=2, **last):
        pages.append(page)
        last = {"before": page[-1]}
        await ask_for(client)
    assert pages == [[made[4], made[3]], [made[2], made[1]], [made[0]]]


async def test_lists_hold_only_what_was_asked_for(client):
    over = await wait_for(client)
    loud = await wait_for(client, assistant_id="loud")
    thread = (await ask_for(client, on_completion="keep"))["thread_id"]
    live = (await ask_for(client, assistant_id="loud"))["run_id"]
    waiting = await listed(client, thread_id=thread)
    assert await listed(client, status="success") == [loud, over]
    assert await listed(client, status="pending") == [live, *waiting]
    assert await listed(client, status="error") == []
    assert await listed(client, agent_name="loud") == [live, loud]
    assert await listed(client, agent_name="loud", live=True) == [live]
    assert await listed(client, live=True) == [live, *waiting]
    assert await listed(client, agent_name="nobody's") == []


SENSELESS = [
    {"limit": 0},
    {"limit": -1},
    {"limit": 10**30},
    {"limit": 1001},
    {"before": "yesterday"},
    {"status": "blocked"},
    {"agent_name": "a\0b"},
    {"agent_name": "x" * 300},
    {"thread_id": "mine"},
    {"live": "perhaps"},
]


async def test_a_question_that_makes_no_sense_is_answered_with_what_is_wrong(client):
    for params in SENSELESS:
        answer = await client.get("/runs", params=params)
        assert answer.status_code == 422, params
        assert next(iter(params)) in answer.json()["message"]


async def test_going_on_from_a_run_that_is_not_there_says_so(client):
    answer = await client.get("/runs", params={"before": str(NOBODYS)})
    assert answer.status_code == 404
    assert str(NOBODYS) in answer.json()["message"]


async def test_a_run_is_given_with_its_output_and_what_was_owed_for_it(client, services):
    register(services, lambda event: None, "after_run", name="report")
    run_id = await wait_for(client, "hello", metadata={"n": 1})
    run = (await client.get(f"/runs/{run_id}")).json()
    assert (run["run_id"], run["status"], run["phase"]) == (run_id, "success", "success")
    assert (run["agent_name"], run["metadata"]["n"]) == ("echo", 1)
    assert run["kwargs"]["input"] == {"text": "hello"}
    assert run["output"] == {"text": "hello", "log": ["hello"]}
    [owed] = run["deliveries"]
    assert owed["kind"] == "after_run"
    assert owed["status"] in ("owed", "done")


async def test_a_run_that_is_not_there_is_not_found(client):
    for path in ("", "/hooks", "/events", "/cancel"):
        method = "POST" if path == "/cancel" else "GET"
        answer = await client.request(method, f"/runs/{NOBODYS}{path}")
        assert answer.status_code == 404, path
        assert answer.json()["error"] == "not_found"


async def test_an_id_that_is_none_is_refused(client):
    for run_id in ("crons", "stream", "019a", "%00", "%ff"):
        answer = await client.get(f"/runs/{run_id}")
        assert answer.status_code == 422, run_id
        assert "run_id" in answer.json()["message"]


async def test_crons_are_still_found_below_runs(client):
    answer = await client.post("/runs/crons/search", json={})
    assert (answer.status_code, answer.json()) == (200, [])


async def test_records_tell_what_each_hook_did_in_order(client, services):
    def louder(event, value):
        return Continue({**value, "text": value["text"].upper()})

    register(services, louder, "before_run", name="louder")
    register(services, lambda event: None, "on_result", name="look")
    run_id = await wait_for(client)
    records = (await client.get(f"/runs/{run_id}/hooks")).json()
    assert [(each["hook"], each["event_type"]) for each in records] == [
        ("louder", "hook_start"),
        ("louder", "hook_complete"),
        ("look", "hook_start"),
        ("look", "hook_complete"),
    ]
    changed = records[1]
    assert changed["before"] == {"text": "hello"}
    assert changed["after"] == {"text": "HELLO"}
    assert {each["run_id"] for each in records} == {run_id}


async def test_records_come_by_pages_after_a_number(client, services):
    for number in range(3):
        register(services, lambda event: None, "before_run", name=f"hook{number}")
    run_id = await wait_for(client)
    whole = (await client.get(f"/runs/{run_id}/hooks")).json()
    path, after, pages = f"/runs/{run_id}/hooks", 0, []
    while page := (await client.get(path, params={"after": after, "limit": 4})).json():
        pages.append(page)
        after = page[-1]["seq"]
    assert [len(page) for page in pages] == [4, 2]
    assert pages[0] + pages[1] == whole
    assert (await client.get(path, params={"after": 2**63})).status_code == 422
    assert (await client.get(path, params={"after": 2**63 - 1})).json() == []


async def test_a_refused_run_keeps_its_records_for_whoever_asked(client, services):
    register(services, lambda event: Block("Not today", 402), "before_run", name="shut")
    answer = await client.post("/runs/wait", json={"assistant_id": "echo", "input": {}})
    assert answer.status_code == 402
    run_id = answer.json()["info"]["run_id"]
    run = (await client.get(f"/runs/{run_id}")).json()
    assert (run["status"], run["phase"]) == ("error", "refused")
    assert (run["blocked_by"], run["block_reason"]) == ("shut", "Not today")
    await services.runs.parts.log.flush()
    records = (await client.get(f"/runs/{run_id}/hooks")).json()
    assert [each["event_type"] for each in records] == ["hook_start", "hook_blocked"]


async def test_events_are_given_as_they_are_kept_up_to_the_end(client):
    run_id = await wait_for(client)
    answer = await client.get(f"/runs/{run_id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    sent = frames(answer.text)
    told = [json.loads(each["data"]) for each in sent]
    assert [each["seq"] for each in told] == [*range(1, len(told) + 1)]
    assert [(each["id"], each["event"]) for each in sent] == [
        (str(each["seq"]), each["event"]) for each in told
    ]
    assert all(each.pop("time") > 0 for each in told)
    assert told[0] == {
        "seq": 1,
        "event": "metadata",
        "ns": [],
        "data": {"run_id": run_id, "attempt": 1},
    }
    assert told[-1]["event"] == "end"
    assert told[-1]["data"]["status"] == "success"
    assert told[-2]["data"] == {"text": "hello", "log": ["hello"]}


async def test_events_go_on_after_the_last_one_that_a_client_has(client):
    run_id = await wait_for(client)
    path = f"/runs/{run_id}/events"
    whole = frames((await client.get(path)).text)
    rest = await client.get(path, headers={"last-event-id": "1"})
    assert frames(rest.text) == whole[1:]
    again = await client.get(path, headers={"last-event-id": "-1"})
    assert frames(again.text) == whole
    nothing = await client.get(path, headers={"last-event-id": str(len(whole))})
    assert frames(nothing.text) == []


async def test_a_last_event_that_is_no_number_is_refused(client):
    run_id = await wait_for(client)
    for last in ("one", "1.5", "-2", "9" * 40, "٣"):
        headers = {b"last-event-id": last.encode()}
        answer = await client.get(f"/runs/{run_id}/events", headers=headers)
        assert answer.status_code == 422, last
        assert "Last-Event-ID" in answer.json()["message"]


async def test_a_run_that_is_under_way_is_followed_and_cancelled(client, services):
    begun = asyncio.Event()

    async def hold(event):
        begun.set()
        await asyncio.sleep(600)

    register(services, hold, "on_run_start", name="hold", timeout=600)
    made = await client.post("/runs", json={"assistant_id": "echo", "input": {}})
    run_id = made.json()["run_id"]
    async with asyncio.timeout(30):
        await begun.wait()
        following = asyncio.create_task(client.get(f"/runs/{run_id}/events"))
        answer = await client.post(f"/runs/{run_id}/cancel", params={"wait": "true"})
        assert answer.status_code == 200
        sent = frames((await following).text)
    assert json.loads(sent[-1]["data"])["data"]["phase"] == "cancelled"
    run = (await client.get(f"/runs/{run_id}")).json()
    assert (run["status"], run["phase"]) == ("interrupted", "cancelled")


async def test_cancelling_is_asked_for_once_or_twice_and_ends_what_waits_at_once(client):
    run_id = (await ask_for(client))["run_id"]
    assert (await client.post(f"/runs/{run_id}/cancel")).status_code == 202
    assert (await client.get(f"/runs/{run_id}")).json()["phase"] == "cancelled"
    assert (await client.post(f"/runs/{run_id}/cancel")).status_code == 202


async def test_a_run_that_is_rolled_back_is_gone(client):
    run_id = (await ask_for(client))["run_id"]
    params = {"action": "rollback", "wait": "1"}
    assert (await client.post(f"/runs/{run_id}/cancel", params=params)).status_code == 200
    assert (await client.get(f"/runs/{run_id}")).status_code == 404
    assert await listed(client) == []


async def test_a_run_that_is_over_cannot_be_cancelled(client):
    run_id = await wait_for(client)
    answer = await client.post(f"/runs/{run_id}/cancel")
    assert answer.status_code == 409
    assert "success" in answer.json()["message"]
    strange = await client.post(f"/runs/{run_id}/cancel", params={"action": "explode"})
    assert strange.status_code == 422


async def test_users_see_their_own_runs_and_admins_all(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    root = await served.as_user("root")
    anns, bobs = await wait_for(ann), await wait_for(bob)
    assert await listed(ann) == [anns]
    assert await listed(bob) == [bobs]
    assert await listed(root) == [bobs, anns]
    for path in ("", "/hooks", "/events"):
        assert (await bob.get(f"/runs/{anns}{path}")).status_code == 404
        assert (await root.get(f"/runs/{anns}{path}")).status_code == 200
    assert (await bob.get("/runs", params={"before": anns})).status_code == 404


async def test_a_run_of_somebody_else_cannot_be_cancelled(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    run_id = (await ask_for(ann))["run_id"]
    assert (await bob.post(f"/runs/{run_id}/cancel")).status_code == 404
    assert (await ann.get(f"/runs/{run_id}")).json()["status"] == "pending"
    assert (await ann.post(f"/runs/{run_id}/cancel")).status_code == 202


def by_team():
    """Users of a team see what was made for it, by the metadata of threads and runs."""
    auth = Auth()

    @auth.authenticate
    async def authenticate(headers):
        name, team = headers["x-user"].split("@")
        return {"identity": name, "team": team}

    @auth.on
    async def within(ctx, value):
        team = ctx.user["team"]
        if ctx.action in ("create", "create_run"):
            value.setdefault("metadata", {})["team"] = team
        return {"team": team}

    return auth


async def test_the_filters_of_auth_handlers_hold_for_lists_and_single_runs(served):
    auth = by_team()
    ann, bob, eve = [
        await served.as_user(name, auth) for name in ("ann@red", "bob@red", "eve@blue")
    ]
    run_id, others = await wait_for(ann), await wait_for(eve)
    assert await listed(bob) == [run_id]
    assert await listed(eve) == [others]
    assert (await bob.get(f"/runs/{run_id}")).status_code == 200
    for path in ("", "/hooks", "/events"):
        assert (await eve.get(f"/runs/{run_id}{path}")).status_code == 404


async def test_auth_handlers_are_told_which_run_of_which_thread(served):
    asked = []
    auth = by_team()

    @auth.on.threads.read
    async def read(ctx, value):
        asked.append(dict(value))

    ann = await served.as_user("ann@red", auth)
    run_id = await wait_for(ann)
    run = (await ann.get(f"/runs/{run_id}")).json()
    [told] = asked
    assert told == {"thread_id": uuid.UUID(run["thread_id"]), "run_id": uuid.UUID(run_id)}


async def test_a_viewer_reads_and_cancels_nothing(served):
    class Keys:
        async def find(self, digest):
            return Key("k", digest, "eyes", "viewer", "anonymous", created_at=0.0)

    run_id = (await ask_for(served.client))["run_id"]
    viewer = await served.enter(choose_authenticator(keys=Keys()), **{"x-api-key": "crk_eyes"})
    assert await listed(viewer) == [run_id]
    assert (await viewer.get(f"/runs/{run_id}")).status_code == 200
    assert (await viewer.post(f"/runs/{run_id}/cancel")).status_code == 403
