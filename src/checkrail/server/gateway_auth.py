"""The gateway within the server, behind the server's own door."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checkrail.config.gateway import GatewayConfig
from checkrail.engine.registry import HookRegistry
from checkrail.gateway.app import GatewayApp, build_gateway_app
from checkrail.gateway.auth import (
    AuthenticatedCaller,
    Authenticator,
    KeyAuthenticator,
    LocalAuthenticator,
)
from checkrail.gateway.call import Gateway
from checkrail.gateway.call_tracking import AskSource, CallSink
from checkrail.gateway.errors import InvalidRequestError
from checkrail.gateway.headers import CREDENTIALS, Headers, find_credentials, find_header
from checkrail.gateway.placeholder_key import load_key
from checkrail.gateway.upstreams import Upstreams
from checkrail.llm.secret_vault import SecretVaults
from checkrail.server.auth import Caller, RequestAuthenticator
from checkrail.server.auth.caller import SCOPE_KEY
from checkrail.server.auth.keys import PREFIX, ApiKeys
from checkrail.store import runs
from checkrail.store.database import Database
from checkrail.store.health import DatabaseUnavailableError

_RUN_ID = b"x-checkrail-run-id"


class ServerAuthenticator:
    """Admits whom the server's guard admitted, and hides their credentials from upstreams."""

    def __init__(self, authenticator: RequestAuthenticator, database: Database) -> None:
        self._by_keys = isinstance(authenticator, ApiKeys)
        self._database = database

    async def admit(self, scope: Mapping[str, Any]) -> AuthenticatedCaller:
        """Return who called; records go to a run only if it is the caller's own."""
        caller: Caller = scope[SCOPE_KEY]
        headers = [header for header in scope["headers"] if not self._is_ours(header)]
        if not await self._owns_run(caller, headers):
            headers = [header for header in headers if header[0] != _RUN_ID]
        key = caller.user.extras.get("key") if self._by_keys else None
        return AuthenticatedCaller(
            headers, key if isinstance(key, str) else caller.owner, caller.user, caller.owner
        )

    def _is_ours(self, header: tuple[bytes, bytes]) -> bool:
        """Return whether a header was for the server: with keys, those; else all credentials."""
        if header[0] not in CREDENTIALS:
            return False
        return not self._by_keys or any(
            key.startswith(PREFIX) for key in find_credentials([header])
        )

    async def _owns_run(self, caller: Caller, headers: Headers) -> bool:
        run_id = find_header(headers, _RUN_ID)
        if run_id is None or caller.is_admin:
            return True
        try:
            run = await self._database.read(lambda reads: runs.get(reads, run_id))
        except DatabaseUnavailableError as error:
            raise InvalidRequestError(503, f"{error.trouble.words}. Try again later") from error
        return run is not None and run.owner == caller.owner


def build_gateway(
    config: GatewayConfig,
    registry: HookRegistry,
    upstreams: Upstreams,
    authenticator: RequestAuthenticator,
    database: Database,
    *,
    data_dir: Path,
    call_sinks: Sequence[CallSink] = (),
    ask_source: AskSource | None = None,
) -> GatewayApp:
    """Return the app that the server has under `/gateway`.

    Where the server knows nobody, the gateway's own keys count, if it has any.
    """
    door: Authenticator = ServerAuthenticator(authenticator, database)
    if not authenticator.has_auth:
        door = KeyAuthenticator(config.keys) if config.keys else LocalAuthenticator()
    vaults = SecretVaults(functools.partial(load_key, data_dir))
    gateway = Gateway(
        registry, upstreams, config, vaults, call_sinks=call_sinks, ask_source=ask_source
    )
    return build_gateway_app(gateway, upstreams, door=door, body_bytes=config.body_bytes)
