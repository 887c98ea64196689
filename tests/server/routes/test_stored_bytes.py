"""What counts as stored for an owner beside runs: threads, assistants, agents, crons and items."""

import asyncio
from functools import partial

import pytest

from checkrail.runs.admit.quotas import OwnerQuotas, Quotas
from checkrail.runs.retention import Retention
from checkrail.store import items, usage

from .support import named_users

LONG = "x" * 30_000
MOST = 100_000
SCRIPT = {"provider": "scripted", "replies": ["done"]}


@pytest.fixture
async def ann(served):
    """Somebody who may store 100 kB."""
    served.services.runs.parts.quotas = OwnerQuotas(Quotas(stored_bytes=MOST))
    return await served.as_user("ann")


async def stored(served, owner="ann"):
    return await served.services.database.read(
        lambda reads: usage.sum_stored_bytes(reads, owner, 0)
    )


async def until_refused(request, most=10):
    """Repeat a request until it is refused, and return how often it was not."""
    for done in range(most):
        answer = await request(done)
        if answer.status_code == 429:
            assert answer.json()["error"] == "too_many"
            told = answer.json()["message"]
            assert "bytes stored and requested" in told
            assert "limits.stored_bytes_per_owner allows 100000. Delete threads" in told
            return done
        assert answer.is_success, answer.text
    return most


async def make_thread(client, **more):
    answer = await client.post("/threads", json={"metadata": {"graph_id": "echo"}, **more})
    assert answer.is_success, answer.text
    return answer.json()["thread_id"]


class TestState:
    async def test_each_write_counts_as_the_state_that_it_makes(self, served, ann):
        thread = await make_thread(ann)

        async def write(_):
            body = {"values": {"text": LONG}, "as_node": "say"}
            return await ann.post(f"/threads/{thread}/state", json=body)

        assert await until_refused(write) == 2  # the second one keeps the first
        again = {"values": {"log": []}, "as_node": "say"}
        assert (await ann.post(f"/threads/{thread}/state", json=again)).status_code == 429
        assert (await ann.post("/runs/wait", json={"assistant_id": "echo"})).status_code == 200
        assert (await ann.delete(f"/threads/{thread}")).is_success
        assert await stored(served) < 5_000

    async def test_what_a_graph_does_not_take_is_not_counted(self, served, ann):
        thread = await make_thread(ann)
        before = await stored(served)
        body = {"values": {"text": LONG}, "as_node": "nobody"}
        assert (await ann.post(f"/threads/{thread}/state", json=body)).status_code == 422
        assert await stored(served) == before

    async def test_a_past_counts_before_it_is_made(self, served, ann):
        step = {"updates": [{"values": {"text": LONG}, "as_node": "say"}]}
        body = {"metadata": {"graph_id": "echo"}, "supersteps": [step] * 3}
        assert (await ann.post("/threads", json=body)).status_code == 429
        assert (await ann.post("/threads/count", json={})).json() == 0
        await make_thread(ann, supersteps=[step] * 2)
        assert await stored(served) > 90_000

    async def test_a_copy_counts_with_all_that_runs_left_in_it(self, served, ann):
        thread = await make_thread(ann)
        body = {"assistant_id": "echo", "input": {"text": "x" * 5_000}}
        assert (await ann.post(f"/threads/{thread}/runs/wait", json=body)).status_code == 200
        before = await stored(served)
        copied = (await ann.post(f"/threads/{thread}/copy")).json()["thread_id"]
        assert await stored(served) > before + 10_000
        assert await until_refused(lambda _: ann.post(f"/threads/{thread}/copy")) < 8
        assert (await ann.delete(f"/threads/{copied}")).is_success

    async def test_pruning_leaves_what_the_latest_state_takes(self, served, ann):
        thread = await make_thread(ann)
        for _ in range(2):
            body = {"values": {"text": LONG}, "as_node": "say"}
            assert (await ann.post(f"/threads/{thread}/state", json=body)).is_success
        assert await stored(served) > 90_000
        body = {"thread_ids": [thread], "strategy": "keep_latest"}
        assert (await ann.post("/threads/prune", json=body)).json() == {"pruned_count": 1}
        assert 500 < await stored(served) < 70_000


class TestMetadata:
    async def test_of_new_threads(self, ann):
        body = {"metadata": {"long": LONG}}
        assert await until_refused(lambda _: ann.post("/threads", json=body)) == 3

    async def test_that_is_merged_into_a_thread(self, ann):
        thread = await make_thread(ann)

        def merge(number):
            return ann.patch(f"/threads/{thread}", json={"metadata": {f"key{number}": LONG}})

        assert await until_refused(merge) == 3
        assert (await merge(0)).is_success  # as it was
        shorter = {"metadata": {"key0": "", "key1": ""}}
        assert (await ann.patch(f"/threads/{thread}", json=shorter)).is_success
        assert (await merge(4)).is_success

    async def test_of_runs_and_the_threads_that_they_make(self, served, ann):
        body = {"assistant_id": "echo", "input": {}, "metadata": {"long": LONG}}
        body |= {"if_not_exists": "create"}
        thread = "5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11"
        assert (await ann.post(f"/threads/{thread}/runs/wait", json=body)).status_code == 200
        assert await stored(served) > 60_000

    async def test_of_sessions_goes_with_their_threads(self, served, ann):
        body = {"agent_name": "echo", "parameters": {}, "metadata": {"long": LONG}}
        run = (await ann.post("/runs", json=body)).json()
        path = f"/sessions/{run['session_id']}"
        assert (await ann.get(path)).status_code == 200
        assert (await ann.delete(f"/threads/{run['thread_id']}")).is_success
        assert (await ann.get(path)).status_code == 404


async def test_versions_of_assistants(served, ann):
    half = LONG[: len(LONG) // 2]  # a context is mirrored in `configurable`
    body = {"graph_id": "echo", "context": {"long": half}}
    made = (await ann.post("/assistants", json=body)).json()["assistant_id"]

    def revise(_):
        return ann.patch(f"/assistants/{made}", json={"name": "another"})

    assert await until_refused(revise) == 2
    same = {**body, "assistant_id": made, "if_exists": "do_nothing"}
    assert (await ann.post("/assistants", json=same)).is_success
    assert (await ann.post("/assistants", json=body)).status_code == 429
    back = await ann.post(f"/assistants/{made}/latest", json={"version": 1})
    assert back.json()["name"] == "Untitled"
    assert await stored(served) > 90_000
    assert (await ann.delete(f"/assistants/{made}")).is_success
    assert await stored(served) == 0


async def test_versions_of_agents(served, ann):
    made = await ann.post("/agents", json={"name": "own", "model": SCRIPT, "system_prompt": LONG})
    assert made.is_success, made.text

    def revise(number):
        return ann.patch("/agents/own", json={"description": f"It is number {number}"})

    assert await until_refused(revise) == 2
    assert (await ann.get("/agents/own")).json()["version"] == 3
    assert (await ann.delete("/agents/own")).is_success
    assert await stored(served) == 0


class TestCrons:
    async def test_their_number(self, served):
        served.services.runs.parts.quotas = OwnerQuotas(Quotas(crons=2))
        ann = await served.as_user("ann")
        body = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": {}}
        made = [await ann.post("/runs/crons", json=body) for _ in range(3)]
        assert [answer.status_code for answer in made] == [200, 200, 429]
        assert "'ann' has 2 crons, and limits.crons_per_owner allows 2" in made[2].text
        assert (await ann.delete(f"/runs/crons/{made[0].json()['cron_id']}")).is_success
        assert (await ann.post("/runs/crons", json=body)).status_code == 200

    async def test_what_they_give_to_runs(self, ann):
        body = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": {"text": LONG}}
        made = (await ann.post("/runs/crons", json=body)).json()["cron_id"]
        longer = {"input": {"text": LONG * 3}}
        assert (await ann.patch(f"/runs/crons/{made}", json=longer)).is_success
        assert await until_refused(lambda _: ann.post("/runs/crons", json=body)) == 0
        longer = {"input": {"text": LONG * 4}}
        assert (await ann.patch(f"/runs/crons/{made}", json=longer)).status_code == 429
        assert (await ann.patch(f"/runs/crons/{made}", json={"input": {}})).is_success
        assert (await ann.post("/runs/crons", json=body)).status_code == 200


class TestItems:
    def put(self, client, key, value=LONG, **more):
        body = {"namespace": ["notes", "own"], "key": str(key), "value": {"text": value}, **more}
        return client.put("/store/items", json=body)

    async def test_they_count_for_who_put_them_there(self, served, ann):
        assert await until_refused(partial(self.put, ann)) == 3
        assert (await self.put(ann, 0)).is_success  # in place of itself
        assert (await self.put(ann, 0, LONG * 2)).status_code == 429
        bob = await served.as_user("bob")
        assert (await self.put(bob, 0)).is_success
        ann = await served.as_user("ann")
        assert (await self.put(ann, 3)).is_success
        body = {"namespace": ["notes", "own"], "key": "1"}
        assert (await ann.request("DELETE", "/store/items", json=body)).is_success
        assert (await self.put(ann, 4)).is_success

    async def test_one_that_is_not_kept_does_not_count(self, served, ann):
        auth = named_users()

        @auth.on.store
        async def refuse(ctx, value):
            value["namespace"] = ("langgraph",)  # which the store refuses

        known = items.Item("langgraph", "known", "ann", stored_bytes=5)
        await served.services.database.write(partial(items.put, item=known))
        ann = await served.as_user("ann", auth)
        assert (await self.put(ann, "known")).status_code == 422
        assert (await self.put(ann, "new")).status_code == 422
        assert await stored(served) == 5

    async def test_one_that_has_expired_counts_no_longer(self, served, ann):
        parts = served.services.runs.parts
        parts.find_store = served.services.find_store
        for key in ("gone", "read"):
            assert (await self.put(ann, key, ttl=0.001)).is_success
        assert (await self.put(ann, "stays")).is_success
        later = parts.database.time() + 120

        def expired(reads):
            return [row.key for row in items.find_expired(reads, later, 10)]

        assert sorted(await parts.database.read(expired)) == ["gone", "read"]
        store = await served.services.find_store()
        await store.adelete(("notes", "own"), "gone")
        await Retention(parts)._remove_items(later)
        assert 60_000 < await stored(served) < 70_000
        assert await parts.database.read(expired) == []

    async def test_many_at_once_do_not_get_past_it(self, served, ann):
        answers = await asyncio.gather(*(self.put(ann, number) for number in range(10)))
        assert sorted(each.status_code for each in answers) == [204] * 3 + [429] * 7


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
async def test_admins_store_as_much_as_they_like(served, ann):
    root = await served.as_user("root")
    for _ in range(4):
        assert (await root.post("/threads", json={"metadata": {"long": LONG}})).is_success
    thread = await make_thread(root)
    body = {"values": {"text": LONG}, "as_node": "say"}
    assert (await root.post(f"/threads/{thread}/state", json=body)).is_success


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
async def test_summing_goes_by_indexes(served):
    tables = ("runs", "threads", "assistants", "agents", "crons", "store_items")

    def plans(reads):
        asked = (
            f"SELECT sum(stored_bytes) FROM {table} WHERE owner = 'x' AND stored_bytes IS NOT NULL"
            for table in tables
        )
        return [
            str(reads.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").fetchall()) for query in asked
        ]

    found = await served.services.database.read(plans)
    expected = [f"COVERING INDEX {table}_bytes_of_owner" for table in tables]
    assert [name in plan for name, plan in zip(expected, found, strict=True)] == [True] * 6, found
