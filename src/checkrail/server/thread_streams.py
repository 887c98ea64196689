"""Streams of threads: the events of all their runs, in both public forms."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from checkrail.runs.requests import Asker
from checkrail.server.finding import may_follow
from checkrail.server.services import Services
from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.protocol import ProtocolView, thread_seq_of
from checkrail.server.streams.replay import ThreadFacts, marks_watched, replay_from
from checkrail.server.streams.sse import frame, join_frames
from checkrail.server.streams.threads import StreamedRun, ThreadView
from checkrail.store import runs, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row

PROTOCOL = "protocol"
"""The origin of runs that a command started."""


async def thread_frames(
    served: Services, thread_id: str, view: ThreadView, asker: Asker
) -> AsyncGenerator[bytes]:
    """Yield the stream of a thread as the LangGraph API has it; it ends if it is another's now."""
    known: StreamedRun | None = None
    async for row, batch in served.runs.follow_thread(thread_id, view.after):
        if row is None:
            yield b""
            continue
        if known is None or known.run_id != row["run_id"]:
            if not await _is_theirs(served, row, asker):
                return
            known = _streamed(row)
        shown = (frame(*each) for event in batch for each in view.feed(known, event))
        for piece in join_frames(shown):
            yield piece


async def _is_theirs(served: Services, row: Row, asker: Asker) -> bool:
    return await served.database.read(lambda reads: may_follow(reads, row, asker))


def _streamed(row: Row) -> StreamedRun:
    asked = row["kwargs"]
    return StreamedRun(
        row["run_id"],
        row["base_seq"],
        asked.get("stream_mode"),
        bool(asked.get("stream_subgraphs")),
    )


async def last_seq(served: Services, thread_id: str) -> int:
    """Return the number of the last event of a thread, so that only what is new follows."""

    def find(reads: Reads) -> int:
        newest = runs.newest_started(reads, thread_id)
        if newest is not None and newest["ended_at"] is None:
            return int(newest["base_seq"])  # a run that is under way is told from its beginning
        thread = threads.get(reads, thread_id)
        return 0 if thread is None else int(thread["last_seq"])

    return await served.database.read(find)


class Envelopes:
    """The stream of a thread in the event protocol, for one subscription.

    With `marks` it notes which run was watched to its end, which changes what is replayed later.
    """

    def __init__(
        self, served: Services, thread_id: str, wanted: Subscription, asker: Asker, *, marks: bool
    ) -> None:
        self._served = served
        self._thread_id = thread_id
        self._wanted = wanted
        self._asker = asker
        self._marks = marks

    async def stream(self) -> AsyncGenerator[list[dict[str, Any]]]:
        """Give envelopes as they come, for ever; none says that for a while there were none.

        The first batch is empty and says that from now on nothing is missed. It ends where the
        thread turns out to be somebody else's.
        """
        hub = self._served.runs.parts.hub
        stop = hub.listen(("protocol", self._thread_id), lambda: None)
        try:
            cursor = await self._begin()
            yield []
            async with contextlib.aclosing(
                self._served.runs.follow_thread(self._thread_id, thread_seq_of(cursor))
            ) as source:
                view: ProtocolView | None = None
                async for row, batch in source:
                    if row is None:
                        yield []
                        continue
                    if view is None or view.run_id != row["run_id"]:
                        if not await _is_theirs(self._served, row, self._asker):
                            return
                        view = view_of(row)
                    told = [shown for event in batch for shown in view.feed(event)]
                    wanted = [
                        each for each in told if each["seq"] > cursor and self._wanted.wants(each)
                    ]
                    if wanted or not batch:
                        yield wanted
                    if batch and batch[-1].event == "end" and self._wanted.watches:
                        await self._mark(row["run_id"])
        finally:
            stop()

    async def _begin(self) -> int:
        """Find where to begin, and note that somebody watches."""

        def find(reads: Reads) -> tuple[ThreadFacts, str | None]:
            thread = threads.get(reads, self._thread_id)
            if thread is None or self._asker.owner not in (None, thread["owner"]):
                return ThreadFacts(), None
            newest = runs.newest_started(reads, self._thread_id)
            if newest is None:
                return ThreadFacts(thread["last_seq"]), None
            live = newest["ended_at"] is None
            # Nobody waits on a stream like this for the end of a run that was not started by it.
            old_way = newest["origin"] != PROTOCOL
            watched = old_way or thread["watched_run"] == newest["run_id"]
            facts = ThreadFacts(thread["last_seq"], newest["base_seq"], live, watched)
            return facts, newest["run_id"]

        facts, newest = await self._served.database.read(find)
        if newest is not None and marks_watched(self._wanted, facts):
            await self._mark(newest)
        return replay_from(self._wanted, facts)

    async def _mark(self, run_id: str) -> None:
        if not self._marks:
            return

        def mark(tx: Tx) -> bool:
            return threads.change(tx, self._thread_id, watched_run=run_id)

        await self._served.database.write(mark)


def view_of(row: Row) -> ProtocolView:
    """Return the view of a run, which has to be fed from its first event."""
    return ProtocolView(
        row["run_id"],
        base_seq=row["base_seq"],
        graph_name=row["agent_name"],
        timestamp=int(row["created_at"] * 1000),
    )
