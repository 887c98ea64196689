"""Messages: what people say to agents over HTTP, and what they are replied."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from checkrail.runs import jsons
from checkrail.runs.errors import NotFoundError, RequestError
from checkrail.server.auth import caller_of
from checkrail.server.conversations import (
    ExternalId,
    Label,
    MessageFields,
    accept_message,
    find_message,
    message_frames,
)
from checkrail.server.deferred import Router
from checkrail.server.fields import Limit
from checkrail.server.lookups import owner_without_metadata, to_text
from checkrail.server.openapi_models import PROBLEMS, STREAM, Answers, Delivery
from checkrail.server.renderers import render_delivery, render_message
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import DeferredJson, EventStream, reserve_stream
from checkrail.server.streams.sse import encode_frame
from checkrail.sessions.replies import REPLY
from checkrail.sessions.session_service import last_of
from checkrail.store import deliveries, messages
from checkrail.store.database import Reads
from checkrail.store.messages import RECEIVED

router = Router(tags=["messages"])

Served = Annotated[Services, Depends(services_of)]
MessageStatus = Literal[
    "received",
    "running",
    "replying",
    "waiting",
    "answered",
    "blocked",
    "withheld",
    "failed",
    "cancelled",
    "joined",
]

HTTP = "http"
"""The channel of messages whose sender names none."""


class MessageBody(MessageFields):
    """Something to say to an agent.

    The same `message_id` twice is the same message. Without a `session_id` it belongs to the
    session that its sender has on the channel, and without a `thread_id` to its last thread.
    Admins may say something for somebody else, by `user_id`. With `wait: false` the reply is not
    waited for.
    """

    message_id: ExternalId | None = None
    channel: Label = HTTP
    wait: bool = True


class Refusal(BaseModel, defer_build=True):
    """Why a message or its reply went no further."""

    reason: str
    status: int
    point: str | None = None
    hook: str | None = None
    code: str | None = None
    retry_after: float | None = None


class Message(BaseModel, defer_build=True):
    """What somebody said, and what became of it."""

    message_id: str
    external_id: str
    channel: str
    user_id: str | None
    session_id: str
    thread_id: str
    run_id: str
    agent_name: str
    content: str
    attachments: list[Any]
    metadata: dict[str, Any]
    status: MessageStatus
    reply: str | None
    refusal: Refusal | None
    error: str | None
    joined_to: str | None
    created_at: str
    updated_at: str
    ended_at: str | None


class WholeMessage(Message):
    """A message with the parts of its reply as they are sent on its channel."""

    deliveries: list[Delivery]


MESSAGE: Answers = {200: {"model": Message}, 202: {"model": Message}, **PROBLEMS}
FOUND: Answers = {200: {"model": WholeMessage}, **PROBLEMS}
LISTED: Answers = {200: {"model": list[Message]}, **PROBLEMS}


@router.post("/messages", responses=MESSAGE)
async def send_message(request: Request, served: Served, body: MessageBody) -> Response:
    """Say something to an agent, and get its reply; a refusal has the status of its hook."""
    if not body.wait:
        row = await accept_message(request, served, body, body.message_id)
        return JsonResponse(render_message(row), status_code=202)
    with reserve_stream(served):
        row = await accept_message(request, served, body, body.message_id)
        changes = served.sessions.follow_message(row.message_id)
        row = await _wait_for_run(changes)
    return DeferredJson(served, _ended_message(row, changes), _location(row), placed=True)


@router.post("/messages/stream", responses=STREAM)
async def stream_message(request: Request, served: Served, body: MessageBody) -> Response:
    """Say something to an agent, and follow its reply as it is made."""
    with reserve_stream(served):
        row = await accept_message(request, served, body, body.message_id)
        async with contextlib.aclosing(served.sessions.follow_message(row.message_id)) as changes:
            row = await _wait_for_run(changes)
    return EventStream(served, _encode_frames(served, row), _location(row), placed=True)


@router.get("/messages", responses=LISTED)
async def list_messages(
    request: Request,
    served: Served,
    limit: Limit = 20,
    before: Annotated[UUID | None, Query()] = None,
    session_id: Annotated[UUID | None, Query()] = None,
    thread_id: Annotated[UUID | None, Query()] = None,
    channel: Annotated[Label | None, Query()] = None,
    status: Annotated[MessageStatus | None, Query()] = None,
) -> Response:
    """List messages, the newest first; the next page are those `before` the last of this one."""
    asker = await served.principal(request, "messages", "search", {"metadata": {}})
    owner = owner_without_metadata(asker)

    def find_page(reads: Reads) -> list[messages.Message]:
        last = None if before is None else messages.get(reads, str(before))
        if before is not None and (last is None or owner not in (None, last.owner)):
            raise NotFoundError(f"message {str(before)!r} to go on from was not found")
        return messages.search(
            reads,
            owner=owner,
            session_id=to_text(session_id),
            thread_id=to_text(thread_id),
            channel=channel,
            status=status,
            before=None if last is None else last.seq,
            limit=limit,
        )

    return JsonResponse([render_message(row) for row in await served.database.read(find_page)])


@router.get("/messages/{message_id}", responses=FOUND)
async def get_message(request: Request, served: Served, message_id: UUID) -> Response:
    """Return a message, and what has become of it so far."""
    row = await find_message(request, served, message_id)
    owed = await served.database.read(lambda reads: deliveries.of_run(reads, row.run_id))
    whole = caller_of(request).is_admin
    sent = [render_delivery(each, whole=whole) for each in owed if each.kind == REPLY]
    return JsonResponse(render_message(row) | {"deliveries": sent})


async def _wait_for_run(changes: AsyncGenerator[messages.Message]) -> messages.Message:
    """Return a message when it is known whether it has a run; raise what refused it one."""
    async for row in changes:
        if row.status not in (RECEIVED, "replying"):
            break
    if row.ended_at is not None and row.refusal is not None and row.refusal["point"] in _BEFORE:
        await changes.aclose()
        raise _RefusedMessage(row)
    return row


_BEFORE = ("on_session_start", "before_inbound", "before_run", "admission")
"""Where a refusal leaves a message without a run."""


_UNSAID = "this message was refused, and a hook withholds why"


class _RefusedMessage(RequestError):
    """A message has no run: a hook refused it, or the run could not be admitted."""

    error = "refused"

    def __init__(self, row: messages.Message) -> None:
        refusal = row.refusal
        super().__init__(
            (row.reply if row.status == "blocked" else row.error) or _UNSAID,
            {"message_id": row.message_id, "session_id": row.session_id}
            | {"blocked_by": refusal["hook"], "code": refusal["code"]},
            status=refusal["status"],
            retry_after=refusal["retry_after"],
        )


async def _ended_message(row: messages.Message, changes: AsyncGenerator[messages.Message]) -> bytes:
    async with contextlib.aclosing(changes):
        ended = row if row.ended_at is not None else await last_of(changes)
    return jsons.dumps(render_message(ended))


async def _encode_frames(served: Services, row: messages.Message) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(message_frames(served, row)) as frames:
        async for frame in frames:
            yield b"" if frame is None else encode_frame(None, frame.name, frame.data)


def _location(row: messages.Message) -> dict[str, str]:
    return {"content-location": f"/messages/{row.message_id}"}
