"""Memory of a process that loads much and then lives long: when garbage is looked for."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Look for no garbage while code is loaded: nearly all that is made then stays.

    The collector would go through it again and again, for a fifth of the time that loading takes.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def settle_memory() -> None:
    """Spare the collector what stays for good, and most of its rounds: little goes in circles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
