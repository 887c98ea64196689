"""A server is killed while runs are at every step of their lives, and started again."""

import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import pytest

from .books import check, output, settled
from .conftest import DATABASES
from .site import Site, eventually, new_thread, post, start

WHOLE = ["first", "second", "third"]
BEFORE = ["before_run", "on_run_start"]
AFTER = ["on_result", "after_run"]


@dataclass
class Wreck:
    """What a kill met, and where it was found again."""

    site: Site
    runs: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def over(self, name: str) -> dict[str, Any]:
        return self.site.ended(self.runs[name])

    def places(self, name: str) -> list[str]:
        return self.site.places(self.runs[name])


def _ask_in_vain(wreck: Wreck) -> threading.Thread:
    """Ask for a run whose admission never ends: its request dies with the server."""
    server = wreck.site.servers[0]
    wreck.more["asked"] = asked = {"assistant_id": "steps", "input": {"do": {"before_run": "hold"}}}
    wreck.more["thread"] = thread = new_thread(server)

    def ask() -> None:
        with pytest.raises(httpx.TransportError):
            post(server, f"/threads/{thread}/runs", asked, idempotency_key="asked")

    caller = threading.Thread(target=ask)
    caller.start()
    return caller


def _start_all(wreck: Wreck, webhook: str) -> None:
    server = wreck.site.servers[0]
    held = {
        "start": {"on_run_start": "hold"},
        "first": {"first": "hold"},
        "second": {"second": "hold"},
        "result": {"on_result": "hold"},
        "delivery": {"after_run": "hold"},
        "poison": {"after_run": "hold"},
        "failure": {"first": "raise", "on_run_error": "hold"},
    }
    wreck.runs = {name: start(server, do) for name, do in held.items()}
    for agent in ("fails", "restarts"):
        wreck.runs[agent] = start(server, {"second": "hold"}, agent=agent)
    behind = wreck.site.run(wreck.runs["second"])["thread_id"]
    wreck.runs["queued"] = start(server, {}, thread=behind)
    behind = wreck.site.run(wreck.runs["fails"])["thread_id"]
    wreck.runs["queued behind a failure"] = start(server, {}, thread=behind)
    wreck.runs["scheduled"] = start(server, {}, after_seconds=3600)
    wreck.runs["webhook"] = start(server, {}, webhook=webhook)
    body = {"assistant_id": "steps", "input": {"do": {"second": "hold"}}, "durability": "sync"}
    wreck.runs["stateless"] = post(server, "/runs", body)["run_id"]
    wreck.more["body"] = body
    wreck.runs["repeated"] = post(server, "/runs", body, idempotency_key="again")["run_id"]
    cron = {"assistant_id": "steps", "schedule": "0 0 1 1 *", "input": {"do": {}}}
    wreck.more["cron"] = post(server, "/runs/crons", cron)["cron_id"]


def _await_all(wreck: Wreck, receiver: Any) -> None:
    """Wait until every run is where the kill is to meet it."""
    at = {
        "start": "on_run_start",
        "first": "first",
        "second": "second",
        "result": "on_result",
        "delivery": "after_run",
        "poison": "after_run",
        "failure": "on_run_error",
        "fails": "second",
        "restarts": "second",
        "stateless": "second",
        "repeated": "second",
    }
    for name, place in at.items():
        wreck.site.reached(place, wreck.runs[name])
    eventually(lambda: wreck.site.journal("before_run"), "the request")
    eventually(lambda: receiver.calls, "the webhook")
    for name in ("start", "result", "delivery", "poison", "failure"):
        eventually(partial(_has_started, wreck, name, at[name]), f"the record of {name}")


def _has_started(wreck: Wreck, name: str, point: str) -> bool:
    told = wreck.site.records(wreck.runs[name])
    return any(each["point"] == point for each in told)


@pytest.fixture(scope="module", params=DATABASES)
def wreck(request, new_site, receiver):
    """Runs at every step, a kill, and a server that was started again on what it left."""
    receiver.calls.clear()
    receiver.answering.clear()
    wreck = Wreck(new_site(request.param))
    caller = _ask_in_vain(wreck)
    _start_all(wreck, receiver.url)
    _await_all(wreck, receiver)
    site = wreck.site
    site.servers[0].kill()
    caller.join()
    site.go()
    receiver.answering.set()
    now = time.time()
    site.change("UPDATE runs SET due_at = :now WHERE phase = 'scheduled'", now=now)
    site.change("UPDATE crons SET next_run_at = :now", now=now)
    poison = "UPDATE deliveries SET lost = 2 WHERE run_id = :id"
    site.change(poison, id=wreck.runs["poison"])
    site.up()
    settled(site)
    wreck.more["webhooks"] = [*receiver.calls]
    return wreck


def test_a_request_that_was_not_answered_has_left_no_run(wreck):
    thread = wreck.more["thread"]
    found = wreck.site.rows("SELECT status FROM threads WHERE thread_id = :id", id=thread)
    assert found == [{"status": "idle"}]
    assert wreck.site.rows("SELECT * FROM runs WHERE thread_id = :id", id=thread) == []


def test_a_request_that_was_not_answered_may_be_repeated_with_its_key(wreck):
    path = f"/threads/{wreck.more['thread']}/runs"
    [server] = wreck.site.servers
    asked = [
        post(server, path, wreck.more["asked"], idempotency_key="asked")["run_id"] for _ in range(2)
    ]
    assert asked[0] == asked[1]
    assert wreck.site.ended(asked[0])["status"] == "success"


def test_a_run_in_its_start_hooks_is_asked_again_and_goes_on(wreck):
    run = wreck.over("start")
    assert (run["status"], run["attempt"]) == ("success", 2)
    assert run["lost"] == 0, "the delivery that two processes had died with is blamed alone"
    assert wreck.places("start") == ["before_run", "on_run_start", "on_run_start", *WHOLE, *AFTER]


def test_a_run_without_a_checkpoint_begins_again_from_its_input(wreck):
    run = wreck.over("first")
    assert (run["status"], run["attempt"]) == ("success", 2)
    assert wreck.places("first") == [*BEFORE, "first", *WHOLE, *AFTER]
    assert output(run)["trail"] == WHOLE


def test_a_run_with_a_checkpoint_repeats_only_the_step_that_was_cut_off(wreck):
    run = wreck.over("second")
    assert (run["status"], run["attempt"]) == ("success", 2)
    assert wreck.places("second") == [*BEFORE, "first", "second", "second", "third", *AFTER]
    assert output(run)["trail"] == WHOLE


def test_a_run_that_goes_on_says_so_in_its_events(wreck):
    told = wreck.site.events(wreck.runs["second"])
    attempts = [data["attempt"] for _, event, data in told if event == "metadata"]
    assert attempts == [1, 2]


def test_a_run_whose_result_was_not_ruled_on_is_ruled_on_without_running_again(wreck):
    run = wreck.over("result")
    assert (run["status"], run["attempt"]) == ("success", 2)
    assert wreck.places("result") == [*BEFORE, *WHOLE, "on_result", *AFTER]
    assert output(run)["trail"] == WHOLE


def test_a_stateless_run_resumes_like_any_other(wreck):
    assert wreck.over("stateless")["status"] == "success"
    assert wreck.places("stateless") == [*BEFORE, "first", "second", "second", "third", *AFTER]


def test_a_run_of_an_agent_that_fails_on_a_crash_fails(wreck):
    run = wreck.over("fails")
    assert (run["status"], run["error_type"]) == ("error", "WorkerLost")
    assert "on_crash" in run["error"]
    assert wreck.places("fails") == [*BEFORE, "first", "second", "on_run_error"]


def test_a_run_of_an_agent_that_restarts_on_a_crash_begins_again(wreck):
    run = wreck.over("restarts")
    assert (run["status"], run["attempt"]) == ("success", 2)
    assert wreck.places("restarts") == [*BEFORE, "first", "second", *WHOLE, *AFTER]
    assert output(run)["trail"] == WHOLE


@pytest.mark.parametrize("name", ["queued", "queued behind a failure"])
def test_a_queued_run_has_its_turn(wreck, name):
    run = wreck.over(name)
    assert (run["status"], run["attempt"], run["lost"]) == ("success", 1, 0)
    assert wreck.places(name) == [*BEFORE, *WHOLE, *AFTER]


def test_a_scheduled_run_that_came_due_meanwhile_is_started(wreck):
    run = wreck.over("scheduled")
    assert (run["status"], run["attempt"]) == ("success", 1)


def test_a_cron_that_came_due_meanwhile_asks_for_one_run(wreck):
    cron_id = wreck.more["cron"]
    asked = [row for row in wreck.site.rows("SELECT * FROM runs") if row["origin"] == "cron"]
    assert [row["status"] for row in asked] == ["success"]
    [cron] = wreck.site.rows("SELECT * FROM crons WHERE cron_id = :id", id=cron_id)
    assert cron["next_run_at"] > time.time()
    assert cron["last_error"] is None


def test_a_finish_hook_that_was_cut_off_is_called_again(wreck):
    run = wreck.over("delivery")
    assert (run["status"], run["attempt"]) == ("success", 1)
    assert wreck.places("delivery") == [*BEFORE, *WHOLE, *AFTER, "after_run"]
    assert wreck.site.deliveries(run["run_id"])["after_run"]["status"] == "done"


def test_the_error_hook_that_was_cut_off_is_called_again(wreck):
    run = wreck.over("failure")
    assert (run["status"], run["error_type"]) == ("error", "ValueError")
    assert wreck.places("failure") == [*BEFORE, "first", "on_run_error", "on_run_error"]


def test_a_delivery_that_went_down_with_every_process_is_dead_at_last(wreck):
    [owed] = wreck.site.deliveries(wreck.runs["poison"]).values()
    assert (owed["status"], owed["lost"]) == ("dead", 3)
    assert "went away" in owed["last_error"]
    assert wreck.places("poison") == [*BEFORE, *WHOLE, *AFTER]


def test_a_webhook_is_sent_again_with_the_same_id(wreck):
    sent = wreck.more["webhooks"]
    assert len(sent) == 2
    assert sent[0] == sent[1]
    owed = wreck.site.deliveries(wreck.runs["webhook"])
    assert owed["webhook"]["delivery_id"] == sent[0]
    assert owed["webhook"]["status"] == "done"


def test_an_idempotency_key_gives_the_same_run_after_a_restart(wreck):
    [server] = wreck.site.servers
    again = post(server, "/runs", wreck.more["body"], idempotency_key="again")
    assert again["run_id"] == wreck.runs["repeated"]
    with pytest.raises(httpx.HTTPStatusError, match="422"):
        post(server, "/runs", {**wreck.more["body"], "metadata": {}}, idempotency_key="again")


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("start", "on_run_start"),
        ("result", "on_result"),
        ("delivery", "after_run"),
        ("poison", "after_run"),
        ("failure", "on_run_error"),
    ],
)
def test_a_hook_call_that_was_cut_off_is_recorded_as_lost(wreck, name, point):
    told = [each for each in wreck.site.records(wreck.runs[name]) if each["point"] == point]
    assert told[0]["event_type"] == "hook_start"
    assert told[1]["event_type"] == "hook_failed"
    assert told[1]["failure"] == "lost"
    assert len({each["record_id"] for each in told}) == len(told)
    again = [] if name == "poison" else ["hook_start", "hook_complete"]
    assert [each["event_type"] for each in told[2:]] == again


def test_the_books_are_right(wreck):
    settled(wreck.site)
    check(wreck.site, dead={wreck.runs["poison"]})
