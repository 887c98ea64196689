"""A run on a runner that waits for a person is nobody's, and goes on wherever there is room."""

import pytest

from .harness import until

FILE = "hooked.yaml"


def question(place, run_id):
    """The question of a run that waits for it, which nobody holds."""
    found = {}

    def left():
        rows = place.asking.client.get("/approvals", params={"run_id": run_id}).json()
        found.update(rows[0] if rows else {})
        return rows and place.asking.get(run_id)["phase"] == "waiting"

    until(left, "the question")
    return found


def approve(place, row):
    path = f"/approvals/{row['approval_id']}/approve"
    place.asking.answered(place.asking.client.post(path, json={}))


def holding(place):
    return sum(len(each["run_ids"]) for each in place.asking.client.get("/runners").json())


def test_it_is_left_and_another_runner_goes_on_with_it(own_place):
    _, _, ended = carried_on(own_place, "speaks", {"prompt": "hello"})
    assert ended["output"] == "Said once."


@pytest.mark.parametrize("own_place", ["postgres"], indirect=True)
def test_a_graph_goes_on_where_it_stands_and_its_calls_are_not_made_again(own_place):
    first, second, ended = carried_on(own_place, "paying", {"steps": []})
    looked, paid = ended["output"]["steps"][-2:]
    assert looked.endswith(f"says {first.pid}")
    assert paid == f"5 paid by {second.pid}"


def carried_on(place, agent, given):
    """Have a run left by one runner, which dies, and carried on by another."""
    first = place.runner()
    run_id = place.asking.run(agent, given)
    row = question(place, run_id)
    assert holding(place) == 0
    first.kill()
    second = place.runner()
    approve(place, row)
    ended = place.asking.ended(run_id)
    assert (ended["status"], ended["attempt"]) == ("success", 2), ended
    told = place.asking.client.get(f"/runs/{run_id}/events").text
    assert told.count("event: approval") == 2
    return first, second, ended


def test_a_runner_that_dies_after_it_went_on_is_a_crash(own_place, tmp_path):
    file = tmp_path / "go"
    runner = own_place.runner(HANG_FILE=str(file))
    run_id = own_place.asking.run("hangs", {"prompt": "hang"})
    approve(own_place, question(own_place, run_id))
    until(file.with_name("go.began").exists, "the tool")
    runner.kill()
    ended = own_place.asking.ended(run_id)
    assert (ended["status"], ended["error_type"]) == ("error", "WorkerLost")
