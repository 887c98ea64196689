"""Streams of threads: the events of all their runs, in both public forms."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from checkrail.runs.admit.requests import Principal
from checkrail.server.lookups import can_follow
from checkrail.server.services import Services
from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.protocol import ProtocolView, cursor_of, thread_seq_of
from checkrail.server.streams.sse import encode_frame, join_frames
from checkrail.server.streams.threads import StreamedRun, ThreadCursor, ThreadView
from checkrail.store import runs, state_updates, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.runs import Run
from checkrail.store.state_updates import StateUpdate


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """What is known of a thread when a stream of it is opened.

    `newest_base` is the `base_seq` of its newest run, None if there is none; `live` whether that
    run has not ended; `watched` whether a watcher was open when it ended, or was opened since.
    """

    last_seq: int = 0
    newest_base: int | None = None
    live: bool = False
    watched: bool = False


def replay_from(subscription: Subscription, thread: ThreadFacts) -> int:
    """Return the cursor after which a stream is served: what has a greater number is sent.

    A client that says what it has gets the rest. One that does not is either the first to hear
    of a quick run that it has just started, or comes back to a thread before it starts the next:
    the end of an earlier run would be taken for the end of the new one. So a run that is over
    is told again only if no watcher has learned of its end. The stream of a front end that shows
    what happens comes beside its watcher: it is told the newest run, whoever watched it.
    """
    if subscription.since is not None:
        return subscription.since
    unseen = thread.live or not thread.watched or subscription.comes_late
    if thread.newest_base is not None and unseen:
        return cursor_of(thread.newest_base)
    return cursor_of(thread.last_seq)


def marks_watched(subscription: Subscription, thread: ThreadFacts) -> bool:
    """Whether opening this stream has to be noted as the watching of the newest run's end."""
    return subscription.is_watcher and thread.newest_base is not None and not thread.live


PROTOCOL = "protocol"
"""The origin of runs that a command started."""


async def thread_frames(
    served: Services, thread_id: str, view: ThreadView, asker: Principal
) -> AsyncGenerator[bytes]:
    """Yield the stream of a thread as the LangGraph API has it; it ends if it is another's now."""
    known: StreamedRun | None = None
    async for row, batch in served.runs.follow_thread(thread_id, view.after.seq):
        if row is None:
            async for piece in _state_frames(served, view, asker):
                yield piece
            yield b""
            continue
        if known is None or known.run_id != row.run_id:
            if not await _is_theirs(served, row, asker):
                return
            async for piece in _state_frames(served, view, asker, until=row.base_seq):
                yield piece
            known = _to_streamed_run(row)
        shown = (encode_frame(*each) for event in batch for each in view.feed(known, event))
        for piece in join_frames(shown):
            yield piece


async def _state_frames(
    served: Services, view: ThreadView, asker: Principal, until: int | None = None
) -> AsyncGenerator[bytes]:
    """Yield the states that were written by hand since, up to those of an event of the thread."""

    def find(reads: Reads) -> list[StateUpdate]:
        thread = threads.get(reads, view.thread_id)
        if thread is None or not can_follow(reads, thread, asker):
            return []
        return state_updates.after(
            reads, view.thread_id, view.after.seq, view.last_state, until=until
        )

    while view.has_states and (found := await served.database.read(find, patient=True)):
        for piece in join_frames(encode_frame(*view.feed_state(update)) for update in found):
            yield piece


async def _is_theirs(served: Services, row: Run, asker: Principal) -> bool:
    return await served.database.read(lambda reads: can_follow(reads, row, asker))


def _to_streamed_run(row: Run) -> StreamedRun:
    asked = row.kwargs
    return StreamedRun(
        row.run_id,
        row.base_seq,
        asked.get("stream_mode"),
        bool(asked.get("stream_subgraphs")),
    )


async def newest_cursor(served: Services, thread_id: str) -> ThreadCursor:
    """Return where a thread's stream stands, so that only what is new follows."""

    def find(reads: Reads) -> ThreadCursor:
        thread = threads.get(reads, thread_id)
        if thread is None:
            return ThreadCursor()
        newest = runs.newest_started(reads, thread_id)
        is_live = newest is not None and newest.ended_at is None
        # A run that is under way is told from its beginning.
        seq = newest.base_seq if newest is not None and is_live else thread.last_seq
        return ThreadCursor(seq, thread.states_written)

    return await served.database.read(find)


class Envelopes:
    """The stream of a thread in the event protocol, for one subscription.

    With `marks` it notes which run was watched to its end, which changes what is replayed later.
    """

    def __init__(
        self,
        served: Services,
        thread_id: str,
        wanted: Subscription,
        asker: Principal,
        *,
        marks: bool,
    ) -> None:
        self._served = served
        self._thread_id = thread_id
        self._wanted = wanted
        self._asker = asker
        self._marks = marks

    async def stream(self) -> AsyncGenerator[list[dict[str, Any]]]:
        """Yield envelopes as they come, for ever; an empty list means that there were none.

        The first batch is empty and says that from now on nothing is missed. It ends where the
        thread turns out to be somebody else's.
        """
        hub = self._served.runs.parts.hub
        stop = hub.listen(("protocol", self._thread_id), lambda: None)
        try:
            cursor = await self._find_start()
            yield []
            async with contextlib.aclosing(
                self._served.runs.follow_thread(self._thread_id, thread_seq_of(cursor))
            ) as source:
                view: ProtocolView | None = None
                async for row, batch in source:
                    if row is None:
                        yield []
                        continue
                    if view is None or view.run_id != row.run_id:
                        if not await _is_theirs(self._served, row, self._asker):
                            return
                        view = build_view(row)
                    told = [shown for event in batch for shown in view.feed(event)]
                    wanted = [
                        each for each in told if each["seq"] > cursor and self._wanted.wants(each)
                    ]
                    if wanted or not batch:
                        yield wanted
                    if batch and batch[-1].event == "end" and self._wanted.is_watcher:
                        await self._mark_watched(row.run_id)
        finally:
            stop()

    async def _find_start(self) -> int:
        """Find where to begin, and note that somebody watches."""

        def find_facts(reads: Reads) -> tuple[ThreadFacts, str | None]:
            thread = threads.get(reads, self._thread_id)
            if thread is None or self._asker.owner not in (None, thread.owner):
                return ThreadFacts(), None
            newest = runs.newest_started(reads, self._thread_id)
            if newest is None:
                return ThreadFacts(thread.last_seq), None
            live = newest.ended_at is None
            # Nobody waits on a stream like this for the end of a run that was not started by it.
            old_way = newest.origin != PROTOCOL
            watched = old_way or thread.watched_run == newest.run_id
            facts = ThreadFacts(thread.last_seq, newest.base_seq, live, watched)
            return facts, newest.run_id

        facts, newest = await self._served.database.read(find_facts)
        if newest is not None and marks_watched(self._wanted, facts):
            await self._mark_watched(newest)
        return replay_from(self._wanted, facts)

    async def _mark_watched(self, run_id: str) -> None:
        if not self._marks:
            return

        def store_mark(tx: Tx) -> bool:
            return threads.update_thread(tx, self._thread_id, watched_run=run_id)

        await self._served.database.write(store_mark)


def build_view(row: Run) -> ProtocolView:
    """Return the view of a run, which has to be fed from its first event."""
    return ProtocolView(
        row.run_id,
        base_seq=row.base_seq,
        graph_name=row.agent_name,
        timestamp=int(row.created_at * 1000),
    )
