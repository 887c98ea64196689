"""Conversations: messages taken in for their senders, and followed until they are replied to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection

from checkrail.engine.values import User
from checkrail.runs.admit.requests import Principal
from checkrail.runs.approvals import APPROVAL
from checkrail.runs.errors import InvalidError, NotFoundError
from checkrail.server.auth import Forbidden, caller_of
from checkrail.server.fields import JsonObject, Metadata, Name, Text
from checkrail.server.lookups import (
    check_thread,
    find_session,
    owner_without_metadata,
    to_text,
)
from checkrail.server.renderers import render_message
from checkrail.server.services import Services
from checkrail.sessions.incoming import Incoming
from checkrail.store import approvals, messages
from checkrail.store.events import RunEvent
from checkrail.store.messages import REPLYING, RUNNING, WAITING, Message
from checkrail.times import uuid7

Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,50}$")]
ExternalId = Annotated[Name, Field(min_length=1, max_length=255)]


class MessageFields(BaseModel):
    """What somebody says to an agent, and where it belongs."""

    model_config = ConfigDict(extra="forbid")

    content: Annotated[Text, Field(min_length=1)]
    agent_name: Annotated[Name, Field(min_length=1)] | None = None
    channel: Label
    user_id: Annotated[Name, Field(min_length=1, max_length=255)] | None = None
    session_id: UUID | None = None
    parent_session_id: UUID | None = None
    thread_id: UUID | None = None
    attachments: Annotated[list[JsonObject], Field(max_length=100)] = Field(default_factory=list)
    metadata: Metadata | None = None


async def accept_message(
    connection: HTTPConnection, served: Services, said: MessageFields, external_id: str | None
) -> Message:
    """Store a message for its sender, once the auth handlers have agreed."""
    if said.channel in served.sessions.host.channels:
        raise InvalidError(
            f"{said.channel!r} is a channel of this project that has its own way in. "
            "Say another channel, or none"
        )
    told: dict[str, Any] = {"thread_id": said.thread_id, "metadata": dict(said.metadata or {})}
    told["kwargs"] = {"input": {"content": said.content}}
    asker = await served.principal(connection, "messages", "create_run", told)
    sender = _find_sender(connection, asker, said.user_id)
    if said.thread_id is not None:
        await check_thread(connection, served, said.thread_id, "create_run")
    for session_id in (said.session_id, said.parent_session_id):
        if session_id is not None and await served.sessions.has_session(str(session_id)):
            await find_session(connection, served, session_id, "read")
    given = (told.get("kwargs") or {}).get("input") or {}
    return await served.sessions.accept(
        Incoming(
            channel=said.channel,
            account=sender.owner_of_new,
            external_id=external_id or uuid7(),
            sender=sender,
            text=given.get("content", said.content),
            agent_name=said.agent_name,
            session_id=to_text(said.session_id),
            parent_session_id=to_text(said.parent_session_id),
            thread_id=to_text(said.thread_id),
            attachments=said.attachments,
            metadata=said.metadata or {},
            place_metadata={
                key: value
                for key, value in (told.get("metadata") or {}).items()
                if key not in (said.metadata or {})
            },
        )
    )


def _find_sender(connection: HTTPConnection, asker: Principal, user_id: str | None) -> Principal:
    """Return who says something: the caller, or for admins whoever they name."""
    caller = caller_of(connection)
    if user_id is None or user_id == caller.owner:
        return asker
    if not caller.is_admin:
        raise Forbidden("Only admins say something for somebody else. Leave user_id out")
    return Principal(User(user_id), has_quotas=asker.has_quotas)


async def find_message(connection: HTTPConnection, served: Services, message_id: UUID) -> Message:
    """Return a message; those of others do not exist for the caller."""
    asker = await served.principal(connection, "messages", "read", {"message_id": message_id})
    row = await served.database.read(lambda reads: messages.get(reads, str(message_id)))
    if row is None or owner_without_metadata(asker) not in (None, row.owner):
        raise NotFoundError(f"message {str(message_id)!r} not found")
    return row


class Frame(NamedTuple):
    """Something that happened to a message: `message`, `delta`, `status` or `reply`."""

    name: str
    data: dict[str, Any]


async def message_frames(served: Services, row: Message) -> AsyncGenerator[Frame | None]:
    """Yield a message, its reply as it is made where no hook may still change it, and its end.

    None says that for a while there was nothing.
    """
    yield Frame("message", render_message(row))
    status, is_told = "", False
    async with contextlib.aclosing(served.sessions.follow_message(row.message_id)) as changes:
        async for now in changes:
            if now.ended_at is None:
                yield None if now.status == status else await _status_frame(served, now)
                status = now.status
            if not is_told and (now.ended_at is not None or status in (RUNNING, REPLYING)):
                is_told = True
                async with contextlib.aclosing(_run_frames(served, now)) as frames:
                    async for frame in frames:
                        yield frame
            if now.ended_at is not None:
                yield Frame("reply", render_message(now))


async def _status_frame(served: Services, row: Message) -> Frame:
    data: dict[str, Any] = {"status": row.status}
    if row.status == WAITING:
        data["approval_ids"] = await served.database.read(
            lambda reads: approvals.open_of_request(reads, row.message_id)
        )
    return Frame("status", data)


async def _run_frames(served: Services, row: Message) -> AsyncGenerator[Frame | None]:
    """Yield the text of a message's run, if it may be shown, and whether the run waits."""
    can_stream, asks = served.sessions.can_stream(row), False
    async with contextlib.aclosing(served.runs.follow(row.run_id)) as batches:
        async for batch in batches:
            for event in batch:
                if event.event == APPROVAL:
                    asks = True
                    yield Frame("status", _waiting_status(event))
                elif asks:
                    asks = False
                    yield Frame("status", {"status": RUNNING})
                if can_stream and (text := _text_of(event)):
                    yield Frame("delta", {"text": text})
            if not batch:
                yield None


def _waiting_status(event: RunEvent) -> dict[str, Any]:
    return {"status": WAITING, "approval_ids": [event.data["approval_id"]]}


def _text_of(event: RunEvent) -> str | None:
    """Return the text that a run's agent says with an event."""
    if event.event != "messages" or event.ns:
        return None
    content = event.data[0].get("content")
    return content if isinstance(content, str) else None
