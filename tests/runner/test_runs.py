"""Runs that a runner carries out are runs like any other."""

import json

import httpx
import pytest
from tests.processes import until


def frames(text):
    """The events of a stream."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            found.append(json.loads(lines["data"]))
    return found


def test_a_function_runs_in_the_runners_process(place, runner):
    ended = place.asking.wait("where", {"a": 1})
    assert ended["status"] == "success", ended
    assert ended["output"] == {
        "pid": runner.pid,
        "given": {"a": 1},
        "key": f"{ended['run_id']}:1",
    }
    assert ended["attempt"] == 1


def test_a_program_is_started_by_the_runner(place, runner):
    ended = place.asking.wait("program", {"a": 1})
    assert ended["output"] == {"given": {"a": 1}, "ppid": runner.pid}


def test_an_agent_of_our_loop_runs_there_with_its_tools(place, runner):
    ended = place.asking.wait("talks", {"messages": [{"role": "user", "content": "look"}]})
    assert ended["status"] == "success", ended
    assert ended["output"] == "Nothing is there."
    thread = place.asking.client.get(f"/threads/{ended['thread_id']}").json()
    said = thread["values"]["messages"]
    assert [each["role"] for each in said] == ["user", "assistant", "tool", "assistant"]
    assert f"says {runner.pid}" in str(said[2]["content"])


def test_the_next_run_of_a_thread_knows_what_was_said(place, runner):
    first = place.asking.wait("chats", {"prompt": "hi"})
    thread = first["thread_id"]
    path = f"/threads/{thread}/runs"
    body = {"assistant_id": "chats", "input": {"prompt": "and?"}}
    run = place.asking.answered(place.asking.client.post(path, json=body))
    assert place.asking.ended(run["run_id"])["status"] == "success"
    said = place.asking.client.get(f"/threads/{thread}").json()["values"]["messages"]
    assert [each["content"] for each in said] == ["hi", "Hello.", "and?", "Again."]


def test_what_a_run_tells_is_streamed_in_order(place, runner):
    body = {"assistant_id": "where", "input": {}, "stream_mode": ["custom"]}
    answer = place.asking.client.post("/runs/stream", json=body)
    assert answer.is_success
    told = frames(answer.text)
    assert "run_id" in told[0]
    assert {"hello": runner.pid} in told


def test_its_events_are_numbered_without_a_gap(place, runner):
    ended = place.asking.wait("where", {})
    told = frames(place.asking.client.get(f"/runs/{ended['run_id']}/events").text)
    assert told[0]["event"] == "metadata"
    assert told[-1]["event"] == "end"
    numbers = [each["seq"] for each in told]
    assert numbers == sorted(set(numbers))


def test_a_failure_is_told_with_its_type(place, runner):
    ended = place.asking.wait("waits", {})
    assert (ended["status"], ended["error_type"]) == ("error", "KeyError")


def test_a_cancelled_run_is_stopped_where_it_is(place, runner, tmp_path):
    file = tmp_path / "never"
    run_id = place.asking.run("waits", {"file": str(file)})
    until((tmp_path / "never.1").exists, "the run's beginning")
    place.asking.cancel(run_id)
    ended = place.asking.ended(run_id)
    assert (ended["status"], ended["phase"], ended["unwound"]) == (
        "interrupted",
        "cancelled",
        True,
    )
    assert (tmp_path / "never.cancelled").exists()


def test_a_run_that_is_rolled_back_leaves_nothing(place, runner, tmp_path):
    run_id = place.asking.run("waits", {"file": str(tmp_path / "never")})
    until((tmp_path / "never.1").exists, "the run's beginning")
    place.asking.cancel(run_id, "rollback")
    until(lambda: place.asking.client.get(f"/runs/{run_id}").status_code == 404, "its removal")
    assert (tmp_path / "never.cancelled").exists()


def test_a_run_that_takes_too_long_is_stopped(place, runner, tmp_path):
    ended = place.asking.wait("hurried", {"file": str(tmp_path / "never")})
    assert (ended["status"], ended["error_type"]) == ("timeout", "TimeoutError")
    assert (tmp_path / "never.cancelled").exists()


def test_code_that_blocks_the_loop_does_not_lose_its_lease(place, runner):
    ended = place.asking.wait("blocks", {"seconds": 4})
    assert (ended["status"], ended["output"]) == ("success", 1)


@pytest.mark.parametrize("many", [12])
def test_more_runs_than_it_can_carry_wait_for_their_turn(place, runner, many):
    asked = [place.asking.run("where", {"number": number}) for number in range(many)]
    ended = [place.asking.ended(run_id) for run_id in asked]
    assert [each["output"]["given"]["number"] for each in ended] == [*range(many)]
    assert {each["attempt"] for each in ended} == {1}


def test_who_carries_out_runs_can_be_seen(place, runner):
    listed = httpx.get(f"{place.server.url}/runners", timeout=30).json()
    assert {each["kind"] for each in listed} == {"server", "runner"}
    [away] = [each for each in listed if each["kind"] == "runner"]
    assert away["tags"] == ["elsewhere"]
    assert away["run_ids"] == []
    assert away["capacity"] == 4
