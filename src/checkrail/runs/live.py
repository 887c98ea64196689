"""A run that this process holds: its events as they happen, and how to stop it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from checkrail.engine.errors import CheckrailError
from checkrail.runs import jsons
from checkrail.runs.countdown import Countdown
from checkrail.store.events import RunEvent
from checkrail.store.rows import Row

Ending = Literal["interrupt", "rollback", "timeout", "handover", "lost"]
"""Why a run is stopped: somebody cancelled it (two ways), it took too long, this process goes
down and leaves it to others, or others have taken it already."""

ATTEMPT_GAP = 10_000
"""Numbers left out between attempts: more than a process can have sent without keeping it."""


class EventLimitError(CheckrailError):
    """A run tells more than it may."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may tell."""

    events: int = 200_000
    bytes: int = 256 * 1024 * 1024
    event_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Tap:
    """Somebody who reads a run's events as they come.

    One who is too slow to keep up is cut off (`lagging`), and goes on from what was kept.
    """

    wake: Callable[[], object]
    waiting: deque[RunEvent] = field(default_factory=deque)
    waiting_bytes: int = 0
    lagging: bool = False
    most: int = 5000
    most_bytes: int = 2 * 1024 * 1024

    def push(self, event: RunEvent) -> None:
        """Take an event."""
        if len(self.waiting) >= self.most or self.waiting_bytes >= self.most_bytes:
            self.lagging = True
            self.clear()
        if not self.lagging:
            self.waiting.append(event)
            self.waiting_bytes += len(event.raw)
        self.wake()

    def clear(self) -> None:
        """Wait for no event that has come."""
        self.waiting.clear()
        self.waiting_bytes = 0


class LiveRun:
    """One attempt at a run, held by this process."""

    def __init__(
        self,
        row: Row,
        limits: Limits,
        dirty: Callable[[LiveRun], object],
        sound: Callable[[], bool],
    ) -> None:
        self.row = row
        self.run_id: str = row["run_id"]
        self.thread_id: str = row["thread_id"]
        self.attempt: int = row["attempt"]
        self.since = time.monotonic()
        first = self.attempt == 1 and not row["last_seq"]
        self.seq: int = row["last_seq"] + (0 if first else ATTEMPT_GAP)
        self.bytes = 0
        self.told = 0
        self.pending: list[RunEvent] = []  # not kept yet
        before = (row.get("kept") or {}).get("usage") or row.get("usage") or {}
        self.usage: dict[str, Any] = dict(before)  # of all attempts so far, by model
        self.usage_kept: dict[str, Any] = dict(before)  # what of it is in the table
        self._loop = asyncio.get_running_loop()
        self._unsent: list[RunEvent] = []  # while nobody can say whether it is still ours
        self.taps: set[Tap] = set()
        self.body: Any = None  # what works on it
        self.mute = False  # what its body says no longer counts
        self.ending: Ending | None = None
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self.countdown = Countdown(lambda: self.stop("timeout"))
        self.passes = False  # to somebody else, once its start hooks have agreed
        self.asked = False  # people, in this attempt
        self.left = False  # it waits for one of them, and nobody holds it
        self.desk: Any = None  # where its body asks them
        self.leaving: list[Any] = []  # what they are asked, for which it is left
        self.seconds_left: float | None = None
        self.answers: list[Row] = []  # of theirs, used up as soon as the run goes on
        self._limits = limits
        self._dirty = dirty
        self._sound = sound

    def emit(self, event: str, ns: tuple[str, ...] = (), data: Any = None) -> None:
        """Tell something: at once to who listens here, and soon to the table."""
        if self.mute:
            return
        raw = jsons.dumps(data)
        self.bytes += len(raw)
        self.told += 1
        if len(raw) > self._limits.event_bytes:
            raise EventLimitError(
                f"an event of the run has {len(raw)} bytes, more than the "
                f"{self._limits.event_bytes} of limits.event_bytes. Stream less at a time"
            )
        if self.told > self._limits.events or self.bytes > self._limits.bytes:
            raise EventLimitError(
                f"the run told more than {self._limits.events} events or {self._limits.bytes} "
                "bytes. Stream less, or raise limits.events_per_run and limits.bytes_per_run"
            )
        self._append(RunEvent(self.seq + 1, event, ns, raw=raw))

    def note(self, event: str, raw: bytes) -> None:
        """Tell of a hook, in order with all else; it is kept elsewhere too, and never too much."""
        if self.mute or len(raw) > self._limits.event_bytes:
            return
        self._append(RunEvent(self.seq + 1, event, (), raw=raw))

    def _append(self, made: RunEvent) -> None:
        self.seq = made.seq
        self.pending.append(made)
        self._dirty(self)
        self._unsent.append(made)
        if self._sound():
            self.release()

    def release(self) -> None:
        """Tell those who listen here what was held back until it was known whose the run is."""
        if not self.mute and self._unsent:
            self.tell([])

    def mark_usage(self) -> None:
        """Note that models have used more, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._dirty, self)

    def tell(self, events: list[RunEvent]) -> None:
        """Tell those who listen here of events that are kept, after all that came before them.

        Events are kept by who holds the run, so those that were held back count too.
        """
        unsent, self._unsent = self._unsent, []
        for event in [*unsent, *events]:
            for tap in self.taps:
                tap.push(event)

    def kept(self, seq: int) -> None:
        """Forget the events up to a number: they are in the table."""
        at = 0
        for at, event in enumerate(self.pending):  # noqa: B007
            if event.seq > seq:
                break
        else:
            at = len(self.pending)
        del self.pending[:at]

    def tap(self, wake: Callable[[], object]) -> Tap:
        """Listen to what is told from now on, and to what is not in the table yet."""
        tap = Tap(wake)
        last = self._unsent[0].seq if self._unsent else self.seq + 1
        tap.waiting.extend(event for event in self.pending if event.seq < last)
        tap.waiting_bytes = sum(len(event.raw) for event in tap.waiting)
        self.taps.add(tap)
        return tap

    def stop(self, ending: Ending) -> None:
        """Stop the work on it; the first reason stands, but for a lease that is lost."""
        if self.ending is None or ending == "lost":
            self.ending = ending
        if not self.stopped.done():
            self.stopped.set_result(None)
