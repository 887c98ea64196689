"""Crons over HTTP: when they are due, what they keep, and as whom they act."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from checkrail.engine.values import User
from checkrail.runs.admit.admission import agent_assistant_id, new_thread
from checkrail.runs.events.hub import WORK, Wakeup
from checkrail.runs.scheduler import build_cron_request
from checkrail.server.auth import choose_authenticator
from checkrail.server.run_requests import RunOptions
from checkrail.store import crons, runs, threads
from checkrail.store.keys import Key

from .support import named_users

NEVER = "0 0 29 2 *"


async def made(client, path="/runs/crons", **body):
    asked = {"assistant_id": "echo", "schedule": NEVER, **body}
    answer = await client.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def kept(services, cron):
    return await services.database.read(lambda reads: crons.get(reads, cron["cron_id"]))


async def searched(client, **body):
    answer = await client.post("/runs/crons/search", json=body)
    assert answer.status_code == 200, answer.text
    return [each["cron_id"] for each in answer.json()]


@pytest.fixture
def thread(services):
    """Make a thread for somebody."""

    async def make(owner="anonymous", **metadata):
        row = new_thread(str(uuid.uuid4()), owner, 1.0, metadata=metadata)
        await services.database.write(lambda tx: threads.add(tx, row))
        return row.thread_id

    return make


async def test_a_cron_says_when_it_is_next_and_is_found_again(client):
    cron = await made(client, schedule="30 4 * * *", timezone="Asia/Tokyo", input={"text": "hi"})
    assert cron["assistant_id"] == agent_assistant_id("echo")
    assert (cron["enabled"], cron["on_run_completed"]) == (True, "delete")
    assert (cron["thread_id"], cron["end_time"], cron["user_id"]) == (None, None, "anonymous")
    following = datetime.fromisoformat(cron["next_run_date"])
    assert following > datetime.now(UTC)
    assert (following.hour, following.minute) == (19, 30)
    assert (await client.get(f"/runs/crons/{cron['cron_id']}")).json() == cron


async def test_the_payload_makes_the_same_run_as_the_request_would(client, services):
    options = {
        "input": {"text": "hi"},
        "config": {"configurable": {"lang": "fr"}},
        "context": {"tone": "warm"},
        "metadata": {"team": "red"},
        "stream_mode": ["updates", "messages-tuple"],
        "stream_subgraphs": True,
        "interrupt_before": ["say"],
        "interrupt_after": "*",
        "webhook": "https://example.com/done",
        "checkpoint_during": False,
        "multitask_strategy": "reject",
    }
    cron = await made(client, on_run_completed="keep", **options)
    assert cron["payload"]["config"] == {"configurable": {"lang": "fr"}}
    assert cron["payload"]["assistant_id"] == agent_assistant_id("echo")
    request = build_cron_request(await kept(services, cron))
    expected = RunOptions(**options).to_options()
    assert request.kwargs() == {
        key: [*value] if isinstance(value, tuple) else value
        for key, value in expected.items()
        if key not in ("input", "metadata", "multitask_strategy") and value not in (None, {}, False)
    }
    assert request.input == {"text": "hi"}
    assert request.metadata == {"team": "red", "cron_id": cron["cron_id"]}
    assert (request.multitask_strategy, request.durability) == ("reject", "exit")
    assert (request.keep_thread, request.origin) == (True, "cron")


async def test_what_cannot_be_read_or_kept_is_refused(client):
    for wrong in (
        {"schedule": ""},
        {"schedule": "61 * * * *"},
        {"schedule": "0 0 31 2 *"},
        {"schedule": "* * * * *\0"},
        {"schedule": "1" * 5000},
        {"schedule": None},
        {"timezone": "Mars/Olympus"},
        {"timezone": "Europe"},
        {"timezone": "../etc"},
        {"timezone": "a" * 400},
        {"timezone": ""},
        {"end_time": "soon"},
        {"end_time": "0001-01-01T00:00:00+14:00"},
        {"end_time": 10**30},
        {"input": {"a": "\0"}},
        {"input": 2**70},
        {"webhook": "\0"},
        {"metadata": {"n": 2**70}},
        {"config": {"configurable": 1}},
        {"on_run_completed": "perhaps"},
        {"stream_mode": "colours"},
        {"enabled": "perhaps"},
    ):
        body = {"assistant_id": "echo", "schedule": NEVER, **wrong}
        answer = await client.post("/runs/crons", json=body)
        assert answer.status_code == 422, wrong
        assert answer.json()["error"] == "invalid"
    assert (await client.post("/runs/crons/count", json={})).json() == 0


async def test_an_unknown_assistant_or_thread_is_not_found(client):
    for unknown in ("no-such-graph", str(uuid.uuid4())):
        body = {"assistant_id": unknown, "schedule": NEVER}
        answer = await client.post("/runs/crons", json=body)
        assert answer.status_code == 404
        assert unknown in answer.json()["message"]
    body = {"assistant_id": "echo", "schedule": NEVER}
    assert (await client.post(f"/threads/{uuid.uuid4()}/runs/crons", json=body)).status_code == 404
    assert (await client.post("/threads/no-uuid/runs/crons", json=body)).status_code == 422


async def test_a_cron_that_is_off_or_has_ended_is_not_next(client):
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    soon = (datetime.now(UTC) + timedelta(seconds=1)).replace(tzinfo=None).isoformat()
    assert (await made(client, enabled=False))["next_run_date"] is None
    assert (await made(client, end_time=past))["next_run_date"] is None
    assert (await made(client, end_time=soon))["next_run_date"] is None


async def test_an_update_changes_what_it_names(client, services):
    cron = await made(client, input={"text": "a"}, metadata={"kept": 1, "n": 1}, durability="sync")
    path = f"/runs/crons/{cron['cron_id']}"
    end = datetime.now(UTC) + timedelta(days=3000)
    body = {
        "schedule": "0 9 * * *",
        "timezone": "Asia/Tokyo",
        "end_time": end.isoformat(),
        "metadata": {"n": 2},
        "context": {"tone": "cold"},
        "on_run_completed": "keep",
        "stream_mode": "updates",
    }
    changed = (await client.patch(path, json=body)).json()
    assert (changed["schedule"], changed["timezone"]) == ("0 9 * * *", "Asia/Tokyo")
    assert datetime.fromisoformat(changed["next_run_date"]).hour == 0
    assert datetime.fromisoformat(changed["end_time"]) == end
    assert changed["metadata"] == {"kept": 1, "n": 2}
    assert changed["on_run_completed"] == "keep"
    assert changed["payload"]["input"] == {"text": "a"}
    assert changed["updated_at"] > cron["updated_at"]
    request = build_cron_request(await kept(services, cron))
    assert (request.modes, request.durability) == (["updates"], "sync")
    assert request.context == {"tone": "cold"}
    assert request.metadata["n"] == 2
    assert (await client.get(path)).json() == changed


async def test_an_update_with_nothing_keeps_everything_and_null_clears_the_end_alone(client):
    end = (datetime.now(UTC) + timedelta(days=3000)).isoformat()
    cron = await made(client, schedule="0 9 * * *", end_time=end, timezone="Asia/Tokyo")
    path = f"/runs/crons/{cron['cron_id']}"
    same = (await client.patch(path, json={})).json()
    assert {**same, "updated_at": None} == {**cron, "updated_at": None}
    cleared = (await client.patch(path, json={"end_time": None, "timezone": None})).json()
    assert (cleared["end_time"], cleared["timezone"]) == (None, "Asia/Tokyo")


async def test_a_cron_is_switched_off_and_on(client):
    cron = await made(client, schedule="0 9 * * *")
    path = f"/runs/crons/{cron['cron_id']}"
    off = (await client.patch(path, json={"enabled": False})).json()
    assert (off["enabled"], off["next_run_date"]) == (False, None)
    on = (await client.patch(path, json={"enabled": True})).json()
    assert (on["enabled"], on["next_run_date"]) == (True, cron["next_run_date"])


async def test_an_input_takes_the_place_of_a_command_and_the_other_way_round(client):
    cron = await made(client, command={"resume": 1})
    path = f"/runs/crons/{cron['cron_id']}"
    first = (await client.patch(path, json={"input": {"text": "a"}})).json()["payload"]
    assert (first["input"], first["command"]) == ({"text": "a"}, None)
    second = (await client.patch(path, json={"command": {"resume": 2}})).json()["payload"]
    assert (second["input"], second["command"]) == (None, {"resume": 2})
    both = {"input": {"text": "b"}, "command": {"resume": 3}}
    third = (await client.patch(path, json=both)).json()["payload"]
    assert (third["input"], third["command"]) == (None, {"resume": 3})


async def test_an_update_that_cannot_be_is_refused_and_changes_nothing(client):
    cron = await made(client)
    path = f"/runs/crons/{cron['cron_id']}"
    for wrong in (
        {"schedule": "never"},
        {"timezone": "Mars/Olympus"},
        {"schedule": "never", "enabled": False},
        {"metadata": {"a": "\0"}},
    ):
        assert (await client.patch(path, json=wrong)).status_code == 422, wrong
    assert (await client.get(path)).json() == cron


async def test_a_deleted_cron_is_gone(client):
    path = f"/runs/crons/{(await made(client))['cron_id']}"
    assert (await client.delete(path)).status_code == 204
    for asked in (client.get(path), client.delete(path), client.patch(path, json={})):
        answer = await asked
        assert answer.status_code == 404
        assert path.rpartition("/")[2] in answer.json()["message"]


async def test_crons_are_searched_counted_and_sorted(client, thread):
    on = await thread()
    first = await made(client, assistant_id="loud", schedule="0 5 * * *", metadata={"n": 1})
    second = await made(client, enabled=False, metadata={"n": 2})
    third = await made(client, f"/threads/{on}/runs/crons", schedule="0 3 * * *")
    ids = [each["cron_id"] for each in (first, second, third)]
    assert third["on_run_completed"] is None
    assert await searched(client) == ids[::-1]
    assert await searched(client, assistant_id="echo") == [ids[2], ids[1]]
    assert await searched(client, assistant_id=agent_assistant_id("loud")) == [ids[0]]
    assert await searched(client, assistant_id="nobody") == []
    assert await searched(client, thread_id=on) == [ids[2]]
    assert await searched(client, enabled=False) == [ids[1]]
    assert await searched(client, metadata={"n": 2}) == [ids[1]]
    assert await searched(client, limit=1, offset=1) == [ids[1]]
    by_time = {"sort_by": "next_run_date", "sort_order": "asc", "enabled": True}
    sooner = sorted((first, third), key=lambda cron: cron["next_run_date"])
    assert await searched(client, **by_time) == [each["cron_id"] for each in sooner]
    some = await client.post("/runs/crons/search", json={"limit": 1, "select": ["schedule"]})
    assert some.json() == [{"schedule": "0 3 * * *"}]
    for body, number in (({}, 3), ({"assistant_id": "echo"}, 2), ({"metadata": {"n": 1}}, 1)):
        assert (await client.post("/runs/crons/count", json=body)).json() == number


async def test_a_search_that_makes_no_sense_is_refused(client):
    for body in (
        {"limit": 0},
        {"offset": -1},
        {"assistant_id": "\0"},
        {"thread_id": "no-uuid"},
        {"metadata": {"n": 2**64}},
        {"sort_by": "colour"},
        {"select": ["colour"]},
    ):
        answer = await client.post("/runs/crons/search", json=body)
        assert answer.status_code == 422, body


async def test_the_clock_is_told_of_a_cron_and_starts_its_runs(client, services):
    with Wakeup(services.runs.parts.hub, ("clock", "")) as bell:
        cron = await made(client)
        assert await bell.wait(30)
        await client.patch(f"/runs/crons/{cron['cron_id']}", json={"schedule": "* * * * * *"})
        assert await bell.wait(30)

    def started(reads):
        return runs.search(reads, metadata={"cron_id": cron["cron_id"]})

    with Wakeup(services.runs.parts.hub, WORK) as bell:
        async with asyncio.timeout(60):
            while not (found := await services.database.read(started)):
                await bell.wait(0.05)
    assert (found[0].origin, found[0].user["identity"]) == ("cron", "anonymous")
    await client.delete(f"/runs/crons/{cron['cron_id']}")


async def test_a_cron_acts_as_who_made_it_without_their_credentials(served):
    ann = await served.as_user("ann")
    row = await kept(served.services, await made(ann))
    assert row.owner == "ann"
    assert User(**row.user) == User("ann")
    assert "token-of-ann" not in str(row)


async def test_users_see_their_own_crons_and_admins_all(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    cron = await made(ann)
    path = f"/runs/crons/{cron['cron_id']}"
    for asked in (bob.get(path), bob.patch(path, json={}), bob.delete(path)):
        assert (await asked).status_code == 404
    assert await searched(bob) == []
    assert (await bob.post("/runs/crons/count", json={})).json() == 0
    assert await searched(await served.as_user("root")) == [cron["cron_id"]]
    assert (await ann.delete(path)).status_code == 204


async def test_a_cron_reaches_no_thread_or_assistant_of_somebody_else(served, thread):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    theirs = (await ann.post("/assistants", json={"graph_id": "echo"})).json()["assistant_id"]
    refused = await bob.post("/runs/crons", json={"assistant_id": theirs, "schedule": NEVER})
    assert refused.status_code == 404
    on = await thread("ann")
    body = {"assistant_id": "echo", "schedule": NEVER}
    assert (await bob.post(f"/threads/{on}/runs/crons", json=body)).status_code == 404
    assert (await ann.post(f"/threads/{on}/runs/crons", json=body)).status_code == 200


async def test_handlers_write_to_a_cron_filter_it_and_rule_over_its_runs(served, thread):
    auth = named_users()

    @auth.on.crons
    async def by_owner(ctx, value):
        value.setdefault("metadata", {})["owner"] = ctx.user.identity
        return {"owner": ctx.user.identity}

    @auth.on.threads.create_run
    async def not_for_eve(ctx, value):
        assert ctx.user.identity != "eve", "Eve starts nothing"
        return {"team": "red"}

    ann, bob = await served.as_user("ann", auth), await served.as_user("bob", auth)
    cron = await made(ann, metadata={"a": 1})
    assert cron["metadata"] == {"a": 1, "owner": "ann"}
    assert cron["payload"]["metadata"] == {"a": 1, "owner": "ann"}
    assert (await bob.get(f"/runs/crons/{cron['cron_id']}")).status_code == 404
    assert (await searched(bob), await searched(ann)) == ([], [cron["cron_id"]])
    body = {"assistant_id": "echo", "schedule": NEVER}
    eve = await served.as_user("eve", auth)
    assert (await eve.post("/runs/crons", json=body)).status_code == 403
    red, blue = await thread("x", team="red"), await thread("x", team="blue")
    assert (await ann.post(f"/threads/{red}/runs/crons", json=body)).status_code == 200
    assert (await ann.post(f"/threads/{blue}/runs/crons", json=body)).status_code == 404


class OneKey:
    """A key store in which every digest is of the same key."""

    def __init__(self, key_id):
        self.key_id = key_id

    async def find(self, digest):
        return Key(self.key_id, digest, self.key_id, "member", "ann", created_at=0.0)


async def test_the_key_that_made_or_last_changed_a_cron_vouches_for_it(served):
    first, second = [
        await served.enter(choose_authenticator(keys=OneKey(name)), **{"x-api-key": "crk_x"})
        for name in ("first", "second")
    ]
    cron = await made(second)
    assert "key_id" not in cron
    assert (await kept(served.services, cron)).key_id == "second"
    change = {"metadata": {"a": 1}}
    assert (await first.patch(f"/runs/crons/{cron['cron_id']}", json=change)).is_success
    row = await kept(served.services, cron)
    assert (row.key_id, row.owner) == ("first", "ann")
