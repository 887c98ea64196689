"""Runners and servers die, freeze and come back, and no run is lost or ends twice."""

import time

import httpx
import pytest
from tests.processes import until
from tests.server.harness import Served

from .harness import Asking

LEASE = 3  # seconds, of servers and runners in these tests


def begun(file, attempt=1):
    """Wait until a run has begun, and give the process that it is in."""
    noted = file.with_name(f"{file.name}.{attempt}")
    until(lambda: noted.exists() and noted.read_text(), f"attempt {attempt}")
    return int(noted.read_text())


def test_a_run_whose_runner_was_killed_fails_as_its_agent_says(own_place, tmp_path):
    runner = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("waits", {"file": str(file)})
    assert begun(file) == runner.pid
    runner.kill()
    ended = own_place.asking.ended(run_id)
    assert (ended["status"], ended["error_type"], ended["attempt"]) == ("error", "WorkerLost", 1)


def test_a_run_whose_runner_was_killed_is_restarted_by_another(own_place, tmp_path):
    first = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("restarts", {"file": str(file)})
    assert begun(file) == first.pid
    second = own_place.runner()
    first.kill()
    assert begun(file, 2) == second.pid
    file.write_text("")
    ended = own_place.asking.ended(run_id)
    assert (ended["status"], ended["output"]) == ("success", {"attempt": 2, "pid": second.pid})


def test_a_run_that_kills_every_runner_ends_and_others_go_on(own_place):
    runner = own_place.runner()
    poison = own_place.asking.run("dies", {})

    def is_over():
        if not runner.running:
            runner.begin()
        return own_place.asking.client.get(f"/runs/{poison}").json()["ended_at"]

    until(is_over, "the end of a run that kills")
    ended = own_place.asking.ended(poison)
    assert (ended["error_type"], ended["attempt"]) == ("WorkerLost", 3)
    other = own_place.asking.ended(own_place.asking.run("where", {}))
    assert other["status"] == "success"


def test_what_models_used_before_their_runner_was_killed_is_counted(own_place, tmp_path):
    runner = own_place.runner(HANG_FILE=str(tmp_path / "go"))
    run_id = own_place.asking.run("dwells", {"prompt": "look"})
    until(lambda: own_place.asking.get(run_id)["usage"], "what the model has used")
    used = own_place.asking.get(run_id)["usage"]
    assert used["scripted"]["total_tokens"] > 0
    runner.kill()
    ended = own_place.asking.ended(run_id)
    assert (ended["error_type"], ended["usage"]) == ("WorkerLost", used)


def test_a_runner_that_was_frozen_drops_what_it_lost_and_goes_on(own_place, tmp_path):
    first = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("restarts", {"file": str(file)})
    assert begun(file) == first.pid
    second = own_place.runner()
    first.freeze()
    assert begun(file, 2) == second.pid
    first.thaw()
    first.await_registered(2)
    until(file.with_name("go.cancelled").exists, "the end of what was lost")
    file.write_text("")
    ended = own_place.asking.ended(run_id)
    assert (ended["status"], ended["output"]) == ("success", {"attempt": 2, "pid": second.pid})
    second.stop()
    assert own_place.asking.wait("where")["output"]["pid"] == first.pid


def test_a_run_goes_on_while_its_server_restarts(own_place, tmp_path):
    runner = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("waits", {"file": str(file)})
    begun(file)
    own_place.server.stop()
    file.write_text("")  # its result is reported when there is somebody to report it to
    own_place.server.start()
    ended = own_place.asking.ended(run_id)
    assert (ended["status"], ended["output"]) == ("success", {"attempt": 1, "pid": runner.pid})
    assert own_place.asking.wait("where")["output"]["pid"] == runner.pid


def test_a_run_goes_on_when_its_server_was_killed(own_place, tmp_path):
    runner = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("waits", {"file": str(file)})
    begun(file)
    own_place.server.kill()
    own_place.server.start()
    file.write_text("")
    ended = own_place.asking.ended(run_id)
    assert (ended["status"], ended["output"]) == ("success", {"attempt": 1, "pid": runner.pid})


def test_runs_go_on_when_their_server_was_frozen_for_longer_than_a_lease(own_place, tmp_path):
    runner = own_place.runner()
    files = [tmp_path / str(number) for number in range(4)]
    asked = [own_place.asking.run("restarts", {"file": str(file)}) for file in files]
    assert {begun(file) for file in files} == {runner.pid}
    own_place.server.freeze()
    time.sleep(LEASE + 1)
    own_place.server.thaw()
    for file in files:
        file.write_text("")
    ended = [own_place.asking.ended(run_id) for run_id in asked]
    assert [run["output"] for run in ended] == [{"attempt": 1, "pid": runner.pid}] * 4
    assert own_place.asking.wait("where")["output"]["pid"] == runner.pid
    assert runner.output().count("registered as") == 1


@pytest.mark.parametrize("own_place", ["postgres"], indirect=True)
def test_another_server_leaves_runners_their_runs_whose_server_is_frozen(own_place, tmp_path):
    first = own_place.server
    runner = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("restarts", {"file": str(file)})
    assert begun(file) == runner.pid
    other = Served(first.database, tmp_path / "other.log", first.config).start()
    try:
        first.freeze()
        until(lambda: _servers(other) == 1, "the end of the frozen server's lease")
        first.thaw()
        until(lambda: _servers(other) == 2, "the frozen server")
        file.write_text("")
        ended = own_place.asking.ended(run_id)
        assert (ended["status"], ended["output"]) == ("success", {"attempt": 1, "pid": runner.pid})
    finally:
        other.kill()


@pytest.mark.parametrize("own_place", ["postgres"], indirect=True)
def test_a_runner_that_died_with_its_server_is_found_out_by_another(own_place, tmp_path):
    first = own_place.server
    runner = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("waits", {"file": str(file)})
    assert begun(file) == runner.pid
    other = Served(first.database, tmp_path / "other.log", first.config).start()
    try:
        first.kill()
        runner.kill()
        asking = Asking(other)
        assert asking.ended(run_id)["error_type"] == "WorkerLost"
        asking.client.close()
    finally:
        other.kill()


def _servers(server):
    found = httpx.get(f"{server.url}/runners", timeout=30, trust_env=False).json()
    return sum(each["kind"] == "server" for each in found)


def test_a_runner_that_is_stopped_lets_its_runs_end(own_place, tmp_path):
    runner = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("waits", {"file": str(file)})
    begun(file)
    runner.ask_to_end()
    until(lambda: "stopping" in runner.output(), "its stopping")
    file.write_text("")
    assert runner.stop() == 0
    ended = own_place.asking.get(run_id)
    assert (ended["status"], ended["output"]) == ("success", {"attempt": 1, "pid": runner.pid})


def test_a_runner_that_is_stopped_hands_back_what_does_not_end(own_place, tmp_path):
    first = own_place.runner()
    file = tmp_path / "go"
    run_id = own_place.asking.run("restarts", {"file": str(file)})
    assert begun(file) == first.pid
    assert first.stop() == 0
    assert file.with_name("go.cancelled").exists()
    second = own_place.runner()
    assert begun(file, 2) == second.pid
    file.write_text("")
    ended = own_place.asking.ended(run_id)
    assert (ended["status"], ended["output"]["attempt"]) == ("success", 2)
