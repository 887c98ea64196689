"""What a file says of the server: where it listens and keeps things, and how much it takes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """Who may call: a `langgraph_sdk.Auth` object by its `path`, or whoever has an API key.

    `user_fields` are extra fields of such an object's users that are stored with their runs. With
    `isolate: owner` users see what they made, whatever its handlers let through besides.
    """

    path: str = ""
    keys: bool = False
    user_fields: tuple[str, ...] = ()
    isolate: str = ""


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """The user's own `app` beside the API, which parts of the API are off, and `cors`.

    `cors` has the words of Starlette's middleware. `disabled` are names such as `store`.
    """

    app: str = ""
    enable_custom_route_auth: bool = False
    cors: Mapping[str, Any] | None = None
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The long-term memory of graphs: its vector `index`, and how long items stay, in minutes."""

    index: Mapping[str, Any] | None = None
    ttl: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CheckpointerConfig:
    """How long threads keep their state, in minutes; `path` is a checkpointer of the user's own.

    `types` are built when a graph's state is read, beside those that its schemas name.
    """

    path: str = ""
    ttl: Mapping[str, Any] | None = None
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetentionConfig:
    """How many days finished work is kept; None is for ever."""

    runs_days: float | None = None
    stateless_days: float | None = None
    events_days: float | None = None
    records_days: float | None = None
    deliveries_days: float | None = None
    calls_days: float | None = None


@dataclass(frozen=True, slots=True)
class OutboundConfig:
    """Hosts and networks that may be called though they are private, and what signs webhooks."""

    allow: tuple[str, ...] = ()
    webhook_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AgentsApiConfig:
    """What agents that are made over HTTP may do; with `allow_code`, those of admins run code."""

    allow_code: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalsConfig:
    """Whose answers count when a hook asks; admins' always do."""

    roles: tuple[str, ...] = ("admin", "member")


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """How much one connection, one request, one run and one thread may take.

    Of connections and of an owner, 0 is no limit.
    """

    header_bytes: int = 64 * 1024
    header_seconds: float = 30.0
    body_seconds: float = 300.0
    write_seconds: float = 60.0
    connections_per_address: int = 1024
    body_bytes: int = 32 * MIB
    event_bytes: int = 16 * MIB
    events_per_run: int = 200_000
    bytes_per_run: int = 256 * MIB
    open_streams: int = 1000
    queued_per_thread: int = 1000
    runs_per_batch: int = 1000
    live_runs_per_owner: int = 10_000
    threads_per_owner: int = 100_000
    agents_per_owner: int = 1000
    crons_per_owner: int = 1000
    stored_bytes_per_owner: int = 64 * 1024 * MIB


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The server's keys of a file.

    `database` is a URL that nobody is shown; without one, SQLite in `data_dir`. `import_path` are
    folders that graphs may import from, `packages` the dependencies that have to be installed.
    """

    host: str = "127.0.0.1"
    port: int = 2024
    capacity: int = 32
    lease_seconds: float = 30.0
    beat_seconds: float = 5.0
    cancel_grace_seconds: float = 30.0
    stop_grace_seconds: float = 10.0
    unclaimed_seconds: float = 300.0
    tags: tuple[str, ...] = ()
    log_level: str = "info"
    database: str | None = field(default=None, repr=False)
    data_dir: Path = Path(".checkrail")
    auth: AuthConfig | None = None
    http: HttpConfig = HttpConfig()
    store: StoreConfig = StoreConfig()
    checkpointer: CheckpointerConfig = CheckpointerConfig()
    retention: RetentionConfig = RetentionConfig()
    outbound: OutboundConfig = OutboundConfig()
    limits: LimitsConfig = LimitsConfig()
    approvals: ApprovalsConfig = ApprovalsConfig()
    agents_api: AgentsApiConfig = AgentsApiConfig()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    import_path: tuple[Path, ...] = ()
    packages: tuple[str, ...] = ()
