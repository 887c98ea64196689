"""Refusals in ways that a LiteLLM proxy passes on as an error of the caller's API."""

from __future__ import annotations

import importlib
from typing import Any

from checkrail.gateway.formats.base import Format, Refusal
from checkrail.gateway.formats.json_bytes import write_json
from checkrail.gateway.formats.messages import Messages
from checkrail.gateway.formats.responses import Responses
from checkrail.gateway.headers import retry_after
from checkrail.gateway.sse import event


class CallRefusedError(Exception):
    """A call that hooks refused, with the fields that LiteLLM writes its error from."""

    def __init__(self, form: Format, refusal: Refusal) -> None:
        self.status_code = refusal.status
        self.message = refusal.message
        self.type = form.error(refusal)["error"]["type"]
        self.code = refusal.code or str(refusal.status)
        self.param = None
        self.headers = _headers(refusal)
        super().__init__(refusal.message)


def refused_before(form: Format, refusal: Refusal, *, plain: bool = False) -> Exception:
    """Return what to raise where no stream has begun.

    LiteLLM tells the status in place of a code; ours is in the `provider_specific_fields`, but on
    routes that write errors in a `plain` way.
    """
    if not plain and form.name == Messages.name and refusal.retry_after is not None:
        return _with_headers(form, refusal)
    if plain or form.name == Messages.name:
        return CallRefusedError(form, refusal)
    from fastapi import HTTPException  # LiteLLM's proxy has it

    return HTTPException(refusal.status, form.error(refusal), _headers(refusal))


def _with_headers(form: Format, refusal: Refusal) -> Exception:
    """Return what to raise on a route that takes headers from LiteLLM's own errors alone."""
    kind: Any = importlib.import_module("litellm.proxy._types").ProxyException
    error = CallRefusedError(form, refusal)
    raised: Exception = kind(error.message, error.type, None, refusal.status, error.headers)
    return raised


def _headers(refusal: Refusal) -> dict[str, str]:
    wait = retry_after(refusal.retry_after)
    return {} if wait is None else {"Retry-After": wait}


def not_here(told: str) -> Exception:
    """Return what to raise for a way that is shut; any route of LiteLLM can pass that on."""
    from fastapi import HTTPException

    return HTTPException(403, detail=told)


def failed_with(form: Format, refusal: Refusal) -> Exception | bytes:
    """Return what to raise or to send in place of a stream, so that the status is told.

    On responses LiteLLM takes it from the `code` of an error that comes first, and from none else.
    """
    if form.name != Responses.name:
        return CallRefusedError(form, refusal)
    error = form.error(refusal)["error"] | {"code": str(refusal.status)}
    return event(write_json({"error": error}))
