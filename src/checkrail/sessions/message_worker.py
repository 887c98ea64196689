"""The message worker: takes messages that are next in their threads, each a stage further."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any

from checkrail.engine.containment import contain_errors
from checkrail.engine.errors import error_type
from checkrail.runs.events.hub import Wakeup
from checkrail.runs.services import RunServices
from checkrail.sessions.handling import FAILED, MessageHandler
from checkrail.store import messages, runs
from checkrail.store.database import Tx
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.messages import Message
from checkrail.store.runs import Run

log = logging.getLogger("checkrail.sessions")

MESSAGES = ("messages", "")
"""Somewhere a message is to be handled."""

_AT_ONCE = 32
_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost
_PAUSE = 1.0  # seconds
_STRAY_AFTER = 2.0  # seconds, far more than there are between a claim and its work
_MESSAGES = "messages"


def _late_outcome(run: Run | None) -> dict[str, Any]:
    """Return what a reply is made of where the end of a run did not reach its message."""
    if run is None:
        return {"status": "error", "phase": "cancelled", "error": "its run was deleted"}
    names = ("status", "phase", "output", "error", "error_type", "blocked_by", "block_reason")
    return {**{name: getattr(run, name) for name in names}, "interrupts": []}


class MessageWorker:
    """Handles messages, as many at a time as it can carry."""

    def __init__(self, parts: RunServices, handler: MessageHandler) -> None:
        self._parts = parts
        self._handler = handler
        self._bell = Wakeup(parts.hub, MESSAGES)
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._strays: dict[str, float] = {}
        self._closing = False

    @property
    def room(self) -> int:
        """How many more messages it can take."""
        return 0 if self._closing else _AT_ONCE - len(self._tasks)

    def look_after(self, seconds: float) -> None:
        """Look for messages once some time has passed."""
        if not self._closing:
            asyncio.get_running_loop().call_later(max(0.0, seconds) + 0.01, self._bell.trigger)

    async def serve(self) -> None:
        """Take messages, until cancelled."""
        while True:
            room = self.room
            taken = await self._claim(room) if room > 0 else []
            for row in taken:
                self.take(row)
            if len(taken) < room or not self._tasks:
                await self._bell.wait(_LOOK_EVERY)
            elif room <= 0 and self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Finish what is under way; the rest is for the next process."""
        self._closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._parts.settings.stop_grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._bell.close()
        worker = self._parts.worker_id
        await self._parts.database.write(lambda tx: messages.release_held(tx, worker))

    async def recover(self) -> None:
        """Free the messages of workers that are gone, and those that are nobody's work here."""
        await self._parts.database.write(self._recover_in_tx)
        await self._release_strays()

    async def _release_strays(self) -> None:
        """Give back messages that are said to be ours, but that nobody here handles."""
        now, worker = time.monotonic(), self._parts.worker_id
        held = await self._parts.database.read(lambda reads: messages.held_ids(reads, worker))
        strays = set(held).difference(self._tasks.values())
        self._strays = {each: self._strays.get(each, now) for each in strays}
        ripe = [each for each, since in self._strays.items() if now - since > _STRAY_AFTER]
        if ripe:
            log.warning("%s messages are nobody's work here, and are given back", len(ripe))

            def release(tx: Tx) -> None:
                messages.release_held(tx, worker, ripe)
                tx.publish(*MESSAGES)

            await self._parts.database.write(release)

    def _recover_in_tx(self, tx: Tx) -> None:
        for row in messages.find_orphans(tx, (), self._parts.worker_id):
            lost = row.lost + 1
            changed: dict[str, Any] = {"worker_id": None, "lost": lost}
            if lost >= self._parts.settings.most_lost:
                error = f"{lost} processes went away while they handled this message"
                log.error("message %s ends: %s", row.message_id, error)
                changed |= {"status": FAILED, "error": error, "ended_at": tx.time()}
            messages.update_owned(tx, row, row.worker_id, **changed)
            messages.publish_change(tx, row.message_id)
        for row in messages.find_abandoned(tx):
            outcome = _late_outcome(runs.get(tx, row.run_id))
            messages.end_run(tx, row.message_id, outcome, tx.time())

    async def _claim(self, room: int) -> list[Message]:
        worker, last_chance = self._parts.worker_id, self._parts.last_chance
        suspects = last_chance.start_search(_MESSAGES)
        suspect: list[Message] = []
        rest: list[Message] = []

        def claim_rows(tx: Tx) -> tuple[list[Message], list[Message]]:
            first = messages.claim(tx, worker, 1, suspected=True) if suspects else []
            return first, messages.claim(tx, worker, room - len(first))

        try:
            suspect, rest = await self._parts.database.write(claim_rows)
        except DatabaseUnavailableError:
            await asyncio.sleep(_PAUSE)  # it is logged where it is found out
        except Exception:
            log.exception("no messages could be claimed; it is tried again")
            await asyncio.sleep(_PAUSE)
        if suspects:
            last_chance.hold(_MESSAGES, next((row.message_id for row in suspect), None))
        return suspect + rest

    def take(self, row: Message) -> None:
        """Handle a message that this process holds."""
        task = asyncio.get_running_loop().create_task(self._handle(row))
        self._tasks[task] = row.message_id
        self._strays.pop(row.message_id, None)
        task.add_done_callback(partial(self._end_task, row))

    def _end_task(self, row: Message, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("message %s is given back", row.message_id, exc_info=error)
        if self._parts.last_chance.release(row.message_id):
            self._bell.trigger()

    async def _handle(self, row: Message) -> None:
        """Handle a message; what goes wrong with it ends it, and nothing else."""
        try:
            with contain_errors():
                await self._handler.handle(row)
        except DatabaseUnavailableError:
            await asyncio.sleep(_PAUSE)
            await self._change(row, worker_id=None)
        except Exception as error:
            log.exception("message %s fell", row.message_id)
            now = self._parts.database.time()
            await self._change(
                row, worker_id=None, status=FAILED, error=error_type(error), ended_at=now
            )

    async def _change(self, row: Message, **changed: object) -> None:
        worker = self._parts.worker_id

        def store_change(tx: Tx) -> None:
            messages.update_owned(tx, row, worker, **changed, updated_at=tx.time())
            messages.publish_change(tx, row.message_id)

        await self._parts.database.write(store_change, patient=True)
