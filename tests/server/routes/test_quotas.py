"""What one owner may have: runs, threads, agents and bytes; and how many runs come at once."""

import asyncio
import dataclasses

import pytest

from checkrail.runs.admit.quotas import OwnerQuotas, Quotas
from checkrail.store import usage


def allow(served, quotas=None, **limits):
    """Give owners other limits."""
    config = served.services.config
    changed = dataclasses.replace(config.limits, **limits)
    served.services.config = dataclasses.replace(config, limits=changed)
    if quotas is not None:
        served.services.runs.parts.quotas = OwnerQuotas(quotas)


async def later(client, **more):
    """Ask for a run that begins in an hour."""
    body = {"assistant_id": "echo", "input": {}, "after_seconds": 3600, **more}
    return await client.post("/runs", json=body)


async def test_runs_that_have_not_ended(served):
    allow(served, Quotas(live_runs=3))
    ann = await served.as_user("ann")
    first = (await later(ann)).json()
    assert [(await later(ann)).status_code for _ in range(3)] == [200, 200, 429]
    answer = await later(ann)
    assert answer.json()["error"] == "too_many"
    assert answer.json()["message"] == (
        "'ann' has 3 runs that have not ended, and limits.live_runs_per_owner allows 3. "
        "Wait until some have ended, or cancel them"
    )
    bob = await served.as_user("bob")
    assert (await later(bob)).status_code == 200
    ann = await served.as_user("ann")
    cancelled = await ann.post(f"/runs/{first['run_id']}/cancel", params={"wait": "true"})
    assert cancelled.is_success, cancelled.text
    assert [(await later(ann)).status_code for _ in range(2)] == [200, 429]


async def test_a_batch_counts_as_all_its_runs_or_none(served):
    allow(served, Quotas(live_runs=3), runs_per_batch=5)
    ann = await served.as_user("ann")
    body = {"assistant_id": "echo", "input": {}, "after_seconds": 3600}
    answer = await ann.post("/runs/batch", json=[body] * 4)
    assert answer.status_code == 429
    assert answer.json()["message"] == (
        "'ann' has 0 runs that have not ended and requested 4 more, "
        "and limits.live_runs_per_owner allows 3. No more than 3 can be requested at once"
    )
    assert (await ann.post("/runs/batch", json=[body] * 2)).status_code == 200
    answer = await ann.post("/runs/batch", json=[body] * 2)
    assert answer.status_code == 429
    assert answer.json()["message"].endswith("Wait until some have ended, or cancel them")
    assert (await ann.post("/runs", json=body)).status_code == 200
    answer = await ann.post("/runs/batch", json=[body] * 6)
    assert answer.status_code == 422
    assert "6 runs, more than the 5 of limits.runs_per_batch" in answer.json()["message"]


async def test_many_requests_at_once_do_not_get_past_it(served):
    allow(served, Quotas(live_runs=40))
    ann = await served.as_user("ann")
    answers = await asyncio.gather(*(later(ann) for _ in range(80)))
    assert sorted(answer.status_code for answer in answers) == [200] * 40 + [429] * 40


async def test_threads(served):
    allow(served, Quotas(threads=2))
    ann = await served.as_user("ann")
    made = [await ann.post("/threads", json={}) for _ in range(3)]
    assert [answer.status_code for answer in made] == [200, 200, 429]
    assert "'ann' has 2 threads, and limits.threads_per_owner allows 2" in made[2].text
    thread_id = made[0].json()["thread_id"]
    assert (await ann.post(f"/threads/{thread_id}/copy")).status_code == 429
    same = {"thread_id": thread_id, "if_exists": "do_nothing"}
    assert (await ann.post("/threads", json=same)).status_code == 200
    body = {"assistant_id": "echo", "input": {}, "if_not_exists": "create"}
    anew = "/threads/5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11/runs"
    assert (await ann.post(anew, json=body)).status_code == 429
    assert (await ann.post(f"/threads/{thread_id}/runs/wait", json=body)).status_code == 200
    assert (await ann.delete(f"/threads/{thread_id}")).is_success
    assert (await ann.post("/threads", json={})).status_code == 200


async def test_bytes_of_what_runs_are_given_told_and_came_to(served):
    allow(served, Quotas(stored_bytes=100_000))
    ann = await served.as_user("ann")
    thread = (await ann.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "echo", "input": {"text": "x" * 60_000}}
    assert (await ann.post(f"/threads/{thread}/runs/wait", json=body)).status_code == 200
    stored = await served.services.database.read(
        lambda reads: usage.sum_stored_bytes(reads, "ann", 0)
    )
    assert stored > 3 * 60_000  # input, events, output
    served.services.runs.parts.quotas = OwnerQuotas(Quotas(stored_bytes=100_000))
    answer = await ann.post(f"/threads/{thread}/runs", json=body)
    assert answer.status_code == 429
    assert "limits.stored_bytes_per_owner allows 100000" in answer.json()["message"]
    assert (await ann.delete(f"/threads/{thread}")).is_success
    assert (await ann.post("/runs/wait", json=body)).status_code == 200


@pytest.mark.parametrize("path", ["/runs", "/runs/wait"])
async def test_what_runs_store_counts_before_all_is_summed_again(served, path):
    most, size = 4_000_000, 100_000
    allow(served, Quotas(stored_bytes=most))
    ann = await served.as_user("ann")
    body = {"assistant_id": "echo", "input": {"text": "x" * size}}
    if path == "/runs":
        body["after_seconds"] = 3600
    answers = [await ann.post(path, json=body) for _ in range(60)]
    assert {each.status_code for each in answers} == {200, 429}
    stored = await served.services.database.read(
        lambda reads: usage.sum_stored_bytes(reads, "ann", 0)
    )
    assert stored < most + 5 * size


async def test_agents(served):
    allow(served, agents_per_owner=2)
    ann = await served.as_user("ann")

    async def made(number):
        model = {"provider": "scripted", "replies": ["done"]}
        return await ann.post("/agents", json={"name": f"agent-{number}", "model": model})

    answers = [await made(number) for number in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert "'ann' has 2 agents, and limits.agents_per_owner allows 2" in answers[2].text
    assert (await ann.delete("/agents/agent-0")).is_success
    assert (await made(3)).status_code == 201


async def test_admins_have_none(served):
    allow(served, Quotas(live_runs=1, threads=1, stored_bytes=1), agents_per_owner=1)
    for client in (served.client, await served.as_user("root")):
        assert [(await later(client)).status_code for _ in range(3)] == [200] * 3
        assert [(await client.post("/threads", json={})).status_code for _ in range(2)] == [200] * 2


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
async def test_a_request_that_is_repeated_is_not_refused(served):
    allow(served, Quotas(live_runs=1))
    ann = await served.as_user("ann")
    body = {"assistant_id": "echo", "input": {}, "after_seconds": 3600}
    key = {"idempotency-key": "once"}
    first, again = [await ann.post("/runs", json=body, headers=key) for _ in range(2)]
    assert first.status_code == again.status_code == 200
    assert first.json()["run_id"] == again.json()["run_id"]


class Counted:
    """Counts how often somebody counts."""

    def __init__(self, monkeypatch, used=0):
        self.used = used
        self.times = 0
        monkeypatch.setattr(usage, "COUNT", {"live_runs": self, "stored_bytes": self})

    def __call__(self, _reads, _owner, _most):
        self.times += 1
        return self.used


class TestCounting:
    def test_what_is_far_below_is_seldom_counted(self, monkeypatch):
        counted, now = Counted(monkeypatch), [0.0]
        quotas = OwnerQuotas(Quotas(live_runs=10_000), clock=lambda: now[0])
        for _ in range(600):
            quotas.check_runs(None, "ann", 1)
        assert counted.times == 1
        now[0] = 61.0
        quotas.check_runs(None, "ann", 1)
        assert counted.times == 2

    def test_what_is_scarce_is_counted_each_time(self, monkeypatch):
        counted = Counted(monkeypatch, used=90)
        quotas = OwnerQuotas(Quotas(live_runs=100))
        for _ in range(5):
            quotas.check_runs(None, "ann", 1)
        assert counted.times == 5

    def test_sixteen_servers_stay_below_it_together(self, monkeypatch):
        """All count at the same moment, and none sees what the others give out."""
        counted = Counted(monkeypatch)
        servers = [OwnerQuotas(Quotas(live_runs=1600), clock=lambda: 0.0) for _ in range(16)]
        given = 0
        for server in servers:
            before = counted.times
            server.check_runs(None, "ann", 1)
            while counted.times == before + 1:
                given += 1
                server.check_runs(None, "ann", 1)
        assert 1500 < given <= 1616


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
async def test_counting_goes_by_indexes(served):
    def plans(reads):
        asked = (
            "SELECT 1 FROM runs WHERE owner = 'x' AND ended_at IS NULL",
            "SELECT 1 FROM threads WHERE owner = 'x'",
            "SELECT sum(stored_bytes) FROM runs WHERE owner = 'x'",
        )
        return [
            str(reads.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").fetchall()) for query in asked
        ]

    found = await served.services.database.read(plans)
    names = ("runs_live_of_owner", "threads_by_owner", "runs_bytes_of_owner")
    assert [name in plan for name, plan in zip(names, found, strict=True)] == [True] * 3, found
