"""What may have taken processes down: carried out one at a time, and ended if it does so again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from checkrail.store.tables import LAST_CHANCE

_LOOK_EVERY = 5.0  # seconds


class LastChance:
    """Lets one run or delivery that is suspected be under way in this process at a time.

    Whatever was under way when a process died may have killed it. All of it is tried again, but
    what two processes have died with is taken up one by one: the third that dies knows its culprit.
    """

    def __init__(self) -> None:
        self._holder: str | None = None
        self._looked: dict[str, float] = {}

    def look(self, whose: str) -> bool:
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
        self.look_again()
        return True

    def look_again(self) -> None:
        """Have everybody look at once: something was found that processes have died with."""
        self._looked.clear()


def suspected(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the workers that died with a suspect under way: it is what they died of."""
    return {row["worker_id"] for row in rows if row["lost"] >= LAST_CHANCE}


def is_blamed(row: Mapping[str, Any], known: set[str]) -> bool:
    """Return whether a death counts for what was under way: for all, unless a suspect was."""
    return row["lost"] >= LAST_CHANCE or row["worker_id"] not in known
