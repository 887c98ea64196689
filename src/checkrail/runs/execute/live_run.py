"""A run that this process holds: its events as they happen, and how to stop it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from checkrail.engine.errors import CheckrailError
from checkrail.runs import jsons
from checkrail.runs.execute.countdown import Countdown
from checkrail.store.approvals import Approval
from checkrail.store.events import RunEvent
from checkrail.store.records import HookCounts
from checkrail.store.runs import Run

Ending = Literal["interrupt", "rollback", "timeout", "handover", "lost"]
"""Why a run is stopped: somebody cancelled it (two ways), it took too long, this process goes
down and leaves it to others, or others have taken it already."""

ATTEMPT_GAP = 10_000
"""Numbers left out between attempts: more than a process can have sent without keeping it."""


class EventLimitError(CheckrailError):
    """A run emits more than it may."""


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How much one run may emit."""

    events: int = 200_000
    bytes: int = 256 * 1024 * 1024
    event_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class EventTap:
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


class BodyAskHandler(Protocol):
    """What the questions of a run's body go to; `leaves`: the run can be suspended for them."""

    leaves: bool


class LiveRun:
    """One attempt at a run, held by this process."""

    def __init__(
        self,
        row: Run,
        limits: EventLimits,
        dirty: Callable[[LiveRun], object],
        sound: Callable[[], bool],
        *,
        passes: bool = False,
        seq: int | None = None,
    ) -> None:
        self.row = row
        self.run_id: str = row.run_id
        self.thread_id: str = row.thread_id
        self.attempt: int = row.attempt
        self.since = time.monotonic()
        first = self.attempt == 1 and not row.last_seq
        self.seq: int = row.last_seq + (0 if first else ATTEMPT_GAP) if seq is None else seq
        self.bytes = 0
        self.told = 0
        self.hook_counts = HookCounts()  # of this attempt, as far as they are not stored
        self.pending: list[RunEvent] = []  # not kept yet
        before = (row.suspended_state or {}).get("usage") or row.usage or {}
        self.usage: dict[str, Any] = dict(before)  # of all attempts so far, by model
        self.usage_kept: dict[str, Any] = dict(before)  # what of it is in the table
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._unsent: list[RunEvent] = []  # while nobody can say whether it is still ours
        self.taps: set[EventTap] = set()
        self.body: Any = None  # what works on it
        self.mute = False  # what its body says no longer counts
        self.ending: Ending | None = None
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        self.countdown = Countdown(lambda: self.abort("timeout"))
        self.passes = passes  # to somebody else, once its start hooks have agreed
        self.asked = False  # people, in this attempt
        self.left = False  # it waits for one of them, and nobody holds it
        self.ask_handler: BodyAskHandler | None = None  # of its body
        self.leaving: list[Any] = []  # what they are asked, for which it is left
        self.seconds_left: float | None = None
        self.answers: list[Approval] = []  # of theirs, used up as soon as the run goes on
        self._limits = limits
        self._dirty = dirty
        self._sound = sound

    def change_row(self, changed: Mapping[str, Any]) -> None:
        """Take over what was stored of the run meanwhile."""
        self.row = replace(self.row, **changed)

    def begin_body(self, ask_handler: BodyAskHandler) -> None:
        """Begin with the run's body, whose questions go to a handler."""
        self.ask_handler = ask_handler

    def set_body(self, body: Any) -> None:
        """Note what works on the run."""
        self.body = body

    def allow_suspension(self, *, allowed: bool) -> None:
        """Let the run be suspended where its body asks people, or not any more."""
        if self.ask_handler is not None:
            self.ask_handler.leaves = allowed

    def silence(self) -> None:
        """Emit nothing from now on: what its body says no longer counts."""
        self.mute = True

    def end_silence(self) -> None:
        """Emit again: it is still this process's run."""
        self.mute = False

    def stop_countdown(self) -> None:
        """Stop the run's time, and note what is left of it."""
        self.seconds_left = self.countdown.finish()

    def mark_asked(self) -> None:
        """Note that people are asked in this attempt."""
        self.asked = True

    def add_question(self, question: Any) -> None:
        """Note a question for which the run is to be suspended."""
        self.leaving.append(question)

    def add_answer(self, answer: Approval) -> None:
        """Note an answer, which is used up as soon as the run goes on."""
        self.answers.append(answer)

    def clear_answers(self) -> None:
        """Forget the answers: they are used up, or the hooks are asked anew."""
        self.answers = []

    def mark_left(self, *, left: bool = True) -> None:
        """Note whether the run was left to others, so that nobody here gives it up."""
        self.left = left

    def withdraw_ending(self) -> None:
        """Forget why the run was to be stopped: it is suspended instead."""
        self.ending = None

    def add_usage(self, usage: Mapping[str, Any]) -> None:
        """Take over what models have used before this attempt."""
        self.usage |= usage

    def mark_usage_stored(self, usage: dict[str, Any]) -> None:
        """Note what of its models' usage is stored."""
        self.usage_kept = usage

    def take_hook_counts(self) -> HookCounts:
        """Return the counts that are not stored, which from now on are somebody else's to store."""
        counts, self.hook_counts = self.hook_counts, HookCounts()
        return counts

    def drop_pending(self) -> None:
        """Forget what is not stored yet: nobody takes it any more."""
        self.pending.clear()
        self.usage_kept = dict(self.usage)

    def emit(self, event: str, ns: tuple[str, ...] = (), data: Any = None) -> None:
        """Emit an event: at once to who listens here, and soon to the table."""
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

    def note_hook(self, event: str, raw: bytes, at: float | None = None) -> None:
        """Emit a hook's event, in order with all else; it has no limit."""
        if self.mute or len(raw) > self._limits.event_bytes:
            return
        self._append(RunEvent(self.seq + 1, event, (), raw=raw, at=at))

    def mark(self, event: str, data: Mapping[str, Any]) -> None:
        """Emit when a step began or ended, from any thread; it has no limit and is never held."""
        at = time.time()
        if threading.get_ident() == self._thread:
            self.note_hook(event, jsons.dumps(data), at)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            raw = jsons.dumps(data)
            self._loop.call_soon_threadsafe(self.note_hook, event, raw, at)

    def _append(self, made: RunEvent) -> None:
        self.seq = made.seq
        self.pending.append(made)
        self._dirty(self)
        self._unsent.append(made)
        if self._sound():
            self.release()

    def release(self) -> None:
        """Send to those who listen here what was held back until it was known whose the run is."""
        if not self.mute and self._unsent:
            self.send_stored([])

    def mark_usage(self) -> None:
        """Note that models have used more, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._dirty, self)

    def send_stored(self, events: list[RunEvent]) -> None:
        """Send stored events to those who listen here, after all that came before them.

        Events are kept by who holds the run, so those that were held back count too.
        """
        unsent, self._unsent = self._unsent, []
        for event in [*unsent, *events]:
            for tap in self.taps:
                tap.push(event)

    def mark_stored(self, seq: int) -> None:
        """Forget the events up to a number: they are in the table."""
        at = 0
        for at, event in enumerate(self.pending):  # noqa: B007
            if event.seq > seq:
                break
        else:
            at = len(self.pending)
        del self.pending[:at]

    def add_tap(self, wake: Callable[[], object]) -> EventTap:
        """Listen to what is emitted from now on, and to what is not in the table yet."""
        tap = EventTap(wake)
        last = self._unsent[0].seq if self._unsent else self.seq + 1
        tap.waiting.extend(event for event in self.pending if event.seq < last)
        tap.waiting_bytes = sum(len(event.raw) for event in tap.waiting)
        self.taps.add(tap)
        return tap

    def abort(self, ending: Ending) -> None:
        """Abort the work on it; the first reason stands, but for a lease that is lost."""
        if self.ending is None or ending == "lost":
            self.ending = ending
        self.stop()

    def stop(self) -> None:
        """Stop the work on it, for a reason that its owner knows."""
        if not self.stopped.done():
            self.stopped.set_result(None)
