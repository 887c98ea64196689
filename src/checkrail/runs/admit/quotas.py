"""Quotas: how much one owner may have in the database, whoever else is served."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from checkrail.runs import jsons
from checkrail.runs.errors import TooManyError
from checkrail.store import usage
from checkrail.store.database import Reads

_SHARES = 16  # servers that may give out what is left at the same time
_SOON = 1.0  # seconds after which what is scarce is counted again
_LATER = 60.0  # seconds, for what is not
_MOST_OWNERS = 10_000
_ROW = 512  # bytes that a row takes beside what it holds


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one owner may have; 0 is no limit."""

    live_runs: int = 0
    threads: int = 0
    crons: int = 0
    stored_bytes: int = 0


def stored_size(*values: Any) -> int:
    """Return how many bytes a row takes that holds these values."""
    return _ROW + sum(len(jsons.dumps(value)) for value in values)


@dataclass(slots=True)
class _Grant:
    """How many more an owner may have before they are counted again."""

    left: int
    until: float


class OwnerQuotas:
    """Holds owners to their quotas, in the transactions that give them more.

    Counting what somebody has takes longer the more it is. So a part of what is left is given out
    without counting again; each server takes so small a part that all of them stay below the
    quota.
    """

    def __init__(self, quotas: Quotas, clock: Callable[[], float] = time.monotonic) -> None:
        self._quotas = quotas
        self._clock = clock
        self._grants: dict[tuple[str, str], _Grant] = {}

    def check_runs(self, reads: Reads, owner: str, more: int) -> None:
        """Raise if an owner cannot have more runs that have not ended, or has stored too much."""
        hint = "Wait until some have ended, or cancel them"
        self._check(reads, owner, "live_runs", more, what="runs that have not ended", hint=hint)
        self._check_stored(reads, owner, 0)

    def check_threads(self, reads: Reads, owner: str, more: int = 1) -> None:
        """Raise if an owner cannot have more threads."""
        hint = "Delete or prune some, or give them a time to live"
        self._check(reads, owner, "threads", more, what="threads", hint=hint)

    def check_crons(self, reads: Reads, owner: str) -> None:
        """Raise if an owner cannot have another cron."""
        self._check(reads, owner, "crons", 1, what="crons", hint="Delete some that are not needed")

    def check_bytes(self, reads: Reads, owner: str, more: int) -> None:
        """Raise if so much more cannot be stored for an owner; less can always be."""
        if more > 0:
            self._check_stored(reads, owner, more)

    def charge_bytes(self, owner: str | None, size: int) -> None:
        """Charge an owner for what was stored with a run, which nobody knew when it was checked."""
        grant = self._grants.get(("stored_bytes", owner or ""))
        if grant is not None:
            grant.left -= size

    def _check_stored(self, reads: Reads, owner: str, more: int) -> None:
        hint = "Delete threads, runs or items that are not needed, or have retention do it"
        self._check(reads, owner, "stored_bytes", more, what="bytes stored", hint=hint)

    def _check(
        self, reads: Reads, owner: str, kind: str, more: int, *, what: str, hint: str
    ) -> None:
        most: int = getattr(self._quotas, kind)
        if not most:
            return
        now = self._clock()
        grant = self._grants.get((kind, owner))
        if grant is not None and grant.left >= more and now < grant.until:
            grant.left -= more
            return
        used = usage.COUNT[kind](reads, owner, most)
        if used + max(more, 1) > most:
            self._grants.pop((kind, owner), None)
            requested = f" and requested {more} more" if more > 1 else ""
            remedy = f"No more than {most} can be requested at once" if more > most else hint
            raise TooManyError(
                f"{owner!r} has {used} {what}{requested}, "
                f"and limits.{kind}_per_owner allows {most}. {remedy}"
            )
        if len(self._grants) >= _MOST_OWNERS:
            self._grants.clear()
        lasts = _LATER if used < most / 2 else _SOON
        self._grants[kind, owner] = _Grant((most - used - more) // _SHARES, now + lasts)
