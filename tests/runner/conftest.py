"""A server and its runners, each with a project of its own folder."""

import contextlib
import shutil
from pathlib import Path

import pytest
from tests.server.conftest import (  # noqa: F401 - fixtures, and a hook of pytest
    DATABASES,
    _watched,
    new_database,
    pytest_runtest_makereport,
)
from tests.server.harness import Served

from .harness import Asking, Running

PROJECT = Path(__file__).parent / "project"


class Place:
    """A server that is started, and what runners it is given."""

    def __init__(self, server: Served, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.asking = Asking(server)
        self.runners: list[Running] = []

    def runner(self, *args: str, **env: str) -> Running:
        """Start a runner; it has the tag `elsewhere` unless something else is said."""
        made = Running(self.server, self.folder / f"runner-{len(self.runners)}.log", env=env)
        if args:
            made.args = args
        self.runners.append(made)
        return made.start()


@contextlib.contextmanager
def started(database, folder, file="checkrail.yaml"):
    """Start a server with a copy of the project."""
    project = folder / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__", ".checkrail"))
    with _watched() as watch:
        config = project / file
        server = watch(Served(database, folder / "server.log", config)).start()
        place = Place(server, folder)
        try:
            yield place
        finally:
            place.asking.client.close()
            for runner in place.runners:
                runner.thaw()
                runner.kill()


@pytest.fixture(scope="module", params=DATABASES)
def place(request, tmp_path_factory):
    """A server on either database that the tests of a module share; it may name its FILE."""
    file = getattr(request.module, "FILE", "checkrail.yaml")
    database = request.getfixturevalue("new_database")(request.param)
    with started(database, tmp_path_factory.mktemp("place"), file) as made:
        yield made


@pytest.fixture(scope="module")
def runner(place):
    """A runner that the tests of a module share."""
    return place.runner()


@pytest.fixture(params=DATABASES)
def own_place(request, tmp_path):
    """A server on either database, for one test alone."""
    file = getattr(request.module, "FILE", "checkrail.yaml")
    database = request.getfixturevalue("new_database")(request.param)
    with started(database, tmp_path, file) as made:
        yield made
