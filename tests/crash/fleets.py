"""Two servers and three runners on one database, and traffic of every kind for them."""

import contextlib
import json
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from tests.processes import environment
from tests.server.harness import Database, Served, zygote

from .conftest import LEFT_OUT, _watched
from .site import Site, eventually

PROJECT = Path(__file__).parent / "fleet"
AGENTS = ("steps", "talk", "work", "work", "program", "asked", "pays")
THREADS = 5
PATIENCE = 120.0


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
        if self.running:  # or its number may be somebody else's by now
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


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

    def await_runners(self) -> None:
        """Wait until the servers know all runners."""

        def known() -> bool:
            answer = httpx.get(f"{self.site.servers[0].url}/runners", timeout=30)
            return {each["name"] for each in answer.json()} >= {each.name for each in self.runners}

        eventually(known, "all runners")


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


@contextlib.contextmanager
def running_fleet(url: str, tmp_path: Path) -> Iterator[Fleet]:
    """Start a fleet on a database that has its tables, in a folder of its own."""
    shutil.copytree(PROJECT, tmp_path / "project", ignore=LEFT_OUT)
    database = Database("postgres", {"CHECKRAIL_DATABASE_URL": url})
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
    """Requests runs of all agents, and approves whatever they ask.

    There are `most` requests, or as many as come until `end`, each after a pause.
    """

    def __init__(self, fleet: Fleet, most: int | None = None, pause: float = 0.0) -> None:
        self.fleet = fleet
        self.admitted: set[str] = set()
        self.refused = 0
        self.requested = 0
        self.answers: Counter[int] = Counter()
        self.sessions: list[str] = []
        self._chance = random.Random(5)
        self._most = most
        self._pause = pause
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.requesters = [threading.Thread(target=self._request) for _ in range(4)]
        self.person = threading.Thread(target=self._approve)

    def _url(self) -> str:
        return self._chance.choice(self.fleet.site.servers).url

    def _next(self) -> int | None:
        with self._lock:
            if self._ending.is_set() or self.requested == self._most:
                return None
            self.requested += 1
            return self.requested

    def _request(self) -> None:
        while (number := self._next()) is not None:
            body = {"agent_name": self._chance.choice(AGENTS), "parameters": {"n": number}}
            if body["agent_name"] in ("talk", "pays"):
                body["parameters"] = {"prompt": f"number {number}"}
            if len(self.sessions) >= THREADS and self._chance.random() < 0.5:
                body["session_id"] = self._chance.choice(self.sessions)
            if number % 20 == 0:
                body["parameters"]["rude"] = True
            self._post(body, f"key-{number}")
            self._ending.wait(self._pause)

    def _post(self, body: dict, key: str) -> None:
        """Ask until there is an answer; a key makes that safe."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            headers = {"Idempotency-Key": key}
            try:
                answer = httpx.post(f"{self._url()}/runs", json=body, headers=headers, timeout=30)
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            self.answers[answer.status_code] += 1
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
        for thread in (*self.requesters, self.person):
            thread.start()
        return self

    def end(self) -> None:
        """Request no more, and wait for the answers to what was requested."""
        self._ending.set()
        self.wait()

    def wait(self) -> None:
        """Wait until everything was requested, and answered."""
        for requester in self.requesters:
            requester.join()

    def __exit__(self, *_exc: object) -> None:
        self.end()
        self._over.set()
        self.person.join()
