"""The lease: a thread that says that this process is alive, whatever its event loop does."""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.store import runs, workers
from checkrail.store.database import Database, Tx
from checkrail.store.health import DatabaseUnavailableError

log = logging.getLogger("checkrail.runs")


@dataclass(frozen=True, slots=True)
class BeatResult:
    """What a heartbeat learned."""

    began: float  # by the monotonic clock
    alive: bool  # False: the lease had run out, and others may have our runs
    others: int
    cancels: Sequence[tuple[str, str]]
    held: frozenset[str]  # the runs that are ours


class WorkerLease:
    """Renews a worker's lease, and knows how long it can be counted on."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        seconds: float,
        every: float,
        told: Callable[[BeatResult], object],
        *,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._seconds = seconds
        self._every = every
        self._told = told
        self._about = about
        self._until = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat_loop, name="checkrail-beat", daemon=True)

    @property
    def is_valid(self) -> bool:
        """Whether nobody else can have taken our runs yet.

        If not, only the database can say: while it is away, perhaps nobody could take them. On
        SQLite nobody else can: the data directory is locked.
        """
        return not self._database.postgres or time.monotonic() < self._until

    def start(self) -> None:
        """Enter the worker, and beat from now on."""
        database, name, pid = self._database, platform.node(), os.getpid()

        def insert_worker(tx: Tx) -> None:
            if not database.postgres:
                workers.end_server_leases(tx)
            now, seconds = database.now(), self._seconds
            workers.extend_leases(tx, now, 2 * self._every)
            workers.renew_stranded(tx, now, seconds)
            workers.add(tx, self._worker_id, (name, pid), now, seconds, registration=self._about)

        began = time.monotonic()
        database.write_soon(insert_worker).result()
        self._until = began + self._seconds
        self._thread.start()

    def close(self) -> None:
        """Beat no more, and give up the lease."""
        self._stop.set()
        self._thread.join()
        self._database.write_soon(lambda tx: workers.remove(tx, self._worker_id)).result()

    def _beat_loop(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._beat()
            except DatabaseUnavailableError:
                pass  # which is logged where it is found out
            except Exception:
                log.exception("a heartbeat failed; the next one is due in %s s", self._every)

    def _beat(self) -> None:
        self._told(self._database.write_at_once(self._renew))

    def confirm(self, beat: BeatResult) -> None:
        """Count on the lease again, now that the runs are stopped that others have taken."""
        self._until = beat.began + self._seconds

    def _renew(self, tx: Tx) -> BeatResult:
        began, now = time.monotonic(), self._database.now()
        workers.extend_leases(tx, now, 2 * self._every)
        workers.renew_unheard(tx, now, self._seconds)
        alive = workers.renew_lease(tx, self._worker_id, now, self._seconds)
        if not alive and not workers.revive_lease(tx, self._worker_id, now, self._seconds):
            where = (platform.node(), os.getpid())
            workers.add(tx, self._worker_id, where, now, self._seconds, registration=self._about)
        others = workers.count_others(tx, self._worker_id, now)
        held = frozenset(runs.held_ids(tx, self._worker_id))
        return BeatResult(began, alive, others, runs.cancels_of(tx, self._worker_id), held)
