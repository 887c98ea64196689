"""A thread's stream: the events of all its runs, as the LangGraph API names them.

Events are numbered by thread. A run's end is told as `metadata` with the status `run_done`, for
an `end` would close the stream in the eyes of a client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.server.streams.modes import thread_modes
from checkrail.server.streams.sse import SseEvent, SseView
from checkrail.store.events import RunEvent


@dataclass(frozen=True, slots=True)
class StreamedRun:
    """A run of the thread, and what its own stream was asked for."""

    run_id: str
    base_seq: int
    stream_modes: Sequence[str] | None = None
    subgraphs: bool = False


class ThreadView:
    """Turn the stored events of a thread's runs, one run after the other, into its stream.

    `after` is the last number that the client has. The run that it falls into has to be given
    from its beginning.
    """

    def __init__(
        self, thread_id: str, modes: str | Sequence[str] | None = None, *, after: int = 0
    ) -> None:
        self.thread_id = thread_id
        self.modes = frozenset(thread_modes(modes))
        self.after = after
        self._views: dict[str, SseView] = {}

    def feed(self, run: StreamedRun, event: RunEvent) -> list[SseEvent]:
        """Take in one stored event of a run, and give what a client gets for it."""
        told = [*self._told(run, event)]
        number = run.base_seq + event.seq
        if not told or number <= self.after:
            return []
        *first, (name, data) = told
        return [
            *(SseEvent(None, name, data) for name, data in first),
            SseEvent(str(number), name, data),
        ]

    def state_update(self, state: Any) -> list[SseEvent]:
        """Tell of a state that was written from outside; it belongs to no run and has no number."""
        if "state_update" not in self.modes:
            return []
        return [SseEvent(None, "state_update", {"thread_id": self.thread_id, **state})]

    def _told(self, run: StreamedRun, event: RunEvent) -> Iterator[tuple[str, Any]]:
        if event.event == "end":
            yield from self._end(run, event)
        elif "run_modes" in self.modes:
            yield from ((told.name, told.data) for told in self._view(run).feed(event))
        elif event.event == "metadata" and "lifecycle" in self.modes:
            yield "metadata", event.raw
        if event.event == "values" and not event.ns and "state_update" in self.modes:
            told = {"thread_id": self.thread_id, "run_id": run.run_id, "values": event.data}
            yield "state_update", told

    def _end(self, run: StreamedRun, event: RunEvent) -> Iterator[tuple[str, Any]]:
        if self.modes.isdisjoint({"run_modes", "lifecycle"}):
            return
        view = self._views.pop(run.run_id, None)
        if view is not None:
            yield from ((told.name, told.data) for told in view.feed(event))
        run_status = event.data.get("status")
        done = {"status": "run_done", "run_id": run.run_id, "run_status": run_status}
        yield "metadata", done

    def _view(self, run: StreamedRun) -> SseView:
        view = self._views.get(run.run_id)
        if view is None:
            view = SseView(run.stream_modes, subgraphs=run.subgraphs)
            self._views[run.run_id] = view
        return view
