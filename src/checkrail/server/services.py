"""What routes work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import RequestError
from checkrail.server.auth import Access, Caller, KeyWatch, RequestAuthenticator, caller_of

if TYPE_CHECKING:
    from checkrail.config.server import ServerConfig
    from checkrail.runs.agents.catalogue import Catalogue
    from checkrail.runs.agents.managed_agents import ManagedAgents
    from checkrail.runs.approvals import Approver
    from checkrail.runs.graphs.loader import Graphs
    from checkrail.runs.run_service import Runs
    from checkrail.sessions.session_service import Sessions
    from checkrail.store.database import Database, Reads


class CallerServices:
    """What routes need to know of their callers."""

    authenticator: RequestAuthenticator

    async def access(
        self, connection: HTTPConnection, resource: str, action: str, value: dict[str, Any]
    ) -> tuple[Caller, Access]:
        """Authorize the caller, and return which rows that leaves. `value` may change."""
        caller = caller_of(connection)
        return caller, await self.authenticator.access(caller, resource, action, value)

    async def principal(
        self, connection: HTTPConnection, resource: str, action: str, value: dict[str, Any]
    ) -> Principal:
        """Authorize the caller, and return them as a `Principal`."""
        caller, access = await self.access(connection, resource, action, value)
        return Principal(caller.user, access.owner, access.filter, has_quotas=not caller.is_admin)


@dataclass
class Services(CallerServices):
    """The parts of a running server."""

    config: ServerConfig
    runs: Runs
    sessions: Sessions
    graphs: Graphs
    checkpointer: Any
    store: Any
    authenticator: RequestAuthenticator
    key_watch: KeyWatch
    made: ManagedAgents | None = None
    gateway: ASGIApp | None = None
    open_store: Callable[[], Awaitable[Any]] | None = None
    open_streams: int = 0
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def database(self) -> Database:
        """The database of this server."""
        return self.runs.parts.database

    @property
    def approver(self) -> Approver:
        """Who takes the answers to questions."""
        return self.runs.approver

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
            self.catalogue.require_runnable(agent_name)
        except RequestError:
            await self.runs.parts.reload_agents()
            self.catalogue.require_runnable(agent_name)

    def check_bytes(self, reads: Reads, caller: Caller, owner: str | None, more: int) -> None:
        """Raise if no more can be stored for an owner; admins have no quotas."""
        if not caller.is_admin:
            self.runs.parts.quotas.check_bytes(reads, owner or caller.owner, more)


async def services_of(connection: HTTPConnection) -> Services:
    """Return the services of a route's app; made for `Depends`, which gives plain ones a thread."""
    found: Services = connection.app.state.services
    return found
