"""Where the server has its gateway: at a path, behind the server's own guard."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from checkrail.config.gateway import GatewayConfig
from checkrail.engine.registry import HookRegistry
from checkrail.server.auth import RequestAuthenticator
from checkrail.store.database import Database

if TYPE_CHECKING:
    from checkrail.gateway.app import GatewayApp
    from checkrail.gateway.call_tracking import AskSource, CallSink
    from checkrail.gateway.upstreams import Upstreams

PATH = "/gateway"


class MountedGateway:
    """The gateway, made for its first request: most servers never get one.

    Its code and its HTTP client are a tenth of what a server loads, and are imported in a thread.
    """

    def __init__(
        self,
        config: GatewayConfig,
        registry: HookRegistry,
        authenticator: RequestAuthenticator,
        database: Database,
        data_dir: Path,
        *,
        call_sinks: Sequence[CallSink] = (),
        ask_source: AskSource | None = None,
    ) -> None:
        self._config = config
        self._registry = registry
        self._authenticator = authenticator
        self._database = database
        self._call_sinks = call_sinks
        self._ask_source = ask_source
        self._data_dir = data_dir
        self._opening = asyncio.Lock()
        self._app: GatewayApp | None = None
        self._upstreams: Upstreams | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        app = self._app or await self.open()
        await app(scope, receive, send)

    async def open(self) -> GatewayApp:
        """Make the gateway, unless it is there."""
        async with self._opening:
            if self._app is None:
                await asyncio.to_thread(importlib.import_module, "checkrail.server.gateway_auth")
                self._app = self._build()
        return self._app

    def _build(self) -> GatewayApp:
        from checkrail.gateway.upstreams import Upstreams
        from checkrail.server.gateway_auth import build_gateway

        self._upstreams = Upstreams(self._config.upstreams)
        return build_gateway(
            self._config,
            self._registry,
            self._upstreams,
            self._authenticator,
            self._database,
            call_sinks=self._call_sinks,
            ask_source=self._ask_source,
            data_dir=self._data_dir,
        )

    async def close(self) -> None:
        """Close the connections to upstreams."""
        if self._upstreams is not None:
            await self._upstreams.close()
