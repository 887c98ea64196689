"""Graphs on a runner: their checkpoints are where the server's are, which takes PostgreSQL."""

import pytest

from .conftest import started


@pytest.fixture(scope="module")
def place(new_database, tmp_path_factory):
    with started(new_database("postgres"), tmp_path_factory.mktemp("place")) as made:
        yield made


@pytest.fixture(scope="module")
def runner(place):
    return place.runner()


def test_a_graph_runs_there_and_its_state_is_on_the_server(place, runner):
    ended = place.asking.wait("counted", {"steps": ["given"]})
    assert ended["status"] == "success", (ended["error"], ended["error_type"])
    assert ended["output"] == {"steps": ["given", "first", "second"], "pid": runner.pid}
    state = place.asking.client.get(f"/threads/{ended['thread_id']}/state").json()
    assert state["values"] == ended["output"]
    history = place.asking.client.post(f"/threads/{ended['thread_id']}/history", json={}).json()
    assert len(history) == 4


def test_a_graph_that_waits_for_a_person_goes_on_later(place, runner):
    body = {"assistant_id": "counted", "input": {"steps": []}, "interrupt_before": ["second"]}
    thread = place.asking.client.post("/threads", json={}).json()["thread_id"]
    path = f"/threads/{thread}/runs"
    run = place.asking.answered(place.asking.client.post(path, json=body))
    ended = place.asking.ended(run["run_id"])
    assert (ended["status"], ended["phase"]) == ("interrupted", "interrupted")
    assert place.asking.client.get(f"/threads/{thread}").json()["status"] == "interrupted"
    body = {"assistant_id": "counted", "input": None}
    run = place.asking.answered(place.asking.client.post(path, json=body))
    ended = place.asking.ended(run["run_id"])
    assert ended["output"]["steps"] == ["first", "second"]


def test_its_steps_are_streamed(place, runner):
    body = {"assistant_id": "counted", "input": {"steps": []}, "stream_mode": ["updates"]}
    told = place.asking.client.post("/runs/stream", json=body).text
    assert told.index('"first"') < told.index('"second"')


def test_a_graph_that_failed_keeps_its_state(place, runner):
    ended = place.asking.wait("broken", {"steps": ["given"]})
    assert (ended["status"], ended["error_type"]) == ("error", "ValueError")
    state = place.asking.client.get(f"/threads/{ended['thread_id']}/state").json()
    assert state["values"]["steps"] == ["given", "first"]


def test_hooks_hold_in_the_tools_and_on_the_result_of_a_graph(place, runner):
    ended = place.asking.wait("looking", {"steps": []}, stream_mode=["values"])
    assert ended["status"] == "success", (ended["error"], ended["error_type"])
    first, moved, refused = ended["output"]["steps"]
    assert (first, moved) == ("first", f"cellar is empty, says {runner.pid}")
    assert "the safe is private" in refused
    assert ended["output"]["signed"] is True
    told = place.asking.client.get(f"/runs/{ended['run_id']}/events").text
    values = [line for line in told.splitlines() if '"event":"values"' in line]
    ruled = [line for line in values if "private" in line]
    assert [line.count('"signed":true') for line in ruled] == [1]
    decisions = [each.get("decision") for each in place.asking.records(ended["run_id"])]
    assert "block" in decisions
