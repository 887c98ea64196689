"""The user's own app beside ours: its routes, its middleware, its part of the OpenAPI document."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

_SCHEMAS = "#/components/schemas/"


def without_middleware(own: Any) -> Any:
    """Return the app with its routes and handlers alone, for its middleware is around it all."""
    if not getattr(own, "user_middleware", None):
        return own
    bare = copy.copy(own)
    bare.user_middleware = []
    bare.middleware_stack = None
    return bare


def wrap_in_middleware(app: ASGIApp, own: Any) -> ASGIApp:
    """Put the middleware of the user's app around the whole server, its first one outermost."""
    layers = getattr(own, "user_middleware", None)
    if not layers:
        return app
    for layer in reversed(layers):
        app = layer.cls(app, *layer.args, **layer.kwargs)
    handlers = own.exception_handlers
    handler = handlers.get(500) or handlers.get(Exception)
    return _AppMarker(ServerErrorMiddleware(app, handler, own.debug), own)


class _AppMarker:
    """Says to the middleware of an app whose it is."""

    def __init__(self, app: ASGIApp, own: Any) -> None:
        self._app = app
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self._own
        await self._app(scope, receive, send)


def document_routes(app: FastAPI, own: Any) -> None:
    """Add the routes of the user's app to the OpenAPI document of ours, which come first."""
    ours = app.openapi

    def merged_openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _merge_documents(ours(), _own_document(own))
        return app.openapi_schema

    app.openapi_schema = None
    app.openapi = merged_openapi  # type: ignore[method-assign] # as FastAPI's docs do it


def _own_document(own: Any) -> Mapping[str, Any]:
    if isinstance(own, FastAPI):
        return own.openapi()
    return {"paths": _document_paths(getattr(own, "routes", ()))}


def _document_paths(routes: Iterable[Any]) -> dict[str, Any]:
    """Describe the routes of a Starlette app, of which no more is known than what they are."""
    found: dict[str, Any] = {}
    for route in routes:
        if not isinstance(route, Route) or not route.include_in_schema:
            continue
        said = (inspect.getdoc(route.endpoint) or "").partition("\n")[0]
        told = {"summary": said or route.name, "responses": {"200": {"description": "OK"}}}
        methods = (route.methods or {"GET"}) - {"HEAD"}
        found.setdefault(route.path_format, {}).update(
            {method.lower(): told for method in sorted(methods)}
        )
    return found


def _merge_documents(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return both documents in one; schemas that are called the same are renamed."""
    schemas = ours.get("components", {}).get("schemas", {})
    theirs = _rename_clashes(theirs, schemas)
    added = theirs.get("components", {})
    components = {**ours.get("components", {})}
    for kind, named in added.items():
        components[kind] = {**named, **components.get(kind, {})}
    paths = {**ours["paths"]}
    for path, operations in theirs.get("paths", {}).items():
        paths[path] = {**operations, **paths.get(path, {})}
    return {**ours, "paths": paths, "components": components}


def _rename_clashes(theirs: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    named = theirs.get("components", {}).get("schemas", {})
    clashes = [name for name, schema in named.items() if known.get(name, schema) != schema]
    if not clashes:
        return theirs
    text = json.dumps(theirs)
    for name in clashes:
        text = text.replace(f'"{_SCHEMAS}{name}"', f'"{_SCHEMAS}Own{name}"')
    document: dict[str, Any] = json.loads(text)
    schemas = document["components"]["schemas"]
    for name in clashes:
        schemas[f"Own{name}"] = schemas.pop(name)
    return document
