"""Servers and runners on one database die at random while runs of every kind keep coming.

`make soak` runs the same with many more runs: CHECKRAIL_SOAK_RUNS says how many.
"""

import contextlib
import json
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from tests.processes import environment
from tests.server.harness import Database, Served, zygote

from . import fleet_books
from .conftest import LEFT_OUT, _watched
from .site import Site

PROJECT = Path(__file__).parent / "fleet"
RUNS = int(os.environ.get("CHECKRAIL_SOAK_RUNS", "80"))
KILLS = max(5, RUNS // 100)
AGENTS = ("steps", "talk", "work", "work", "program", "asked", "pays")
THREADS = 5


class Receiver(ThreadingHTTPServer):
    """Hears of the ends of runs."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taken)
        self.heard: set[str] = set()


class _Taken(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.add(body["run_id"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, format, *args):
        pass


@dataclass
class Runner:
    """A runner of a server, which may be killed."""

    name: str
    server: Served
    site: Site
    process: object = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def begin(self) -> None:
        config = self.site.folder / "project"
        words = ["runner", "--server", self.server.url, "--name", self.name, "--tag", "box"]
        words += ["--capacity", "3", "--config", str(config)]
        env = environment(**self.server.database.env, **self.server.env)
        with (self.site.folder / f"{self.name}.log").open("ab") as log:
            self.process = zygote().start(words, config, env, log.fileno())

    def kill(self) -> None:
        self.process.send_signal(9)
        self.process.wait(30)


@dataclass
class Fleet:
    """Two servers and three runners on one PostgreSQL."""

    site: Site
    receiver: Receiver
    runners: list[Runner]

    def up(self) -> None:
        self.site.up()
        for runner in self.runners:
            if not runner.running:
                runner.begin()


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


@pytest.fixture
def fleet(postgres, tmp_path) -> Iterator[Fleet]:
    shutil.copytree(PROJECT, tmp_path / "project", ignore=LEFT_OUT)
    database = Database("postgres", {"CHECKRAIL_DATABASE_URL": postgres.with_tables()})
    with _watched() as watch, receiving() as receiver:

        def serve(database, **options) -> Served:
            log = tmp_path / f"server-{len(list(tmp_path.glob('server-*.log')))}.log"
            log.touch()
            url = f"http://127.0.0.1:{receiver.server_port}/told"
            options["env"] = {**options["env"], "RECEIVER": url}
            return watch(Served(database, log, **options))

        site = Site(database, tmp_path, serve)
        servers = [site.add(), site.add()]
        runners = [Runner(f"runner-{n}", servers[n % 2], site) for n in range(3)]
        made = Fleet(site, receiver, runners)
        made.up()
        try:
            yield made
        finally:
            for runner in runners:
                runner.kill()


class Traffic:
    """Asks for runs of all agents, and says yes to whatever is asked."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.admitted: set[str] = set()
        self.refused = 0
        self.sessions: list[str] = []
        self._chance = random.Random(5)
        self._left = RUNS
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.askers = [threading.Thread(target=self._ask) for _ in range(4)]
        self.person = threading.Thread(target=self._approve)

    def _url(self) -> str:
        return self._chance.choice(self.fleet.site.servers).url

    def _next(self) -> int | None:
        with self._lock:
            self._left -= 1
            return None if self._left < 0 else RUNS - self._left

    def _ask(self) -> None:
        while (number := self._next()) is not None:
            body = {"agent_name": self._chance.choice(AGENTS), "parameters": {"n": number}}
            if body["agent_name"] in ("talk", "pays"):
                body["parameters"] = {"prompt": f"number {number}"}
            if len(self.sessions) >= THREADS and self._chance.random() < 0.5:
                body["session_id"] = self._chance.choice(self.sessions)
            if number % 20 == 0:
                body["parameters"]["rude"] = True
            self._post(body, f"key-{number}")

    def _post(self, body: dict, key: str) -> None:
        """Ask until there is an answer; a key makes that safe."""
        for _ in range(200):
            headers = {"Idempotency-Key": key}
            try:
                answer = httpx.post(f"{self._url()}/runs", json=body, headers=headers, timeout=30)
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            if answer.status_code == 200:
                self.admitted.add(answer.json()["run_id"])
                if "session_id" not in body and len(self.sessions) < THREADS:
                    self.sessions.append(answer.json()["session_id"])
                return
            if answer.status_code == 403:
                self.refused += 1
                return
            assert answer.status_code >= 500, answer.text
            time.sleep(0.1)
        raise AssertionError("no server answered")

    def _approve(self) -> None:
        while not self._over.wait(0.2):
            with contextlib.suppress(httpx.HTTPError):
                url = self._url()
                opened = httpx.get(f"{url}/approvals", params={"status": "open"}, timeout=30)
                for each in opened.json() if opened.status_code == 200 else ():
                    path = f"{url}/approvals/{each['approval_id']}/approve"
                    httpx.post(path, json={}, timeout=30)

    def __enter__(self):
        for thread in (*self.askers, self.person):
            thread.start()
        return self

    def asked(self) -> None:
        for asker in self.askers:
            asker.join()

    def __exit__(self, *_exc: object) -> None:
        self.asked()
        self._over.set()
        self.person.join()


def test_whoever_dies_nothing_is_lost_and_nothing_happens_twice(fleet):
    chance = random.Random(3)
    with Traffic(fleet) as traffic:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.5, 1.5))  # the moment is what chance decides here
            chance.choice([*fleet.site.servers, *fleet.runners]).kill()
            time.sleep(chance.uniform(0.1, 1.0))
            fleet.up()
        traffic.asked()
        fleet.up()
        fleet_books.settled(fleet.site)
    assert len(traffic.admitted) + traffic.refused == RUNS
    ends = fleet_books.check(fleet.site, traffic.admitted, fleet.receiver.heard)
    by_agent = {agent for agent, phase in ends if phase == "success"}
    assert by_agent >= {"steps", "talk", "work", "program", "asked", "pays", "check", "follow"}
    sys.stdout.write(f"{RUNS} runs, {KILLS} kills: {dict(ends)}\n")
