"""What may have taken processes down: carried out one at a time, and ended if it does so again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from checkrail.store.tables import LAST_CHANCE

_LOOK_EVERY = 5.0  # seconds


class LastChance:
    """Lets one run, delivery or cron that is suspected be under way in this process at a time.

    Whatever was under way when a process died may have killed it. All of it is tried again, but
    what two processes have died with is taken up one by one: the third that dies knows its culprit.
    """

    def __init__(self) -> None:
        self._holder: str | None = None
        self._looked: dict[str, float] = {}

    def start_search(self, whose: str) -> bool:
        """Return whether to look for a suspect now; until `hold` nobody else does."""
        now = time.monotonic()
        if self._holder is not None or now - self._looked.get(whose, -_LOOK_EVERY) < _LOOK_EVERY:
            return False
        self._looked[whose] = now
        self._holder = whose
        return True

    def hold(self, whose: str, item_id: str | None) -> None:
        """Enter what was found by who looked."""
        if self._holder == whose:
            self._holder = item_id

    def release(self, item_id: str) -> bool:
        """Let the next suspect come; return whether this was one."""
        if self._holder != item_id:
            return False
        self._holder = None
        self.search_again()
        return True

    def search_again(self) -> None:
        """Have everybody look at once: something was found that processes have died with."""
        self._looked.clear()


class Held(Protocol):
    """A run, a delivery or a cron: what held it, and how many processes may have died of it."""

    @property
    def worker_id(self) -> str | None:
        """The worker that held it."""

    @property
    def lost(self) -> int:
        """How many processes went away with it."""


def find_suspected(held: Iterable[Held]) -> set[str | None]:
    """Return the workers that died with a suspect under way: it is what they died of."""
    return {each.worker_id for each in held if each.lost >= LAST_CHANCE}


def is_blamed(held: Held, known: set[str | None]) -> bool:
    """Return whether a death counts for what was under way: for all, unless a suspect was."""
    return held.lost >= LAST_CHANCE or held.worker_id not in known
