"""The gateway within the server, behind the server's own door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.config.gateway import GatewayConfig
from checkrail.engine.registry import HookRegistry
from checkrail.gateway.app import GatewayApp, gateway_app
from checkrail.gateway.door import Admitted, Door, KeyDoor, LocalDoor
from checkrail.gateway.errors import NotTakenError
from checkrail.gateway.exchange import Gateway
from checkrail.gateway.headers import CREDENTIALS, Headers, credentials_of, value_of
from checkrail.gateway.upstreams import Upstreams
from checkrail.server.auth import Authenticator, Caller
from checkrail.server.auth.caller import SCOPE_KEY
from checkrail.server.auth.keys import PREFIX, ApiKeys
from checkrail.store import runs
from checkrail.store.database import Database
from checkrail.store.health import DatabaseUnavailableError

_RUN_ID = b"x-checkrail-run-id"


class ServerDoor:
    """Lets in whom the server's guard let in, and keeps from upstreams what they showed to it."""

    def __init__(self, authenticator: Authenticator, database: Database) -> None:
        self._by_keys = isinstance(authenticator, ApiKeys)
        self._database = database

    async def admit(self, scope: Mapping[str, Any]) -> Admitted:
        """Return who called; records go to a run only if it is the caller's own."""
        caller: Caller = scope[SCOPE_KEY]
        headers = [header for header in scope["headers"] if not self._is_ours(header)]
        if not await self._owns_run(caller, headers):
            headers = [header for header in headers if header[0] != _RUN_ID]
        key = caller.user.extras.get("key") if self._by_keys else None
        return Admitted(headers, key if isinstance(key, str) else caller.owner, caller.user)

    def _is_ours(self, header: tuple[bytes, bytes]) -> bool:
        """Return whether a header was for the server: with keys, those; else all credentials."""
        if header[0] not in CREDENTIALS:
            return False
        return not self._by_keys or any(key.startswith(PREFIX) for key in credentials_of([header]))

    async def _owns_run(self, caller: Caller, headers: Headers) -> bool:
        run_id = value_of(headers, _RUN_ID)
        if run_id is None or caller.is_admin:
            return True
        try:
            run = await self._database.read(lambda reads: runs.get(reads, run_id))
        except DatabaseUnavailableError as error:
            raise NotTakenError(503, f"{error.trouble.words}. Try again later") from error
        return run is not None and run["owner"] == caller.owner


def build_gateway(
    config: GatewayConfig,
    registry: HookRegistry,
    upstreams: Upstreams,
    authenticator: Authenticator,
    database: Database,
) -> GatewayApp:
    """Return the app that the server has under `/gateway`.

    Where the server knows nobody, the gateway's own keys count, if it has any.
    """
    door: Door = ServerDoor(authenticator, database)
    if not authenticator.has_auth:
        door = KeyDoor(config.keys) if config.keys else LocalDoor()
    gateway = Gateway(registry, upstreams, config)
    return gateway_app(gateway, upstreams, door=door, body_bytes=config.body_bytes)
