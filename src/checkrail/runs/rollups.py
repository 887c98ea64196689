"""Figures of runs and hooks, counted in memory and stored every few seconds."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.store import rollups
from checkrail.store.database import Database
from checkrail.store.records import StoredRecord
from checkrail.store.rollups import HOOK, HOUR, MINUTE, RUN, Rollup
from checkrail.store.runs import Run

log = logging.getLogger("checkrail.runs")

_EVERY = 10.0  # seconds
_KEPT = {MINUTE: 48 * 3600.0, HOUR: 90 * 86_400.0}
_BUCKETS = 24
_FIRST, _FACTOR = 0.05, 2.5  # milliseconds: the longest of the first bucket, and of each next one

Key = tuple[str, str, str, str]
Figures = dict[str, Any]


def bucket_of(ms: float) -> int:
    """Return the bucket for a duration."""
    if ms <= _FIRST:
        return 0
    return min(_BUCKETS - 1, math.ceil(math.log(ms / _FIRST, _FACTOR)))


def percentile(buckets: Sequence[int], part: float) -> float | None:
    """Return about how long that part of all took at most; None: there were none."""
    total, seen = sum(buckets), 0
    if not total:
        return None
    for number, count in enumerate(buckets):
        if seen + count >= total * part and count:
            low = 0.0 if number == 0 else _FIRST * _FACTOR ** (number - 1)
            high = _FIRST * _FACTOR**number
            return round(low + (high - low) * (total * part - seen) / count, 4)
        seen += count
    return None


def sum_figures(many: Iterable[Mapping[str, Any]]) -> Figures:
    """Add up figures, number by number; the last failures are the newest."""
    total: Figures = {}
    for figures in many:
        for name, value in figures.items():
            known = total.get(name)
            if isinstance(value, list):
                known = known or [0] * len(value)
                total[name] = [a + b for a, b in zip(known, value, strict=True)]
            else:
                total[name] = (known or 0) + value
    return total


class RollupWriter:
    """Counts what happens in this process, and stores it."""

    def __init__(self, database: Database, writer_id: str) -> None:
        self._database = database
        self._writer_id = writer_id
        self._counts: dict[tuple[int, float], dict[Key, Figures]] = {}
        self._new: dict[tuple[float, Key], Figures] = {}  # of minutes, not summed yet
        self._dirty = False

    def add_call(self, row: StoredRecord, level: str) -> None:
        """Count a call of a hook by its ending."""
        if row.event_type == "hook_start":
            return
        told = {"calls": 1, _call_word(row): 1}
        if row.failure is not None:
            told[f"failed_{row.failure}"] = 1
        name = f"{row.point} {level}/{row.hook}"
        ms = max(0.0, row.duration_ms or 0.0)
        self._add((HOOK, name, row.agent_name or "", row.owner or ""), told, ms)

    def add_run(self, row: Run, ended: Mapping[str, Any]) -> None:
        """Count a run that has ended, with the columns that its end changed."""
        status, phase = ended["status"], ended["phase"]
        told: dict[str, Any] = {"runs": 1, f"status_{status}": 1}
        if phase in ("blocked", "refused"):
            told["blocked"] = 1
        if row.hook_would_block or ended.get("hook_would_block"):
            told["would_block"] = 1
        told["tokens"] = ended.get("total_tokens") or 0
        told["cost"] = ended.get("cost_usd") or 0.0
        started = row.started_at or row.created_at
        ms = max(0.0, ended["ended_at"] - started) * 1000
        self._add((RUN, "", row.agent_name, row.owner or ""), told, ms)

    def _add(self, key: Key, told: Mapping[str, Any], ms: float) -> None:
        minute = self._database.time() // MINUTE * MINUTE
        figures = self._new.get((minute, key))
        if figures is None:
            figures = self._new[minute, key] = {"ms": 0.0, "buckets": [0] * _BUCKETS}
        for name, value in told.items():
            figures[name] = figures.get(name, 0) + value
        figures["ms"] += ms
        figures["buckets"][bucket_of(ms)] += 1

    def _sum_new(self) -> bool:
        """Add what was counted since the last time to its minutes and hours; False: nothing."""
        new, self._new = self._new, {}
        for (minute, key), figures in new.items():
            for seconds in _KEPT:
                times = self._counts.setdefault((seconds, minute // seconds * seconds), {})
                times[key] = sum_figures([times.get(key, {}), figures])
        return bool(new)

    async def serve(self) -> None:
        """Store figures again and again, until cancelled."""
        while True:
            await asyncio.sleep(_EVERY)
            await self.flush()

    async def flush(self) -> None:
        """Store what is not stored yet."""
        now = self._database.time()
        if not self._sum_new() and not self._dirty:
            return
        self._dirty = False
        rows = [
            Rollup(seconds, moment, *key, self._writer_id, dict(figures))
            for (seconds, moment), counts in self._counts.items()
            for key, figures in counts.items()
        ]
        try:
            await self._database.write(lambda tx: rollups.put(tx, rows))
        except Exception:
            self._dirty = True
            log.exception("figures of runs and hooks could not be stored; it is tried again")
            return
        self._counts = {  # what is counted since then may still be of a minute that began before
            at: counts for at, counts in self._counts.items() if at[1] + at[0] > now - 1
        }

    async def clean(self) -> None:
        """Remove figures that are too old."""
        now = self._database.time()
        for seconds, kept in _KEPT.items():
            before = now - kept
            await self._database.write(
                lambda tx, seconds=seconds, before=before: rollups.forget_before(  # type: ignore[misc]
                    tx, seconds, before
                )
            )


def _call_word(row: StoredRecord) -> str:
    if row.failure is not None:
        return "failed"
    if row.decision in ("block", "fail"):
        return "would_block" if row.shadow else "blocked"
    if row.decision not in (None, "continue"):
        return "decided"
    return "changed" if row.changed else "passed"
