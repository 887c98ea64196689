"""What the parts of a run's life share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from checkrail.config.sessions import SessionsConfig
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import User
from checkrail.runs.admit.quotas import OwnerQuotas, Quotas
from checkrail.runs.events.event_log import EventLog
from checkrail.runs.events.hub import Hub
from checkrail.runs.execute.last_chance import LastChance
from checkrail.runs.execute.live_run import EventLimits, LiveRun
from checkrail.runs.rollups import RollupWriter
from checkrail.store import agents
from checkrail.store.database import Database, Reads, Tx
from checkrail.store.runs import Run

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound
    from checkrail.config.gateway import PriceConfig
    from checkrail.runs.agents.catalogue import AgentEntry, Catalogue
    from checkrail.runs.agents.factory import AgentFactory
    from checkrail.runs.graphs.loader import Graphs


T = TypeVar("T")

Learn = Callable[..., Awaitable[object]]
FindStore = Callable[[], Awaitable[Any]]

HOOK = "hook"
"""The origin of runs that hooks start."""

MESSAGE = "message"
"""The origin of runs that a message on a channel starts."""

FROM_CLIENTS = ("api", "protocol")
"""Origins of runs that clients request over the API."""

RESUMED = ("resume", "callback", MESSAGE)
"""Origins of runs that say something to a session, whatever its agent takes."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How runs are executed. Times are in seconds."""

    capacity: int = 32
    lease: float = 30.0
    beat: float = 5.0
    cancel_grace: float = 30.0
    stop_grace: float = 10.0
    most_lost: int = 3
    queued_per_thread: int = 100_000
    limits: EventLimits = field(default_factory=EventLimits)
    quotas: Quotas = field(default_factory=Quotas)
    keep_runs: float | None = None
    keep_events: float | None = None
    keep_records: float | None = None
    keep_stateless: float | None = None
    keep_deliveries: float | None = None
    keep_calls: float | None = None
    ttl_minutes: float | None = None
    sweep_every: float = 60.0
    ttl_strategy: str = "delete"
    webhook_secret: str | None = field(default=None, repr=False)
    webhook_attempts: int = 8
    tags: frozenset[str] = frozenset()  # of the runner in this process
    unclaimed_after: float = 300.0
    prices: tuple[PriceConfig, ...] = ()
    sessions: SessionsConfig = field(default_factory=SessionsConfig)

    def question_timeout(self, origin: str, timeout: float | None) -> float | None:
        """Return for how long a question is open: one about a message never is for ever."""
        longest = self.sessions.answer_minutes * 60
        return longest if timeout is None and longest and origin == MESSAGE else timeout

    def brings_message(self, row: Run) -> bool:
        """Return whether a run may bring a message for which the hooks on messages are called."""
        asked = row.origin in FROM_CLIENTS and row.parent_run_id is None
        return self.sessions.from_runs and asked

    def thread_ttl(self, now: float) -> dict[str, Any]:
        """Return the columns of a new thread's time to live; none unless the config says one."""
        if self.ttl_minutes is None:
            return {}
        expires = now + self.ttl_minutes * 60
        told = {"ttl_minutes": self.ttl_minutes, "ttl_strategy": self.ttl_strategy}
        return told | {"expires_at": expires}


@dataclass(frozen=True, slots=True)
class AgentsSeen:
    """The version of the set of agents that something was decided by, and the agents concerned."""

    version: int | None
    entries: Sequence[AgentEntry] = ()  # none: it may depend on any of them


@dataclass(slots=True)
class RunServices:
    """The database, the hooks, the graphs, and what this process holds."""

    database: Database
    hub: Hub
    registry: HookRegistry
    graphs: Graphs
    checkpointer: Any
    settings: RunSettings
    worker_id: str
    log: EventLog
    outbound: Outbound
    catalogue: Catalogue
    workshop: AgentFactory
    quotas: OwnerQuotas
    rollups: RollupWriter
    learn: Learn | None = None  # which agents others have made
    find_store: FindStore | None = None  # LangGraph's, opened for its first use
    live: dict[str, LiveRun] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)  # runs whose end hooks in this process wait for
    session_starts: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )
    """Held while the hooks of this process say whether a session may begin."""
    last_chance: LastChance = field(default_factory=LastChance)
    alone: bool = True  # no other process is known to work on this database; the worker says so

    def count_run(self, row: Run, ended: Mapping[str, Any]) -> None:
        """Count a run that ends in a write, from the writer's thread."""
        if not self.hub.loop.is_closed():
            self.hub.loop.call_soon_threadsafe(self.rollups.add_run, row, ended)

    async def ensure_known(self, agent_name: str) -> None:
        """Make sure that an agent is known here that another process may have created just now."""
        if agent_name not in self.catalogue:
            await self.reload_agents()

    async def reload_agents(self, *, patient: bool = False) -> None:
        """Read the agents and named hooks that others have changed."""
        if self.learn is not None:
            await self.learn(patient=patient)

    def is_current(self, reads: Reads, version: int | None) -> bool:
        """Return whether no agent or named hook has changed since a version of the set."""
        return self.learn is None or agents.set_version(reads) == version

    async def read_current(self, job: Callable[[Reads], T], *, patient: bool = False) -> T:
        """Carry out a read with the agents as they are now; stale ones are read anew first."""

        def read_if_current(reads: Reads) -> tuple[T] | None:
            current = self.is_current(reads, self.catalogue.version)
            return (job(reads),) if current else None

        while (found := await self.database.read(read_if_current, patient=patient)) is None:
            await self.reload_agents(patient=patient)
        return found[0]

    def see_agents(self, *names: str) -> AgentsSeen:
        """Return what a decision about some agents goes by."""
        found = [entry for name in names if (entry := self.catalogue.get(name)) is not None]
        return AgentsSeen(self.catalogue.version, found if len(found) == len(names) else ())

    async def write_current(
        self, seen: AgentsSeen, job: Callable[[Tx], T], *, patient: bool = False
    ) -> T | None:
        """Carry out a write that was decided by the agents as they were seen.

        Nothing is written if those have changed: they are read anew, and None says so.
        """
        version = seen.version
        while True:

            def write(tx: Tx, version: int | None = version) -> tuple[T] | None:
                return (job(tx),) if self.is_current(tx, version) else None

            if (found := await self.database.write(write, patient=patient)) is not None:
                return found[0]
            await self.reload_agents(patient=patient)
            same = [self.catalogue.get(entry.name) is entry for entry in seen.entries]
            if not same or not all(same):
                return None
            version = self.catalogue.version

    def scope(self, row: Run, **more: Any) -> Scope:
        """Return the scope in which the hooks of a run are fired."""
        scope = self.registry.scope(
            run_id=row.run_id,
            session_id=row.session_id,
            parent_run_id=row.parent_run_id,
            thread_id=row.thread_id,
            assistant_id=row.assistant_id,
            agent_name=row.agent_name,
            user=user_of(row),
            attempt=max(1, row.attempt),
            metadata={
                "config": row.kwargs.get("config") or {},
                "graph_id": row.agent_name,
                "run_metadata": row.metadata,
                **{
                    name: value
                    for name in ("scope", "depth", "notify_on_end")
                    if (value := getattr(row, name))
                },
                "api_key": _key_name(row),
                **more,
            },
        )
        scope.exclude(frozenset((row.notify_on_end or {}).get("without", ())))
        agent = self.catalogue.get(row.agent_name)
        if agent is None:
            return scope
        scope = agent.hooks.scope(parent=scope)
        scope.accepts = agent.problem_at if row.origin not in RESUMED else agent.output_problem
        return scope

    def has_hooks(self, point: str, agent_name: str | None = None) -> bool:
        """Return whether any hook stands at a point: of the server or an agent, or of any agent."""
        if self.registry.has(point):
            return True
        if agent_name is None:
            return any(agent.hooks.has(point) for agent in self.catalogue)
        agent = self.catalogue.get(agent_name)
        return agent is not None and agent.hooks.has(point)

    def has_start_hooks(self, agent_name: str | None = None) -> bool:
        """Return whether hooks have to be fired before a run of an agent starts, or of any."""
        return self.settings.sessions.from_runs or self.has_hooks("on_run_start", agent_name)

    def on_crash(self, agent_name: str) -> str:
        """Return what becomes of a run of an agent whose process died."""
        agent = self.catalogue.get(agent_name)
        return "fail" if agent is None else agent.config.on_crash

    def can_run(self, needs: str) -> bool:
        """Return whether the runner in this process has what a run needs."""
        return has_tags(needs, self.settings.tags)


def has_tags(needs: str, has: frozenset[str]) -> bool:
    """Return whether somebody with some tags has those that a run needs."""
    tags = needs.rpartition("/")[2]
    return not tags or has.issuperset(tags.split(","))


def _key_name(row: Run) -> str | None:
    """Return the name of the API key that a run was requested with, or else who requested it."""
    user = row.user or {}
    name = (user.get("extras") or {}).get("key")
    return name if isinstance(name, str) else user.get("identity")


def user_of(row: Run) -> User | None:
    """Return who requested a run."""
    told = row.user
    return None if told is None else User(**told)
