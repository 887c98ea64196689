"""Servers for tests: one for each database is shared by all, and a test may start its own."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .harness import Database, Served, on_postgres, on_sqlite

DATABASES = ("sqlite", "postgres")
STARTED: list[Served] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what the servers printed during a test that failed."""
    report = yield
    if report.failed:
        for served in STARTED:
            if text := served.since_mark():
                report.sections.append((f"server on {served.database.kind}", text[-20_000:]))
    return report


@pytest.fixture(autouse=True)
def _marks():
    for served in STARTED:
        served.mark()


@pytest.fixture(scope="session")
def new_database(request, tmp_path_factory) -> Callable[[str], Database]:
    """Make a database of a kind without rows; PostgreSQL is started when first asked for."""

    def made(kind: str) -> Database:
        folder = tmp_path_factory.mktemp(kind)
        if kind == "sqlite":
            return on_sqlite(folder)
        return on_postgres(folder, request.getfixturevalue("postgres").with_tables())

    return made


@contextlib.contextmanager
def _watched() -> Iterator[Callable[[Served], Served]]:
    mine: list[Served] = []

    def watch(served: Served) -> Served:
        mine.append(served)
        STARTED.append(served)
        return served

    try:
        yield watch
    finally:
        for served in mine:
            served.thaw()
            served.kill()
            STARTED.remove(served)


@pytest.fixture(scope="session")
def shared_server(new_database, tmp_path_factory) -> Iterator[Callable[[str], Served]]:
    """The server of a kind that all tests of this process share."""
    by_kind: dict[str, Served] = {}
    with _watched() as watch:

        def shared(kind: str) -> Served:
            if kind not in by_kind:
                log = tmp_path_factory.mktemp("log") / f"{kind}.log"
                by_kind[kind] = watch(Served(new_database(kind), log))
                by_kind[kind].start()
            assert by_kind[kind].running, f"the server ended:\n{by_kind[kind].output()[-5000:]}"
            return by_kind[kind]

        yield shared


@pytest.fixture(params=DATABASES)
def server(request, shared_server) -> Served:
    """A shared server, on each database in turn."""
    return shared_server(request.param)


@pytest.fixture(params=DATABASES)
def database(request, new_database) -> Database:
    """A database of its own without rows, of each kind in turn."""
    return new_database(request.param)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Make servers of one's own: `serve(database, config=…, env=…)`, not started yet."""
    with _watched() as watch:

        def made(database: Database, **options) -> Served:
            number = len(list(tmp_path.glob("server-*.log")))
            log = tmp_path / f"server-{number}.log"
            log.touch()
            return watch(Served(database, log, **options))

        yield made
