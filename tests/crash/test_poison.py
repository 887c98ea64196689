"""Runs and deliveries that take every process down: they end, and nothing else does with them."""

import contextlib

import httpx
import pytest

from .conftest import DATABASES
from .site import eventually, post, start

MANY = 5
NEWEST = "SELECT run_id FROM runs ORDER BY seq DESC LIMIT 1"


@pytest.fixture(scope="module", params=DATABASES)
def site(request, new_site):
    return new_site(request.param, servers=1 if request.param == "sqlite" else 2)


@pytest.fixture(scope="module")
def embedded(new_site):
    return new_site("sqlite")


@pytest.fixture(autouse=True)
def _everything_holds(request):
    [used] = [name for name in request.fixturenames if name in ("site", "embedded")]
    request.getfixturevalue(used).stay()
    request.getfixturevalue(used).up()


def supervised(site, look, what):
    """Start every server again that has died, until something is there."""

    def restarted():
        for server in site.servers:
            if not server.running:
                server.begin()
        return look()

    return eventually(restarted, what, 90)


def ended(site, run_id):
    row = site.run(run_id)
    return row["ended_at"] is not None and row


def test_a_run_that_kills_ends_alone(site):
    """What shares its process is charged for the first two deaths, and then never again."""
    server = site.servers[0]
    innocent = [start(server, {"first": "hold"}) for _ in range(MANY)]
    for run_id in innocent:
        site.reached("first", run_id)
    poison = start(server, {"first": "pause", "second": "die"})
    supervised(site, lambda: site.run(poison)["lost"] >= 2, "two deaths")
    site.go()
    run = supervised(site, lambda: ended(site, poison), "the end of the run that kills")
    assert (run["status"], run["error_type"], run["lost"]) == ("error", "WorkerLost", 3)
    for run_id in innocent:
        other = supervised(site, lambda run_id=run_id: ended(site, run_id), "the other runs")
        assert (other["status"], other["lost"] <= 2) == ("success", True)
    output = "".join(each.output() for each in site.servers)
    assert output.count(f"run {poison} of steps ends: ") == 1
    supervised(site, lambda: not site.rows("SELECT 1 FROM deliveries WHERE status = 'owed'"), "all")
    assert {row["status"] for row in site.rows("SELECT status FROM deliveries")} == {"done"}


@pytest.mark.parametrize("point", ["on_run_start", "on_result"])
def test_a_hook_of_a_run_that_kills_ends_that_run(embedded, point):
    site = embedded
    server = site.servers[0]
    other = start(server, {point: "hold"})
    site.reached(point, other)
    with contextlib.suppress(httpx.TransportError):  # it may be dead before it answers
        start(server, {point: "die"})
    [poison] = [row["run_id"] for row in site.rows(NEWEST)]
    supervised(site, lambda: site.run(poison)["lost"] >= 2, "two deaths")
    site.go()
    run = supervised(site, lambda: ended(site, poison), f"the end of a run that kills at {point}")
    assert (run["status"], run["error_type"], run["lost"]) == ("error", "WorkerLost", 3)
    assert supervised(site, lambda: ended(site, other), "the other run")["status"] == "success"


def test_a_cron_that_kills_is_switched_off_and_another_beside_it_goes_on(embedded):
    """They are due in the same seconds, so that each death comes while both are asked for."""
    server = embedded.servers[0]
    body = {"assistant_id": "steps", "schedule": "* * * * * *"}
    poison, other = [
        post(server, "/runs/crons", {**body, "input": {"do": do}})["cron_id"]
        for do in ({"before_run": "die"}, {})
    ]

    def read(cron_id):
        [row] = embedded.rows("SELECT * FROM crons WHERE cron_id = :id", id=cron_id)
        return row

    supervised(embedded, lambda: not read(poison)["enabled"], "the end of the cron that kills")
    assert "3 processes went away" in read(poison)["last_error"]
    embedded.up()
    asked = len(embedded.rows("SELECT 1 FROM runs WHERE origin = 'cron'"))
    more = "SELECT 1 FROM runs WHERE origin = 'cron' AND status = 'success'"
    supervised(embedded, lambda: len(embedded.rows(more)) > asked, "runs of the other cron")
    assert read(other)["enabled"]
    httpx.delete(f"{server.url}/runs/crons/{other}", timeout=30).raise_for_status()


def test_a_finish_hook_that_kills_is_a_dead_delivery(site):
    server = site.servers[0]
    others = [start(server, {"after_run": "hold"}) for _ in range(MANY)]
    for run_id in others:
        site.reached("after_run", run_id)
    poison = start(server, {"after_run": "die"})

    def owed(run_id=poison):
        return site.deliveries(run_id).get("after_run", {"status": "", "lost": 0})

    supervised(site, lambda: owed()["lost"] >= 2, "two deaths")
    site.go()
    supervised(site, lambda: owed()["status"] == "dead", "the death of the delivery")
    assert (owed()["lost"], owed()["worker_id"]) == (3, None)
    assert site.run(poison)["status"] == "success"
    assert site.places(poison).count("after_run") == 3
    for run_id in others:
        supervised(site, lambda run_id=run_id: owed(run_id)["status"] != "owed", "the others")
        assert owed(run_id)["status"] == "done"
    site.up()
    [shown] = httpx.get(f"{server.url}/runs/{poison}", timeout=30).json()["deliveries"]
    assert (shown["status"], shown["attempts"]) == ("dead", 3)
    assert "3 processes went away" in shown["last_error"]
    output = "".join(each.output() for each in site.servers)
    assert output.count(f"of run {poison} is dead") == 1
