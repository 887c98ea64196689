"""Cancelling runs: those that wait end at once, those that are under way are told to."""

from __future__ import annotations

from checkrail.runs.errors import ConflictError, NotFoundError
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.finisher import end_unclaimed_run, lock_thread
from checkrail.runs.services import RunServices
from checkrail.store import runs
from checkrail.store.database import Tx
from checkrail.store.runs import Run


class Canceller:
    """Cancels runs, wherever they are."""

    def __init__(self, parts: RunServices) -> None:
        self._parts = parts

    async def cancel(self, run_id: str, action: str, reason: str | None = None) -> Run:
        """Cancel a run and return it as it was; one that has ended already stays as it is."""

        def cancel_if_live(tx: Tx) -> Run | None:
            row = runs.get(tx, run_id)
            if row is not None and row.ended_at is None:
                lock_thread(tx, row)
                row = runs.get(tx, run_id)
            if row is not None and row.ended_at is None:
                self._cancel_row(tx, row, action, reason)
            return row

        row = await self._parts.database.write(cancel_if_live)
        if row is None:
            raise NotFoundError(f"run {run_id!r} not found")
        return row

    async def cancel_session(self, session_id: str) -> list[str]:
        """Cancel the runs that a session has until now, and return their ids."""
        found = await self._parts.database.read(
            lambda reads: runs.live_ids(reads, session_id=session_id)
        )
        if not found:
            raise ConflictError(f"the session {session_id!r} does nothing that could be stopped")
        for run_id in found:  # those that wait first, so that none of them takes the place
            await self.cancel(run_id, "interrupt", "its session was stopped")
        return [*reversed(found)]

    def clear_thread(self, tx: Tx, thread_id: str, action: str) -> bool:
        """Cancel all runs of a thread that is locked; True: nobody holds it any more."""
        for row in reversed(runs.live_of(tx, thread_id)):
            if row.phase != "scheduled":
                self._cancel_row(tx, row, action, "another run took its place")
        return runs.slot_holder(tx, thread_id) is None

    def _cancel_row(self, tx: Tx, row: Run, action: str, reason: str | None) -> None:
        if row.cancel is None:
            now = tx.time()
            runs.update_run(tx, row.run_id, cancel=action, cancel_reason=reason, updated_at=now)
            row = runs.get(tx, row.run_id) or row  # its worker may just have left it
        rolls_back = action == "rollback"
        if row.worker_id is not None:
            tx.publish("cancel", f"{row.run_id}:{action}")
        elif rolls_back and row.attempt:
            if row.phase == "waiting":
                runs.update_run(tx, row.run_id, phase="running", updated_at=tx.time())
            tx.publish("work", "")  # whoever takes it has to remove what it left
        else:
            ended = outcomes.cancelled_outcome(rolled_back=rolls_back)
            end_unclaimed_run(tx, self._parts, row, ended, phase=row.phase, worker_id=None)
