"""Logs of hooks: shown while a command runs them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def show_hook_logs(level: int) -> Iterator[None]:
    """Show what hooks log from a level on; the engine's own logs are hidden."""
    hooks = logging.getLogger("checkrail.hooks")
    handler = logging.StreamHandler()
    before = hooks.level
    hooks.addHandler(handler)
    hooks.setLevel(level)
    try:
        with hide_engine_logs():
            yield
    finally:
        hooks.removeHandler(handler)
        hooks.setLevel(before)


@contextlib.contextmanager
def hide_engine_logs() -> Iterator[None]:
    """Show nothing of what the engine itself logs."""
    engine = logging.getLogger("checkrail")
    engine.addFilter(_drop_record)
    try:
        yield
    finally:
        engine.removeFilter(_drop_record)


def _drop_record(_record: logging.LogRecord) -> bool:
    return False
