"""A server that asks for keys, with a key of each role; shared by all tests here."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from ..conftest import _watched  # noqa: TID252 - tests are no package
from ..harness import Database, Served  # noqa: TID252

PROJECT = Path(__file__).parent / "project"

KEYS = {
    "admin": ("admin", "root"),
    "member": ("member", "ann"),
    "viewer": ("viewer", "ann"),
    "other": ("member", "bob"),
    "runner": ("runner", "rail"),
    "revoked": ("member", "ann"),
}
"""The role and the owner of the key of each caller."""


class Keyed:
    """A server, and what its callers send."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.url = served.url
        self.tokens: dict[str, str] = {}
        self.key_ids: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def add_key(self, caller: str, role: str, owner: str) -> None:
        told = self.served.run("keys", "create", caller, "--role", role, "--owner", owner, "--json")
        made = json.loads(told)
        self.tokens[caller], self.key_ids[caller] = made["key"], made["key_id"]

    def add_keys(self) -> None:
        """Make a key for each caller, and revoke the one that is to be."""
        for caller, (role, owner) in KEYS.items():
            self.add_key(caller, role, owner)
        self.revoke("revoked")

    def revoke(self, caller: str) -> None:
        self.served.run("keys", "revoke", self.key_ids[caller])

    def headers(self, caller: str) -> dict[str, str]:
        named = {"x-name": self.names[caller]} if caller in self.names else {}
        return {"x-api-key": self.tokens[caller]} if caller in self.tokens else named

    def client(self, caller: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers(caller), timeout=30)


CHUNK = (
    b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"role":"assistant","content":"hello"}}]}\n\n'
)


@pytest.fixture(scope="session")
def upstream() -> Iterator[str]:
    """A model's API that begins an answer and never ends it; its base URL."""
    closing = threading.Event()

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(CHUNK)
            self.wfile.flush()
            closing.wait()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    closing.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def start_keyed(tmp_path_factory, upstream) -> Iterator[Callable[..., Keyed]]:
    """Start a server of the project on a database."""
    env = {"ROLES_UPSTREAM": upstream}
    with _watched() as watch:

        def start(database: Database, file: str = "checkrail.yaml") -> Keyed:
            log = tmp_path_factory.mktemp("keyed") / "server.log"
            log.touch()
            served = Served(database, log, config=PROJECT / file, env=env)
            return Keyed(watch(served).start())

        yield start


@pytest.fixture(scope="session")
def keyed(start_keyed, new_database) -> Keyed:
    """A server on SQLite, with a key for each caller."""
    made = start_keyed(new_database("sqlite"))
    made.add_keys()
    return made


@pytest.fixture
def call(keyed) -> Iterator[Callable[..., httpx.Response]]:
    """Call the server as somebody."""
    with httpx.Client(base_url=keyed.url, timeout=30) as client:

        def request(caller: str, method: str, path: str, **options) -> httpx.Response:
            return client.request(method, path, headers=keyed.headers(caller), **options)

        yield request
