"""Asking for runs: whether the caller may, and then the hooks and the thread."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.requests import HTTPConnection, Request

from checkrail.actions.errors import OutboundRefused
from checkrail.runs.admit.requests import Idempotency, Principal, RunRequest
from checkrail.runs.errors import InvalidError, NotFoundError
from checkrail.server.auth import matches_filter
from checkrail.server.run_bodies import RunBody
from checkrail.server.services import Services
from checkrail.store import threads
from checkrail.store.runs import Run


async def admit_request(
    request: Request,
    served: Services,
    bodies: Sequence[tuple[RunBody, str | None]],
    key: str | None,
) -> list[Run]:
    """Admit the runs of a request, each on a thread or on none; all of them or none."""
    if not bodies:
        raise InvalidError("a batch has at least one run")
    wanted = [body.to_request(thread_id) for body, thread_id in bodies]
    once = await idempotency_of(request, key)
    return await authorize_and_admit(request, served, wanted, once)


async def authorize_and_admit(
    connection: HTTPConnection,
    served: Services,
    wanted: Sequence[RunRequest],
    once: Idempotency | None = None,
) -> list[Run]:
    """Call the auth handlers about runs, and admit them as those left them."""
    asked = [await _authorize_run(connection, served, each) for each in wanted]
    asker = asked[0][1]
    return await served.runs.admit([request for request, _ in asked], asker, once)


async def _authorize_run(
    connection: HTTPConnection, served: Services, asked: RunRequest
) -> tuple[RunRequest, Principal]:
    if asked.thread_id is None and (asked.command or {}).get("resume") is not None:
        raise InvalidError("a run without a thread resumes nothing. Name the thread that waits")
    value = _auth_value(asked)
    asker = await served.principal(connection, "threads", "create_run", value)
    if asked.webhook is not None:
        _check_webhook(served, asked.webhook)
    if asked.thread_id is not None:
        await _check_filters(served, asked.thread_id, asker)
    kwargs = value.get("kwargs") or {}
    allowed = replace(
        asked,
        metadata=value.get("metadata") or {},
        input=kwargs.get("input"),
        command=kwargs.get("command"),
        config=kwargs.get("config") or {},
    )
    return allowed, asker


def _auth_value(asked: RunRequest) -> dict[str, Any]:
    """Return a run as an auth handler gets it: `langgraph_sdk.auth.types.RunsCreate`."""
    return {
        "thread_id": UUID(asked.thread_id) if asked.thread_id else None,
        "assistant_id": asked.assistant_id,
        "run_id": None,
        "status": "pending",
        "metadata": dict(asked.metadata),
        "prevent_insert_if_inflight": asked.multitask_strategy == "reject",
        "multitask_strategy": asked.multitask_strategy,
        "if_not_exists": asked.if_not_exists,
        "after_seconds": asked.after_seconds,
        "kwargs": {"input": asked.input, "command": asked.command, "config": dict(asked.config)},
    }


def _check_webhook(served: Services, url: str) -> None:
    """Refuse at once what would never be sent."""
    try:
        served.runs.parts.outbound.check(url)
    except OutboundRefused as error:
        raise InvalidError(f"the webhook cannot be called: {error}") from None


async def _check_filters(served: Services, thread_id: str, asker: Principal) -> None:
    """Check that a thread is one that the auth handlers let the caller touch."""
    if asker.filters is None:
        return
    thread = await served.database.read(lambda reads: threads.get(reads, thread_id))
    if thread is not None and not matches_filter(asker.filters, thread.metadata):
        raise NotFoundError(f"thread {thread_id!r} not found")


async def idempotency_of(request: Request, key: str | None) -> Idempotency | None:
    """Return what makes a request safe to repeat, if its client sent a key for that."""
    if not key:
        return None
    body = await request.body()
    return Idempotency(key, request.url.path, hashlib.sha256(body).hexdigest())
