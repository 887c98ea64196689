"""What the parts of a run's life share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import User
from checkrail.runs.eventlog import EventLog
from checkrail.runs.hub import Hub
from checkrail.runs.last_chance import LastChance
from checkrail.runs.live import Limits, LiveRun
from checkrail.runs.quotas import Quotas
from checkrail.store import agents
from checkrail.store.database import Database, Reads, Tx
from checkrail.store.rows import Row

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound
    from checkrail.runs.catalogue import Catalogue, Entry
    from checkrail.runs.graphs.loading import Graphs
    from checkrail.runs.workshop import Workshop


T = TypeVar("T")

HOOK = "hook"
"""The origin of runs that hooks start."""

RESUMED = ("resume", "callback")
"""Origins of runs that say something to a session, whatever its agent takes."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How runs are carried out. Times are in seconds."""

    capacity: int = 32
    lease: float = 30.0
    beat: float = 5.0
    cancel_grace: float = 30.0
    stop_grace: float = 10.0
    most_lost: int = 3
    queued_per_thread: int = 100_000
    limits: Limits = field(default_factory=Limits)
    quotas: Quotas = field(default_factory=Quotas)
    keep_runs: float | None = None
    keep_events: float | None = None
    keep_records: float | None = None
    keep_stateless: float | None = None
    keep_deliveries: float | None = None
    ttl_minutes: float | None = None
    sweep_every: float = 60.0
    ttl_strategy: str = "delete"
    webhook_secret: str | None = field(default=None, repr=False)
    webhook_attempts: int = 8
    tags: frozenset[str] = frozenset()  # of the runner in this process
    unclaimed_after: float = 300.0

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
    entries: Sequence[Entry] = ()  # none: it may depend on any of them


@dataclass(slots=True)
class Parts:
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
    workshop: Workshop
    live: dict[str, LiveRun] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)  # runs whose end hooks in this process wait for
    resume: Callable[..., Awaitable[Row]] | None = None  # a session
    learn: Callable[..., Awaitable[object]] | None = None  # which agents others have made
    find_store: Callable[[], Awaitable[Any]] | None = None  # LangGraph's, opened for its first use
    last_chance: LastChance = field(default_factory=LastChance)
    alone: bool = True  # no other process is known to work on this database

    async def known(self, agent_name: str) -> None:
        """See that an agent is known here that another process may have made just now."""
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

        def read(reads: Reads) -> tuple[T] | None:
            current = self.is_current(reads, self.catalogue.version)
            return (job(reads),) if current else None

        while (found := await self.database.read(read, patient=patient)) is None:
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

    def scope(self, row: Mapping[str, Any], **more: Any) -> Scope:
        """Return the scope in which the hooks of a run are fired."""
        scope = self.registry.scope(
            run_id=row["run_id"],
            session_id=row.get("session_id"),
            parent_run_id=row.get("parent_run_id"),
            thread_id=row["thread_id"],
            assistant_id=row["assistant_id"],
            agent_name=row["agent_name"],
            user=user_of(row),
            attempt=max(1, row["attempt"]),
            metadata={
                "config": row["kwargs"].get("config") or {},
                "graph_id": row["agent_name"],
                "run_metadata": row["metadata"],
                **{key: row[key] for key in ("scope", "depth", "told") if row.get(key)},
                "api_key": _key_name(row),
                **more,
            },
        )
        scope.lack(frozenset((row.get("told") or {}).get("without", ())))
        agent = self.catalogue.get(row["agent_name"])
        if agent is None:
            return scope
        scope = agent.hooks.scope(parent=scope)
        scope.accepts = agent.accepts if row.get("origin") not in RESUMED else agent.accepts_output
        return scope

    def has(self, point: str, agent_name: str | None = None) -> bool:
        """Return whether any hook stands at a point: of the server or an agent, or of any agent."""
        if self.registry.has(point):
            return True
        if agent_name is None:
            return any(agent.hooks.has(point) for agent in self.catalogue)
        agent = self.catalogue.get(agent_name)
        return agent is not None and agent.hooks.has(point)

    def has_start_hooks(self, agent_name: str) -> bool:
        """Return whether hooks have to be fired before a run of an agent starts."""
        return self.has("on_run_start", agent_name)

    def on_crash(self, agent_name: str) -> str:
        """Return what becomes of a run of an agent whose process died."""
        agent = self.catalogue.get(agent_name)
        return "fail" if agent is None else agent.config.on_crash

    def fits(self, needs: str) -> bool:
        """Return whether the runner in this process has what a run needs."""
        return tags_fit(needs, self.settings.tags)


def tags_fit(needs: str, has: frozenset[str]) -> bool:
    """Return whether somebody with some tags has those that a run needs."""
    tags = needs.rpartition("/")[2]
    return not tags or has.issuperset(tags.split(","))


def _key_name(row: Mapping[str, Any]) -> str | None:
    """Return the name of the API key that a run was requested with, or else who requested it."""
    user = row.get("user") or {}
    name = (user.get("extras") or {}).get("key")
    return name if isinstance(name, str) else user.get("identity")


def user_of(row: Mapping[str, Any]) -> User | None:
    """Return who asked for a run."""
    told = row.get("user")
    return None if told is None else User(**told)
