"""What a server lives through by itself, on either database: frozen, blocked, killed in a row."""

import json
import signal

import pytest

from .books import check, output, settled
from .conftest import DATABASES
from .site import eventually, start

WHOLE = ["first", "second", "third"]


@pytest.fixture(scope="module", params=DATABASES)
def site(request, new_site):
    return new_site(request.param)


@pytest.fixture(autouse=True)
def _everything_holds(site):
    site.stay()
    site.up()


def test_a_blocked_event_loop_loses_no_lease_and_the_run_runs_once(site):
    run_id = start(site.servers[0], {"second": "block"})
    run = site.ended(run_id)
    assert (run["status"], run["attempt"], run["lost"]) == ("success", 1, 0)
    steps = [place for place in site.places(run_id) if place in WHOLE]
    assert steps == WHOLE


def test_a_frozen_process_that_wakes_up_alone_ends_its_run_once(site):
    [server] = site.servers
    run_id = start(server, {"second": "hold"})
    site.reached("second", run_id)
    server.freeze()
    site.go()
    _let_the_lease_run_out(site)
    server.thaw()
    run = site.ended(run_id)
    assert run["status"] == "success"
    assert output(run)["trail"] == WHOLE
    if site.database.kind == "sqlite":  # nobody else can have it: the data directory is locked
        assert (run["attempt"], run["lost"]) == (1, 0)
        assert site.places(run_id).count("second") == 1
    later = start(server, {})
    assert site.ended(later)["status"] == "success"


@pytest.mark.parametrize(("agent", "tokens"), [("talks", 26), ("talks_once", 13)])
def test_what_models_used_before_a_server_died_is_counted(site, agent, tokens):
    [server] = site.servers
    run_id = start(server, {"talked": "hold"}, agent=agent)
    eventually(lambda: site.run(run_id)["usage"], "what the model has used")
    server.kill()
    site.go()
    site.up()
    run = site.ended(run_id)
    ending = ("success", None) if agent == "talks" else ("error", "WorkerLost")
    assert (run["status"], run["error_type"]) == ending
    assert json.loads(run["usage"])["counted"]["total_tokens"] == tokens
    [owed] = site.deliveries(run_id).values()
    assert json.loads(owed["payload"])["usage"]["counted"]["total_tokens"] == tokens


def test_what_models_used_before_a_server_was_stopped_is_counted(site):
    [server] = site.servers
    run_id = start(server, {"talked": "hold"}, agent="talks")
    site.reached("talked", run_id)
    assert server.stop() in (0, -signal.SIGTERM)
    site.go()
    site.up()
    run = site.ended(run_id)
    assert (run["status"], run["attempt"], run["lost"]) == ("success", 2, 0)
    assert json.loads(run["usage"])["counted"]["total_tokens"] == 26


def _let_the_lease_run_out(site):
    def is_out():
        asked = "SELECT max(expires_at) AS until FROM workers"
        now = "extract(epoch FROM clock_timestamp())"
        if site.database.kind == "sqlite":
            now = "(julianday('now') - 2440587.5) * 86400.0"
        [row] = site.rows(f"SELECT ({asked}) < {now} - 0.5 AS out")
        return row["out"]

    eventually(is_out, "the end of the lease")


def test_a_run_that_takes_every_process_down_is_not_tried_for_ever(site):
    """After three lost leases it is an error, and the thread's next run has its turn."""
    [server] = site.servers
    run_id = start(server, {"first": "hold", "second": "die"})
    behind = start(server, {}, thread=site.run(run_id)["thread_id"])
    site.go()

    def over():
        if not server.running:
            server.begin()
        row = site.run(run_id)
        return row["ended_at"] is not None and row

    run = eventually(over, "the end of a run that kills", 90)
    assert (run["status"], run["error_type"]) == ("error", "WorkerLost")
    assert (run["attempt"], run["lost"]) == (3, 3)
    assert "3 times" in run["error"]
    assert site.places(run_id).count("second") == 3
    assert site.ended(behind)["status"] == "success"
    site.reached("on_run_error", run_id)


def test_a_server_that_is_stopped_lets_runs_end_and_hands_back_those_that_do_not(site):
    [server] = site.servers
    ending = start(server, {"second": "block"})
    handed = start(server, {"first": "hold"})
    site.reached("first", handed)
    site.reached("second", ending)
    assert server.stop() in (0, -signal.SIGTERM)
    assert site.run(ending)["status"] == "success"
    run = site.run(handed)
    assert (run["phase"], run["worker_id"], run["lost"]) == ("ready", None, 0)
    site.go()
    site.up()
    run = site.ended(handed)
    assert (run["status"], run["attempt"], run["lost"]) == ("success", 2, 0)
    assert output(run)["trail"] == WHOLE


def test_the_books_are_right(site):
    site.go()
    settled(site)
    check(site)
