"""The server's log goes by `server.log_level`, for libraries too."""

import logging

import pytest

from checkrail.server import logs


@pytest.fixture
def configured():
    """Configure the log at a level, and put back what was there."""
    root = logging.getLogger()
    kept = [(logging.getLogger(name), logging.getLogger(name).level) for name in logs._CHATTY]
    handlers, level = [*root.handlers], root.level
    pool = logging.getLogger("psycopg.pool")
    kept.append((pool, pool.level))
    yield logs.configure_logging
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger, before in kept:
        logger.setLevel(before)


@pytest.mark.parametrize(
    ("level", "libraries"),
    [("debug", "WARNING"), ("info", "WARNING"), ("warning", "WARNING"), ("error", "ERROR")],
)
def test_libraries_say_no_more_than_was_asked_for(configured, level, libraries):
    configured(level, terminal=False)
    assert logging.getLogger("checkrail").getEffectiveLevel() == getattr(logging, level.upper())
    for name in ("uvicorn", "httpx2", "watchfiles", "aiosqlite", "psycopg"):
        assert logging.getLogger(name).getEffectiveLevel() == getattr(logging, libraries)
