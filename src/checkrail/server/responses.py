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

from checkrail.gateway.headers import format_retry_after
from checkrail.runs import jsons
from checkrail.runs.errors import RequestError
from checkrail.runs.graphs.factories import GraphError
from checkrail.runs.graphs.loader import UnknownGraphError
from checkrail.server.auth import AuthError, auth_error_response
from checkrail.server.auth.errors import error_body

log = logging.getLogger("checkrail.server")


class JsonResponse(Response):
    """A JSON response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write the content; bytes are JSON already."""
        return content if isinstance(content, bytes) else jsons.dumps(content)


def page_headers(found: int, limit: int, offset: int) -> dict[str, str]:
    """Return where the next page begins, and how many there are as far as one more was looked for.

    The names and the numbers are those of LangGraph's own server.
    """
    headers = {"X-Pagination-Total": str(offset + found)}
    return headers | ({"X-Pagination-Next": str(offset + limit)} if found > limit else {})


def error_response(
    status: int,
    error: str,
    message: str,
    detail: Any = None,
    headers: Mapping[str, str] | None = None,
) -> JsonResponse:
    """Return an error in the one shape that all errors have."""
    body = error_body(error, message, detail)
    return JsonResponse(body, status_code=status, headers=dict(headers or {}))


def handle_errors(app: FastAPI) -> None:
    """Answer every error of the routes in one shape."""
    app.add_exception_handler(AuthError, auth_error_response)  # type: ignore[arg-type] # of both
    app.add_exception_handler(RequestError, _answer_request_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(UnknownGraphError, _answer_unknown_graph)
    app.add_exception_handler(GraphError, _answer_broken_graph)
    app.add_exception_handler(Exception, _answer_unexpected)


async def _answer_request_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # noqa: S101 - registered for it
    return error_response(
        error.status, error.error, error.message, error.detail, error_headers(error)
    )


def error_headers(error: RequestError) -> dict[str, str]:
    """Return the headers that an error is answered with."""
    wait = format_retry_after(error.retry_after)
    return {} if wait is None else {"Retry-After": wait}


async def _answer_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = [
        {"path": [*item["loc"]], "message": item["msg"], "type": item["type"]}
        for item in error.errors()
    ]
    first = found[0]
    where = ".".join(str(part) for part in first["path"])
    return error_response(
        422, "invalid", f"The request does not fit: {where}: {first['message']}", found
    )


async def _answer_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    return error_response(
        error.status_code, "http_error", str(error.detail), headers=getattr(error, "headers", None)
    )


async def _answer_unknown_graph(_request: Request, error: Exception) -> Response:
    assert isinstance(error, UnknownGraphError)  # noqa: S101 - registered for it
    return error_response(404, "not_found", str(UnknownGraphError(error.name)))


async def _answer_broken_graph(_request: Request, error: Exception) -> Response:
    return error_response(422, "invalid", str(error))


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    kind = type(error).__name__
    return error_response(
        500, "internal", f"The server failed to answer this request ({kind}): its log says why"
    )
