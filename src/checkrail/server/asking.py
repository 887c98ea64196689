"""Asking for runs: whether the caller may, and then the hooks and the thread."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.requests import HTTPConnection, Request

from checkrail.actions.outbound_errors import OutboundRefused
from checkrail.runs.errors import InvalidError, NotFoundError
from checkrail.runs.requests import Asker, Idempotency, RunRequest
from checkrail.server.auth import matches
from checkrail.server.bodies import RunBody
from checkrail.server.services import Services
from checkrail.store import threads
from checkrail.store.rows import Row


async def admitted(
    request: Request,
    served: Services,
    bodies: Sequence[tuple[RunBody, str | None]],
    key: str | None,
) -> list[Row]:
    """Admit the runs that a request asks for, each on a thread or on none; all of them or none."""
    if not bodies:
        raise InvalidError("a batch has at least one run")
    wanted = [body.request(thread_id) for body, thread_id in bodies]
    once = await once_of(request, key)
    return await ask(request, served, wanted, once)


async def ask(
    connection: HTTPConnection,
    served: Services,
    wanted: Sequence[RunRequest],
    once: Idempotency | None = None,
) -> list[Row]:
    """Ask the auth handlers about runs, and admit them as those left them."""
    asked = [await _authorized(connection, served, each) for each in wanted]
    asker = asked[0][1]
    return await served.runs.admit([request for request, _ in asked], asker, once)


async def _authorized(
    connection: HTTPConnection, served: Services, asked: RunRequest
) -> tuple[RunRequest, Asker]:
    if asked.thread_id is None and (asked.command or {}).get("resume") is not None:
        raise InvalidError("a run without a thread resumes nothing. Name the thread that waits")
    value = _value(asked)
    asker = await served.asker(connection, "threads", "create_run", value)
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


def _value(asked: RunRequest) -> dict[str, Any]:
    """Tell an auth handler of a run, in the words of `langgraph_sdk.auth.types.RunsCreate`."""
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


async def _check_filters(served: Services, thread_id: str, asker: Asker) -> None:
    """See that a thread is one that the auth handlers let the caller touch."""
    if asker.filters is None:
        return
    thread = await served.database.read(lambda reads: threads.get(reads, thread_id))
    if thread is not None and not matches(asker.filters, thread["metadata"]):
        raise NotFoundError(f"thread {thread_id!r} not found")


async def once_of(request: Request, key: str | None) -> Idempotency | None:
    """Return what makes a request safe to repeat, if its client said a key for that."""
    if not key:
        return None
    body = await request.body()
    return Idempotency(key, request.url.path, hashlib.sha256(body).hexdigest())
