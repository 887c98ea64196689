"""A gateway that runs alone with a database: it records its calls, and asks people."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from functools import partial

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from checkrail.config.server import ApprovalsConfig, ServerConfig
from checkrail.engine.values import User
from checkrail.gateway.app import GatewayApp
from checkrail.gateway.auth import Authenticator, KeyAuthenticator, LocalAuthenticator
from checkrail.gateway.errors import NotAdmittedError
from checkrail.gateway.startup import OpenGateway
from checkrail.runs.approvals import Approver
from checkrail.runs.events.hub import Hub
from checkrail.runs.gateway_asks import GatewayAsks
from checkrail.server.auth import ANONYMOUS, Caller, Forbidden, Guard, Unauthenticated
from checkrail.server.auth.authenticator import RequestAuthenticator
from checkrail.server.outages import Outages
from checkrail.server.responses import handle_errors
from checkrail.server.routes import approvals as approval_routes
from checkrail.server.routes import gateway_calls as call_routes
from checkrail.server.services import CallerServices
from checkrail.store import approvals, gateway_calls
from checkrail.store.call_log import CallLog
from checkrail.store.counters import StoredCounters
from checkrail.store.database import Database
from checkrail.store.health import DatabaseUnavailableError

_OURS = ("/approvals", "/gateway/calls")
_LOOK_EVERY = 1.0  # seconds: another process may have taken the answer
_CLEAN_EVERY = 5.0
_DAY = 86_400.0


class KeyHolders(RequestAuthenticator):
    """Knows callers by the keys of the gateway; `approvers` are the names of keys of admins."""

    def __init__(self, door: Authenticator, approvers: tuple[str, ...]) -> None:
        super().__init__()
        self._door = door
        self._approvers = approvers

    def check_origin(self, scope: Scope) -> None:
        """Leave this to the door."""

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:  # noqa: ARG002
        """Return who is calling: without keys, whoever sits at this machine."""
        try:
            admitted = await self._door.admit(scope)
        except NotAdmittedError as error:
            refused = Unauthenticated if error.status == 401 else Forbidden
            raise refused(error.message) from None
        if admitted.key is None:
            return ANONYMOUS
        is_admin = admitted.key in self._approvers
        return Caller(User(admitted.key), "admin" if is_admin else "member")


class GatewayServices(CallerServices):
    """What the routes of a gateway work with that runs alone."""

    def __init__(
        self, config: ServerConfig, database: Database, authenticator: RequestAuthenticator
    ) -> None:
        self.config = config
        self.database = database
        self.authenticator = authenticator
        self.approver = Approver(database)


class StandaloneGateway:
    """An ASGI app that opens its database when it starts, and closes it when it stops."""

    def __init__(self, opened: OpenGateway, url: str, *, asks: bool) -> None:
        self._opened = opened
        self._url = url
        self._asks = asks
        self._app: GatewayApp | None = None
        self._api: Guard | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or go through a life of the process."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
            return
        app = self._api if _is_ours(scope) else self._app
        assert app is not None  # noqa: S101 - no request comes before the start
        await app(scope, receive, send)

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._open_database() as (database, hub):
            log_of_calls = CallLog(database)
            longest = self._opened.settings.ask_seconds
            asks = GatewayAsks(database, hub, longest=longest, look_every=_LOOK_EVERY)
            self._app = self._opened.build_app(
                call_sinks=(log_of_calls,),
                ask_source=asks if self._asks else None,
                with_metrics=True,
            )
            self._api = self._build_api(database)
            cleaning = asyncio.create_task(self._clean_loop(database))
            try:
                await self._app(scope, receive, send)
            finally:
                cleaning.cancel()
                await asyncio.gather(cleaning, return_exceptions=True)
                await asyncio.to_thread(log_of_calls.close)

    @contextlib.asynccontextmanager
    async def _open_database(self) -> AsyncIterator[tuple[Database, Hub]]:
        hub = Hub()
        database = Database(self._url, hub.notify_soon)
        self._opened.outside.counters = StoredCounters(database)
        try:
            yield database, hub
        finally:
            self._opened.outside.counters = None
            database.end_waiting()
            await asyncio.to_thread(database.close)

    def _build_api(self, database: Database) -> Guard:
        settings, config = self._opened.settings, self._opened.loaded[0].server
        door = KeyAuthenticator(settings.keys) if settings.keys else LocalAuthenticator()
        if settings.approvers:
            config = dataclasses.replace(config, approvals=ApprovalsConfig(("admin",)))
        holders = KeyHolders(door, settings.approvers)
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        app.state.services = GatewayServices(config, database, holders)
        app.router.routes.extend(call_routes.router.routes)
        if self._asks:
            app.router.routes.extend(approval_routes.router.routes)
        handle_errors(app)
        app.add_middleware(Outages, health=database.health)
        return Guard(app, holders, app.router.routes)

    async def _clean_loop(self, database: Database) -> None:
        """Withdraw what nobody waits for, and remove what is too old."""
        days = self._opened.loaded[0].server.retention.calls_days
        while True:
            with contextlib.suppress(DatabaseUnavailableError):
                await database.write(lambda tx: approvals.void_unheld(tx, tx.time()))
                if days is not None:
                    when = database.time() - days * _DAY
                    await database.write(partial(gateway_calls.forget_before, when=when))
                    await database.write(partial(approvals.forget_of_gateway, when=when))
            await asyncio.sleep(_CLEAN_EVERY)


def _is_ours(scope: Mapping[str, object]) -> bool:
    path = str(scope["path"])
    return any(path == ours or path.startswith(f"{ours}/") for ours in _OURS)
