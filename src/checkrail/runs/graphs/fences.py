"""Fences: a run that others have, or that is over, writes no checkpoint any more."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from checkrail.engine.errors import CheckrailError
from checkrail.runs.errors import ConflictError

# A count of 0 is an error for PostgreSQL, so that the check rides in the pipeline of the write:
# it takes the write back without an answer having to be waited for. The row stays locked until
# the commit, so that nobody takes the run in between.
HELD = """
SELECT 1 / count(*) FROM (
    SELECT 1 FROM runs
    WHERE run_id = %(run)s AND attempt = %(attempt)s AND worker_id = %(worker)s
    AND ended_at IS NULL FOR SHARE
) AS held
"""
HELD_ALL = """
SELECT count(*) FROM (
    SELECT 1 FROM runs JOIN unnest(%(runs)s::text[], %(attempts)s::int[], %(workers)s::text[])
    AS mine (run_id, attempt, worker_id) USING (run_id, attempt, worker_id)
    WHERE ended_at IS NULL FOR SHARE OF runs SKIP LOCKED
) AS held
"""
"""How many of several runs are held; it waits for none of them, having locked others already."""

FREE = """
SELECT 1 / count(*) FROM (
    SELECT 1 FROM threads
    WHERE thread_id = %(thread)s AND last_seq = %(seq)s AND status <> 'busy' FOR SHARE
) AS free
"""
"""The same for a thread that a request writes to: no run has come meanwhile."""

LOCKABLE = "SELECT 1 FROM runs LIMIT 0 FOR SHARE"
"""Fails where `HELD` cannot be asked: no such table there, or no right to it."""

_WRITES = ("put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune")


class StaleRunError(CheckrailError):
    """A run that this process does not hold any more tried to write a checkpoint."""

    def __init__(self, run_id: str, attempt: int) -> None:
        super().__init__(
            f"attempt {attempt} at the run {run_id!r} writes no checkpoint any more: another "
            "worker has the run, or it is over. Nothing was changed, and this attempt stops"
        )
        self.run_id = run_id
        self.attempt = attempt


@dataclass(frozen=True, slots=True, eq=False)
class RunFence:
    """Who writes checkpoints: one attempt at a run, held by a worker.

    `is_over` is what this process knows by itself. `is_held` asks whoever knows for certain; it
    serves where the check cannot be part of the write. `stop` is called when the run turns out to
    be lost. One that is `patient` waits for a database that is away for as long as it takes.
    """

    run_id: str
    attempt: int
    worker_id: str
    is_over: Callable[[], bool]
    is_held: Callable[[], Awaitable[bool]]
    abort: Callable[[], object]
    patient: bool = True
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    query: ClassVar[str] = HELD

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the query `HELD`."""
        return {"run": self.run_id, "attempt": self.attempt, "worker": self.worker_id}

    def refuse_write(self) -> StaleRunError:
        """Abort the run, and return the error to raise."""
        self.loop.call_soon_threadsafe(self.abort)
        return StaleRunError(self.run_id, self.attempt)

    def check(self) -> None:
        """Raise if this process knows that the run is lost or over."""
        if self.is_over():
            raise self.refuse_write()

    async def confirm(self) -> None:
        """Raise if the run is lost or over, as far as the database knows."""
        self.check()
        if not await self.is_held():
            raise self.refuse_write()


@dataclass(frozen=True, slots=True, eq=False)
class ThreadFence:
    """A request that writes to a thread, at the state where the request has found it."""

    thread_id: str
    last_seq: int
    query: ClassVar[str] = FREE
    patient: ClassVar[bool] = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the query `FREE`."""
        return {"thread": self.thread_id, "seq": self.last_seq}

    def refuse_write(self) -> ConflictError:
        """Return the error to raise."""
        return ConflictError(
            f"a run came to the thread {self.thread_id!r} while its state was being written. "
            "Nothing was changed. Wait for the run or cancel it, and write then"
        )

    def is_over(self) -> bool:
        """Return False: only the database knows of all runs."""
        return False

    def check(self) -> None:
        """Do nothing: this process alone knows nothing of others' runs."""

    async def confirm(self) -> None:
        """Do nothing, for the same reason: the request has looked before it began."""


Fence: TypeAlias = RunFence | ThreadFence
_FENCE: ContextVar[Fence | None] = ContextVar("checkrail_fence", default=None)


def current_fence() -> Fence | None:
    """Return the fence of whoever writes here, or None."""
    return _FENCE.get()


def set_fence(fence: Fence | None) -> None:
    """Fence everything that starts from here on, in this task and those that it creates."""
    _FENCE.set(fence)


@contextmanager
def hold_fence(fence: Fence) -> Iterator[None]:
    """Fence what is done inside."""
    token = _FENCE.set(fence)
    try:
        yield
    finally:
        _FENCE.reset(token)


class FencedLock(asyncio.Lock):
    """A lock for one database connection, which a run that is over never gets."""

    async def acquire(self) -> Any:
        """Wait for the lock, and raise if the run is over by then."""
        await super().acquire()
        fence = current_fence()
        if fence is not None and fence.is_over():
            self.release()
            raise fence.refuse_write()
        return True


def fence_writes(saver: Any) -> None:
    """Have a project's own checkpointer check before each write whether the run is still held."""
    for name in _WRITES:
        if (write := getattr(saver, name, None)) is not None:
            setattr(saver, name, _check_first(write))
        if (write := getattr(saver, f"a{name}", None)) is not None:
            setattr(saver, f"a{name}", _confirm_first(write))


def _confirm_first(write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(write)
    async def write_confirmed(*args: Any, **options: Any) -> Any:
        if (fence := current_fence()) is not None:
            await fence.confirm()
        return await write(*args, **options)

    return write_confirmed


def _check_first(write: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(write)
    def write_checked(*args: Any, **options: Any) -> Any:
        if (fence := current_fence()) is not None:
            _confirm_from_thread(fence)
        return write(*args, **options)

    return write_checked


def _confirm_from_thread(fence: Fence) -> None:
    """Confirm from a thread of a synchronous graph; the loop's own thread cannot wait for it."""
    if isinstance(fence, ThreadFence):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run_coroutine_threadsafe(fence.confirm(), fence.loop).result()
    else:
        fence.check()
