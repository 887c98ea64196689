"""Summaries: an agent is given what was said in a session, and what it writes is kept there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.engine.event import Event
from checkrail.engine.values import Session as SessionValue
from checkrail.llm.conversation import text_of
from checkrail.runs import jsons
from checkrail.runs.admit.hook_runs import HookRuns
from checkrail.store import sessions, threads
from checkrail.store.database import Database, Reads

_SPEAKERS = {"user": "user", "human": "user", "assistant": "agent", "ai": "agent"}


class SessionSummaries:
    """Has agents sum up sessions: see `SummaryWriter`."""

    def __init__(self, database: Database, hook_runs: HookRuns) -> None:
        self._database = database
        self._hook_runs = hook_runs

    async def __call__(
        self,
        agent_name: str,
        instructions: str,
        event: Event[SessionValue],
        *,
        max_characters: int,
        timeout: float,
    ) -> None:
        """Run the agent on the end of the conversation; not if there is a summary already."""
        session_id = event.value.session_id
        said = await self._database.read(lambda reads: _read_conversation(reads, session_id))
        if not said:
            return
        prompt = f"{instructions}\n\n<conversation>\n{said[-max_characters:]}\n</conversation>"
        parameters = {"prompt": prompt}
        await self._hook_runs(agent_name, parameters, event, timeout, summarizes=session_id)


def _read_conversation(reads: Reads, session_id: str) -> str:
    """Return what was said in all threads of a session; nothing if it has a summary."""
    session = sessions.get(reads, session_id)
    if session is None or sessions.SUMMARY in session.metadata:
        return ""
    found = (threads.get(reads, each) for each in sessions.thread_ids(reads, session_id))
    return "\n\n".join(line for each in found if each for line in _lines_of(each.values))


def _lines_of(values: Any) -> Iterator[str]:
    """Yield what was said in a thread; of one that is no conversation, all that it holds."""
    said = values.get("messages") if isinstance(values, Mapping) else None
    if not isinstance(said, list):
        if values:
            yield jsons.dumps(values).decode()
        return
    for message in said:
        if not isinstance(message, Mapping):
            continue
        speaker = _SPEAKERS.get(message.get("role") or message.get("type") or "")
        text = text_of(message.get("content") or "")
        if speaker and text:
            yield f"{speaker}: {text}"
