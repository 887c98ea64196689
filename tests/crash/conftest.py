"""Servers that are killed, frozen and stopped, each site with a database of its own."""

import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.server.conftest import (  # noqa: F401 - fixtures, and a hook of pytest
    DATABASES,
    _watched,
    pytest_runtest_makereport,
)
from tests.server.harness import Database, Served

from .site import Site

PROJECT = Path(__file__).parent / "project"
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".checkrail")


def _database(kind, request) -> Database:
    """A database without rows; SQLite's is beside the project, of which each site has a copy."""
    if kind == "sqlite":
        return Database(kind, {})
    url = request.getfixturevalue("postgres").with_tables()
    return Database(kind, {"CHECKRAIL_DATABASE_URL": url})


@pytest.fixture(scope="module")
def new_site(request, tmp_path_factory):
    """Make sites: `new_site("sqlite", servers=1)`, started."""
    with _watched() as watch:

        def made(kind: str, servers: int = 1) -> Site:
            folder = tmp_path_factory.mktemp(f"site-{kind}")

            def serve(database, **options) -> Served:
                log = folder / f"server-{len(list(folder.glob('*.log')))}.log"
                log.touch()
                return watch(Served(database, log, **options))

            shutil.copytree(PROJECT, folder / "project", ignore=LEFT_OUT)
            site = Site(_database(kind, request), folder, serve)
            for _ in range(servers):
                site.add()
            site.up()
            return site

        yield made


class Receiver(ThreadingHTTPServer):
    """Takes webhooks; holds its answer until it is told to give it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taken)
        self.calls = []
        self.answering = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/done"


class _Taken(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append(self.headers["webhook-id"])
        self.server.answering.wait(60)
        try:
            self.send_response(200)
            self.end_headers()
        except OSError:
            pass  # who asked is dead

    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.answering.set()
        receiver.shutdown()
        thread.join()
