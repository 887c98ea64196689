"""A server that asks for keys, with a key of each role, and browsers that are logged in."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from ..server.harness import Served, on_sqlite  # noqa: TID252 - tests are no package

PROJECT = Path(__file__).parents[1] / "browser" / "project" / "checkrail.yaml"
KEYS = {"admin": "root", "member": "ann", "viewer": "vic", "runner": "rail"}


class Keyed:
    """A server, and the keys of its callers."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.url = served.url
        self.tokens: dict[str, str] = {}
        self.key_ids: dict[str, str] = {}
        self.http = httpx.Client(base_url=served.url, timeout=30)

    def add_key(self, name: str, role: str, owner: str) -> None:
        words = ("keys", "create", name, "--role", role, "--owner", owner, "--json")
        made = json.loads(self.served.run(*words))
        self.tokens[name], self.key_ids[name] = made["key"], made["key_id"]

    def call(self, who: str, method: str, path: str, **more) -> httpx.Response:
        headers = {"x-api-key": self.tokens[who]}
        return self.http.request(method, path, headers=headers, **more)

    def run(self, who: str, agent: str, parameters, mode: str = "sync") -> dict:
        body = {"agent_name": agent, "parameters": parameters, "execution_mode": mode}
        answer = self.call(who, "POST", "/runs", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


class Visit(httpx.Client):
    """A browser: it keeps cookies, names its origin, and sends forms with their tokens."""

    def __init__(self, url: str) -> None:
        super().__init__(base_url=url, timeout=30)

    def log_in(self, key: str, **more) -> httpx.Response:
        headers = {"origin": str(self.base_url).rstrip("/")}
        return self.post("/ui/login", data={"key": key, **more}, headers=headers)

    def token(self) -> str:
        return re.search(r'data-csrf="(\w+)"', self.get("/ui/runs").text)[1]

    def submit(self, path: str, **data) -> httpx.Response:
        headers = {"origin": str(self.base_url).rstrip("/")}
        return self.post(path, data={"csrf": self.token(), **data}, headers=headers)


@pytest.fixture(scope="session")
def keyed(tmp_path_factory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("project")
    text = PROJECT.read_text().replace("./app.py", str(PROJECT.parent / "app.py"))
    (folder / "checkrail.yaml").write_text(text + "auth: {keys: true}\n")
    log = tmp_path_factory.mktemp("log") / "server.log"
    log.touch()
    data = tmp_path_factory.mktemp("data")
    made = Keyed(Served(on_sqlite(data), log, config=folder / "checkrail.yaml").start())
    for role, owner in KEYS.items():
        made.add_key(role, role, owner)
    yield made
    made.http.close()
    made.served.stop()


@pytest.fixture
def visit(keyed) -> Iterator[Callable[[str], Visit]]:
    """Open a browser that is logged in with the key of a role; none is anybody's."""
    made: list[Visit] = []

    def open_browser(who: str | None = None) -> Visit:
        made.append(Visit(keyed.url))
        if who is not None:
            assert made[-1].log_in(keyed.tokens[who]).status_code == 303
        return made[-1]

    yield open_browser
    for each in made:
        each.close()
