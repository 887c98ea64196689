"""A thread's stream: the events of all its runs, as the LangGraph API names them.

Events are numbered by thread. A run's end is told as `metadata` with the status `run_done`, for
an `end` would close the stream in the eyes of a client. A state that was written by hand belongs
to no run: its id is that of the event that it came after, and its own number in the thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.server.streams.modes import parse_thread_modes
from checkrail.server.streams.sse import SseEvent, SseView
from checkrail.store.events import RunEvent
from checkrail.store.state_updates import StateUpdate

_EVENT_ID = re.compile(r"(?P<seq>[0-9]{1,18})(\.(?P<state>[0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class StreamedRun:
    """A run of the thread, and the modes that its own stream was requested in."""

    run_id: str
    base_seq: int
    stream_modes: Sequence[str] | None = None
    subgraphs: bool = False


@dataclass(frozen=True, slots=True)
class ThreadCursor:
    """What a client has of a thread's stream: its last event of a run, and its last state."""

    seq: int = 0
    state: int = 0

    @classmethod
    def parse(cls, event_id: str) -> ThreadCursor:
        """Return the cursor that an event's id names; of another server's, nothing is known."""
        found = _EVENT_ID.fullmatch(event_id)
        if found is None:
            return FROM_THE_BEGINNING
        return cls(int(found["seq"]), int(found["state"] or 0))


FROM_THE_BEGINNING = ThreadCursor()


class ThreadView:
    """Turn the stored events of a thread's runs, one run after the other, into its stream.

    `after` is what the client has. The run that it falls into has to be given from its beginning.
    """

    def __init__(
        self,
        thread_id: str,
        modes: str | Sequence[str] | None = None,
        *,
        after: ThreadCursor = FROM_THE_BEGINNING,
    ) -> None:
        self.thread_id = thread_id
        self.modes = frozenset(parse_thread_modes(modes))
        self.after = after
        self.last_state = after.state
        self._last_seq = after.seq
        self._views: dict[str, SseView] = {}

    @property
    def has_states(self) -> bool:
        """Whether states that were written by hand are wanted."""
        return "state_update" in self.modes

    def feed(self, run: StreamedRun, event: RunEvent) -> list[SseEvent]:
        """Take in one stored event of a run, and yield what a client gets for it."""
        told = [*self._events_for(run, event)]
        number = run.base_seq + event.seq
        self._last_seq = max(self._last_seq, number)
        if not told or number <= self.after.seq:
            return []
        *first, (name, data) = told
        return [
            *(SseEvent(None, name, data) for name, data in first),
            SseEvent(str(number), name, data),
        ]

    def feed_state(self, update: StateUpdate) -> SseEvent:
        """Take in one state that was written by hand, and return what a client gets for it.

        One that comes behind a later run, which began as it was written, has no id: a client that
        comes back goes on behind that run.
        """
        self.last_state = update.number
        is_late = update.after_seq < self._last_seq
        event_id = None if is_late else f"{update.after_seq}.{update.number}"
        return SseEvent(event_id, "state_update", update.payload)

    def _events_for(self, run: StreamedRun, event: RunEvent) -> Iterator[tuple[str, Any]]:
        if event.event == "end":
            yield from self._end_events(run, event)
        elif "run_modes" in self.modes:
            yield from ((told.name, told.data) for told in self._view_of(run).feed(event))
        elif event.event == "metadata" and "lifecycle" in self.modes:
            yield "metadata", event.raw

    def _end_events(self, run: StreamedRun, event: RunEvent) -> Iterator[tuple[str, Any]]:
        if self.modes.isdisjoint({"run_modes", "lifecycle"}):
            return
        view = self._views.pop(run.run_id, None)
        if view is not None:
            yield from ((told.name, told.data) for told in view.feed(event))
        run_status = event.data.get("status")
        done = {"status": "run_done", "run_id": run.run_id, "run_status": run_status}
        yield "metadata", done

    def _view_of(self, run: StreamedRun) -> SseView:
        view = self._views.get(run.run_id)
        if view is None:
            view = SseView(run.stream_modes, subgraphs=run.subgraphs)
            self._views[run.run_id] = view
        return view
