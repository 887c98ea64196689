"""Counters: what limits and budgets are counted in, here in memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

Clock = Callable[[], float]


class RateStore(Protocol):
    """Where hits are counted.

    `now` is this process's clock: a store that several processes share goes by its own.
    """

    async def hit(self, key: str, limit: int, per: float, now: float) -> tuple[bool, float]:
        """Count a hit if the limit allows it; else return in how many seconds it will."""


class AmountStore(Protocol):
    """Where amounts are added up: each by its key, in a window of time that begins at `start`."""

    async def used(self, keys: Sequence[str], start: float) -> list[float]:
        """Return the amount of each key."""

    async def add(self, amounts: Mapping[str, float], start: float, until: float) -> None:
        """Add to the amounts of some keys; they are not needed after `until`."""


class Counters(RateStore, AmountStore, Protocol):
    """Where everything is counted that a project counts."""


class CounterSource(Protocol):
    """Whoever has the counters of a project, or has none yet: they are read at each call."""

    @property
    def counters(self) -> Counters | None:
        """Where it is counted; None: each hook counts by itself."""


class MemoryStore:
    """Counts hits in this process: never more than `limit` in any stretch of `per` seconds.

    Keys whose hits are all past are forgotten, and beyond `max_keys` those that were let through
    the longest ago.
    """

    def __init__(self, max_keys: int = 100_000) -> None:
        self.max_keys = max_keys
        self._hits: OrderedDict[str, tuple[float, deque[float]]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._hits)

    async def hit(self, key: str, limit: int, per: float, now: float) -> tuple[bool, float]:
        """Count a hit if the limit allows it; else return in how many seconds it will."""
        with self._lock:
            _, times = self._hits.get(key, (per, deque[float]()))
            while times and times[0] + per <= now:
                times.popleft()
            if len(times) >= limit:
                return False, times[0] + per - now
            times.append(now)
            self._hits[key] = per, times
            self._hits.move_to_end(key)
            self._prune(now)
            return True, 0.0

    def _prune(self, now: float) -> None:
        while self._hits:
            per, times = next(iter(self._hits.values()))
            if times[-1] + per > now and len(self._hits) <= self.max_keys:
                return
            self._hits.popitem(last=False)


class MemoryAmounts:
    """Adds up amounts in this process.

    Those whose time is over are forgotten, and beyond `max_keys` those that were added to the
    longest ago.
    """

    def __init__(self, max_keys: int = 100_000, clock: Clock = time.time) -> None:
        self.max_keys = max_keys
        self._clock = clock
        self._amounts: OrderedDict[tuple[str, float], tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._look_at = 1024

    def __len__(self) -> int:
        return len(self._amounts)

    async def used(self, keys: Sequence[str], start: float) -> list[float]:
        """Return the amount of each key."""
        with self._lock:
            return [self._amounts.get((key, start), (0.0, 0.0))[0] for key in keys]

    async def add(self, amounts: Mapping[str, float], start: float, until: float) -> None:
        """Add to the amounts of some keys; they are not needed after `until`."""
        with self._lock:
            for key, amount in amounts.items():
                known, _ = self._amounts.get((key, start), (0.0, 0.0))
                self._amounts[key, start] = known + amount, until
                self._amounts.move_to_end((key, start))
            if len(self._amounts) >= min(self._look_at, self.max_keys + 1):
                self._prune()

    def _prune(self) -> None:
        """Look through all of them; again only when there are twice as many."""
        now = self._clock()
        for place in [place for place, (_, until) in self._amounts.items() if until <= now]:
            del self._amounts[place]
        while len(self._amounts) > self.max_keys:
            self._amounts.popitem(last=False)
        self._look_at = max(1024, 2 * len(self._amounts))


class MemoryCounters(MemoryAmounts):
    """Counts everything in this process; `len` is that of the amounts."""

    def __init__(self, max_keys: int = 100_000, clock: Clock = time.time) -> None:
        super().__init__(max_keys, clock)
        self._rates = MemoryStore(max_keys)

    async def hit(self, key: str, limit: int, per: float, now: float) -> tuple[bool, float]:
        """Count a hit if the limit allows it; else return in how many seconds it will."""
        return await self._rates.hit(key, limit, per, now)
