"""Servers of a project with hooks: one for each database and file, shared by all tests here."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ..conftest import DATABASES, _watched  # noqa: TID252 - tests are no package
from ..harness import Served  # noqa: TID252

PROJECT = Path(__file__).parent / "project"


class Hooked:
    """A server whose hooks write down what they are told."""

    def __init__(self, served: Served, log: Path) -> None:
        self.served = served
        self.url = served.url
        self._log = log

    def told(self, run_id: str) -> list[dict]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [told for told in map(json.loads, lines) if told["run_id"] == run_id]


@pytest.fixture(scope="session")
def hooked_servers(postgres, new_database, tmp_path_factory) -> Iterator:
    """Servers by database and file; PostgreSQL is named, so that it outlives them."""
    made: dict[tuple[str, str], Hooked] = {}
    with _watched() as watch:

        def get(kind: str, file: str = "checkrail.yaml") -> Hooked:
            if (kind, file) not in made:
                folder = tmp_path_factory.mktemp("hooked")
                log = folder / "hooks.jsonl"
                (folder / "server.log").touch()
                served = Served(
                    new_database(kind),
                    folder / "server.log",
                    config=PROJECT / file,
                    env={"HOOKS_LOG": str(log)},
                )
                made[kind, file] = Hooked(watch(served).start(), log)
            return made[kind, file]

        yield get
        for each in made.values():
            each.served.stop()


@pytest.fixture(params=DATABASES)
def hooked(request, hooked_servers) -> Hooked:
    return hooked_servers(request.param)


@pytest.fixture
async def http(hooked) -> Iterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=hooked.url, timeout=30) as client:
        yield client


@pytest.fixture
async def thread(http) -> str:
    return (await http.post("/threads", json={})).json()["thread_id"]
