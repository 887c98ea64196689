"""Two servers on one PostgreSQL: what one of them has confirmed holds on the other at once.

Neither hears of the other's changes here, so what a server does not look up it does not know.
"""

import asyncio
import random
from dataclasses import replace

import pytest
from tests.runs.support import ADA, until

from checkrail.runs.admit.requests import Idempotency
from checkrail.runs.events.hub import WORK
from checkrail.runs.remote.runners import PollRequest
from checkrail.runs.scheduler import build_cron_request
from checkrail.store import agents, crons, runs

from .test_agents import call, hook, made, scripted

SHUT = {"block": "Not today"}
ASKED = {"assistant_id": "poet", "input": {"prompt": "x"}}
POET = scripted("poet", *["a poem"] * 50)
CALLER = scripted("caller", *["done"] * 50, hooks={"on_result": hook("poet")})


async def gate(client, point, agent="poet"):
    """Put a gate before an agent, or take all its hooks away."""
    body = {"hooks": None if point is None else {point: SHUT}}
    while (answer := await client.patch(f"/agents/{agent}", json=body)).status_code == 409:
        pass  # others change agents at the same time
    assert answer.status_code == 200, answer.text


@pytest.fixture
async def pair(two_servers):
    """Two servers with one agent that both know, of which only the other one carries out runs."""
    one, other = await two_servers()
    one.services.runs.worker.end_claims()
    await made(one.client, POET)
    await made(one.client, CALLER)
    await call(other.client, "GET", "/agents")
    return one, other


async def create(served):
    return await served.client.post("/runs", json={"agent_name": "poet", **_parameters("sync")})


async def start(served):
    answer = await served.client.post("/runs", json=ASKED)
    return await _ended(served, answer)


async def start_for_a_name(served):
    answer = await served.client.post("/runs", json={"agent_name": "poet", **_parameters("async")})
    return await _ended(served, answer)


async def wait(served):
    return await served.client.post("/runs/wait", json=ASKED)


async def stream(served):
    return await served.client.post("/runs/stream", json=ASKED)


async def batch(served):
    answer = await served.client.post("/runs/batch", json=[ASKED, ASKED])
    for row in answer.json() if answer.status_code == 200 else ():
        await served.services.runs.ended(row["run_id"])
    return answer


async def thread_wait(served):
    return await served.client.post(f"/threads/{await _thread(served)}/runs/wait", json=ASKED)


async def thread_stream(served):
    return await served.client.post(f"/threads/{await _thread(served)}/runs/stream", json=ASKED)


async def thread_start(served):
    answer = await served.client.post(f"/threads/{await _thread(served)}/runs", json=ASKED)
    return await _ended(served, answer)


WAYS = (
    create,
    start,
    start_for_a_name,
    wait,
    stream,
    batch,
    thread_wait,
    thread_stream,
    thread_start,
)


def _parameters(mode):
    mode = {"sync": "sync", "async": "async_poll"}[mode]
    return {"parameters": {"prompt": "x"}, "execution_mode": mode}


async def _thread(served):
    return (await call(served.client, "POST", "/threads", {}))["thread_id"]


async def _ended(served, answer):
    if answer.status_code == 200:
        await served.services.runs.ended(answer.json()["run_id"])
    return answer


async def newest(served):
    [row] = await served.services.database.read(lambda reads: runs.search(reads, limit=1))
    return row


async def ended(served, row):
    async with asyncio.timeout(60):
        return await served.services.runs.ended(row["run_id"])


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
async def test_a_gate_holds_on_the_other_server_by_every_way_in(pair, way):
    one, other = pair
    await gate(one.client, "before_run")
    assert (await way(other)).status_code == 403
    await gate(one.client, None)
    assert (await way(other)).status_code == 200
    await gate(one.client, "on_run_start")
    assert (await way(other)).status_code == 200
    blocked = await newest(other)
    assert (blocked.status, blocked.blocked_by) == ("error", "poet.on_run_start")


async def test_a_gate_holds_for_runs_that_nobody_requests_over_http(pair):
    one, other = pair
    service = other.services.runs
    answer = await create(other)
    session = f"/sessions/{answer.json()['session_id']}/resume"
    body = {"assistant_id": "poet", "schedule": "0 0 29 2 *", "input": {"prompt": "x"}}
    cron = await call(other.client, "POST", "/runs/crons", body)
    row = await service.parts.database.read(lambda reads: crons.get(reads, cron["cron_id"]))
    for number in range(2):
        await gate(one.client, "before_run")
        assert (await other.client.post(session, json={"prompt": "y"})).status_code == 403
        with pytest.raises(Exception, match="Not today"):
            await service.admit(
                [build_cron_request(row)], ADA, Idempotency(f"{number}", "cron", "")
            )
        called = {"agent_name": "caller", **_parameters("sync")}
        ran = (await other.client.post("/runs", json=called)).json()
        assert (ran["status"], ran["blocked_by"]) == ("error", "caller.on_result"), ran
        await gate(one.client, None)
        assert (await other.client.post(session, json={"prompt": "y"})).status_code == 200


async def test_named_hooks_switches_and_removals_hold_on_the_other_server(pair):
    one, other = pair
    await call(one.client, "PUT", "/hooks/door", {"block": "Shut"})
    await call(one.client, "PATCH", "/agents/poet", {"hooks": {"before_run": {"$ref": "door"}}})
    assert (await wait(other)).status_code == 403
    await call(one.client, "PUT", "/hooks/door", {"block": "Shut", "when": "false"})
    assert (await wait(other)).status_code == 200
    await call(one.client, "PUT", "/hooks/door", {"block": "Shut"})
    assert (await wait(other)).status_code == 403
    await gate(one.client, None)
    for _ in range(2):
        await call(one.client, "POST", "/agents/poet/disable")
        assert (await wait(other)).status_code == 409
        assert (await create(other)).status_code == 409
        await call(one.client, "POST", "/agents/poet/enable")
        assert (await create(other)).status_code == 200
        assert (await wait(other)).status_code == 200
    await call(one.client, "DELETE", "/agents/caller", status=204)
    called = {"agent_name": "caller", **_parameters("sync")}
    assert (await other.client.post("/runs", json=called)).status_code == 404
    await made(one.client, CALLER)
    assert (await other.client.post("/runs", json=called)).status_code == 200


async def test_many_changes_by_turns_are_each_seen_by_the_next_request(pair):
    """Others' agents change all the time meanwhile."""
    one, other = pair
    chance = random.Random(7)
    stop = asyncio.Event()

    async def change_others():
        while not stop.is_set():
            await call(other.client, "PATCH", "/agents/caller", {"tags": [str(chance.random())]})

    changing = asyncio.get_running_loop().create_task(change_others())
    try:
        for number in range(24):
            by, at = (one, other) if number % 2 else (other, one)
            point = chance.choice(["before_run", "on_run_start", None])
            await gate(by.client, point)
            answer = await chance.choice([create, wait, thread_wait])(at)
            row = await newest(other)
            assert (answer.status_code == 403) == (point == "before_run"), answer.text
            assert (row.status == "success") == (point is None), row
    finally:
        stop.set()
        await changing


@pytest.mark.parametrize("agent_hook", [False, True], ids=["by itself", "though another has one"])
async def test_runs_that_were_queued_before_a_gate_are_started_after_it(two_servers, agent_hook):
    one, other = await two_servers(capacity=0)
    one.services.runs.worker.end_claims()
    await made(one.client, POET)
    if agent_hook:
        await made(one.client, CALLER | {"hooks": {"on_run_start": SHUT}})
    rows = [await call(other.client, "POST", "/runs", ASKED) for _ in range(3)]
    rows.append(await call(other.client, "POST", "/runs", ASKED | {"after_seconds": 0.2}))
    await gate(one.client, "on_run_start")
    let_in(other)
    found = [await ended(other, row) for row in rows]
    assert {row.blocked_by for row in found} == {"poet.on_run_start"}


async def test_a_runner_gets_no_run_that_a_gate_has_not_seen(two_servers):
    one, other = await two_servers(capacity=0)
    one.services.runs.worker.end_claims()
    await made(one.client, POET)
    rows = [await call(other.client, "POST", "/runs", ASKED) for _ in range(2)]
    phases = {row["run_id"]: row for row in rows}
    await gate(one.client, "on_run_start")
    runners = other.services.runs.runners
    runner = await _runner(runners)
    poll = asyncio.get_running_loop().create_task(
        runners.poll(runner, PollRequest(room=2), asyncio.get_running_loop().create_future())
    )
    found = [await ended(other, row) for row in phases.values()]
    assert {row.blocked_by for row in found} == {"poet.on_run_start"}
    runners.close()
    assert not (await poll).runs


async def test_a_claim_lists_the_points_of_hooks_that_were_confirmed_before_it(two_servers):
    one, other = await two_servers(capacity=0)
    one.services.runs.worker.end_claims()
    await made(one.client, POET)
    await call(other.client, "POST", "/runs", ASKED)
    await gate(one.client, "before_llm_call")
    runners = other.services.runs.runners
    runner = await _runner(runners)
    found = await runners.poll(
        runner, PollRequest(room=1), asyncio.get_running_loop().create_future()
    )
    assert found.runs[0]["points"] == {"before_llm_call": "gate"}


async def test_what_a_runner_never_got_is_asked_about_when_a_gate_came_meanwhile(two_servers):
    one, other = await two_servers(capacity=0)
    one.services.runs.worker.end_claims()
    await made(one.client, POET)
    row = await call(other.client, "POST", "/runs", ASKED)
    runners = other.services.runs.runners
    runner = await _runner(runners)
    gone = asyncio.get_running_loop().create_future()
    assert (await runners.poll(runner, PollRequest(room=1), gone)).runs
    await gate(one.client, "on_run_start")
    await runners.deregister(runner.worker_id, frozenset())
    let_in(other)
    assert (await ended(other, row)).blocked_by == "poet.on_run_start"


def let_in(served):
    """Let a server take runs that had no room so far."""
    parts = served.services.runs.parts
    parts.settings = replace(parts.settings, capacity=4)
    parts.hub.notify([WORK])


async def _runner(runners):
    told = {"host": "h", "pid": 1, "name": "r", "capacity": 2, "tags": []}
    told |= {"kinds": ["autonomous"], "agents": []}
    entered = await runners.register("runner", told)
    return await runners.require_runner(entered["runner_id"], "runner")


class Slow:
    """A hook of one server's file that takes as long as a test says."""

    def __init__(self, served, point):
        self.reached, self.released, self.calls = asyncio.Event(), asyncio.Event(), 0
        served.services.runs.parts.registry.register(self.call, point, name="slow", timeout=60)

    async def call(self, event, value):
        self.calls += 1
        self.reached.set()
        await self.released.wait()


@pytest.mark.parametrize("point", ["before_run", "on_run_start"])
async def test_a_gate_that_comes_while_other_hooks_take_their_time_holds(pair, point):
    one, other = pair
    slow = Slow(other, point)
    asking = asyncio.get_running_loop().create_task(wait(other))
    await slow.reached.wait()
    await gate(one.client, point)
    slow.released.set()
    assert (await asking).status_code == (403 if point == "before_run" else 200)
    assert (await newest(other)).blocked_by == f"poet.{point}"
    assert slow.calls == 2


@pytest.mark.parametrize("point", ["before_run", "on_run_start"])
async def test_hooks_are_fired_once_though_other_agents_change_meanwhile(pair, point):
    one, other = pair
    slow = Slow(other, point)
    asking = asyncio.get_running_loop().create_task(wait(other))
    await slow.reached.wait()
    await call(one.client, "PATCH", "/agents/caller", {"tags": ["changed"]})
    slow.released.set()
    assert (await asking).status_code == 200
    assert (await newest(other)).status == "success"
    assert slow.calls == 1


@pytest.mark.parametrize("blueprint", [{"model": 3}, [["model"]], {"model": "x", "hooks": 7}])
async def test_an_agent_that_cannot_be_read_is_refused_and_no_other_is(pair, blueprint):
    one, other = pair
    row = await call(other.client, "POST", "/runs", ASKED | {"after_seconds": 0.5})

    async def keep(blueprint):
        await one.services.database.write(
            lambda tx: agents.update_agent(tx, "poet", blueprint=blueprint)
        )

    await keep(blueprint)
    for way in (create, wait):
        answer = await way(other)
        assert answer.status_code == 409, answer.text
        assert "cannot be used" in answer.json()["message"]
    assert (await other.client.post("/runs/wait", json={"assistant_id": "echo"})).status_code == 200
    over = await ended(other, row)
    assert (over.status, over.error_type) == ("error", "ConflictError"), over
    await keep({"model": POET["model"]})
    assert (await wait(other)).status_code == 200


async def test_a_server_that_was_alone_hears_at_once_of_another_that_joins(two_servers):
    one, other = await two_servers(lease=600.0, beat=300.0)
    parts = one.services.runs.parts
    parts.alone = True
    other.services.runs.parts.alone = True

    async def joined():
        return not parts.alone

    await two_servers(lease=600.0, beat=300.0)
    await until(joined, "word of the server that has joined")
