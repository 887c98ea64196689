"""A conversation: an agent that remembers what was said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from checkrail.agent.stream import AgentStream
from checkrail.engine.errors import CheckrailError
from checkrail.engine.frozen import freeze
from checkrail.engine.values import AgentResponse
from checkrail.llm.conversation import Message, Query, freeze_history

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
        self._messages = freeze_history(history)
        self._busy = False

    @property
    def messages(self) -> Sequence[Message]:
        """All messages so far, as hooks passed them."""
        return freeze([*self._messages])  # type: ignore[no-any-return]

    async def run(self, query: Query, **ids: Any) -> AgentResponse:
        """Go on with the conversation."""
        return await self._run(query, None, ids)

    def stream(self, query: Query, **ids: Any) -> AgentStream:
        """Continue the conversation as a stream of events."""
        return AgentStream(lambda emit: self._run(query, emit, ids))

    def run_sync(self, query: Query, **ids: Any) -> AgentResponse:
        """Go on with the conversation where there is no event loop."""
        return self.agent.run_in_new_loop(self._run(query, None, ids))

    async def _run(self, query: Query, emit: Emit | None, ids: dict[str, Any]) -> AgentResponse:
        with self._exclusive_turn():
            ids = {"thread_id": self.thread_id} | ids
            return await self.agent.run_loop(self._messages, query, emit, **ids)

    @contextmanager
    def _exclusive_turn(self) -> Iterator[None]:
        if self._busy:
            remedy = "wait for the run before, or begin another conversation"
            raise CheckrailError(f"conversation {self.thread_id} is busy: {remedy}")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
