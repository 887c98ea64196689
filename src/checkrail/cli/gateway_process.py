"""One process of `checkrail gateway`: the app that it serves, alone or beside others."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from checkrail.cli.extras import PACKAGES, is_installed, require_extra
from checkrail.cli.gateway_startup import log_to_stderr, open_gateway
from checkrail.engine.errors import CheckrailError

if TYPE_CHECKING:
    from checkrail.engine.scope import Sink
    from checkrail.gateway.startup import OpenGateway

SAID = "CHECKRAIL_GATEWAY"
"""Tells worker processes what the command was told."""

ANYBODY = (
    "whoever has a key may answer what their own calls ask, agents too: name the keys of those who "
    "may under gateway.approvers"
)

log = logging.getLogger("checkrail.gateway")


@dataclass(frozen=True)
class GatewayCommand:
    """What `checkrail gateway` was told, as far as each of its processes has to know it."""

    config: str | None = None
    hooks: str | None = None
    approvals: bool = False
    workers: int = 1

    def open(self, sink: Sink | None = None) -> OpenGateway:
        """Load the files."""
        return open_gateway(self.config, self.hooks, sink=sink)

    def needs_store(self, gateway: OpenGateway) -> bool:
        """Return whether there is a database that calls and questions are kept in."""
        if self.approvals:
            require_extra("server")
        configured = gateway.loaded[0].server.database is not None
        return self.approvals or (configured and all(map(is_installed, PACKAGES["server"])))

    def warn(self, gateway: OpenGateway) -> None:
        """Log what is hardly meant."""
        if self.approvals and gateway.settings.keys and not gateway.settings.approvers:
            log.warning(ANYBODY)
        if gateway.loaded[0].server.database is not None and not self.needs_store(gateway):
            log.warning('calls are not recorded. To record them: pip install "checkrail[server]"')

    def check_workers(self, gateway: OpenGateway) -> None:
        """Raise if several processes could not share what hooks count."""
        from checkrail.gateway.startup import has_counting_hooks

        if self.workers > 1 and has_counting_hooks(gateway.registry):
            if is_installed("sqlalchemy"):
                return
            raise CheckrailError(
                "limits and budgets of several workers need a database that they share. "
                'Install what it takes: pip install "checkrail[server]", or leave out --workers'
            )

    def prepare_database(self, gateway: OpenGateway) -> None:
        """Have the tables there before several processes look, or raise what is wrong."""
        from checkrail.gateway.startup import prepare_database

        if self.needs_store(gateway):
            prepare_database(gateway.loaded[0].server)
        with gateway.open_counters():
            pass

    def build_app(self, gateway: OpenGateway) -> Any:
        """Build the app of this process."""
        if not self.needs_store(gateway):
            return gateway.build_app(with_metrics=True)
        from checkrail.gateway.startup import prepare_database
        from checkrail.server.standalone_gateway import StandaloneGateway

        url = prepare_database(gateway.loaded[0].server)
        return StandaloneGateway(gateway, url, asks=self.approvals)

    def hand_over(self) -> None:
        """Tell worker processes."""
        os.environ[SAID] = json.dumps(asdict(self))


def create() -> Any:
    """Make the app that the environment tells of; what uvicorn calls in each worker."""
    said = GatewayCommand(**json.loads(os.environ[SAID]))
    log_to_stderr(logging.INFO)
    gateway = said.open()
    if said.needs_store(gateway):
        return said.build_app(gateway)
    return CountingApp(gateway, said.build_app(gateway))


class CountingApp:
    """The app of a worker whose hooks count in the database that all of them share."""

    def __init__(self, gateway: OpenGateway, app: Any) -> None:
        self._gateway = gateway
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or go through a life of the process."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        with self._gateway.open_counters():
            await self._app(scope, receive, send)
