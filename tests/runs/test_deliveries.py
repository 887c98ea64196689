"""What is owed when a run has ended: carried out until it is done, or given up for good."""

import asyncio
import contextlib
import json
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from checkrail.runs.finish import deliverer
from checkrail.store import deliveries, workers
from checkrail.store.tables import deliveries as table

from .support import Gate, chain, fail, say, until


class Receiver:
    """A place for webhooks: answers as told, and remembers what came."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.came: list[tuple[dict[str, str], dict]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.came.append((dict(self.headers), json.loads(body)))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def at_once(monkeypatch):
    """Let what is tried again be due at once."""
    real = deliverer.next_attempt

    def later(row, error, most, now):
        changed = real(row, error, most, now)
        return changed | {"due_at": now} if "due_at" in changed else changed

    monkeypatch.setattr(deliverer, "next_attempt", later)


def allowed(**more):
    return {"allow": ["127.0.0.1"], **more}


async def test_a_webhook_is_sent_when_the_run_is_over_and_signed(world, receiver):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    served = await world.open({"say": chain(say)}, **allowed(webhook_secret=secret))
    row = await served.run("say", {"text": "x"}, webhook=receiver.url, metadata={"k": "v"})
    [owed] = await served.settled(row)
    assert (owed.kind, owed.status, owed.attempts) == ("webhook", "done", 1)
    [(headers, told)] = receiver.came
    assert (told["run_id"], told["status"]) == (row.run_id, "success")
    assert (told["metadata"]["k"], told["metadata"]["graph_id"]) == ("v", "say")
    assert told["values"]["said"] == ["x"]
    assert headers["webhook-id"] == owed.delivery_id
    assert headers["webhook-signature"].startswith("v1,")


async def test_a_webhook_tells_of_a_failed_run_too(world, receiver):
    served = await world.open({"fail": chain(fail)}, **allowed())
    row = await served.run("fail", {"text": "broke"}, webhook=receiver.url)
    await served.settled(row)
    [(_, told)] = receiver.came
    assert (told["status"], told["error"]) == ("error", "broke")


async def test_what_did_not_arrive_is_tried_again_under_the_same_id(world, receiver, at_once):
    receiver.answers = [500, 503, 302]
    served = await world.open({"say": chain(say)}, **allowed())
    row = await served.run("say", {"text": "x"}, webhook=receiver.url)
    [owed] = await served.settled(row)
    assert (owed.status, owed.attempts, owed.last_error) == ("done", 4, None)
    assert {headers["webhook-id"] for headers, _ in receiver.came} == {owed.delivery_id}


async def test_what_never_arrives_is_dead_after_so_many_attempts(world, receiver, at_once, caplog):
    receiver.answers = [500] * 10
    served = await world.open({"say": chain(say)}, **allowed(webhook_attempts=3))
    row = await served.run("say", {"text": "x"}, webhook=receiver.url)
    [owed] = await served.settled(row)
    assert (owed.status, owed.attempts) == ("dead", 3)
    assert owed.last_error == "the webhook answered 500"
    assert (len(receiver.came), owed.ended_at is not None) == (3, True)
    assert "is dead after 3 attempts" in caplog.text


async def test_a_place_that_nobody_listens_at_is_tried_again(world, receiver, at_once, caplog):
    receiver.close()
    served = await world.open({"say": chain(say)}, **allowed(webhook_attempts=2))
    row = await served.run("say", {"text": "x"}, webhook=receiver.url)
    [owed] = await served.settled(row)
    assert (owed.status, owed.attempts) == ("dead", 2)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "https://10.0.0.1/x", "no url", "ftp://a/b"]
)
async def test_an_address_that_is_refused_is_dead_at_once(world, url, caplog):
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "x"}, webhook=url)
    [owed] = await served.settled(row)
    assert (owed.status, owed.attempts) == ("dead", 1)
    assert owed.last_error
    assert (await served.row(row)).status == "success"


def test_the_pauses_between_attempts_grow_and_have_an_end():
    now = time.time()
    same = {"run_id": "r", "payload": {}, "status": "owed", "attempts": 0}
    owed = deliveries.Delivery("d", "webhook", **same, due_at=now, created_at=now)
    pauses = [
        deliverer.next_attempt(replace(owed, attempts=n), "x", 100, now)["due_at"] - now
        for n in range(20)
    ]
    for number, pause in enumerate(pauses[:10]):
        assert 0.8 * 2.0 ** (number + 1) <= pause <= 1.3 * 2.0 ** (number + 1)
    assert max(pauses) <= 3600 * 1.3


@pytest.mark.parametrize("swallows", [0, 2], ids=["hangs", "will not end"])
async def test_a_finish_hook_that_raises_or_hangs_is_recorded_and_done(world, swallows):
    async def broken(event):
        raise KeyError("x")

    async def hanging(event):
        for _ in range(swallows):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        await asyncio.sleep(60)

    served = await world.open(
        {"say": chain(say)},
        (broken, "after_run", {"name": "broken"}),
        (hanging, "after_run", {"name": "hanging", "timeout": 0.05}),
    )
    row = await served.run("say", {"text": "x"})
    [owed] = await served.settled(row)
    assert (owed.kind, owed.status, owed.attempts) == ("after_run", "done", 1)

    async def recorded():
        ended = [each for each in await served.records(row) if each["event_type"] == "hook_failed"]
        return {(each["hook"], each["failure"]) for each in ended} if len(ended) == 2 else None

    assert await until(recorded) == {("broken", "error"), ("hanging", "timeout")}


async def test_a_threads_next_run_does_not_wait_for_deliveries(world):
    release = asyncio.Event()

    async def slow(event):
        await release.wait()

    served = await world.open({"say": chain(say)}, (slow, "after_run", {"timeout": 30}))
    thread = await served.thread()
    first = await served.run("say", {"text": "a"}, thread)
    second = await served.run("say", {"text": "b"}, thread)
    assert second.output["said"] == ["a", "b"]
    assert [each.status for each in await served.owed(first)] == ["owed"]
    release.set()
    await served.settled(first)


async def test_what_a_process_left_undone_is_done_by_the_next(world):
    told = []

    async def hear(event):
        told.append(event.run_id)

    async def never(event):
        await asyncio.sleep(60)

    async with world.opened({"say": chain(say)}, (never, "after_run", {"timeout": 60})) as first:
        row = await first.run("say", {"text": "x"})
    second = await world.open({"say": chain(say)}, (hear, "after_run"))
    [owed] = await second.settled(row)
    assert (owed.status, told) == ("done", [row.run_id])


async def test_a_finish_hook_in_the_background_is_owed_until_it_has_ended(world):
    release, told = asyncio.Event(), []

    async def slow(event):
        told.append("slow")
        await release.wait()
        raise ConnectionError("it is not tried again for that")

    async def quick(event):
        told.append("quick")

    served = await world.open(
        {"say": chain(say)},
        (slow, "after_run", {"background": True, "timeout": 30, "name": "slow"}),
        (quick, "after_run", {"name": "quick"}),
    )
    row = await served.run("say", {"text": "x"})

    async def quick_is_done():
        return sorted(each.status for each in await served.owed(row)) == ["done", "owed"]

    await until(quick_is_done, "the hook that is not in the background")
    release.set()
    assert {each.status for each in await served.settled(row)} == {"done"}
    assert sorted(told) == ["quick", "slow"]
    records = await served.records(row)
    ends = {each["hook"]: each["event_type"] for each in records if each["point"] == "after_run"}
    assert ends == {"slow": "hook_failed", "quick": "hook_complete"}


async def test_what_the_background_left_undone_is_done_by_the_next(world):
    told = []

    async def hear(event):
        told.append(event.run_id)

    async def never(event):
        await asyncio.sleep(60)

    slow = {"background": True, "timeout": 60, "name": "told"}
    async with world.opened({"say": chain(say)}, (never, "after_run", slow)) as first:
        row = await first.run("say", {"text": "x"})
    second = await world.open({"say": chain(say)}, (hear, "after_run", slow))
    [owed] = await second.settled(row)
    assert (owed.status, told) == ("done", [row.run_id])


async def test_many_deliveries_are_all_carried_out(world, receiver):
    gate = Gate()
    served = await world.open({"slow": gate.graph()}, **allowed(capacity=100))
    gate.open.set()
    rows = [await served.run("slow", {"text": "x"}, webhook=receiver.url) for _ in range(80)]
    for row in rows:
        assert [each.status for each in await served.settled(row)] == ["done"]
    assert sorted(told["run_id"] for _, told in receiver.came) == sorted(r.run_id for r in rows)


async def test_one_delivery_that_cannot_be_read_does_not_hold_up_the_others(
    world, receiver, caplog
):
    served = await world.open({"say": chain(say)}, **allowed())
    row = await served.run("say", {"text": "x"})
    now = time.time()
    odd = {
        "delivery_id": "odd",
        "run_id": row.run_id,
        "kind": "after_run",
        "payload": {},
        "status": "owed",
        "attempts": 0,
        "due_at": now,
        "created_at": now,
    }

    def owe(tx):
        deliveries.add(tx, [deliveries.Delivery(**odd)])
        tx.publish("work", "")

    await served.write(owe)
    good = await served.run("say", {"text": "x"}, webhook=receiver.url)
    assert [each.status for each in await served.settled(good)] == ["done"]
    [found] = await served.settled(row)
    assert (found.status, found.last_error) == ("dead", "KeyError")


async def test_a_delivery_is_settled_only_by_the_worker_that_holds_it(world):
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "x"})
    mine = {"delivery_id": "d", "run_id": row.run_id, "kind": "webhook", "payload": {}}
    now = time.time()
    more = {"status": "owed", "attempts": 0, "due_at": now + 60, "created_at": now}

    def owe(tx):
        workers.add(tx, "other", ("elsewhere", 1), served.parts.database.now(), 3600)
        deliveries.add(tx, [deliveries.Delivery(**mine, **more, worker_id="other")])

    await served.write(owe)

    def settle(worker):
        return lambda tx: deliveries.store_result(tx, "d", worker, status="done")

    assert not await served.write(settle("nobody"))
    [found] = await served.owed(row)
    assert found.status == "owed"
    assert await served.write(settle("other"))
    assert not await served.write(settle("other"))
    count = await served.read(lambda reads: reads.execute(table.select()).all())
    assert len(count) == 1
