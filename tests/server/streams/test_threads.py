"""A thread's stream over all its runs."""

import orjson
import pytest
from langgraph_sdk.schema import ThreadStreamMode

from checkrail.server.streams.modes import THREAD_MODES, StreamModeError
from checkrail.server.streams.threads import StreamedRun, ThreadView
from checkrail.store.events import RunEvent

from .support import agent, parent, stored


async def two_runs(graph, modes=("values",)):
    first, second = await stored(graph, run_id="r1"), await stored(graph, run_id="r2")
    one = StreamedRun("r1", 0, modes)
    two = StreamedRun("r2", len(first), modes)
    return [*((one, event) for event in first), *((two, event) for event in second)]


def read(view, given):
    return [told for run, event in given for told in view.feed(run, event)]


def plain(events):
    return [(e.name, orjson.loads(e.data) if isinstance(e.data, bytes) else e.data) for e in events]


def done(run_id, status="success"):
    return "metadata", {"status": "run_done", "run_id": run_id, "run_status": status}


def test_every_mode_of_the_sdk_can_be_asked_for():
    assert set(THREAD_MODES) == set(ThreadStreamMode.__args__)
    with pytest.raises(StreamModeError, match="choose from run_modes, lifecycle, state_update"):
        ThreadView("t", "values")


async def test_runs_are_told_as_in_their_own_streams_and_their_ends_as_done():
    told = plain(read(ThreadView("t"), await two_runs(agent())))
    kinds = [name for name, _ in told]
    assert set(kinds) == {"metadata", "values"}
    marks = [data for name, data in told if name == "metadata"]
    assert marks == [
        {"run_id": "r1", "attempt": 1},
        done("r1")[1],
        {"run_id": "r2", "attempt": 1},
        done("r2")[1],
    ]


async def test_lifecycle_tells_beginnings_and_ends_only():
    told = plain(read(ThreadView("t", ["lifecycle"]), await two_runs(agent())))
    assert told == [
        ("metadata", {"run_id": "r1", "attempt": 1}),
        done("r1"),
        ("metadata", {"run_id": "r2", "attempt": 1}),
        done("r2"),
    ]


async def test_state_updates_are_the_states_of_the_thread():
    told = plain(read(ThreadView("t", "state_update"), await two_runs(parent())))
    assert {name for name, _ in told} == {"state_update"}
    assert {data["thread_id"] for _, data in told} == {"t"}
    lengths = [len(data["values"]["messages"]) for _, data in told]
    assert lengths == sorted(lengths)
    assert told[-1][1]["run_id"] == "r2"


def test_a_state_that_was_written_from_outside_is_told_where_it_was_asked_for():
    (told,) = ThreadView("t", ["state_update"]).state_update({"values": {"n": 1}})
    assert (told.name, told.data) == ("state_update", {"thread_id": "t", "values": {"n": 1}})
    assert ThreadView("t").state_update({"values": {}}) == []


async def test_numbers_are_those_of_the_thread():
    given = await two_runs(agent())
    numbers = [int(one.id) for one in read(ThreadView("t"), given) if one.id is not None]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == given[-1][0].base_seq + given[-1][1].seq


@pytest.mark.parametrize("modes", [["run_modes"], ["run_modes", "state_update"], ["lifecycle"]])
async def test_a_client_that_comes_back_gets_exactly_the_rest(modes):
    given = await two_runs(parent(), ("messages", "values"))
    whole = read(ThreadView("t", modes), given)
    at = 0
    for cut in (one.id for one in whole if one.id is not None):
        at = next(n for n, one in enumerate(whole) if one.id == cut)
        assert read(ThreadView("t", modes, after=int(cut)), given) == whole[at + 1 :]
    assert at == len(whole) - 1


async def test_subgraphs_that_a_run_left_open_are_closed_before_its_end():
    run = StreamedRun("r1", 0, ("lifecycle",))
    given = [
        (run, RunEvent(1, "tasks", ("a:1",), {"id": "t", "name": "n", "input": {}})),
        (run, RunEvent(2, "end", (), {"status": "timeout", "phase": "timeout"})),
    ]
    begun, over, last = plain(read(ThreadView("t"), given))
    assert (begun[1]["event"], over[1]["event"]) == ("started", "failed")
    assert last == done("r1", "timeout")
