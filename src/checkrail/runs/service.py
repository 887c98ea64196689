"""The run service: everything between a route and a graph, opened and closed together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.engine.containment import contain_tasks
from checkrail.engine.records import uuid7
from checkrail.engine.registry import HookRegistry
from checkrail.runs.admission import Admission
from checkrail.runs.answering import Approver
from checkrail.runs.cancelling import Canceller
from checkrail.runs.clock import Clock
from checkrail.runs.delivering import Deliverer
from checkrail.runs.eventlog import EventLog
from checkrail.runs.finishing import FinishHooks
from checkrail.runs.following import Follower
from checkrail.runs.hook_runs import HookRuns
from checkrail.runs.hub import Hub, Key
from checkrail.runs.live import LiveRun
from checkrail.runs.made_agents import CHANGED
from checkrail.runs.notices import Notices
from checkrail.runs.outside.runners import Runners
from checkrail.runs.parts import Parts, RunSettings
from checkrail.runs.resuming import Resumer
from checkrail.runs.sink import RecordSink
from checkrail.runs.worker import Worker
from checkrail.store.database import Database

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound
    from checkrail.runs.catalogue import Catalogue
    from checkrail.runs.graphs.loading import Graphs
    from checkrail.runs.workshop import Workshop

log = logging.getLogger("checkrail.runs")

JOINED = "joined"
"""Sent with its id by a server that begins to work on a database."""


class Runs:
    """Admits, carries out, cancels and follows runs."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.hook_runs = HookRuns(parts, self)
        self.deliverer = Deliverer(parts, FinishHooks(self.hook_runs), self._call_back)
        self.worker = Worker(parts, self.deliverer)
        self.canceller = Canceller(parts)
        self.admission = Admission(parts, self.worker, self.canceller)
        self.resumer = Resumer(parts, self.admission)
        self.resume = parts.resume = self.resumer.resume
        self.follower = Follower(parts)
        self.approver = Approver(parts)
        self.runners = Runners(parts)
        self.clock = Clock(parts, self.admission)
        self.admit = self.admission.admit
        self.cancel = self.canceller.cancel
        self.stop_session = self.canceller.stop_session
        self.follow = self.follower.follow
        self.follow_thread = self.follower.follow_thread
        self.ended = self.follower.ended

    async def _call_back(self, told: Mapping[str, Any], delivery_id: str) -> None:
        await self.resumer.call_back(told, delivery_id)

    def hear(self, keys: Sequence[Key]) -> None:
        """Take word of what has changed, from here or from another process."""
        self.parts.hub.tell(keys)
        for topic, key in keys:
            if topic == JOINED and key != self.parts.worker_id:
                self.worker.meet_others()
            if topic == "cancel":
                run_id, _, action = key.partition(":")
                self.worker.cancel(run_id, action)
                self.runners.look()


First = Callable[[Runs], Awaitable[None]]
"""What a server does with its runs before any is taken."""


@contextlib.asynccontextmanager
async def open_runs(
    url: str,
    *,
    registry: HookRegistry,
    graphs: Graphs,
    checkpointer: Any,
    settings: RunSettings,
    outbound: Outbound,
    catalogue: Catalogue,
    workshop: Workshop,
    first: First | None = None,
) -> AsyncIterator[Runs]:
    """Open the run service on a database, and serve until closed.

    `first` is what has to be done before any run is taken.
    """
    contain_tasks()
    hub = Hub()
    service: Runs | None = None
    notices: Notices | None = None

    def told(keys: list[Key]) -> None:
        if service is not None and not hub.loop.is_closed():
            # Who listens only from now on reads the database after that, and so after the commit.
            heard = [key for key in keys if key[0] == "cancel" or hub.has(key)]
            if heard:
                hub.loop.call_soon_threadsafe(service.hear, heard)
            if notices is not None:
                notices.tell(keys if not service.parts.alone else _for_all(keys))

    worker_id = uuid7()
    database = Database(url, told, writer_id=worker_id)
    event_log = EventLog(database, worker_id)
    live: dict[str, LiveRun] = {}
    registry.sinks = (*registry.sinks, RecordSink(hub, event_log, worker_id, live))
    parts = Parts(
        database=database,
        hub=hub,
        registry=registry,
        graphs=graphs,
        checkpointer=checkpointer,
        settings=settings,
        worker_id=worker_id,
        log=event_log,
        outbound=outbound,
        catalogue=catalogue,
        workshop=workshop,
        live=live,
        alone=not database.postgres,
    )
    service = Runs(parts)
    if database.postgres:
        notices = Notices(
            database.engine, lambda keys: hub.loop.call_soon_threadsafe(service.hear, keys)
        )
    if first is not None:
        await first(service)
    await asyncio.to_thread(service.worker.begin)
    if notices is not None:
        notices.tell([(JOINED, worker_id)])
    loop = asyncio.get_running_loop()
    claims = loop.create_task(service.worker.serve())
    loops = [loop.create_task(each.serve()) for each in (service.deliverer, service.clock)]
    try:
        yield service
    finally:
        service.runners.close()
        service.worker.stop()
        database.hurry()
        await asyncio.wait({claims})
        await _close(service, loops, notices, database)


def _for_all(keys: list[Key]) -> list[Key]:
    """Return what is sent even if nobody is known to listen: one may have joined just now."""
    return [key for key in keys if key == CHANGED]


async def _close(
    service: Runs,
    loops: list[asyncio.Task[None]],
    notices: Notices | None,
    database: Database,
) -> None:
    """Let go of everything: runs end or are handed back, debts are paid or left to others."""
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    await service.worker.close()
    await service.deliverer.close()
    await service.parts.log.flush()
    await asyncio.to_thread(service.worker.end)
    if notices is not None:
        await asyncio.to_thread(notices.close)
    await asyncio.to_thread(database.close)
