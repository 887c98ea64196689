"""Runs that nobody can take end, and say what they would have needed."""

import threading

from .conftest import started
from .speaker import Speaker

FILE = "hasty.yaml"


def test_a_run_that_nobody_can_take_fails_and_says_what_it_needs(place):
    runner = Speaker(place, name="small", tags=["elsewhere"], agents=["where"])
    over = threading.Event()

    def poll():
        while not over.is_set():
            runner.poll(0)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        ended = place.asking.wait("gpu")
    finally:
        over.set()
        runner.leave()
        polling.join()
    assert (ended["status"], ended["error_type"]) == ("error", "NoRunner")
    assert "the procedural agent 'gpu' and has the tags gpu" in ended["error"]
    assert "runner 'small' (elsewhere; agents where)" in ended["error"]


def test_a_run_whose_runner_is_only_busy_waits_for_it(place):
    runner = Speaker(place)
    first, second = place.asking.run("where"), place.asking.run("where")
    run = runner.claim()
    assert run["run_id"] == first
    for _ in range(3):  # each of them takes longer than a run that nobody can take would wait
        assert runner.poll(0, holding=first).status_code == 204
    runner.say(run, "completed", output=1)
    run = runner.claim()
    assert run["run_id"] == second
    runner.say(run, "completed", output=1)
    runner.leave()


def test_a_runner_without_a_database_offers_no_graphs(new_database, tmp_path):
    with started(new_database("sqlite"), tmp_path, FILE) as place:
        runner = place.runner()
        assert "no graph is carried out: counted" in runner.output()
        ended = place.asking.wait("counted", {"steps": []})
        assert (ended["status"], ended["error_type"]) == ("error", "NoRunner")
        assert "the graph agent 'counted'" in ended["error"]
