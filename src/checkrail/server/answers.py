"""Answers: JSON as the rest of the server writes it, and errors in one shape."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from checkrail.runs import jsons
from checkrail.runs.errors import RequestError
from checkrail.runs.graphs.factories import GraphError
from checkrail.runs.graphs.loading import UnknownGraphError
from checkrail.server.auth import AuthError, auth_error_response

log = logging.getLogger("checkrail.server")


class Json(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write the content; bytes are JSON already."""
        return content if isinstance(content, bytes) else jsons.dumps(content)


def problem(
    status: int,
    error: str,
    message: str,
    detail: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Json:
    """Give an error in the one shape that all errors have."""
    body = {"error": error, "message": message, "detail": detail}
    return Json(body, status_code=status, headers=dict(headers or {}))


def handle_errors(app: FastAPI) -> None:
    """Answer every error of the routes in one shape."""
    app.add_exception_handler(AuthError, auth_error_response)
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(UnknownGraphError, _unknown_graph)
    app.add_exception_handler(GraphError, _broken_graph)
    app.add_exception_handler(Exception, _unexpected)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # noqa: S101 - registered for it
    return problem(error.status, error.error, error.message, error.detail)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = [
        {"path": [*item["loc"]], "message": item["msg"], "type": item["type"]}
        for item in error.errors()
    ]
    first = found[0]
    where = ".".join(str(part) for part in first["path"])
    return problem(422, "invalid", f"The request does not fit: {where}: {first['message']}", found)


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    return problem(
        error.status_code, "http_error", str(error.detail), headers=getattr(error, "headers", None)
    )


async def _unknown_graph(_request: Request, error: Exception) -> Response:
    return problem(404, "not_found", str(error))


async def _broken_graph(_request: Request, error: Exception) -> Response:
    return problem(422, "invalid", str(error))


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    kind = type(error).__name__
    return problem(500, "internal", f"The server failed at this ({kind}). Its log tells more")
