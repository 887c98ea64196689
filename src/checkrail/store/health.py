"""The health of a database: what is wrong with it, for how long, and for how many calls."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, NamedTuple

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from checkrail.engine.errors import CheckrailError

log = logging.getLogger("checkrail.store")


_SHORT = 0.5  # seconds


class StoreError(CheckrailError):
    """The database could not do what was requested."""


class Trouble(NamedTuple):
    """One thing that can be wrong with a database."""

    kind: str
    words: str
    remedy: str
    passes: bool = True  # when somebody mends it, what waited for it can go on
    reads: bool = False  # a read that works is no sign that it is over
    lingers: bool = False  # in connections, of which another one may do


AWAY = Trouble(
    "away",
    "The database cannot be reached",
    "See that it runs and can be connected to",
    lingers=True,
)
BUSY = Trouble(
    "busy", "The database has no connection left", "Raise its max_connections, or end other clients"
)
LOCKED = Trouble(
    "locked", "The database is locked by another program", "End what works on its file", reads=True
)
FULL = Trouble("full", "The disk of the database is full", "Make room on it", reads=True)
READ_ONLY = Trouble(
    "read_only",
    "The database is read-only",
    "Make it (for a file: the file and its folder) writable, or connect to the primary",
    reads=True,
    lingers=True,
)
FAILING = Trouble(
    "io_error",
    "The disk of the database fails",
    "Look at the disk and its system's log",
    reads=True,
)
CORRUPT = Trouble(
    "corrupt", "The database is corrupt", "Restore it from a backup", passes=False, reads=True
)

_SQLITE = {
    5: LOCKED,
    6: LOCKED,
    8: READ_ONLY,
    10: FAILING,
    11: CORRUPT,
    13: FULL,
    14: AWAY,
    26: CORRUPT,
}
"""By SQLite's primary result codes."""

_POSTGRES = {
    "25006": READ_ONLY,
    "53100": FULL,
    "53300": BUSY,
    "58030": FAILING,
    "XX001": CORRUPT,
    "XX002": CORRUPT,
}


def find_trouble(error: BaseException) -> Trouble | None:
    """Return what an error says is wrong with the database; None: the statement is at fault."""
    if isinstance(error, DatabaseUnavailableError):
        return error.trouble
    if isinstance(error, PoolTimeoutError):
        return BUSY
    cause = error
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return AWAY
        cause = error.orig or error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF)
    return _postgres_trouble(cause) if hasattr(cause, "sqlstate") else None


def _postgres_trouble(cause: Any) -> Trouble | None:
    state = cause.sqlstate
    if state is None:  # the connection fails, or there is none: the server has said nothing
        kinds = {kind.__name__ for kind in type(cause).__mro__}
        return AWAY if "OperationalError" in kinds else None
    if state[:2] in ("08", "28") or state in ("57P01", "57P02", "57P03", "57P05", "3D000"):
        return AWAY
    return _POSTGRES.get(state)


class DatabaseUnavailableError(StoreError):
    """The database is away, or cannot take or give anything, through no fault of the caller."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(f"{trouble.words}. {trouble.remedy}")
        self.trouble = trouble


class Health:
    """Whether a database does its work; what is wrong is logged when it begins and when it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = 0.0
        self._count = 0
        self._logged = False
        self._failed_at = self._mended_at = 0.0
        self._mended: Trouble | None = None
        self.trouble: Trouble | None = None

    @property
    def seconds_down(self) -> float:
        """For how many seconds something has been wrong."""
        return time.monotonic() - self._since if self.trouble is not None else 0.0

    def note_failure(self, trouble: Trouble, error: BaseException) -> None:
        """Note a call that did not work."""
        with self._lock:
            if self.trouble is None:
                self._since, self._count = time.monotonic(), 0
            self.trouble, self._failed_at = trouble, time.monotonic()
            self._count += 1
            # One connection that fails is no outage yet: the next one may work.
            fleeting = trouble.lingers and self.seconds_down < _SHORT
            # A disk that has room for some writes only is one outage.
            again = trouble is self._mended and self._failed_at - self._mended_at < _SHORT
            begins = not (fleeting or again or self._logged)
            self._logged = self._logged or begins
        if begins:
            cause = getattr(error, "orig", None) or error
            said = str(cause).partition("\n")[0] or type(cause).__name__
            told = (trouble.words, said, trouble.remedy)
            log.error("%s (%s). %s. Requests get 503 and runs wait until it is mended", *told)

    def note_success(self, *, wrote: bool, began: float | None = None) -> None:
        """Note a call that worked.

        It may have had a connection from before, which still works.
        """
        if self.trouble is None or (self.trouble.reads and not wrote):
            return
        with self._lock:
            if began is not None and began < self._failed_at:
                return
            self._mended, self._mended_at = self.trouble, time.monotonic()
            seconds, count, self.trouble = self.seconds_down, self._count, None
            logged, self._logged = self._logged, False
        if logged:
            log.warning("The database works again after %.1f s; %s calls failed", seconds, count)
