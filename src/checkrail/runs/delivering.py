"""Deliveries: finish hooks and webhooks, carried out from their table until they are done."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from checkrail.actions.outbound_errors import OutboundRefused, OutboundUnreachable
from checkrail.engine.containment import contained
from checkrail.engine.errors import error_type
from checkrail.engine.values import RunError, RunResult
from checkrail.runs import jsons
from checkrail.runs.callbacks import CALLBACK
from checkrail.runs.errors import RequestError
from checkrail.runs.finishing import FinishHooks, UnreachedError
from checkrail.runs.hub import WORK, Bell
from checkrail.runs.parts import Parts
from checkrail.store import deliveries, records
from checkrail.store.database import Tx
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")

_LOOK_EVERY = 5.0
_AT_ONCE = 32
_DELIVERIES = "deliveries"
_STRAY_AFTER = 2.0  # seconds, far more than there are between the end of a run and its deliveries


Resume = Callable[[Mapping[str, Any], str], Awaitable[None]]
"""Resumes the session that waits for a run, by the id of the delivery."""


class Undelivered(Exception):
    """A delivery did not arrive, but may the next time."""


class Deliverer:
    """Carries out what is owed."""

    def __init__(self, parts: Parts, finish: FinishHooks, resume: Resume) -> None:
        self._parts = parts
        self._finish = finish
        self._resume = resume
        self._tasks: set[asyncio.Task[None]] = set()
        self._carried: set[str] = set()
        self._strays: dict[str, float] = {}
        self._looked = 0.0
        self._bell = Bell(parts.hub, WORK)
        self._closing = False
        self._ways = {"webhook": self._webhook, CALLBACK: self._callback}

    def take(self, debts: list[Row]) -> None:
        """Carry out deliveries that this process holds."""
        for row in debts:
            self._begin(row, self._deliver(_read(row)))

    def _begin(self, row: Row, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self._carried.add(row["delivery_id"])
        task.add_done_callback(partial(self._done, row))

    def _done(self, row: Row, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._parts.last_chance.release(row["delivery_id"]):
            self._bell.ring()
        if task.cancelled() or (error := task.exception()) is None:
            self._carried.discard(row["delivery_id"])
            return
        self._begin(row, self._bury(row, error))

    async def _bury(self, row: Row, error: BaseException) -> None:
        """Settle a delivery that fell in a way that nobody foresaw: it is not tried again."""
        told = (row["delivery_id"], row["run_id"])
        log.error("delivery %s of run %s fell", *told, exc_info=error)
        await self._settle(row, _dead(row, error_type(error)))

    async def serve(self) -> None:
        """Take deliveries that are due, until cancelled."""
        while True:
            room = _AT_ONCE - len(self._tasks)
            taken = await self._claim(room) if room > 0 else []
            self.take(taken)
            await self._bell.wait(0.05 if len(taken) == room else await self._pause())

    async def close(self) -> None:
        """Finish what is under way; the rest is for the next process."""
        self._closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._parts.settings.stop_grace)
        for task in self._tasks:
            task.cancel()
        await self._finish.close()
        self._bell.close()
        worker = self._parts.worker_id
        await self._parts.database.write(lambda tx: deliveries.release(tx, worker))

    async def _claim(self, room: int) -> list[Row]:
        worker, last_chance = self._parts.worker_id, self._parts.last_chance
        suspects = last_chance.look(_DELIVERIES)
        suspect: list[Row] = []
        rest: list[Row] = []

        def claim(tx: Tx) -> tuple[list[Row], list[Row]]:
            now = tx.time()
            first = deliveries.claim(tx, worker, now, 1, suspected=True) if suspects else []
            return first, deliveries.claim(tx, worker, now, room - len(first))

        try:
            suspect, rest = await self._parts.database.write(claim)
        except DatabaseUnavailableError:
            pass  # it is logged where it is found out
        except Exception:
            log.exception("no deliveries could be claimed; it is tried again")
        if suspects:
            last_chance.hold(_DELIVERIES, next((row["delivery_id"] for row in suspect), None))
        return suspect + rest

    async def _pause(self) -> float:
        try:
            if time.monotonic() - self._looked > _LOOK_EVERY:
                await self._find_strays()
            due = await self._parts.database.read(deliveries.next_due)
        except Exception:  # noqa: BLE001 - said where they are claimed
            due = None
        if due is None:
            return _LOOK_EVERY
        return min(_LOOK_EVERY, max(0.05, due - self._parts.database.time()))

    async def _deliver(self, row: Row) -> None:
        clock = self._parts.database.time
        changed: dict[str, Any] = {"status": "done", "ended_at": clock(), "last_error": None}
        try:
            with contained():
                await self._ways.get(row["kind"], self._hooks)(row)
        except (Undelivered, UnreachedError, DatabaseUnavailableError) as error:
            changed = later(row, str(error), self._parts.settings.webhook_attempts, clock())
        except OutboundRefused as error:
            log.error("the webhook of run %s is not sent: %s", row["run_id"], error)  # noqa: TRY400
            changed |= {"status": "dead", "last_error": str(error)}
        except Exception as error:
            log.exception("delivery %s of run %s failed", row["delivery_id"], row["run_id"])
            changed |= {"status": "dead", "last_error": error_type(error)}
        await self._settle(row, changed | {"attempts": row["attempts"] + 1})
        if changed["status"] == "owed":
            self._bell.ring()  # it may be due before anything else is

    async def _settle(self, row: Row, changed: dict[str, Any]) -> None:
        """Keep how a delivery went, with the records of its hooks, until the database takes it."""
        told = self._parts.log.taken_records(row["run_id"])

        def settle(tx: Tx) -> None:
            records.add(tx, told)
            deliveries.settle(tx, row["delivery_id"], self._parts.worker_id, **changed)

        while True:
            try:
                return await self._parts.database.write(settle, patient=True)
            except Exception:
                log.exception("delivery %s could not be settled yet", row["delivery_id"])
                await asyncio.sleep(1)

    async def _find_strays(self) -> None:
        """Give back deliveries that are said to be ours, but that nobody here carries out."""
        now, worker = time.monotonic(), self._parts.worker_id
        self._looked = now
        held = await self._parts.database.read(lambda reads: deliveries.held_ids(reads, worker))
        strays = set(held) - self._carried
        self._strays = {each: self._strays.get(each, now) for each in strays}
        ripe = [each for each, since in self._strays.items() if now - since > _STRAY_AFTER]
        if ripe:
            log.warning("%s deliveries are nobody's work here, and are given back", len(ripe))
            await self._parts.database.write(lambda tx: deliveries.release(tx, worker, ripe))

    async def _hooks(self, row: Row) -> None:
        """Tell the finish hooks: a hook that raises or is late is recorded, and that was it."""
        told = row["payload"]
        scope = self._parts.scope(
            told["run"],
            delivery_id=row["delivery_id"],
            original_parameters=told.get("original_parameters", told["input"]),
        )
        scope.lack(scope.without.union(told.get("without", ())))
        same = {
            "status": told["status"],
            "input": told["input"],
            "usage": told["usage"] or {},
            "duration_ms": told["duration_ms"],
            "attempt": told["run"]["attempt"],
        }
        value: RunResult | RunError = (
            RunResult(output=told["output"], **same)
            if row["kind"] == "after_run"
            else RunError(error=told["error"], error_type=told["error_type"], **same)
        )
        if "hook" in told:
            await self._finish.tell(scope, told["hook"], row["kind"], value, row["delivery_id"])
        else:
            await scope.fire(row["kind"], value)

    async def _callback(self, row: Row) -> None:
        """Resume the session that waits for a run; once, however often it is delivered."""
        try:
            await self._resume(row["payload"], row["delivery_id"])
        except RequestError as error:  # refused by a hook, or the session is gone
            log.warning("the end of run %s resumes nobody: %s", row["run_id"], error)

    async def _webhook(self, row: Row) -> None:
        told = row["payload"]
        content = jsons.dumps({**told["run"], "webhook_sent_at": time.time()})
        try:
            answer = await self._parts.outbound.send(
                "POST",
                told["url"],
                headers={"content-type": "application/json", "webhook-id": row["delivery_id"]},
                content=content,
                sign_with=self._parts.settings.webhook_secret,
                message_id=row["delivery_id"],
            )
        except OutboundUnreachable as error:
            raise Undelivered(str(error)) from None
        if answer.status >= 300:
            raise Undelivered(f"the webhook answered {answer.status}")


def later(row: Row, error: str, most: int, now: float) -> dict[str, Any]:
    """Return when a delivery is tried again, or that it is dead."""
    attempts = row["attempts"] + 1
    changed = {"attempts": attempts, "last_error": error}
    if attempts >= most:
        told = (row["delivery_id"], row["run_id"], attempts, error)
        log.error("delivery %s of run %s is dead after %s attempts: %s", *told)
        return changed | {"status": "dead", "ended_at": now}
    pause = min(3600.0, 2.0**attempts) * random.uniform(0.8, 1.2)  # noqa: S311
    return changed | {"status": "owed", "due_at": now + pause}


def _dead(row: Row, error: str) -> dict[str, Any]:
    """Return how a delivery is settled that is not tried again."""
    attempts = row["attempts"] + 1
    return {"status": "dead", "ended_at": time.time(), "last_error": error, "attempts": attempts}


def _read(row: Row) -> Row:
    """Return a delivery as it is read from the table."""
    payload = row["payload"]
    return row | {"payload": jsons.loads(payload)} if isinstance(payload, bytes) else row
