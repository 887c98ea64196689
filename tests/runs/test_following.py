"""The event log: what is told at once, what is kept, and what one who comes back reads again."""

import asyncio

import pytest
from langgraph.config import get_stream_writer

from checkrail.runs.events import follower as follower_module
from checkrail.runs.execute import live_run as lives
from checkrail.runs.execute.live_run import EventLimits, LiveRun
from checkrail.store import events
from checkrail.store.runs import Run

from .support import Gate, chain, fail, say, told, until


def pour(state):
    write = get_stream_writer()
    for number in range(int(state["text"])):
        write({"n": number})
    return {"said": ["poured"]}


def plain(found):
    return [(event.seq, event.event, event.ns, event.data) for event in found]


async def test_a_run_begins_with_metadata_and_ends_with_end(world):
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "x"}, await served.thread())
    found = await served.events(row)
    assert [event.seq for event in found] == [*range(1, len(found) + 1)]
    assert [event.event for event in told(found)] == ["metadata", "values", "values", "end"]
    assert found[0].data == {"run_id": row.run_id, "attempt": 1}
    assert found[-1].data == {"status": "success", "phase": "success"}
    assert (await served.row(row)).last_seq == found[-1].seq


async def test_one_who_follows_from_the_start_sees_the_same_as_one_who_comes_later(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph(say)})
    row = await served.admit("slow", {"text": "x"}, await served.thread())
    followers = [asyncio.create_task(served.followed(row)) for _ in range(5)]
    await gate.entered.wait()
    late = asyncio.create_task(served.followed(row))
    gate.open.set()
    seen = [plain(each) for each in await asyncio.gather(*followers, late)]
    kept = plain(await served.events(row))
    assert seen == [kept] * 6


async def test_from_every_number_on_a_replay_gives_exactly_the_rest(world):
    served = await world.open({"pour": chain(pour)})
    row = await served.run(
        "pour", {"text": "40"}, await served.thread(), modes=("values", "custom")
    )
    kept = plain(await served.events(row))
    assert [seq for seq, *_ in kept] == [*range(1, len(kept) + 1)]
    for seq in range(len(kept) + 1):
        assert plain(await served.followed(row, seq)) == kept[seq:]


async def test_a_run_under_way_is_joined_from_every_number_without_loss(world):
    gate = Gate()
    served = await world.open({"slow": chain(pour, gate.pass_through)})
    row = await served.admit("slow", {"text": "20"}, await served.thread(), modes=("custom",))
    await gate.entered.wait()
    followers = [asyncio.create_task(served.followed(row, after)) for after in range(20)]
    await asyncio.sleep(0.05)
    gate.open.set()
    for after, each in enumerate(await asyncio.gather(*followers)):
        assert [event.seq for event in each] == [*range(after + 1, each[-1].seq + 1)]


async def test_a_reader_that_lags_behind_goes_on_from_the_table_and_misses_nothing(world):
    gate = Gate()
    served = await world.open({"slow": chain(pour, gate.pass_through)})
    row = await served.admit("slow", {"text": "12000"}, await served.thread(), modes=("custom",))
    source = served.service.follow(row.run_id)
    seen = [event.seq for event in await anext(source)]
    await gate.entered.wait()
    [tap] = served.parts.live[row.run_id].taps
    assert tap.lagging
    gate.open.set()
    async with asyncio.timeout(30):
        seen += [event.seq async for batch in source for event in batch]
    assert seen == [*range(1, len(seen) + 1)]
    assert len(seen) > 12_002


async def test_events_are_in_the_table_soon_and_in_few_rows(world):
    gate = Gate()
    served = await world.open({"slow": chain(pour, gate.pass_through)})
    row = await served.admit("slow", {"text": "500"}, modes=("custom",))
    await gate.entered.wait()

    async def kept():
        return len(told(await served.events(row))) == 501

    await until(kept)
    rows = await served.read(
        lambda reads: reads.execute(
            events.select(events.events.c.first_seq).where(events.events.c.run_id == row.run_id)
        ).all()
    )
    assert len(rows) < 100
    gate.open.set()
    await served.over(row)


@pytest.mark.parametrize(
    "limits", [EventLimits(events=50), EventLimits(bytes=1000)], ids=["events", "bytes"]
)
async def test_a_run_that_tells_too_much_ends_as_an_error_and_keeps_what_it_told(world, limits):
    served = await world.open({"pour": chain(pour)}, limits=limits)
    thread = await served.thread()
    row = await served.run("pour", {"text": "500"}, thread, modes=("custom",))
    assert (row.status, row.error_type) == ("error", "event_limit")
    assert "limits.events_per_run" in row.error
    found = await served.events(row)
    assert [event.event for event in found[-2:]] == ["error", "end"]
    assert len(found) > 10
    assert (await served.thread_row(thread)).status == "error"


async def test_fifty_thousand_events_are_all_kept_in_order(lite_world):
    served = await lite_world.open({"pour": chain(pour)})
    row = await served.admit("pour", {"text": "50000"}, modes=("custom",))
    seen = [event.data["n"] for event in await served.followed(row) if event.event == "custom"]
    assert seen == [*range(50_000)]
    assert len(told(await served.events(row))) == 50_002


async def test_a_run_that_fails_keeps_what_it_told_before(world):
    served = await world.open({"fail": chain(pour, fail)})
    row = await served.run("fail", {"text": "30"}, modes=("custom",))
    names = [event.event for event in told(await served.events(row))]
    assert names == ["metadata", *["custom"] * 30, "error", "end"]


async def test_one_who_waits_for_a_run_that_is_over_gets_it_at_once(world):
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "x"})
    again = await served.over(row)
    assert (again.status, again.output) == ("success", row.output)


async def test_a_run_on_one_server_is_followed_through_another(postgres_world):
    gate = Gate()
    first = await postgres_world.open({"slow": chain(pour, gate.pass_through)})
    second = await postgres_world.open({}, capacity=0)
    row = await first.admit("slow", {"text": "100"}, modes=("custom", "values"))
    follower = asyncio.create_task(second.followed(row))
    waiter = asyncio.create_task(second.over(row))
    await gate.entered.wait()
    gate.open.set()
    assert plain(await follower) == plain(await first.events(row))
    assert (await waiter).status == "success"


async def test_nothing_is_looked_for_of_a_new_run_before_there_is_word_of_it(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph(say)}, capacity=1)
    first = await served.admit("slow", {"text": "x"}, await served.thread())
    waits = await served.admit("slow", {"text": "y"}, await served.thread())
    follower, reads = served.service.follower, []
    read = follower._read

    async def noted(job):
        reads.append(job)
        return await read(job)

    follower._read = noted
    source = follower.follow(waits.run_id, is_new=True)
    beginning = asyncio.ensure_future(anext(source))
    await asyncio.sleep(0.1)
    assert (beginning.done(), reads) == (False, [])
    gate.open.set()
    batch = [*await beginning]
    async for more in source:
        batch += more
    assert plain(batch) == plain(await served.events(waits))
    assert reads == []
    await served.over(first)


async def test_word_of_a_new_run_that_was_lost_costs_a_while_only(world, monkeypatch):
    monkeypatch.setattr(follower_module, "_FIRST_LOOK", 0.01)
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "x"}, await served.thread())
    source = served.service.follow(row.run_id, is_new=True)
    found = [event async for batch in source for event in batch]
    assert plain(found) == plain(await served.events(row))


async def test_one_who_leaves_is_not_kept_in_mind(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph()})
    row = await served.admit("slow", {"text": "x"})
    await gate.entered.wait()
    live = served.parts.live[row.run_id]
    source = served.service.follow(row.run_id)
    await anext(source)
    assert len(live.taps) == 1
    await source.aclose()

    async def left():
        return not live.taps and not served.parts.hub.has_listeners(("run", row.run_id))

    await until(left)
    gate.open.set()
    await served.over(row)


async def test_events_that_could_not_be_written_are_written_later(world, monkeypatch, caplog):
    gate = Gate()
    served = await world.open({"slow": gate.graph(say)})
    real, failures = events.add, []

    def broken(tx, rows):
        if len(failures) < 2:
            failures.append(rows)
            raise OSError("disk full")
        real(tx, rows)

    monkeypatch.setattr(events, "add", broken)
    row = await served.admit("slow", {"text": "x"})

    async def kept():
        return len(told(await served.events(row))) == 3

    await until(kept)
    gate.open.set()
    await served.over(row)
    found = await served.events(row)
    assert [event.seq for event in found] == [*range(1, len(found) + 1)]
    assert [each.event for each in told(found)] == ["metadata", "values", "values", "values", "end"]
    assert "events could not be kept" in caplog.text


async def test_a_later_attempt_numbers_far_behind_what_the_first_may_have_told():
    row = Run("r", "t", "a", "say", {}, {}, attempt=2, last_seq=7)
    live = LiveRun(row, EventLimits(), lambda _: None, lambda: True)
    live.emit("values")
    assert live.pending[0].seq == 7 + lives.ATTEMPT_GAP + 1


async def test_a_run_whose_lease_ran_out_tells_nothing_until_it_is_known_whose_it_is():
    row = Run("r", "t", "a", "say", {}, {}, attempt=1, last_seq=0)
    sound = [False]
    live = LiveRun(row, EventLimits(), lambda _: None, lambda: sound[0])
    early = live.add_tap(lambda: None)
    live.emit("values", (), {"a": 1})
    late = live.add_tap(lambda: None)
    assert (live.ending, [*early.waiting], [*late.waiting]) == (None, [], [])
    sound[0] = True
    live.emit("values", (), {"a": 2})
    assert [event.data for event in early.waiting] == [{"a": 1}, {"a": 2}]
    assert [event.data for event in late.waiting] == [{"a": 1}, {"a": 2}]


async def test_a_reader_holds_few_bytes_of_what_it_does_not_read():
    row = Run("r", "t", "a", "say", {}, {}, attempt=1, last_seq=0)
    live = LiveRun(row, EventLimits(), lambda _live: None, lambda: True)
    tap = live.add_tap(lambda: None)
    for _ in range(10):
        live.emit("custom", data="x" * 500_000)
        assert tap.waiting_bytes < 3_000_000
    assert tap.lagging
    assert not tap.waiting
