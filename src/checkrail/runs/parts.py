"""What the parts of a run's life share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import User
from checkrail.runs.eventlog import EventLog
from checkrail.runs.hub import Hub
from checkrail.runs.live import Limits, LiveRun
from checkrail.store.database import Database

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound
    from checkrail.runs.graphs.loading import Graphs


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the config says of how an agent's runs are treated."""

    on_crash: str = "resume"
    timeout_seconds: float | None = None


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
    agents: Mapping[str, AgentSettings] = field(default_factory=dict)

    def thread_ttl(self, now: float) -> dict[str, Any]:
        """Give the columns of a new thread's time to live; none unless the config says one."""
        if self.ttl_minutes is None:
            return {}
        expires = now + self.ttl_minutes * 60
        told = {"ttl_minutes": self.ttl_minutes, "ttl_strategy": self.ttl_strategy}
        return told | {"expires_at": expires}

    def agent(self, name: str) -> AgentSettings:
        """Give the settings of an agent."""
        return self.agents.get(name) or AgentSettings()


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
    agents: Mapping[str, HookRegistry] = field(default_factory=dict)  # hooks of their own
    live: dict[str, LiveRun] = field(default_factory=dict)
    alone: bool = True  # no other process is known to work on this database

    def scope(self, row: Mapping[str, Any], **more: Any) -> Scope:
        """Give the scope in which the hooks of a run are fired."""
        scope = self.registry.scope(
            run_id=row["run_id"],
            thread_id=row["thread_id"],
            assistant_id=row["assistant_id"],
            agent_name=row["agent_name"],
            user=user_of(row),
            attempt=max(1, row["attempt"]),
            metadata={
                "config": row["kwargs"].get("config") or {},
                "graph_id": row["agent_name"],
                "run_metadata": row["metadata"],
                **more,
            },
        )
        own = self.agents.get(row["agent_name"])
        return scope if own is None else own.scope(parent=scope)

    def has(self, point: str, agent_name: str | None = None) -> bool:
        """Say whether any hook stands at a point: of the server or an agent, or of any agent."""
        own = self.agents
        named = own.values() if agent_name is None else filter(None, [own.get(agent_name)])
        return self.registry.has(point) or any(agent.has(point) for agent in named)


def user_of(row: Mapping[str, Any]) -> User | None:
    """Give who asked for a run."""
    told = row.get("user")
    return None if told is None else User(**told)
