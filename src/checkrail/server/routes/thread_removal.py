"""Removing threads with all that was kept of them."""

from __future__ import annotations

import contextlib

from checkrail.runs.errors import ConflictError, NotFoundError
from checkrail.runs.graphs import thread_rows
from checkrail.runs.retention import forget_threads
from checkrail.server.services import Services
from checkrail.store import crons, runs, threads
from checkrail.store.database import Reads, Tx

_ROUNDS = 5


async def remove_thread(served: Services, thread_id: str) -> bool:
    """Cancel what runs on a thread and remove it; False: somebody else has.

    Checkpoints go first: whoever dies in between leaves a thread that can be removed again, and
    no past for a new thread of the same id.
    """
    for _ in range(_ROUNDS):
        await _cancel_runs(served, thread_id)
        await thread_rows.delete_thread(served.checkpointer, thread_id)
        gone = await served.database.write(lambda tx: _remove_in_tx(tx, thread_id))
        if gone is not None:
            return gone
    raise ConflictError(
        f"the thread {thread_id!r} is given new runs all the time. Stop them, and delete it again"
    )


async def _cancel_runs(served: Services, thread_id: str) -> None:
    def find_live_ids(reads: Reads) -> list[str]:
        return runs.live_ids(reads, thread_id=thread_id)

    found = await served.database.read(find_live_ids)
    for run_id in found:  # the newest first: none of them is to begin now
        with contextlib.suppress(NotFoundError):
            await served.runs.cancel(run_id, "interrupt", "its thread was deleted")
    for run_id in found:
        with contextlib.suppress(NotFoundError):
            await served.runs.ended(run_id)


def _remove_in_tx(tx: Tx, thread_id: str) -> bool | None:
    """Remove a thread in one transaction; None: it was given another run meanwhile."""
    threads.lock(tx, thread_id)
    if runs.live_ids(tx, thread_id=thread_id):
        return None
    crons.remove_of_threads(tx, [thread_id])
    tx.publish("thread", thread_id)
    return bool(forget_threads(tx, [thread_id]))
