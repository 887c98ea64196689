"""What routes work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection

from checkrail.runs.requests import Asker
from checkrail.server.auth import Access, Authenticator, Caller, caller_of

if TYPE_CHECKING:
    from checkrail.config.server import ServerConfig
    from checkrail.gateway.app import GatewayApp
    from checkrail.runs.catalogue import Catalogue
    from checkrail.runs.graphs.loading import Graphs
    from checkrail.runs.made_agents import MadeAgents
    from checkrail.runs.service import Runs
    from checkrail.store.database import Database


@dataclass(slots=True)
class Services:
    """The parts of a running server."""

    config: ServerConfig
    runs: Runs
    graphs: Graphs
    checkpointer: Any
    store: Any
    authenticator: Authenticator
    made: MadeAgents | None = None
    gateway: GatewayApp | None = None
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

    async def knows(self, agent_name: str) -> None:
        """See that an agent is known here that another process may have heard of just now."""
        await self.runs.parts.known(agent_name)

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
        return Asker(caller.user, access.owner, access.filter)


async def services_of(connection: HTTPConnection) -> Services:
    """Give a route the services of its app; made for `Depends`, which gives plain ones a thread."""
    found: Services = connection.app.state.services
    return found
