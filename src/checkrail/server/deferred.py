"""Routes that FastAPI prepares when they are needed: all at once would be a fifth of a start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send


class DeferredRoute(Route):
    """A route that is found by its path and method at once, and prepared at its first request."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint)
        self.methods = set(options["methods"])  # Starlette would add HEAD to GET
        self._options = options

    @cached_property
    def prepared(self) -> BaseRoute:
        """The route with its parameters, body and answers as FastAPI reads them."""
        router = APIRouter()
        router.add_api_route(self.path, self.endpoint, **self._options)
        [route] = router.routes
        return route

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["route"] = self.prepared
        await self.prepared.handle(scope, receive, send)


class Router(APIRouter):
    """A router whose routes are prepared when they are needed."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route; its router's tags come before its own."""
        options["tags"] = [*self.tags, *(options["tags"] or ())]
        options["include_in_schema"] = options["include_in_schema"] and self.include_in_schema
        self.routes.append(DeferredRoute(path, endpoint, **options))


def document_app(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an app, which is made once."""
    if app.openapi_schema is None:
        app.openapi_schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=prepared_routes(app.routes),
        )
    return app.openapi_schema


def prepared_routes(routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return routes with those that were deferred as FastAPI reads them."""
    return [each.prepared if isinstance(each, DeferredRoute) else each for each in routes]
