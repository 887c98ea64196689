"""A conversation at the terminal: one turn after the other, in an event loop that lives as long."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, NoReturn, Self

from checkrail.agent.errors import RunFailed
from checkrail.agent.events import Finished, HookCalled
from checkrail.cli.app import BLOCKED, FAILED
from checkrail.cli.logs import hook_logs
from checkrail.cli.transcript import ANSWERED, Transcript
from checkrail.engine.values import AgentResponse

if TYPE_CHECKING:
    from checkrail.agent import Agent
    from checkrail.agent.blueprint import AgentBuilder
    from checkrail.agent.events import StreamEvent
    from checkrail.engine.records import HookRecord

INTERRUPTED = 130


class Talk:
    """Says things to an agent that remembers them, and has a transcript told what happens.

    The event loop stands still between two turns, so that a prompt is a plain one: whatever hooks
    left in the background is waited for at the end of each. `records` are those that hooks make.
    """

    def __init__(
        self,
        builder: AgentBuilder,
        agent: Agent,
        transcript: Transcript,
        records: list[HookRecord],
        log_level: int,
    ) -> None:
        self._builder = builder
        self._agent = agent
        self._transcript = transcript
        self._log_level = log_level
        self._conversation = agent.conversation()
        self._runner = asyncio.Runner()
        self._records = records
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt), self._runner:
            self._runner.run(self._agent.aclose())

    def go_on(self, said: Iterable[str], *, patient: bool) -> int:
        """Say one thing after the other, and give the worst exit code.

        A person is `patient`: they see what is wrong, and may go on after a cancellation.
        """
        worst = 0
        for text in said:
            code = self.say(text)
            if code == INTERRUPTED and not patient:
                return code
            worst = max(worst, code)
        return 0 if patient else worst

    def say(self, text: str) -> int:
        """Say one thing, and give the exit code of what came of it."""
        self._ended = False
        try:
            with contextlib.redirect_stdout(sys.stderr), hook_logs(self._log_level):
                response = self._runner.run(self._answered(text))
        except KeyboardInterrupt:
            if not self._ended:
                _leave()
            self._transcript.cancelled()
            return INTERRUPTED
        if response.stop_reason in ANSWERED:
            return 0
        return BLOCKED if response.stop_reason == "block" else FAILED

    async def _answered(self, text: str) -> AgentResponse:
        self._records.clear()
        heard: set[HookRecord] = set()
        try:
            response = await self._streamed(text, heard)
            await self._builder.settle()
            for record in self._records:
                if record not in heard:  # it was made in the background, after the run
                    self._transcript.heard(HookCalled(record))
            return response
        finally:
            self._ended = True

    async def _streamed(self, text: str, heard: set[HookRecord]) -> AgentResponse:
        async with contextlib.aclosing(aiter(self._conversation.stream(text))) as events:
            while not isinstance(event := await _next(events), Finished):
                if isinstance(event, HookCalled):
                    heard.add(event.record)
                self._transcript.heard(event)
        self._transcript.heard(event)
        return event.response


async def _next(events: AsyncIterator[StreamEvent]) -> StreamEvent:
    """Return the next event of a run; a run that fails is finished too."""
    try:
        return await anext(events)
    except RunFailed as failed:
        return Finished(failed.response)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the talk goes on
        told = f"{type(error).__name__}: {error}"
        return Finished(AgentResponse(stop_reason="error", error=told))


def _leave() -> NoReturn:
    """Leave without waiting: somebody pressed Ctrl-C again while a run was being cancelled."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)
