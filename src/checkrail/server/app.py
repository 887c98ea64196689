"""The app: every route of the server, behind the guard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp

from checkrail.connections.watch import apply_limits
from checkrail.engine.errors import CheckrailError
from checkrail.resources import pause_gc, settle_memory
from checkrail.server import gateway
from checkrail.server.auth import EndWithKey, Guard
from checkrail.server.auth.guard import Custom
from checkrail.server.body_middleware import AssumeJson, BodyLimit
from checkrail.server.deferred import document_app
from checkrail.server.outages import Outages
from checkrail.server.own_app import document_routes, without_middleware, wrap_in_middleware
from checkrail.server.project import Project
from checkrail.server.responses import handle_errors
from checkrail.server.routes import ROUTERS, gateway_calls
from checkrail.server.services import Services
from checkrail.server.startup import open_services
from checkrail.store.health import find_trouble

log = logging.getLogger("checkrail.server")

_OFTEN = ("/runs/wait", "/runs/stream", "/runs")
DESCRIPTION = "Runs of agents, with hooks that nothing can walk around."


def build_app(services: Services, own: Any = None) -> ASGIApp:
    """Build the app of a server that is open; `own` are the user's routes beside ours."""
    disabled = services.config.http.disabled
    app = FastAPI(
        title="Checkrail",
        version=version("checkrail"),
        description=DESCRIPTION,
        openapi_url=None if "meta" in disabled else "/openapi.json",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
    )
    app.openapi = partial(document_app, app)  # type: ignore[method-assign] # as FastAPI's docs do it
    app.state.services = services
    handle_errors(app)
    if services.gateway is not None and "gateway" not in disabled:
        mounted = EndWithKey(services.gateway, services.key_watch)
        app.router.routes.extend(gateway_calls.router.routes)
        app.router.routes.append(Mount(gateway.PATH, mounted, name="gateway"))
    app.router.routes.extend(_ordered_routes(disabled))
    custom: Custom = "none"
    if own is not None:
        app.mount("/", without_middleware(own))
        document_routes(app, own)
        custom = "guarded" if services.config.http.enable_custom_route_auth else "open"
    limit = services.config.limits.body_bytes
    app.add_middleware(AssumeJson)
    app.add_middleware(BodyLimit, most=limit, apart=f"{gateway.PATH}/")
    app.add_middleware(
        Guard,
        authenticator=services.authenticator,
        routes=app.router.routes,
        custom=custom,
        body_limit=limit,
    )
    app.add_middleware(Outages, health=services.database.health)
    cors = services.authenticator.cors
    return wrap_in_middleware(app if cors is None else cors.wrap(app), own)


def _ordered_routes(disabled: Collection[str]) -> list[BaseRoute]:
    """Return the routes in the order in which they are tried: the most frequent come first.

    They are flat, for routers within a router would be looked through twice.
    """
    found = [route for name, router in ROUTERS if name not in disabled for route in router.routes]
    return sorted(found, key=lambda route: not getattr(route, "path", "").endswith(_OFTEN))


Wrap = Callable[[ASGIApp, Services], ASGIApp]
"""Puts pages for people in front of the API."""


class Server:
    """An ASGI app that opens a project when it starts, and closes it when it stops.

    A worker logs why it did not start; of one that is alone, `failed` is for the command to tell.
    """

    def __init__(
        self,
        project: Project,
        *,
        dev: bool = False,
        worker: bool = False,
        wrap: Wrap | None = None,
    ) -> None:
        self.project = project
        self.dev = dev
        self._worker = worker
        self._wrap = wrap
        self.app: ASGIApp | None = None
        self.failed: Exception | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or go through a life of the process."""
        if scope["type"] == "lifespan":
            async with apply_limits(scope, self.project.loaded.server.limits):
                await self._run_lifespan(receive, send)
            return
        assert self.app is not None  # noqa: S101 - no request comes before the start
        await self.app(scope, receive, send)

    async def _run_lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        async with contextlib.AsyncExitStack() as stack:
            try:
                with pause_gc():
                    await stack.enter_async_context(self._open_app())
            except Exception as error:
                self.failed = self._startup_error(error)
                if not isinstance(self.failed, CheckrailError):
                    log.exception("the server did not start")
                elif self._worker:
                    log.error("the server did not start: %s", self.failed)  # noqa: TRY400
                await send({"type": "lifespan.startup.failed", "message": ""})
                return
            if not self.dev:
                settle_memory()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    def _startup_error(self, error: Exception) -> Exception:
        """Return why the server did not start; of a database, what is wrong and where it is."""
        trouble = find_trouble(error)
        if trouble is None:
            return error
        server = self.project.loaded.server
        where = f"in {server.data_dir}" if server.database is None else "of database_url"
        return CheckrailError(f"{trouble.words} ({where}). {trouble.remedy}")

    @contextlib.asynccontextmanager
    async def _open_app(self) -> AsyncIterator[None]:
        own = self._load_own_app()
        async with open_services(self.project, dev=self.dev) as services, _own_lifespan(own):
            app = build_app(services, own)
            self.app = app if self._wrap is None else self._wrap(app, services)
            async with self._watch_files(services):
                yield

    @contextlib.asynccontextmanager
    async def _watch_files(self, services: Services) -> AsyncIterator[None]:
        """Reload what changes, while somebody develops it."""
        if not self.dev:
            yield
            return
        task = asyncio.get_running_loop().create_task(self.project.watch(services))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    def _load_own_app(self) -> Any:
        path = self.project.loaded.server.http.app
        return self.project.loaded.load_object(path, "http.app") if path else None


@contextlib.asynccontextmanager
async def _own_lifespan(own: Any) -> AsyncIterator[None]:
    """Start and shut down the user's own app with ours."""
    router = getattr(own, "router", None)
    if router is None:
        yield
        return
    async with router.lifespan_context(own):
        yield
