"""Runners and servers die, freeze and come back, and no run is lost or ends twice."""

from tests.processes import until


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
