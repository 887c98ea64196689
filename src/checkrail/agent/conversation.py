"""A conversation: an agent that remembers what was said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from checkrail.agent.messages import Message, Query, said
from checkrail.agent.streaming import AgentStream
from checkrail.engine.errors import CheckrailError
from checkrail.engine.frozen import freeze
from checkrail.engine.values import AgentResponse

if TYPE_CHECKING:
    from checkrail.agent.agent import Agent
    from checkrail.agent.events import Emit


class Conversation:
    """Runs an agent on one query after another, each with all that went before.

    What a run leaves is kept, however it ended: it is a valid conversation at any time.
    """

    def __init__(self, agent: Agent, thread_id: str | None, history: Sequence[Message]) -> None:
        self.agent = agent
        self.thread_id = thread_id or str(uuid4())
        self._messages = said(history)
        self._busy = False

    @property
    def messages(self) -> Sequence[Message]:
        """Everything that was said, as it was let pass."""
        return freeze([*self._messages])  # type: ignore[no-any-return]

    async def run(self, query: Query, **ids: Any) -> AgentResponse:
        """Go on with the conversation."""
        return await self._run(query, None, ids)

    def stream(self, query: Query, **ids: Any) -> AgentStream:
        """Go on with the conversation, and tell what happens as it does."""
        return AgentStream(lambda emit: self._run(query, emit, ids))

    def run_sync(self, query: Query, **ids: Any) -> AgentResponse:
        """Go on with the conversation where there is no event loop."""
        return self.agent.at_once(self._run(query, None, ids))

    async def _run(self, query: Query, emit: Emit | None, ids: dict[str, Any]) -> AgentResponse:
        with self._turn():
            ids = {"thread_id": self.thread_id} | ids
            return await self.agent.loop(self._messages, query, emit, **ids)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._busy:
            remedy = "wait for the run before, or begin another conversation"
            raise CheckrailError(f"conversation {self.thread_id} is busy: {remedy}")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
