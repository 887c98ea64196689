"""Opening a server: database, checkpointer, store, hooks, graphs and runs, in that order."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import math
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from checkrail.actions.outbound import Outbound
from checkrail.config.gateway import NOT_SAID
from checkrail.config.server import ServerConfig
from checkrail.engine.errors import CheckrailError
from checkrail.private_files import make_private_file, make_private_folder
from checkrail.runs.admit.quotas import Quotas
from checkrail.runs.agents.catalogue import GRAPH
from checkrail.runs.agents.managed_agents import ManagedAgents, sync_agents
from checkrail.runs.execute.live_run import EventLimits
from checkrail.runs.gateway_asks import GatewayAsks
from checkrail.runs.graphs.checkpoints import (
    NO_INDEX,
    can_index,
    open_checkpointer,
    open_own_checkpointer,
    open_store,
)
from checkrail.runs.graphs.loader import Graphs
from checkrail.runs.run_service import Runs, open_runs
from checkrail.runs.services import RunServices, RunSettings
from checkrail.server.auth import Cors, KeyWatch, RequestAuthenticator, choose_authenticator
from checkrail.server.gateway import MountedGateway
from checkrail.server.project import Project
from checkrail.server.services import Services
from checkrail.sessions.session_service import open_sessions
from checkrail.sessions.summaries import SessionSummaries
from checkrail.store import approvals, keys, migrate
from checkrail.store.call_log import CallLog
from checkrail.store.counters import StoredCounters
from checkrail.store.database import Database
from checkrail.store.engines import open_engine, sqlite_url
from checkrail.store.keys import Key

_DAY = 86_400.0
log = logging.getLogger("checkrail.server")

_CHECKPOINTS = "checkpoints.db"
_ITEMS = "store.db"


class DataLockedError(CheckrailError):
    """Another server has the data directory."""


@contextlib.contextmanager
def lock_folder(folder: Path) -> Any:
    """Hold a data directory for this process alone; the system lets go when it dies."""
    import fcntl

    make_private_folder(folder)
    make_private_file(folder / "lock")
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataLockedError(
                f"another server works with {folder}. Stop it, or give this one another "
                "data_dir; several servers share one PostgreSQL (CHECKRAIL_DATABASE_URL)"
            ) from None
        yield


def prepare_database(config: ServerConfig) -> str:
    """Return the URL of the database; SQLite's tables are brought up to date."""
    if config.database is not None:
        engine = open_engine(config.database)
        try:
            migrate.check(engine)
        finally:
            engine.dispose()
        return config.database
    url = sqlite_url(config.data_dir / "checkrail.db")
    engine = open_engine(url)
    try:
        migrate.upgrade(engine)
    finally:
        engine.dispose()
    return url


class DatabaseKeys:
    """The API keys in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, digest: str) -> Key | None:
        """Return a key by its digest."""
        return await self._database.read(lambda reads: keys.find(reads, digest))


@contextlib.asynccontextmanager
async def open_services(project: Project, *, dev: bool = False) -> AsyncIterator[Services]:
    """Open everything that a server of a project needs."""
    config = project.loaded.server
    async with contextlib.AsyncExitStack() as stack:
        if config.database is None:
            stack.enter_context(lock_folder(config.data_dir))
        url = prepare_database(config)
        storage = GraphStorage(project, stack, dev=dev)
        if dev or storage.is_used():
            await storage.open()
        saver, store = storage.saver, storage.store
        graphs = Graphs(await project.load_graphs(), saver, store)
        outbound = Outbound(config.outbound.allow, dev=dev)
        stack.push_async_callback(outbound.aclose)
        stack.push_async_callback(project.workshop.aclose)
        metrics, count_call = _add_metrics(project)
        agents = _ProjectAgents(project, outbound)
        runs = await stack.enter_async_context(
            open_runs(
                url,
                registry=project.registry,
                graphs=graphs,
                checkpointer=saver,
                settings=_build_settings(project),
                outbound=outbound,
                catalogue=project.catalogue,
                workshop=project.workshop,
                learn=agents.refresh,
                find_store=storage.open_store,
                first=agents.start,
            )
        )
        stack.push_async_callback(agents.close)
        authenticator = _build_authenticator(project, runs.parts.database, dev=dev)
        key_watch = KeyWatch(runs.parts.database, runs.parts.hub)
        await stack.enter_async_context(_run_beside(key_watch.serve()))
        call_log = CallLog(runs.parts.database)
        stack.push_async_callback(asyncio.to_thread, call_log.close)
        gateway = MountedGateway(
            project.loaded.gateway,
            project.registry,
            authenticator,
            runs.parts.database,
            config.data_dir,
            call_sinks=(call_log, count_call),
            ask_source=await _open_asks(project, runs.parts),
        )
        stack.push_async_callback(gateway.close)
        if project.loaded.gateway != NOT_SAID:
            await gateway.open()
        talks = await stack.enter_async_context(
            open_sessions(runs, project.loaded.sessions, project.loaded.channels)
        )
        yield Services(
            config=config,
            runs=runs,
            sessions=talks,
            graphs=graphs,
            checkpointer=saver,
            store=store,
            open_store=storage.open_store,
            authenticator=authenticator,
            key_watch=key_watch,
            made=agents.made,
            gateway=gateway,
            extras={"metrics": metrics},
        )
        await project.registry.aclose()


class GraphStorage:
    """What LangGraph keeps for a project: checkpoints, and the items of its store.

    Without graphs, and where none has left anything, there are no checkpoints, and the store is
    opened for the first request that is for it: LangGraph is a third of what a server would load.
    """

    def __init__(
        self, project: Project, stack: contextlib.AsyncExitStack, *, dev: bool = False
    ) -> None:
        self._project = project
        self._dev = dev
        self._config = project.loaded.server
        self._stack = stack
        self._opening = asyncio.Lock()
        self.saver: Any = None
        self.store: Any = None

    def is_used(self) -> bool:
        """Whether there are graphs, or there may have been some."""
        config, agents = self._config, self._project.loaded.agents.values()
        files = (config.data_dir / name for name in (_CHECKPOINTS, _ITEMS))
        named = config.database is not None or bool(config.checkpointer.path)
        return named or any(a.kind == GRAPH for a in agents) or any(file.exists() for file in files)

    async def open(self) -> None:
        """Open both."""
        self.saver = await self._stack.enter_async_context(_open_checkpointer(self._project))
        await self.open_store()

    async def open_store(self) -> Any:
        """Open the store, unless it is open."""
        async with self._opening:
            if self.store is None:
                await asyncio.to_thread(importlib.import_module, "langgraph.store.sqlite.aio")
                ttl = dict(self._config.store.ttl) if self._config.store.ttl else None
                index = self._find_index()
                items = self._config.database or self._config.data_dir / _ITEMS
                self.store = await self._stack.enter_async_context(open_store(items, index, ttl))
        return self.store

    def _find_index(self) -> dict[str, Any] | None:
        """Return what the store is searched by; who develops may go without what is lacking."""
        index = self._project.loaded.load_store_index()
        if index and self._dev and not can_index(self._config.database):
            log.warning("%s. Until then, searches of the store do not rank by meaning", NO_INDEX)
            return None
        return index


@contextlib.asynccontextmanager
async def _open_checkpointer(project: Project) -> AsyncIterator[Any]:
    """Open the checkpointer: LangGraph's own, or what `checkpointer.path` names or makes."""
    config = project.loaded.server
    if not config.checkpointer.path:
        kept = config.database or config.data_dir / _CHECKPOINTS
        types = project.loaded.load_state_types()
        async with open_checkpointer(kept, types=types) as saver:
            yield saver
        return
    found = project.loaded.load_object(config.checkpointer.path, "checkpointer.path")
    async with open_own_checkpointer(found) as saver:
        yield saver


class _ProjectAgents:
    """The agents of a project and those created over HTTP, known before any is run."""

    def __init__(self, project: Project, outbound: Outbound) -> None:
        self._project = project
        self._outbound = outbound
        self._serving: asyncio.Task[None] | None = None
        self.made: ManagedAgents | None = None

    async def start(self, runs: Runs) -> None:
        """Let hooks reach others, read the agents, and keep up with those that change."""
        project, database = self._project, runs.parts.database
        project.outside.outbound, project.outside.agents = self._outbound, runs.hook_runs
        project.outside.counters = StoredCounters(database)
        project.outside.summaries = SessionSummaries(database, runs.hook_runs)
        await database.write(lambda tx: sync_agents(tx, project.agent_descriptions(), time.time()))
        self.made = ManagedAgents(
            database,
            project.catalogue,
            project.workshop,
            outbound=self._outbound,
            outside=project.outside,
            allow_code=project.loaded.server.agents_api.allow_code,
        )
        await self.made.refresh()
        serving = self.made.serve(runs.parts.hub)
        self._serving = asyncio.get_running_loop().create_task(serving)

    async def refresh(self, *, patient: bool = False) -> None:
        """Read the agents that others have changed, once they were read at all."""
        if self.made is not None:
            await self.made.refresh(patient=patient)

    async def close(self) -> None:
        """Keep up with nothing any more."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)


@contextlib.asynccontextmanager
async def _run_beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run work beside everything else, and cancel it at the end."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _open_asks(project: Project, parts: RunServices) -> GatewayAsks:
    """Return who asks people in the gateway; what an earlier process asked is withdrawn."""
    if project.loaded.server.database is None:  # this is the only process
        await parts.database.write(lambda tx: approvals.void_unheld(tx, math.inf))
    longest = project.loaded.gateway.ask_seconds
    return GatewayAsks(parts.database, parts.hub, longest=longest)


def _add_metrics(project: Project) -> tuple[Any, Any]:
    """Count the records of hooks; return where, and what counts the gateway's calls there."""
    from prometheus_client import CollectorRegistry

    from checkrail.telemetry.prometheus import CallMetrics, PrometheusSink

    registry = CollectorRegistry()
    project.registry.sinks = (*project.registry.sinks, PrometheusSink(registry))
    return registry, CallMetrics(registry)


def _build_authenticator(
    project: Project, database: Database, *, dev: bool
) -> RequestAuthenticator:
    config = project.loaded.server
    auth = None
    if config.auth is not None and config.auth.path:
        from langgraph_sdk import Auth

        auth = project.loaded.load_object(config.auth.path, "auth.path", Auth)
    wants_keys = config.auth is not None and (config.auth.keys or auth is not None)
    own = Cors.for_loopback() if dev else None
    cors = Cors.from_config(config.http.cors) if config.http.cors else own
    fields = config.auth.user_fields if config.auth is not None else ()
    isolate = config.auth is not None and bool(config.auth.isolate)
    keys = DatabaseKeys(database) if wants_keys else None
    return choose_authenticator(auth, keys, cors, fields, isolate=isolate)


def _build_settings(project: Project) -> RunSettings:
    config = project.loaded.server
    keep = config.retention
    return RunSettings(
        sessions=project.loaded.sessions,
        capacity=config.capacity,
        lease=config.lease_seconds,
        beat=config.beat_seconds,
        cancel_grace=config.cancel_grace_seconds,
        stop_grace=config.stop_grace_seconds,
        unclaimed_after=config.unclaimed_seconds,
        tags=frozenset(config.tags),
        queued_per_thread=config.limits.queued_per_thread,
        quotas=Quotas(
            live_runs=config.limits.live_runs_per_owner,
            threads=config.limits.threads_per_owner,
            crons=config.limits.crons_per_owner,
            stored_bytes=config.limits.stored_bytes_per_owner,
        ),
        limits=EventLimits(
            config.limits.events_per_run,
            config.limits.bytes_per_run,
            config.limits.event_bytes,
        ),
        keep_runs=_days_to_seconds(keep.runs_days),
        keep_events=_days_to_seconds(keep.events_days),
        keep_records=_days_to_seconds(keep.records_days),
        keep_stateless=_days_to_seconds(keep.stateless_days),
        keep_deliveries=_days_to_seconds(keep.deliveries_days),
        keep_calls=_days_to_seconds(keep.calls_days),
        ttl_minutes=(config.checkpointer.ttl or {}).get("default_ttl"),
        sweep_every=max(1.0, (config.checkpointer.ttl or {}).get("sweep_interval_minutes", 1) * 60),
        ttl_strategy=(config.checkpointer.ttl or {}).get("strategy", "delete"),
        webhook_secret=config.outbound.webhook_secret,
        prices=project.loaded.prices,
    )


def _days_to_seconds(days: float | None) -> float | None:
    return None if days is None else days * _DAY
