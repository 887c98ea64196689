"""What comes by the clock: crons, scheduled runs, and the end of what is too old."""

import asyncio
import time
from functools import partial

import pytest
from sqlalchemy import update

from checkrail.engine.outcomes import RejectRun
from checkrail.llm.call_record import CallRecord
from checkrail.runs import scheduler
from checkrail.runs.admit.admission import agent_assistant_id
from checkrail.runs.admit.requests import Idempotency
from checkrail.runs.cron_schedule import next_time
from checkrail.runs.errors import InvalidError
from checkrail.runs.retention import Retention, forget_expired
from checkrail.store import crons, gateway_calls, idempotency, keys, records, runs
from checkrail.store.gateway_calls import CallFilter
from checkrail.store.tables import runs as table
from checkrail.times import uuid7

from .support import Gate, chain, say, until

EVERY_MINUTE = "* * * * *"
DAY = 86_400.0


async def cron(served, agent="say", due=True, **more):
    """Keep a cron that is due, and tell the clock."""
    now = time.time()
    row = {
        "cron_id": uuid7(),
        "assistant_id": agent_assistant_id(agent),
        "thread_id": None,
        "owner": "ada",
        "user": {"identity": "ada"},
        "schedule": EVERY_MINUTE,
        "timezone": None,
        "enabled": True,
        "on_run_completed": "delete",
        "payload": {"input": {"text": "by the clock"}},
        "metadata": {},
        "next_run_at": now - 1 if due else now + 3600,
        "end_at": None,
        "last_error": None,
        "created_at": now,
        "updated_at": now,
        **more,
    }

    def keep(tx):
        crons.add(tx, crons.Cron(**row))
        tx.publish("clock", "")

    await served.write(keep)
    return row["cron_id"]


async def kept(served, cron_id):
    return await served.read(lambda reads: crons.get(reads, cron_id))


async def runs_of(served, cron_id):
    found = await served.read(lambda reads: runs.search(reads, metadata={"cron_id": cron_id}))
    return found if found and all(row.ended_at for row in found) else None


async def test_a_cron_that_is_due_runs_as_its_owner_and_is_set_to_its_next_time(world):
    served = await world.open({"say": chain(say)})
    cron_id = await cron(served)
    [row] = await until(lambda: runs_of(served, cron_id))
    assert (row.status, row.origin, row.owner) == ("success", "cron", "ada")
    assert row.input == {"text": "by the clock"}
    after = await kept(served, cron_id)
    assert time.time() - 1 < after.next_run_at <= time.time() + 60
    assert after.last_error is None


async def test_a_cron_that_takes_each_process_down_is_switched_off(world):
    served = await world.open({"say": chain(say)})
    asked = {"occurrence": time.time() - 1, "due": False}
    cut_off, spared = [await cron(served, lost=1, worker_id=gone, **asked) for gone in "ab"]
    culprit = await cron(served, lost=2, worker_id="b", **asked)
    await until(lambda: runs_of(served, cut_off))
    await until(lambda: runs_of(served, spared))

    async def is_over():
        return (await kept(served, culprit)).occurrence is None

    await until(is_over)
    after = await kept(served, culprit)
    assert after.last_error.startswith("3 processes went away")
    assert (after.enabled, after.next_run_at, after.lost) == (False, None, 0)
    assert not await runs_of(served, culprit)
    again = await kept(served, cut_off)
    assert (again.occurrence, again.worker_id, again.lost) == (None, None, 0)


async def test_a_cron_whose_request_fails_by_itself_is_asked_for_again(world, monkeypatch):
    served = await world.open({"say": chain(say)})
    monkeypatch.setattr(scheduler, "_PAUSE", 0.01)
    failed, check_key = [], scheduler.Scheduler._check_key

    async def fail_first(self, key_id):
        if not failed:
            failed.append(key_id)
            raise RuntimeError("not now")
        await check_key(self, key_id)

    monkeypatch.setattr(scheduler.Scheduler, "_check_key", fail_first)
    cron_id = await cron(served)
    [row] = await until(lambda: runs_of(served, cron_id))
    assert (row.status, failed) == ("success", [None])


async def test_a_cron_that_is_due_again_keeps_count_of_the_processes_it_took_down(world):
    served = await world.open({"say": chain(say)})
    asked = {"occurrence": time.time() - 60, "worker_id": "gone", "lost": 2}
    culprit = await cron(served, **asked)

    async def is_off():
        return not (await kept(served, culprit)).enabled

    await until(is_off)


async def test_crons_that_processes_have_died_with_are_asked_for_one_at_a_time(world):
    asking, at_once = set(), []

    async def notice(event):
        asking.add(event.run_id)
        at_once.append(len(asking))
        await asyncio.sleep(0.05)
        asking.discard(event.run_id)

    served = await world.open({"say": chain(say)}, (notice, "before_run"))
    suspects = [await cron(served, lost=2) for _ in range(3)]
    for cron_id in suspects:
        await until(lambda cron_id=cron_id: runs_of(served, cron_id))
    assert max(at_once) == 1


async def test_a_cron_that_is_off_or_not_due_does_not_run(world):
    served = await world.open({"say": chain(say)})
    waiting = [await cron(served, due=False), await cron(served, enabled=False)]
    due = await cron(served)
    await until(lambda: runs_of(served, due))
    for cron_id in waiting:
        assert await runs_of(served, cron_id) is None


async def test_a_cron_whose_time_is_over_runs_no_more(world):
    served = await world.open({"say": chain(say)})
    over = await cron(served, end_at=time.time() - 10)
    last = await cron(served, schedule="0 0 29 2 *", end_at=time.time() + 3600)
    await until(lambda: runs_of(served, last))
    assert (await kept(served, over)).next_run_at is None
    assert (await kept(served, last)).next_run_at is None
    assert await runs_of(served, over) is None


async def test_a_refusal_is_the_crons_last_error_and_is_forgotten_when_it_runs_again(world):
    refuse = [True]

    async def gate(event):
        if refuse:
            raise RejectRun("Active subscription required", 402)

    served = await world.open({"say": chain(say)}, (gate, "before_run"))
    cron_id = await cron(served)

    async def failed():
        return (await kept(served, cron_id)).last_error

    assert await until(failed) == "402: Active subscription required"
    [row] = await runs_of(served, cron_id)
    assert (row.phase, row.block_reason) == ("refused", "Active subscription required")
    refuse.clear()

    def due(tx):
        crons.update_cron(tx, cron_id, next_run_at=time.time())
        tx.publish("clock", "")

    await served.write(due)

    async def mended():
        return (await kept(served, cron_id)).last_error is None

    await until(mended)


async def test_a_cron_on_a_thread_that_is_gone_says_so(world):
    served = await world.open({"say": chain(say)})
    cron_id = await cron(served, thread_id="5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11")

    async def failed():
        return (await kept(served, cron_id)).last_error

    assert (await until(failed)).startswith("404: thread ")


async def test_one_cron_that_cannot_be_read_does_not_hold_up_the_others(world, caplog):
    served = await world.open({"say": chain(say)})
    broken = await cron(served, payload={"input": {}, "config": 7, "metadata": 3})
    good = await cron(served)
    await until(lambda: runs_of(served, good))
    assert (await kept(served, broken)) is not None


async def test_a_cron_whose_hook_thinks_does_not_hold_up_scheduled_runs(world):
    gate = Gate()

    async def think(event):
        if event.metadata["run_metadata"].get("cron_id"):
            await gate.pass_through({})

    served = await world.open({"say": chain(say)}, (think, "before_run", {"timeout": 30}))
    slow = await cron(served)
    await gate.entered.wait()
    row = await served.admit("say", {"text": "x"}, after_seconds=0.05)
    assert (await served.over(row)).status == "success"
    gate.open.set()
    await until(lambda: runs_of(served, slow))


def test_a_schedule_is_read_in_its_time_zone():
    noon = 1_700_049_600  # 2023-11-15 12:00 UTC
    assert next_time("0 13 * * *", None, noon) == noon + 3600
    assert next_time("0 13 * * *", "Europe/Berlin", noon) == noon + 24 * 3600


@pytest.mark.parametrize(
    ("schedule", "zone"), [("soon", None), ("* * *", None), ("0 9 * * 1", "Mars/X")]
)
def test_what_is_no_schedule_is_refused(schedule, zone):
    with pytest.raises(InvalidError):
        next_time(schedule, zone, time.time())


async def aged(served, row, seconds):
    change = update(table).where(table.c.run_id == row.run_id)
    when = time.time() - seconds
    await served.write(lambda tx: tx.execute(change.values(ended_at=when)))


async def test_runs_that_are_too_old_go_with_all_that_was_kept_of_them(world):
    async def look(event):
        return None

    served = await world.open({"say": chain(say)}, (look, "on_result"), keep_runs=DAY)
    thread = await served.thread()
    old, new = [await served.run("say", {"text": "x"}, thread) for _ in range(2)]
    await served.records(old)
    await aged(served, old, DAY + 1)
    await Retention(served.parts).clean()
    assert (await served.row(old), await served.events(old)) == (None, [])
    assert await served.records(old) == []
    assert await served.row(new) is not None
    assert (await served.state("say", thread))["said"] == ["x", "x"]


async def test_without_a_setting_nothing_is_removed(world):
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "x"})
    await aged(served, row, 3650 * DAY)
    await Retention(served.parts).clean()
    assert await served.row(row) is not None


async def test_events_may_go_before_their_runs(world):
    served = await world.open({"say": chain(say)}, keep_events=DAY)
    row = await served.run("say", {"text": "x"})
    await aged(served, row, DAY + 1)
    await Retention(served.parts).clean()
    assert (await served.events(row), (await served.row(row)).status) == ([], "success")
    assert await served.followed(row) == []


async def test_a_run_under_way_is_never_too_old(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph()}, keep_runs=0.0, keep_events=0.0)
    row = await served.admit("slow", {})
    await gate.entered.wait()
    await Retention(served.parts).clean()
    gate.open.set()
    assert (await served.over(row)).status == "success"


async def test_old_keys_and_records_are_forgotten(world):
    async def look(event):
        return None

    served = await world.open({"say": chain(say)}, (look, "on_result"), keep_records=DAY)
    row = await served.run("say", {}, once=Idempotency("key", "/runs", "digest"))
    assert len(await served.records(row)) == 2
    now, then = time.time() - DAY, time.time() + DAY
    for when, left in ((now, 2), (then, 0)):
        await served.write(lambda tx, when=when: idempotency.forget_before(tx, when))
        await served.write(lambda tx, when=when: records.forget_before(tx, when))
        known = await served.read(lambda reads: idempotency.find(reads, "ada", "/runs", "key"))
        assert (len(await served.records(row)), known is None) == (left, not left)


async def test_calls_of_the_gateway_are_forgotten_with_what_they_asked(world):
    served = await world.open({"say": chain(say)}, keep_calls=DAY)
    same = {"format": "chat", "path": "/", "request_id": "r", "duration_ms": 1.0}
    now = time.time()
    rows = [CallRecord(uuid7(at), at, **same) for at in (now, now - 2 * DAY)]
    await served.write(lambda tx: gateway_calls.add(tx, rows))
    await Retention(served.parts).clean()
    found = await served.read(lambda reads: gateway_calls.search(reads, CallFilter()))
    assert [row.call_id for row in found] == [rows[0].call_id]


def key(**more):
    kept = {"role": "member", **more}
    return keys.Key(
        key_id=uuid7(), digest=uuid7(), name="k", owner="ada", created_at=time.time(), **kept
    )


@pytest.mark.parametrize("lost", [{"revoked_at": 1.0}, {"role": "viewer"}, None])
async def test_a_cron_whose_key_is_revoked_or_may_only_read_does_not_run(world, lost):
    served = await world.open({"say": chain(say)})
    row = key(**(lost or {}))
    if lost is not None:
        await served.write(lambda tx: keys.add(tx, row))
    cron_id = await cron(served, key_id=row.key_id)

    async def refused():
        return (await kept(served, cron_id)).last_error

    error = await until(refused)
    assert error.startswith(f"401: the API key {row.key_id} that made or last changed")
    assert await runs_of(served, cron_id) is None
    assert (await kept(served, cron_id)).next_run_at > time.time() - 1


async def test_a_cron_whose_key_is_in_force_runs(world):
    served = await world.open({"say": chain(say)})
    row = key()
    await served.write(lambda tx: keys.add(tx, row))
    cron_id = await cron(served, key_id=row.key_id)
    [run] = await until(lambda: runs_of(served, cron_id))
    assert run.status == "success"


async def test_a_thread_that_is_used_again_before_it_is_removed_lives_on(world):
    served = await world.open({"say": chain(say)})
    now = time.time()
    renewed = await served.thread(expires_at=now + 60)  # it had run out when somebody looked
    over = await served.thread(expires_at=now - 60)
    for thread_id, gone in ((renewed, False), (over, True)):
        forget = partial(forget_expired, thread_id=thread_id, now=now)
        assert await served.write(forget) is gone
        assert (await served.thread_row(thread_id) is None) is gone
