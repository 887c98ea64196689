"""What a process uses: files that it may open, and the memory of one that lives long."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause_gc() -> Iterator[None]:
    """Collect no garbage while code is loaded: nearly all that is made then stays.

    The collector would go through it again and again, for a fifth of the time that loading takes.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()  # or the first round after this would go through all of it
            gc.enable()


def settle_memory() -> None:
    """Spare the collector most of its rounds: little of what a server makes goes in circles."""
    gc.set_threshold(10_000, 20, 20)


def raise_file_limit() -> None:
    """Let this process open as many files and connections as the system allows.

    Many systems begin with 1024, which a few hundred streams use up.
    """
    with contextlib.suppress(ImportError, ValueError, OSError):  # there may be no such limit here
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
