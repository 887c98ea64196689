"""Tools that agents on a server can have: `tools: ["checkrail.runs.tools:resume_session"]`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from checkrail.agent.tools.tool import ToolError
from checkrail.engine.values import User
from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import RequestError
from checkrail.runs.services import user_of
from checkrail.store.runs import Run

ResumeSession = Callable[..., Awaitable[Run]]
"""Sends a prompt to a session, by its id, for somebody."""

_AROUND: ContextVar[tuple[ResumeSession | None, Run]] = ContextVar("checkrail_run")


@contextmanager
def offer_tools(resume: ResumeSession | None, row: Run) -> Iterator[None]:
    """Let the tools of a run reach the server that executes it."""
    token = _AROUND.set((resume, row))
    try:
        yield
    finally:
        _AROUND.reset(token)


async def resume_session(session_id: str, prompt: str) -> dict[str, str]:
    """Tell another session something. Its agent runs again, and reads it as what it is asked.

    Args:
        session_id: The session, as it was told to you.
        prompt: What its agent is to be told.
    """
    resume, row = _AROUND.get((None, None))
    if resume is None or row is None:
        raise ToolError("sessions can be resumed only where the run server carries out the agent")
    asker = Principal(user_of(row) or User("anonymous"), owner=row.owner)
    try:
        run = await resume(session_id, prompt, asker, scope=row.scope)
    except RequestError as error:
        raise ToolError(str(error)) from None
    return {"session_id": session_id, "run_id": run.run_id}
