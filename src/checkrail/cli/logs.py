"""Logs of hooks: shown while a command runs them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def hook_logs(level: int) -> Iterator[None]:
    """Show what hooks log from a level on; what the engine logs is told by the command itself."""
    hooks = logging.getLogger("checkrail.hooks")
    handler = logging.StreamHandler()
    before = hooks.level
    hooks.addHandler(handler)
    hooks.setLevel(level)
    try:
        with engine_quiet():
            yield
    finally:
        hooks.removeHandler(handler)
        hooks.setLevel(before)


@contextlib.contextmanager
def engine_quiet() -> Iterator[None]:
    """Show nothing of what the engine itself logs."""
    engine = logging.getLogger("checkrail")
    engine.addFilter(_never)
    try:
        yield
    finally:
        engine.removeFilter(_never)


def _never(_record: logging.LogRecord) -> bool:
    return False
