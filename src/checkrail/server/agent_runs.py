"""Runs of agents by name, in sessions and in three modes, as the coordinator's clients ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator
from starlette.requests import Request
from starlette.responses import Response

from checkrail.runs import jsons
from checkrail.runs.admit.requests import RunRequest
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.server.fields import JsonObject, Metadata, Name, Text
from checkrail.server.lookups import find_session
from checkrail.server.renderers import render_ended_run, run_path
from checkrail.server.responses import JsonResponse
from checkrail.server.run_requests import RunBody, Strategy, authorize_and_admit, idempotency_of
from checkrail.server.services import Services
from checkrail.server.streaming import DeferredJson, reserve_stream
from checkrail.store import sessions
from checkrail.store.runs import Run

AgentName = Annotated[Name, Field(min_length=1)]
Tag = Annotated[str, Field(pattern=r"^[\w.\-]+$", max_length=100)]
Timeout = Annotated[float, Field(gt=0, le=10 * 365 * 86_400, allow_inf_nan=False)]
Mode = Literal["sync", "async_poll", "async_callback"]


class AgentRunBody(BaseModel):
    """A run of an agent by its name.

    `sync` answers when the run has ended, `async_poll` at once, and `async_callback` too: the end
    of the run then resumes the session `parent_session_id`. `scope` is context that tools and
    hooks see and no model does; runs that follow from this one inherit it.
    """

    model_config = ConfigDict(extra="forbid")

    agent_name: AgentName
    parameters: JsonObject = Field(default_factory=dict)
    session_id: UUID | None = None
    parent_session_id: UUID | None = None
    execution_mode: Mode = "async_poll"
    timeout_seconds: Timeout | None = None
    demands: Annotated[list[Tag], Field(max_length=8)] = Field(default_factory=list)
    scope: JsonObject | None = None
    metadata: Metadata | None = None
    multitask_strategy: Strategy = "enqueue"
    webhook: Name | None = None

    def to_request(self, thread_id: str | None) -> RunRequest:
        """Return the run that is requested; without a thread, in a session of its own."""
        parent = None if self.parent_session_id is None else str(self.parent_session_id)
        calls_back = self.execution_mode == "async_callback"
        return RunRequest(
            assistant_id=self.agent_name,
            thread_id=thread_id,
            input=self.parameters,
            session_id=None if self.session_id is None else str(self.session_id),
            parent_session_id=parent,
            keep_thread=True,
            channel="api",
            timeout_seconds=self.timeout_seconds,
            demands=tuple(self.demands),
            scope=self.scope,
            metadata=self.metadata or {},
            multitask_strategy=self.multitask_strategy,
            webhook=self.webhook,
            notify_on_end={"session_id": parent} if calls_back else None,
        )


class Resumption(BaseModel):
    """A prompt for a session: its agent runs again."""

    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[Text, Field(min_length=1)]
    execution_mode: Literal["sync", "async_poll"] = "async_poll"
    metadata: Metadata | None = None


def _choose_body(given: Any, inner: ValidatorFunctionWrapHandler) -> Any:
    """Read a body by what it names: an agent is our own word, an assistant LangGraph's."""
    if not isinstance(given, Mapping):
        return inner(given)
    if ("agent_name" in given) == ("assistant_id" in given):
        found = "both of them" if "agent_name" in given else "neither"
        raise ValueError(f"say agent_name or assistant_id, and not {found}")
    kind = AgentRunBody if "agent_name" in given else RunBody
    return kind.model_validate(given)


AnyRunBody = Annotated[RunBody | AgentRunBody, WrapValidator(_choose_body)]
"""A run as either of the two APIs asks for it."""


SYNC = "sync"
CALLBACK = "async_callback"


async def run_agent(
    request: Request, served: Services, body: AgentRunBody, key: str | None
) -> Response:
    """Request a run of an agent, and answer at once or when it has ended."""
    if body.execution_mode == CALLBACK and body.parent_session_id is None:
        raise InvalidError(
            "execution_mode async_callback resumes the session that asked. "
            "Say which one with parent_session_id"
        )
    await served.check_runnable(body.agent_name)
    thread_id = await _find_thread(request, served, body)
    wanted, once = [body.to_request(thread_id)], await idempotency_of(request, key)
    if body.execution_mode != SYNC:
        [row] = await authorize_and_admit(request, served, wanted, once)
        return run_response(row)
    with reserve_stream(served):
        [row] = await authorize_and_admit(request, served, wanted, once)
    return ended_run_response(served, row)


async def _find_thread(request: Request, served: Services, body: AgentRunBody) -> str | None:
    """Find the thread of the session that is named; without one the run has a session anew."""
    if body.parent_session_id is not None:
        await find_session(request, served, body.parent_session_id, "read")
    if body.session_id is None:
        return None
    session = await find_session(request, served, body.session_id, "read")
    if session.ended_at is not None:
        raise ConflictError(f"the session {session.session_id!r} has ended. Begin another one")
    thread = await served.database.read(lambda reads: sessions.thread_of(reads, session.session_id))
    if thread is None:
        told = f"the session {session.session_id!r} has no thread any more"
        raise ConflictError(f"{told}. Begin another one, by leaving session_id out")
    return str(thread.thread_id)


def run_response(row: Run) -> Response:
    """Return the response with a run as it is now."""
    return JsonResponse(render_ended_run(row), headers={"content-location": run_path(row)})


def ended_run_response(served: Services, row: Run) -> Response:
    """Return the response with a run when it has ended, however that was; it holds a place."""
    place = {"content-location": run_path(row)}
    return DeferredJson(served, _ended_run_json(served, row), place, placed=True)


async def _ended_run_json(served: Services, row: Run) -> bytes:
    try:
        return jsons.dumps(render_ended_run(await served.runs.ended(row.run_id)))
    except NotFoundError as gone:  # it was rolled back: nothing is left but that it was
        over = replace(
            row,
            status="interrupted",
            phase="cancelled",
            error=str(gone),
            error_type="CancelledError",
        )
        return jsons.dumps(render_ended_run(over))
