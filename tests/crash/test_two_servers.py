"""Two servers on one PostgreSQL: one of them dies, freezes or stops, and the other one goes on."""

import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from .books import check, check_history, output, settled
from .site import eventually, new_thread, post, start

WHOLE = ["first", "second", "third"]


@pytest.fixture(scope="module")
def site(new_site):
    return new_site("postgres", servers=2)


@pytest.fixture
def pair(site):
    """Both servers, up, and holding what comes."""
    site.stay()
    site.up()
    return site.servers


def held_by(site, server, run_id):
    """Wait until a run holds at its second step on a server."""
    told = site.reached("second", run_id)
    assert told[-1]["pid"] == server.pid
    return told


def hooks_of(site, run_id):
    return [place for place in site.places(run_id) if place not in WHOLE]


def test_the_other_server_resumes_the_runs_of_one_that_died(site, pair):
    one, other = pair
    run_id = start(one, {"second": "hold"})
    behind = start(one, {}, thread=site.run(run_id)["thread_id"])
    held_by(site, one, run_id)
    one.kill()
    site.go()  # not before: the first server would go on
    run = site.ended(run_id)
    assert (run["status"], run["attempt"], run["lost"]) == ("success", 2, 1)
    assert output(run)["trail"] == WHOLE
    assert site.places(run_id).count("first") == 1
    assert site.journal("second", run_id)[-1]["pid"] == other.pid
    assert site.ended(behind)["status"] == "success"


def test_a_frozen_server_that_wakes_up_does_not_end_what_another_has(site, pair):
    one, other = pair
    run_id = start(one, {"second": "hold"})
    held_by(site, one, run_id)
    one.freeze()
    again = eventually(
        lambda: [line for line in site.journal("second", run_id) if line["pid"] == other.pid],
        "the other server",
    )
    assert again[0]["attempt"] == 2
    one.thaw()
    awake = start(one, {})
    assert site.ended(awake)["status"] == "success"
    assert site.run(run_id)["ended_at"] is None  # still held, by the other one
    site.go()
    run = site.ended(run_id)
    assert (run["status"], run["attempt"], run["lost"]) == ("success", 2, 1)
    assert output(run)["trail"] == WHOLE
    settled(site)
    assert hooks_of(site, run_id) == ["before_run", "on_run_start", "on_result", "after_run"]


def test_a_frozen_server_that_wakes_up_does_not_take_threads_back(site, pair):
    one, other = pair
    stale = [start(one, {"second": "hold"}) for _ in range(6)]
    for run_id in stale:
        held_by(site, one, run_id)
    one.freeze()
    site.go()  # for the other one, and for the frozen one as soon as it wakes up
    later = []
    for run_id in stale:
        assert site.ended(run_id)["status"] == "success"
        assert site.journal("second", run_id)[-1]["pid"] == other.pid
        later.append(start(other, {}, thread=site.run(run_id)["thread_id"]))
    for run_id in later:
        assert site.ended(run_id)["status"] == "success"
    one.thaw()  # in the middle of their second steps
    for _ in range(2):
        assert site.ended(start(one, {"second": "pause"}))["status"] == "success"
    for run_id in stale:
        thread_id = site.run(run_id)["thread_id"]
        state = httpx.get(f"{other.url}/threads/{thread_id}/state", timeout=30).json()
        assert state["values"]["trail"] == WHOLE * 2
        assert state["next"] == []
        check_history(site, thread_id)
    settled(site)


def test_a_frozen_server_that_wakes_up_does_not_close_a_hook_call_of_another(site, pair):
    one, other = pair
    run_id = start(one, {"on_run_start": "hold"})
    site.reached("on_run_start", run_id)
    one.freeze()
    eventually(lambda: len(site.journal("on_run_start", run_id)) == 2, "the other server")
    one.thaw()
    awake = start(one, {})
    assert site.ended(awake)["status"] == "success"
    site.go()
    assert site.ended(run_id)["attempt"] == 2
    told = [each for each in site.records(run_id) if each["point"] == "on_run_start"]
    assert [each["event_type"] for each in told if each["attempt"] == 2] == [
        "hook_start",
        "hook_complete",
    ]
    assert site.journal("first", run_id)[0]["pid"] == other.pid
    assert site.places(run_id).count("first") == 1


def test_a_blocked_event_loop_is_no_dead_server(site, pair):
    run_id = start(pair[0], {"second": "block"})
    run = site.ended(run_id)
    assert (run["status"], run["attempt"], run["lost"]) == ("success", 1, 0)
    assert site.places(run_id).count("second") == 1


def test_a_run_is_cancelled_from_the_other_server(site, pair):
    one, other = pair
    run_id = start(one, {"second": "hold"})
    held_by(site, one, run_id)
    thread = site.run(run_id)["thread_id"]
    httpx.post(f"{other.url}/threads/{thread}/runs/{run_id}/cancel?wait=1", timeout=30)
    run = site.run(run_id)
    assert (run["status"], run["phase"]) == ("interrupted", "cancelled")
    assert site.journal("after second", run_id) == []


def test_a_cancel_of_which_word_was_lost_is_found_by_the_next_heartbeat(site, pair):
    run_id = start(pair[0], {"second": "hold"})
    site.reached("second", run_id)
    site.change("UPDATE runs SET cancel = 'interrupt' WHERE run_id = :id", id=run_id)
    assert site.ended(run_id)["phase"] == "cancelled"


def test_a_run_that_was_to_be_cancelled_when_its_server_died_is_cancelled(site, pair):
    one, _other = pair
    run_id = start(one, {"second": "hold"})
    site.reached("second", run_id)
    one.freeze()  # it does not hear of it any more
    site.change("UPDATE runs SET cancel = 'interrupt' WHERE run_id = :id", id=run_id)
    one.kill()
    run = site.ended(run_id)
    assert (run["status"], run["phase"], run["attempt"]) == ("interrupted", "cancelled", 1)


def test_one_key_gives_one_run_though_both_servers_are_asked_at_once(site, pair):
    thread = new_thread(pair[0])
    body = {"assistant_id": "steps", "input": {"do": {}}}

    def ask(number):
        server = pair[number % 2]
        return post(server, f"/threads/{thread}/runs", body, idempotency_key="one")["run_id"]

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(ask, range(8)))
    assert len(found) == 1
    [run_id] = found
    assert site.ended(run_id)["attempt"] == 1
    assert site.places(run_id).count("first") == 1


def test_a_server_that_is_stopped_hands_its_runs_to_the_other(site, pair):
    one, other = pair
    run_id = start(one, {"second": "hold"})
    temporary = post(
        one,
        "/runs",
        {"assistant_id": "steps", "input": {"do": {"second": "hold"}}, "durability": "sync"},
    )["run_id"]
    for each in (run_id, temporary):
        held_by(site, one, each)
    assert one.stop() in (0, -signal.SIGTERM)
    for each in (run_id, temporary):
        eventually(lambda each=each: len(site.journal("second", each)) == 2, "the other server")
    site.go()
    for each in (run_id, temporary):
        run = site.ended(each)
        assert (run["status"], run["attempt"], run["lost"]) == ("success", 2, 0)
        assert site.journal("second", each)[-1]["pid"] == other.pid
        assert site.places(each).count("first") == 1


def test_the_books_are_right(site, pair):
    site.go()
    settled(site)
    check(site)


def test_a_finish_hook_in_the_background_is_told_again_after_a_kill(new_site):
    site = new_site("sqlite")
    config = site.folder / "project" / "checkrail.yaml"
    config.write_text(config.read_text().replace("name: finished,", "name: finished, mode: async,"))
    [server] = site.servers
    server.kill()  # which was up before its config was changed
    site.up()
    run_id = start(server, {"after_run": "hold"})
    site.reached("after_run", run_id)
    assert site.ended(run_id)["status"] == "success"
    server.kill()
    site.go()
    site.up()
    settled(site)
    check(site)
    assert site.places(run_id).count("after_run") == 2
