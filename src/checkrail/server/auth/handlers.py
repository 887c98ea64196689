"""Calling what users wrote: whatever it does, the answer is a caller, a filter or a refusal."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from langgraph_sdk import Auth
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from checkrail.engine.containment import contain_errors
from checkrail.engine.errors import error_type
from checkrail.server.auth.errors import AuthConfigError, AuthError
from checkrail.server.auth.request import PARAMETERS

log = logging.getLogger("checkrail.server.auth")

Handler = Callable[..., Any]


def find_authenticate_handler(auth: Auth) -> Handler:
    """Return the handler that says who is calling."""
    handler: Handler | None = auth._authenticate_handler  # noqa: SLF001 - kept stable for servers
    if handler is None:
        raise AuthConfigError(
            "the Auth object has no authentication handler",
            "Write one and decorate it with @auth.authenticate",
        )
    return handler


def handler_parameters(handler: Handler) -> frozenset[str]:
    """Return which parameters a handler takes, and refuse those that nobody could fill."""
    parameters = inspect.signature(handler).parameters.values()
    named = [
        each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    for each in named:
        unknown = each.name not in PARAMETERS and each.default is each.empty
        if unknown or each.kind is each.POSITIONAL_ONLY:
            raise AuthConfigError(
                f"the authentication handler {_handler_name(handler)!r} has a parameter "
                f"{each.name!r}, and a request has nothing to give it",
                f"Handlers are given, by name: {', '.join(sorted(PARAMETERS))}",
            )
    return PARAMETERS & {each.name for each in named}


def find_authorization_handler(auth: Auth, resource: str, action: str) -> Handler | None:
    """Find the most specific handler: for both, the resource, the action, everything."""
    handlers = auth._handlers  # noqa: SLF001 - kept stable for servers
    for key in ((resource, action), (resource, "*"), ("*", action)):
        if found := handlers.get(key):
            return found[-1]
    everything = auth._global_handlers  # noqa: SLF001
    return everything[-1] if everything else None


async def call_handler(handler: Handler, arguments: Mapping[str, Any]) -> Any:
    """Call a handler; a plain function may block, so it gets a thread."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object with an async __call__
    ):
        return await handler(**arguments)
    returned = await run_in_threadpool(handler, **arguments)
    return await returned if inspect.isawaitable(returned) else returned


@asynccontextmanager
async def translate_errors(handler: Handler, refused: type[AuthError]) -> AsyncIterator[None]:
    """Turn what a handler raises into a refusal; an assertion that fails is its way to refuse."""
    try:
        with contain_errors():
            yield
    except AuthError:
        raise
    except AssertionError as said:
        raise refused(str(said) or HTTPStatus(refused.status).phrase) from None
    except (Auth.exceptions.HTTPException, HTTPException) as said:
        raise _to_refusal(said) from None
    except Exception as failure:  # noqa: BLE001 - a handler that fails lets nobody through
        raise _log_failure(handler, failure) from None


def _to_refusal(said: Auth.exceptions.HTTPException | HTTPException) -> AuthError:
    text = isinstance(said.detail, str)
    status = _refusal_status(said.status_code)
    return AuthError(
        said.detail if text else _status_phrase(status),
        status=status,
        error={401: "unauthenticated", 403: "forbidden", 404: "not_found"}.get(status, "refused"),
        detail=None if text else said.detail,
        headers=said.headers,
    )


def _refusal_status(given: object) -> int:
    """Return a status that refuses or leads elsewhere; 500 for any other, such as of success."""
    return given if isinstance(given, int) and 300 <= given <= 599 else 500


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"


def _log_failure(handler: Handler, failure: Exception) -> AuthError:
    """Log where a handler failed, and return the refusal, without the error's text."""
    where = traceback.extract_tb((failure.__cause__ or failure).__traceback__)[-1]
    log.error(
        "auth handler %r raised %s in %s, line %s",
        _handler_name(handler),
        error_type(failure),
        where.filename,
        where.lineno,
    )
    return AuthError(
        f"The server's auth handler {_handler_name(handler)!r} failed; its log says where"
    )


def _handler_name(handler: Handler) -> str:
    return getattr(handler, "__name__", type(handler).__name__)
