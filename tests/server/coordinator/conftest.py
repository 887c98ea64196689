"""A server with agents of each kind, one for each database, shared by all tests here."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ..conftest import DATABASES, _watched  # noqa: TID252 - tests are no package
from ..harness import Served  # noqa: TID252

PROJECT = Path(__file__).parent / "project" / "checkrail.yaml"


@pytest.fixture(scope="session")
def coordinators(postgres, new_database, tmp_path_factory) -> Iterator:
    """Servers by database; PostgreSQL is named, so that it outlives them."""
    made: dict[str, Served] = {}
    with _watched() as watch:

        def get(kind: str) -> Served:
            if kind not in made:
                log = tmp_path_factory.mktemp("coordinator") / "server.log"
                log.touch()
                made[kind] = watch(Served(new_database(kind), log, config=PROJECT)).start()
            return made[kind]

        yield get
        for each in made.values():
            each.stop()


@pytest.fixture(params=DATABASES)
def coordinator(request, coordinators) -> Served:
    return coordinators(request.param)


@pytest.fixture
async def http(coordinator) -> Iterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=coordinator.url, timeout=60) as client:
        yield client
