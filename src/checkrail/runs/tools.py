"""Tools that agents on a server can have: `tools: ["checkrail.runs.tools:resume_session"]`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from checkrail.agent.tools.tool import ToolError
from checkrail.engine.values import User
from checkrail.runs.errors import RequestError
from checkrail.runs.parts import Parts, user_of
from checkrail.runs.requests import Asker
from checkrail.store.rows import Row

_AROUND: ContextVar[tuple[Parts, Row]] = ContextVar("checkrail_run")


@contextmanager
def offered(parts: Parts, row: Row) -> Iterator[None]:
    """Let the tools of a run reach the server that carries it out."""
    token = _AROUND.set((parts, row))
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
    parts, row = _AROUND.get((None, {}))
    resume = None if parts is None else parts.resume
    if resume is None:
        raise ToolError("sessions can be resumed only where the run server carries out the agent")
    asker = Asker(user_of(row) or User("anonymous"), owner=row["owner"])
    try:
        run = await resume(session_id, prompt, asker, scope=row["scope"])
    except RequestError as error:
        raise ToolError(str(error)) from None
    return {"session_id": session_id, "run_id": run["run_id"]}
