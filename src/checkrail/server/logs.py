"""The server's log: structured, quiet, and readable in a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from checkrail.store.health import find_trouble

_SHARED: list[Any] = [
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.ExtraAdder(),
]

_CHATTY = (
    "aiosqlite",
    "alembic",
    "asyncio",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
    "langgraph.store",
    "psycopg",
    "uvicorn",
    "watchfiles",
)
"""Libraries of ours that say too much; what the project's own code says is shown."""


_OURS = ("checkrail", "sqlalchemy", "uvicorn")


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a record says more than that the database is away, which is logged once."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None or record.name.partition(".")[0] not in _OURS:
        return True
    trouble = find_trouble(error)
    return trouble is None or not trouble.passes


def configure_logging(level: str = "info", *, terminal: bool | None = None) -> None:
    """Send everything that is logged to standard error: as JSON, or for a terminal's reader."""
    terminal = sys.stderr.isatty() if terminal is None else terminal
    shown: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if terminal:
        shown.append(structlog.dev.ConsoleRenderer())
    else:
        shown += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=shown)
    handler.setFormatter(formatter)
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # An outage is said once, where it is found out: not with each connection that is tried.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
