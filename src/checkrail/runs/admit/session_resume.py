"""Resuming sessions: somebody, or a run that has ended, has something to say to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.engine.values import User
from checkrail.runs.admit.admission import Admission
from checkrail.runs.admit.requests import Idempotency, Principal, RunRequest
from checkrail.runs.agents.catalogue import GRAPH
from checkrail.runs.errors import ConflictError, NotFoundError
from checkrail.runs.finish.callbacks import CALLBACK
from checkrail.runs.services import RunServices
from checkrail.store import runs, sessions
from checkrail.store.database import Reads
from checkrail.store.runs import Run

RESUME = "resume"


class SessionResumer:
    """Resumes sessions."""

    def __init__(self, parts: RunServices, admission: Admission) -> None:
        self._parts = parts
        self._admission = admission

    async def resume(
        self,
        session_id: str,
        prompt: str,
        asker: Principal,
        once: Idempotency | None = None,
        **more: Any,
    ) -> Run:
        """Send a prompt to a session: its agent runs again, on its last thread."""
        last = await self._parts.read_current(
            lambda reads: _find_last_run(reads, session_id, asker)
        )
        agent = self._parts.catalogue.require_runnable(last.agent_name)
        said = {"prompt": prompt}
        if agent.config.kind == GRAPH:
            said = {"messages": [{"role": "user", "content": prompt}]}  # type: ignore[dict-item]
        request = RunRequest(
            assistant_id=last.assistant_id,
            thread_id=last.thread_id,
            input=said,
            session_id=session_id,
            resumes=True,
            **{"origin": RESUME, "scope": last.scope, **more},
        )
        [row] = await self._admission.admit([request], asker, once)
        return row

    async def call_back(self, told: Mapping[str, Any], delivery_id: str) -> None:
        """Resume the session that waits for a run that has ended."""
        asker = Principal(User(**told["user"]) if told["user"] else User("anonymous"))
        once = Idempotency(delivery_id, CALLBACK, told["session_id"])
        await self.resume(told["session_id"], told["prompt"], asker, once, origin=CALLBACK)


def _find_last_run(reads: Reads, session_id: str, asker: Principal) -> Run:
    """Find the last run of a session."""
    session = sessions.get(reads, session_id)
    if session is None or asker.owner not in (None, session.owner):
        raise NotFoundError(f"session {session_id!r} not found")
    if session.ended_at is not None:
        raise ConflictError(f"the session {session_id!r} has ended. Begin another one")
    thread = sessions.thread_of(reads, session_id)
    found = None if thread is None else runs.newest_of(reads, thread.thread_id)
    if found is None:
        raise ConflictError(
            f"the session {session_id!r} has no run yet. Create one with POST /runs"
        )
    return found
