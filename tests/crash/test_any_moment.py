"""Servers die, and connections break, at any moment while small runs keep coming."""

import random
import threading
import time
from typing import Self

import httpx
import pytest

from .books import check, settled
from .conftest import DATABASES
from .site import Row, Site, new_thread, post

KILLS = 4
THREADS = 4
PAUSES = dict.fromkeys(("on_run_start", "second", "on_result", "after_run"), "pause")


class Traffic:
    """Asks for runs, on a few threads and on none, and remembers what was admitted."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.admitted: list[str] = []
        self.threads = [new_thread(site.servers[0]) for _ in range(THREADS)]
        self._chance = random.Random(7)
        self._over = threading.Event()
        self._askers = [threading.Thread(target=self._ask) for _ in range(3)]

    def __enter__(self) -> Self:
        for asker in self._askers:
            asker.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        for asker in self._askers:
            asker.join()

    def _ask(self) -> None:
        body = {"assistant_id": "steps", "input": {"do": PAUSES}}
        while not self._over.wait(0.03):
            server = self._chance.choice(self.site.servers)
            thread = self._chance.choice([*self.threads, None])
            path = f"/threads/{thread}/runs" if thread else "/runs"
            try:
                self.admitted.append(post(server, path, body)["run_id"])
            except httpx.HTTPError:
                time.sleep(0.1)  # it is down


def all_over(site: Site, traffic: Traffic) -> list[Row]:
    """Wait until all that was admitted has ended, and see that it did so once."""
    settled(site)
    check(site)
    found = site.rows("SELECT * FROM runs")
    kept = {row["run_id"] for row in found}
    assert set(traffic.admitted) <= kept, "a run that was admitted is gone"
    _check_states(site, found)
    return found


def _check_states(site: Site, found: list[Row]) -> None:
    """See that each thread has the steps of each of its runs once, however often they were cut."""
    for thread in site.rows("SELECT * FROM threads"):
        mine = [row for row in found if row["thread_id"] == thread["thread_id"]]
        if not mine or any(row["status"] != "success" for row in mine):
            continue
        server = site.servers[0]
        state = httpx.get(f"{server.url}/threads/{thread['thread_id']}/state", timeout=30).json()
        assert state["values"]["trail"] == ["first", "second", "third"] * len(mine)


@pytest.mark.parametrize("kind", DATABASES)
def test_whenever_a_server_dies_no_run_is_lost_and_none_ends_twice(new_site, kind):
    site = new_site(kind, servers=1 if kind == "sqlite" else 2)
    chance = random.Random(11)
    with Traffic(site) as traffic:
        for number in range(KILLS):
            time.sleep(chance.uniform(0.2, 0.8))  # the moment is what chance decides here
            site.servers[number % len(site.servers)].kill()
            site.up()
    assert len(traffic.admitted) > KILLS
    found = all_over(site, traffic)
    assert any(row["lost"] for row in found), "no kill met a run"
    assert {row["status"] for row in found if row["error_type"] != "WorkerLost"} == {"success"}


def test_whenever_connections_to_the_database_break_no_run_is_lost(new_site):
    site = new_site("postgres")
    chance = random.Random(13)
    ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    ours = "datname = current_database() AND pid <> pg_backend_pid()"
    with Traffic(site) as traffic:
        for _ in range(20):
            time.sleep(chance.uniform(0.05, 0.3))
            site.rows(f"{ends} WHERE {ours}")
    assert len(traffic.admitted) > 5
    for run in all_over(site, traffic):  # a graph whose checkpointer fails fails as well
        assert run["error_type"] in (None, "AdminShutdown", "OperationalError"), run["error"]
    assert site.servers[0].running
