import gc
import logging
import os
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong: no example fails for taking its time.
settings.register_profile("checkrail", deadline=None)
settings.load_profile("checkrail")

# No test talks to the web, so clients, of which many are made, need not read all authorities of it.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("nobody.pem"))

# Begun with, so that no worker is left with one of them at the end.
LONG = ("tests/test_docs.py", "tests/crash/", "tests/runner/", "tests/server/behaviour/")

gc.disable()  # until all is collected: next to nothing of it is garbage


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: [not item.nodeid.startswith(each) for each in LONG])


def pytest_collection_finish():
    gc.enable()
    _set_aside()


@pytest.fixture(scope="module")
def set_aside():
    """For files that collect garbage in each test: what was there before them stays anyway."""
    _set_aside()


def _set_aside():
    """Have what lives now left out when garbage is collected, which would go through all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_descriptor_left(set_aside):
    """Fail a test after which more files, pipes or sockets are open than before it.

    Threads of other tests in this process may have one open for a moment.
    """
    gc.collect()
    before = _open_descriptors()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
    until = time.monotonic() + 10
    while _open_descriptors() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert _open_descriptors() <= before


def _open_descriptors():
    return len(list(Path("/dev/fd").iterdir()))


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
