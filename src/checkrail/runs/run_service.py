"""The run service: everything between a route and a graph, opened and closed together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.engine.containment import contain_tasks
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import User
from checkrail.runs.admit.admission import Admission, Confirm
from checkrail.runs.admit.hook_runs import HookRuns
from checkrail.runs.admit.quotas import OwnerQuotas
from checkrail.runs.admit.requests import Idempotency, Principal, RunRequest
from checkrail.runs.agents.catalogue import GRAPH
from checkrail.runs.agents.managed_agents import CHANGED
from checkrail.runs.approvals import Approver
from checkrail.runs.errors import ConflictError, NotFoundError
from checkrail.runs.events.event_log import EventLog, RecordSink
from checkrail.runs.events.follower import Follower
from checkrail.runs.events.hub import Hub, Key, Notices
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.execute.worker import Worker
from checkrail.runs.finish.callbacks import CALLBACK
from checkrail.runs.finish.canceller import Canceller
from checkrail.runs.finish.deliverer import Deliverer
from checkrail.runs.finish.finish_hooks import FinishHooks
from checkrail.runs.remote.runners import Runners
from checkrail.runs.rollups import RollupWriter
from checkrail.runs.scheduler import Scheduler
from checkrail.runs.services import FindStore, Learn, RunServices, RunSettings
from checkrail.store import runs, sessions
from checkrail.store.database import Database, Reads
from checkrail.store.events import RunEvent
from checkrail.store.runs import Run
from checkrail.times import uuid7

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound
    from checkrail.runs.agents.catalogue import Catalogue
    from checkrail.runs.agents.factory import AgentFactory
    from checkrail.runs.graphs.loader import Graphs

log = logging.getLogger("checkrail.runs")

JOINED = "joined"
"""Sent with its id by a server that begins to work on a database."""

RESUME = "resume"


class Runs:
    """Admits, executes, cancels and follows runs."""

    def __init__(self, parts: RunServices) -> None:
        self.parts = parts
        self.hook_runs = HookRuns(parts, self)
        self.deliverer = Deliverer(parts, FinishHooks(self.hook_runs), self._call_back)
        self.worker = Worker(parts, self.deliverer, self.resume)
        self.canceller = Canceller(parts)
        self.admission = Admission(parts, self.worker, self.canceller)
        self.resumer = SessionResumer(parts, self.admission)
        self.follower = Follower(parts)
        self.approver = Approver(parts.database, parts.catalogue)
        self.runners = Runners(parts, self.worker.note_others)
        self.clock = Scheduler(parts, self.admission)

    async def admit(
        self,
        requests: Sequence[RunRequest],
        asker: Principal,
        once: Idempotency | None = None,
        confirm: Confirm | None = None,
    ) -> list[Run]:
        """Admit runs, all or none: see `Admission.admit`."""
        return await self.admission.admit(requests, asker, once, confirm)

    async def resume(
        self,
        session_id: str,
        prompt: str,
        asker: Principal,
        once: Idempotency | None = None,
        **more: Any,
    ) -> Run:
        """Send a prompt to a session: its agent runs again, on its last thread."""
        return await self.resumer.resume(session_id, prompt, asker, once, **more)

    async def cancel(self, run_id: str, action: str, reason: str | None = None) -> Run:
        """Cancel a run and return it as it was; one that has ended already stays as it is."""
        return await self.canceller.cancel(run_id, action, reason)

    async def stop_session(self, session_id: str) -> list[str]:
        """Cancel the runs that a session has until now, and return their ids."""
        return await self.canceller.cancel_session(session_id)

    async def ended(self, run_id: str) -> Run:
        """Wait until a run has ended, and return it."""
        return await self.follower.wait_for_end(run_id)

    def follow(
        self, run_id: str, after: int = 0, *, is_new: bool = False
    ) -> AsyncGenerator[list[RunEvent]]:
        """Yield the events of a run after a number: see `Follower.follow`."""
        return self.follower.follow(run_id, after, is_new=is_new)

    def follow_thread(
        self, thread_id: str, after: int
    ) -> AsyncGenerator[tuple[Run | None, list[RunEvent]]]:
        """Yield the events of a thread's runs: see `Follower.follow_thread`."""
        return self.follower.follow_thread(thread_id, after)

    async def _call_back(self, told: Mapping[str, Any], delivery_id: str) -> None:
        await self.resumer.call_back(told, delivery_id)

    def receive_notices(self, keys: Sequence[Key]) -> None:
        """Handle notices of what has changed, from here or from another process."""
        self.parts.hub.notify(keys)
        for topic, key in keys:
            if topic == JOINED and key != self.parts.worker_id:
                self.worker.note_others()
            if topic == "cancel":
                run_id, _, action = key.partition(":")
                self.worker.cancel(run_id, action)
                self.runners.wake_polls()


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
    workshop: AgentFactory,
    learn: Learn | None = None,
    find_store: FindStore | None = None,
    first: First | None = None,
) -> AsyncIterator[Runs]:
    """Open the run service on a database, and serve until closed.

    `first` is what has to be done before any run is taken. `learn` reads the agents that others
    have changed, and `find_store` opens LangGraph's store.
    """
    contain_tasks()
    hub = Hub()
    service: Runs | None = None
    notices: Notices | None = None

    def publish_keys(keys: list[Key]) -> None:
        if service is not None and not hub.loop.is_closed():
            # Who listens only from now on reads the database after that, and so after the commit.
            heard = [key for key in keys if key[0] == "cancel" or hub.has_listeners(key)]
            if heard:
                hub.loop.call_soon_threadsafe(service.receive_notices, heard)
            if notices is not None:
                notices.send(keys if not service.parts.alone else _broadcast_keys(keys))

    worker_id = uuid7()
    database = Database(url, publish_keys, writer_id=worker_id)
    event_log = EventLog(database, worker_id)
    live: dict[str, LiveRun] = {}
    figures = RollupWriter(database, worker_id)
    sink = RecordSink(hub, event_log, worker_id, live, figures)
    registry.sinks = (*registry.sinks, sink)
    parts = RunServices(
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
        quotas=OwnerQuotas(settings.quotas),
        rollups=figures,
        learn=learn,
        find_store=find_store,
        live=live,
        alone=not database.postgres,
    )
    service = Runs(parts)
    if database.postgres:
        notices = Notices(
            database.engine,
            lambda keys: hub.loop.call_soon_threadsafe(service.receive_notices, keys),
        )
    if first is not None:
        await first(service)
    await asyncio.to_thread(service.worker.start)
    if notices is not None:
        notices.send([(JOINED, worker_id)])
    loop = asyncio.get_running_loop()
    claims = loop.create_task(service.worker.serve())
    served = (service.deliverer, service.clock, figures)
    loops = [loop.create_task(each.serve()) for each in served]
    try:
        yield service
    finally:
        service.runners.close()
        service.worker.end_claims()
        database.end_waiting()
        await asyncio.wait({claims})
        await _close_service(service, loops, notices, database)


def _broadcast_keys(keys: list[Key]) -> list[Key]:
    """Return what is sent even if nobody is known to listen: one may have joined just now."""
    return [key for key in keys if key == CHANGED]


async def _close_service(
    service: Runs,
    loops: list[asyncio.Task[None]],
    notices: Notices | None,
    database: Database,
) -> None:
    """Close everything: runs end or are handed back, deliveries are made or left to others."""
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    await service.worker.close()
    await service.deliverer.close()
    await service.parts.log.flush()
    await service.parts.rollups.flush()
    await asyncio.to_thread(service.worker.leave_workers)
    if notices is not None:
        await asyncio.to_thread(notices.close)
    await asyncio.to_thread(database.close)


class SessionResumer:
    """Resumes sessions."""

    def __init__(self, parts: RunServices, admission: Admission) -> None:
        self._parts = parts
        self._admission = admission

    async def resume(
        self,
        session_id: str,
        prompt: str,
        asker: Principal,
        once: Idempotency | None = None,
        **more: Any,
    ) -> Run:
        """Send a prompt to a session: its agent runs again, on its last thread."""
        last = await self._parts.read_current(
            lambda reads: _find_last_run(reads, session_id, asker)
        )
        agent = self._parts.catalogue.require_runnable(last.agent_name)
        said = {"prompt": prompt}
        if agent.config.kind == GRAPH:
            said = {"messages": [{"role": "user", "content": prompt}]}  # type: ignore[dict-item]
        request = RunRequest(
            assistant_id=last.assistant_id,
            thread_id=last.thread_id,
            input=said,
            session_id=session_id,
            resumes=True,
            **{"origin": RESUME, "scope": last.scope, **more},
        )
        [row] = await self._admission.admit([request], asker, once)
        return row

    async def call_back(self, told: Mapping[str, Any], delivery_id: str) -> None:
        """Resume the session that waits for a run that has ended."""
        asker = Principal(User(**told["user"]) if told["user"] else User("anonymous"))
        once = Idempotency(delivery_id, CALLBACK, told["session_id"])
        await self.resume(told["session_id"], told["prompt"], asker, once, origin=CALLBACK)


def _find_last_run(reads: Reads, session_id: str, asker: Principal) -> Run:
    """Find the last run of a session."""
    session = sessions.get(reads, session_id)
    if session is None or asker.owner not in (None, session.owner):
        raise NotFoundError(f"session {session_id!r} not found")
    if session.ended_at is not None:
        raise ConflictError(f"the session {session_id!r} has ended. Begin another one")
    thread = sessions.thread_of(reads, session_id)
    found = None if thread is None else runs.newest_of(reads, thread.thread_id)
    if found is None:
        raise ConflictError(
            f"the session {session_id!r} has no run yet. Create one with POST /runs"
        )
    return found
