"""Graphs on a runner: their checkpoints are where the server's are, which takes PostgreSQL."""

import pytest
from tests.processes import until

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
    history = place.asking.client.post(
        f"/threads/{ended['thread_id']}/history", json={"limit": 10}
    ).json()
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


OWN_SAVER = (
    "\ncheckpointer: {path: './graphs.py:own_saver'}\nenv: {allow: [CHECKRAIL_DATABASE_URL]}\n"
)


@pytest.mark.parametrize("more", ["", OWN_SAVER], ids=["our saver", "the project's own saver"])
def test_a_runner_that_was_frozen_takes_no_thread_back(new_database, tmp_path, more):
    with started(new_database("postgres"), tmp_path) as place:
        if more:
            config = place.server.config
            config.write_text(config.read_text() + more)
            place.server.restart()
        client, asking, first = place.asking.client, place.asking, place.runner()
        threads = [client.post("/threads", json={}).json()["thread_id"] for _ in range(4)]
        file = tmp_path / "go"
        body = {"assistant_id": "waiting", "input": {"file": str(file)}, "durability": "sync"}

        def run(thread):
            return asking.answered(client.post(f"/threads/{thread}/runs", json=body))["run_id"]

        def ended_by(runner, runs):
            for ended in map(asking.ended, runs):
                assert (ended["status"], ended["output"]["pid"]) == ("success", runner.pid)

        stale = [run(thread) for thread in threads]
        until(file.with_name(f"go.{first.pid}").exists, "the second step")

        def steps_of(thread):
            return client.get(f"/threads/{thread}/state").json()["values"].get("steps")

        until(lambda: all(steps_of(thread) for thread in threads), "their first steps")
        first.freeze()
        second = place.runner()
        until(file.with_name(f"go.{second.pid}").exists, "the other runner")
        file.touch()  # for the frozen one too, as soon as it wakes up
        ended_by(second, stale)
        ended_by(second, [run(thread) for thread in threads])
        first.thaw()
        first.await_registered(2)
        second.stop()
        ended_by(first, [asking.run("waiting", {"file": str(file)})])
        for thread in threads:
            history = client.post(f"/threads/{thread}/history", json={"limit": 100}).json()
            assert history[0]["values"]["steps"] == ["first", "waited"] * 2
            parents = [(each["parent_checkpoint"] or {}).get("checkpoint_id") for each in history]
            ids = [each["checkpoint"]["checkpoint_id"] for each in history]
            assert parents == [*ids[1:], None]
