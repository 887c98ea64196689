"""Figures of runs and hooks over a window."""

import asyncio
from types import SimpleNamespace

import pytest

from checkrail import Block
from checkrail.runs.rollups import RollupWriter, bucket_of, percentile, sum_figures
from checkrail.store import rollups
from checkrail.store.rollups import MINUTE, RUN


async def ran(client, agent="echo", text="x"):
    body = {"assistant_id": agent, "input": {"text": text}}
    assert (await client.post("/runs/wait", json=body)).status_code == 200


@pytest.fixture
def ruled(services):
    def shut(event):
        return Block("no") if event.value.get("text") == "bad" else None

    def broken(event):
        raise OSError("away")

    register = services.runs.parts.registry.register
    register(shut, "on_run_start", name="shut", lane="gate")
    register(lambda _: Block("would"), "on_run_start", name="trial", lane="gate", mode="shadow")
    register(broken, "on_run_start", name="broken", lane="observe")


@pytest.mark.parametrize("window", ["1h", "24h", "7d"])
async def test_runs_and_hooks_are_counted_in_every_window(client, ruled, window):
    await ran(client)
    await ran(client, text="bad")
    await ran(client, "loud")
    told = (await client.get(f"/stats/runs?window={window}")).json()
    total = told["total"]
    assert (total["runs"], total["by_status"]) == (3, {"success": 2, "error": 1})
    assert (total["blocked"], total["would_block"]) == (1, 3)
    assert 0 < total["p50_ms"] <= total["p99_ms"]
    assert sum(bucket["runs"] for bucket in told["buckets"]) == 3
    of_loud = (await client.get(f"/stats/runs?window={window}&agent_name=loud")).json()
    assert of_loud["total"]["runs"] == 1
    listed = (await client.get(f"/hooks/stats?window={window}")).json()
    hooks = {each["hook"]: each for each in listed}
    assert (hooks["shut"]["calls"], hooks["shut"]["blocked"], hooks["shut"]["passed"]) == (3, 1, 2)
    assert hooks["trial"]["would_block"] == 3
    assert (hooks["broken"]["failed"], hooks["broken"]["failures"]) == (3, {"error": 3})
    [one] = (await client.get("/hooks/stats?hook=trial")).json()
    assert (one["point"], one["hook"]) == ("on_run_start", "trial")


async def test_everybody_sees_figures_of_their_own(served):
    ada = await served.as_user("ada")
    await ran(ada)
    assert (await ada.get("/stats/runs")).json()["total"]["runs"] == 1
    bob = await served.as_user("bob")
    assert (await bob.get("/stats/runs")).json()["total"]["runs"] == 0


async def test_figures_of_several_processes_are_added_and_none_twice(services):
    database = services.database
    for writer in ("one", "two"):
        made = RollupWriter(database, writer)
        made._add((RUN, "", "echo", "ann"), {"runs": 1}, 5.0)
        await made.flush()
        made._add((RUN, "", "echo", "ann"), {"runs": 1}, 5.0)
        await made.flush()
        await made.flush()
    rows = await database.read(lambda reads: rollups.load(reads, RUN, MINUTE, 0.0, owner="ann"))
    assert sum_figures(each.figures for each in rows)["runs"] == 4


async def test_what_is_counted_while_figures_are_stored_is_stored_with_its_minute(services):
    now = [59.9]
    database = services.database
    made = RollupWriter(SimpleNamespace(time=lambda: now[0], write=database.write), "late")
    made._add((RUN, "", "echo", "late"), {"runs": 1}, 5.0)
    storing = asyncio.create_task(made.flush())
    await asyncio.sleep(0)
    made._add((RUN, "", "echo", "late"), {"runs": 1}, 5.0)
    now[0] = 65.0
    await storing
    await made.flush()
    rows = await database.read(lambda reads: rollups.load(reads, RUN, MINUTE, 0.0, owner="late"))
    assert [(each.moment, each.figures["runs"]) for each in rows] == [(0.0, 2)]


def test_percentiles_are_within_their_bucket():
    buckets = [0] * 24
    for ms in (1.0, 2.0, 3.0, 400.0):
        buckets[bucket_of(ms)] += 1
    assert 0.5 < percentile(buckets, 0.5) < 5
    assert 200 < percentile(buckets, 0.99) < 1000
    assert percentile([0] * 24, 0.5) is None
    assert (bucket_of(0.0), bucket_of(1e12)) == (0, 23)
