"""Logs of hooks: shown while a command runs them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def hook_logs(level: int) -> Iterator[None]:
    """Show what hooks log from a level on; what the engine logs is told by the command itself."""
    engine, hooks = logging.getLogger("checkrail"), logging.getLogger("checkrail.hooks")
    handler = logging.StreamHandler()
    before = hooks.level
    engine.addFilter(_never)
    hooks.addHandler(handler)
    hooks.setLevel(level)
    try:
        yield
    finally:
        engine.removeFilter(_never)
        hooks.removeHandler(handler)
        hooks.setLevel(before)


def _never(_record: logging.LogRecord) -> bool:
    return False
