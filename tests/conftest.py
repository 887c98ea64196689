import logging
import os

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong: no example fails for taking its time.
settings.register_profile("checkrail", deadline=None)
settings.load_profile("checkrail")


def _ours():
    known = logging.Logger.manager.loggerDict
    return [name for name in [*known] if name.partition(".")[0] == "checkrail"]


@pytest.fixture(autouse=True)
def _loggers_as_they_were():
    """Undo what snippets of the docs, run in this process, set for our loggers."""
    before = {name: logging.getLogger(name).level for name in _ours()}
    yield
    for name in _ours():
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL for all tests of this process, which is started when first asked for."""
    from .postgres import Postgres

    cluster = Postgres(os.environ.get("CHECKRAIL_TEST_POSTGRES"))
    yield cluster
    cluster.stop()
