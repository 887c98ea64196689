"""Events say when they happened, and when each step of a run began and ended."""

import time

import pytest

from checkrail import Block, Continue
from checkrail.store import events, records

from .support import STEPS, chain, fail, say, talk


async def marks(opened, run):
    return await opened.read(lambda reads: events.marks_of_run(reads, run.run_id))


def told(found, *names):
    return [(each.event, *(each.data.get(name) for name in names)) for each in found]


async def test_every_event_knows_when_it_happened_and_keeps_it(world):
    before = time.time()
    opened = await world.open({"echo": chain(say)})
    run = await opened.run("echo", {"text": "a"})
    kept = await opened.events(run)
    times = [each.time for each in kept]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()
    assert [each.time for each in await opened.followed(run)] == times


async def test_nodes_and_models_of_a_graph_are_marked_whatever_it_streams(world):
    opened = await world.open({"talk": talk(say)})
    run = await opened.run("talk", {"messages": [("user", "hi")]})
    assert told(await marks(opened, run), "node", "model") == [
        ("attempt_started", None, None),
        ("node_started", "reply", None),
        ("model_started", None, "Counting"),
        ("model_finished", None, "Counting"),
        ("node_finished", "reply", None),
        ("node_started", "say", None),
        ("node_finished", "say", None),
        ("end", None, None),
    ]
    [started, finished] = [e for e in await marks(opened, run) if e.event.startswith("model")]
    assert started.data["call"] == finished.data["call"]
    assert finished.data["usage"]["total_tokens"] == 5


async def test_a_node_that_fails_says_so_and_nothing_of_what_it_was_given(world):
    opened = await world.open({"bad": chain(fail)})
    run = await opened.run("bad", {"text": "secret words"})
    found = await marks(opened, run)
    assert ("node_finished", "fail", "failed") in told(found, "node", "how")
    assert "secret words" not in str([e.data for e in found if e.event in STEPS])


@pytest.fixture
async def changed(world):
    def shout(event):
        return Continue({**event.value, "text": event.value["text"].upper()})

    opened = await world.open(
        {"echo": chain(say)},
        (shout, "on_run_start"),
        (lambda _: Block("no", 451, "law"), "on_result"),
    )
    return opened, await opened.run("echo", {"text": "a"})


async def test_the_two_records_of_a_call_share_its_id_and_those_of_a_firing_theirs(changed):
    opened, run = changed
    start, end, other, blocked = await opened.records(run)
    assert start["call_id"] == end["call_id"] != other["call_id"] == blocked["call_id"]
    assert start["dispatch"] == end["dispatch"] != other["dispatch"]
    assert (end["changed"], blocked["changed"]) == (True, False)
    assert (blocked["status"], blocked["code"]) == (451, "law")


async def test_values_are_kept_beside_the_record(changed):
    opened, run = changed
    await opened.parts.log.flush()
    [_, (seq, summary), *_] = await opened.read(
        lambda reads: records.summaries_of_run(reads, run.run_id)
    )
    assert not {"before", "after"} & summary.keys()
    found = await opened.read(
        lambda reads: records.find_in_run(reads, run.run_id, summary["record_id"])
    )
    assert (found.seq, found.whole["before"], found.whole["after"]) == (
        seq,
        {"text": "a"},
        {"text": "A"},
    )
    streamed = [e.data for e in await opened.events(run) if e.event == "hook_complete"]
    assert streamed[0] == found.whole
