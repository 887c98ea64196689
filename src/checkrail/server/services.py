"""What routes work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from checkrail.runs.errors import RequestError
from checkrail.runs.requests import Asker
from checkrail.server.auth import Access, Authenticator, Caller, KeyWatch, caller_of

if TYPE_CHECKING:
    from checkrail.config.server import ServerConfig
    from checkrail.runs.catalogue import Catalogue
    from checkrail.runs.graphs.loading import Graphs
    from checkrail.runs.made_agents import MadeAgents
    from checkrail.runs.service import Runs
    from checkrail.store.database import Database, Reads


@dataclass(slots=True)
class Services:
    """The parts of a running server."""

    config: ServerConfig
    runs: Runs
    graphs: Graphs
    checkpointer: Any
    store: Any
    authenticator: Authenticator
    key_watch: KeyWatch
    made: MadeAgents | None = None
    gateway: ASGIApp | None = None
    open_store: Callable[[], Awaitable[Any]] | None = None
    open_streams: int = 0
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def database(self) -> Database:
        """The database of this server."""
        return self.runs.parts.database

    @property
    def catalogue(self) -> Catalogue:
        """The agents of this server."""
        return self.runs.parts.catalogue

    async def find_store(self) -> Any:
        """Return the store, which is opened for its first use where no graph uses it."""
        if self.store is None and self.open_store is not None:
            self.store = await self.open_store()
        return self.store

    async def check_runnable(self, agent_name: str) -> None:
        """Raise if an agent cannot be run, by what others may have changed just now."""
        try:
            self.catalogue.runnable(agent_name)
        except RequestError:
            await self.runs.parts.reload_agents()
            self.catalogue.runnable(agent_name)

    def check_bytes(self, reads: Reads, caller: Caller, owner: str | None, more: int) -> None:
        """Raise if no more can be stored for an owner; admins have no quotas."""
        if not caller.is_admin:
            self.runs.admission.quotas.check_bytes(reads, owner or caller.owner, more)

    async def access(
        self, connection: HTTPConnection, resource: str, action: str, value: dict[str, Any]
    ) -> tuple[Caller, Access]:
        """Ask whether the caller may do this, and which rows that leaves. `value` may change."""
        caller = caller_of(connection)
        return caller, await self.authenticator.access(caller, resource, action, value)

    async def asker(
        self, connection: HTTPConnection, resource: str, action: str, value: dict[str, Any]
    ) -> Asker:
        """Ask the same, and give who asks in the words of runs."""
        caller, access = await self.access(connection, resource, action, value)
        return Asker(caller.user, access.owner, access.filter, has_quotas=not caller.is_admin)


async def services_of(connection: HTTPConnection) -> Services:
    """Give a route the services of its app; made for `Depends`, which gives plain ones a thread."""
    found: Services = connection.app.state.services
    return found
