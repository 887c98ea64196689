"""Runs that nobody can carry out: they end, and say what they would have needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from checkrail.runs import outcome as outcomes
from checkrail.runs.ending import end_unheld
from checkrail.runs.outside.claims import fitting
from checkrail.runs.parts import Parts, tags_fit
from checkrail.store import runs, workers
from checkrail.store.database import Tx
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")


class Unclaimed:
    """Ends runs that have been ready for long, while nobody was there who could take them.

    A runner that is only busy, or gone for a moment, is one who can.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._since: dict[str, float] = {}  # when nobody was there for these needs, monotonic

    async def end(self) -> None:
        """Look once."""
        await self._parts.database.write(self._look)

    def _look(self, tx: Tx) -> None:
        parts, now = self._parts, time.monotonic()
        wanted = runs.needed(tx)
        if not wanted:
            self._since.clear()
            return
        there = workers.alive(tx, parts.database.now())
        without = [needs for needs in wanted if not self._somebody(there, needs)]
        self._since = {needs: self._since.get(needs, now) for needs in without}
        patience = parts.settings.unclaimed_after
        late = {needs for needs, since in self._since.items() if now - since >= patience}
        if not late:
            return
        for row in runs.unclaimed(tx, tx.time() - patience, sorted(late)):
            reason = _reason(row, there, patience)
            log.warning("run %s: %s", row["run_id"], reason)
            ended = outcomes.failed(reason, "NoRunner")
            end_unheld(tx, parts, row, ended, phase="ready", worker_id=None)

    def _somebody(self, there: Sequence[Row], needs: str) -> bool:
        return any(self._can(worker, needs) for worker in there)

    def _can(self, worker: Row, needs: str) -> bool:
        told = worker["told"] or {}
        if worker["kind"] == workers.RUNNER:
            return fitting(self._parts, told)(needs)
        return tags_fit(needs, frozenset(told.get("tags", ())))


def _reason(row: Row, there: Sequence[Row], patience: float) -> str:
    kind, _, rest = row["needs"].partition("/")
    tags = rest.rpartition("/")[2]
    wanted = f"the {kind} agent {row['agent_name']!r}"
    if tags:
        wanted += f" and has the tags {', '.join(tags.split(','))}"
    known = "; ".join(map(_described, there)) or "nobody"
    needs = f"it needs a runner that knows {wanted}"
    remedy = "Start one with `checkrail runner`"
    return (
        f"nobody could carry this run out for {patience:g} s: {needs}. There is: {known}. {remedy}"
    )


def _described(worker: Row) -> str:
    told = worker["told"] or {}
    tags = ", ".join(told.get("tags", ())) or "no tags"
    if worker["kind"] != workers.RUNNER:
        return f"the server itself ({tags})"
    agents = ", ".join(told["agents"][:8]) or "none"
    more = f" and {len(told['agents']) - 8} more" if len(told["agents"]) > 8 else ""
    return f"runner {told['name']!r} ({tags}; agents {agents}{more})"
