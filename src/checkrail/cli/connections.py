"""How many connections a process may have open."""

from __future__ import annotations

from contextlib import suppress


def allow_many() -> None:
    """Let this process open as many files and connections as the system lets anybody ask for.

    Many systems begin with 1024, which a few hundred streams use up.
    """
    with suppress(ImportError, ValueError, OSError):  # there may be no such limit here
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
