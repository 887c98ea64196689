"""A thread's stream over all its runs."""

import orjson
import pytest
from langgraph_sdk.schema import ThreadStreamMode

from checkrail.server.streams.modes import THREAD_MODES, StreamModeError
from checkrail.server.streams.threads import StreamedRun, ThreadCursor, ThreadView
from checkrail.store.events import RunEvent
from checkrail.store.state_updates import StateUpdate

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


async def test_states_of_runs_are_no_updates_of_the_state():
    assert read(ThreadView("t", "state_update"), await two_runs(parent())) == []


def test_a_state_that_was_written_by_hand_has_the_place_that_it_was_written_at():
    view = ThreadView("t", ["state_update"])
    told = view.feed_state(StateUpdate(7, 2, b'{"state":{},"thread_id":"t"}'))
    assert told == ("7.2", "state_update", b'{"state":{},"thread_id":"t"}')
    assert view.last_state == 2
    assert (view.has_states, ThreadView("t").has_states) == (True, False)


async def test_a_state_that_comes_behind_a_later_run_moves_no_client_back():
    view = ThreadView("t", ["run_modes", "state_update"])
    read(view, await two_runs(agent()))
    assert view.feed_state(StateUpdate(0, 1, b"{}")).id is None


@pytest.mark.parametrize(
    ("event_id", "expected"),
    [
        ("12", ThreadCursor(12, 0)),
        ("12.3", ThreadCursor(12, 3)),
        ("-", ThreadCursor()),
        ("1747000000000-0", ThreadCursor()),
        ("12.", ThreadCursor()),
        ("1" * 19, ThreadCursor()),
    ],
)
def test_an_id_says_what_a_client_has_and_one_of_another_server_nothing(event_id, expected):
    assert ThreadCursor.parse(event_id) == expected


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
        assert read(ThreadView("t", modes, after=ThreadCursor.parse(cut)), given) == whole[at + 1 :]
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
