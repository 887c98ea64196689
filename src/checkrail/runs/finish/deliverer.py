"""Deliveries: finish hooks and webhooks, carried out from their table until they are done."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from checkrail.actions.errors import OutboundRefused, OutboundUnreachable
from checkrail.engine.containment import contain_errors
from checkrail.engine.errors import error_type
from checkrail.engine.values import RunError, RunResult
from checkrail.runs import jsons
from checkrail.runs.errors import RequestError
from checkrail.runs.events.hub import WORK, Wakeup
from checkrail.runs.finish.callbacks import CALLBACK
from checkrail.runs.finish.finish_hooks import FinishHooks, UnreachedError
from checkrail.runs.services import RunServices
from checkrail.store import deliveries, records, runs
from checkrail.store.database import Tx
from checkrail.store.deliveries import Delivery
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.runs import Run

log = logging.getLogger("checkrail.runs")

_LOOK_EVERY = 5.0
_AT_ONCE = 32
_REMEMBERED = 20  # attempts at one delivery
_DELIVERIES = "deliveries"
_STRAY_AFTER = 2.0  # seconds, far more than there are between the end of a run and its deliveries


CarryOut = Callable[[Delivery], Awaitable[None]]
"""Carries out deliveries of one kind. What it raises decides whether one is tried again."""

Resume = Callable[[Mapping[str, Any], str], Awaitable[None]]
"""Resumes the session that waits for a run, by the id of the delivery."""


class DeliveryError(Exception):
    """A delivery did not arrive, but may the next time, perhaps not before `after` seconds."""

    def __init__(
        self, message: str, after: float | None = None, status_code: int | None = None
    ) -> None:
        super().__init__(message)
        self.after = after
        self.status_code = status_code


class DeliveryRefused(Exception):
    """A delivery will never arrive."""


class Deliverer:
    """Carries out the deliveries that are owed."""

    def __init__(self, parts: RunServices, finish: FinishHooks, resume: Resume) -> None:
        self._parts = parts
        self._finish = finish
        self._resume = resume
        self._tasks: set[asyncio.Task[None]] = set()
        self._carried: set[str] = set()
        self._strays: dict[str, float] = {}
        self._looked = 0.0
        self._bell = Wakeup(parts.hub, WORK)
        self._closing = False
        self._ways: dict[str, CarryOut] = {
            "webhook": self._send_webhook,
            CALLBACK: self._resume_session,
        }

    def add_kind(self, kind: str, carry_out: CarryOut) -> None:
        """Carry out deliveries of one more kind; before any is taken."""
        self._ways[kind] = carry_out

    def take(self, debts: list[Delivery]) -> None:
        """Carry out deliveries that this process holds."""
        for row in debts:
            self._start_task(row, self._deliver(_parse_delivery(row)))

    def _start_task(self, row: Delivery, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self._carried.add(row.delivery_id)
        task.add_done_callback(partial(self._finish_task, row))

    def _finish_task(self, row: Delivery, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._parts.last_chance.release(row.delivery_id) or row.address is not None:
            self._bell.trigger()
        if task.cancelled() or (error := task.exception()) is None:
            self._carried.discard(row.delivery_id)
            return
        self._start_task(row, self._settle_broken(row, error))

    async def _settle_broken(self, row: Delivery, error: BaseException) -> None:
        """Settle a delivery that ended with an unexpected error: it is not tried again."""
        told = (row.delivery_id, describe_debt(row))
        log.error("delivery %s %s fell", *told, exc_info=error)
        await self._store_result(row, _dead_columns(row, error_type(error)))

    async def serve(self) -> None:
        """Take deliveries that are due, until cancelled."""
        while True:
            room = _AT_ONCE - len(self._tasks)
            taken = await self._claim_due(room) if room > 0 else []
            self.take(taken)
            await self._bell.wait(0.05 if len(taken) == room else await self._seconds_to_next())

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
        await self._parts.database.write(lambda tx: deliveries.release_held(tx, worker))

    async def _claim_due(self, room: int) -> list[Delivery]:
        worker, last_chance = self._parts.worker_id, self._parts.last_chance
        suspects = last_chance.start_search(_DELIVERIES)
        suspect: list[Delivery] = []
        rest: list[Delivery] = []

        def claim_rows(tx: Tx) -> tuple[list[Delivery], list[Delivery]]:
            now = tx.time()
            first = deliveries.claim(tx, worker, now, 1, suspected=True) if suspects else []
            return first, deliveries.claim(tx, worker, now, room - len(first))

        try:
            suspect, rest = await self._parts.database.write(claim_rows)
        except DatabaseUnavailableError:
            pass  # it is logged where it is found out
        except Exception:
            log.exception("no deliveries could be claimed; it is tried again")
        if suspects:
            last_chance.hold(_DELIVERIES, next((row.delivery_id for row in suspect), None))
        return suspect + rest

    async def _seconds_to_next(self) -> float:
        try:
            if time.monotonic() - self._looked > _LOOK_EVERY:
                await self._release_strays()
            due = await self._parts.database.read(deliveries.next_due)
        except Exception:  # noqa: BLE001 - said where they are claimed
            due = None
        if due is None:
            return _LOOK_EVERY
        return min(_LOOK_EVERY, max(0.05, due - self._parts.database.time()))

    async def _deliver(self, row: Delivery) -> None:
        clock = self._parts.database.time
        changed: dict[str, Any] = {"status": "done", "ended_at": clock(), "last_error": None}
        status_code: int | None = None
        try:
            with contain_errors():
                await self._ways.get(row.kind, self._fire_finish_hooks)(row)
        except (DeliveryError, UnreachedError, DatabaseUnavailableError) as error:
            changed = next_attempt(row, str(error), self._parts.settings.webhook_attempts, clock())
            status_code = getattr(error, "status_code", None)
            if (after := getattr(error, "after", None)) and "due_at" in changed:
                changed["due_at"] = max(changed["due_at"], clock() + after)
        except (OutboundRefused, DeliveryRefused) as error:
            log.error("the %s %s is not sent: %s", row.kind, describe_debt(row), error)  # noqa: TRY400
            changed |= {"status": "dead", "last_error": str(error)}
        except Exception as error:
            log.exception("delivery %s %s failed", row.delivery_id, describe_debt(row))
            changed |= {"status": "dead", "last_error": error_type(error)}
        attempt = {"at": clock(), "status_code": status_code, "error": changed["last_error"]}
        history = [*(row.history or ()), attempt][-_REMEMBERED:]
        await self._store_result(row, changed | {"attempts": row.attempts + 1, "history": history})
        if changed["status"] == "owed":
            self._bell.trigger()  # it may be due before anything else is

    async def _store_result(self, row: Delivery, changed: dict[str, Any]) -> None:
        """Store how a delivery went, with the records of its hooks, until the database takes it."""
        told = self._parts.log.take_records(row.run_id) if row.run_id else []

        def store_result(tx: Tx) -> None:
            records.add(tx, told)
            for run_id, counts in records.count_by_run(told).items():
                runs.count_hooks(tx, run_id, counts)
            worker = self._parts.worker_id
            stored = deliveries.store_result(tx, row.delivery_id, worker, **changed)
            if stored and changed["status"] == "dead":
                deliveries.give_up_behind(tx, row, tx.time())

        while True:
            try:
                return await self._parts.database.write(store_result, patient=True)
            except Exception:
                log.exception("delivery %s could not be settled yet", row.delivery_id)
                await asyncio.sleep(1)

    async def _release_strays(self) -> None:
        """Give back deliveries that are said to be ours, but that nobody here carries out."""
        now, worker = time.monotonic(), self._parts.worker_id
        self._looked = now
        held = await self._parts.database.read(lambda reads: deliveries.held_ids(reads, worker))
        strays = set(held) - self._carried
        self._strays = {each: self._strays.get(each, now) for each in strays}
        ripe = [each for each, since in self._strays.items() if now - since > _STRAY_AFTER]
        if ripe:
            log.warning("%s deliveries are nobody's work here, and are given back", len(ripe))
            await self._parts.database.write(lambda tx: deliveries.release_held(tx, worker, ripe))

    async def _fire_finish_hooks(self, row: Delivery) -> None:
        """Fire the finish hooks: one that raises or is late is recorded, and not called again."""
        told = row.payload
        scope = self._parts.scope(
            Run(**told["run"]),
            delivery_id=row.delivery_id,
            original_parameters=told.get("original_parameters", told["input"]),
        )
        scope.exclude(scope.excluded.union(told.get("without", ())))
        same = {
            "status": told["status"],
            "input": told["input"],
            "usage": told["usage"] or {},
            "duration_ms": told["duration_ms"],
            "attempt": told["run"]["attempt"],
        }
        value: RunResult | RunError = (
            RunResult(output=told["output"], **same)
            if row.kind == "after_run"
            else RunError(error=told["error"], error_type=told["error_type"], **same)
        )
        if "hook" in told:
            await self._finish.call_hook(scope, told["hook"], row.kind, value, row.delivery_id)
        else:
            await scope.fire_detached(row.kind, value)

    async def _resume_session(self, row: Delivery) -> None:
        """Resume the session that waits for a run; once, however often it is delivered."""
        try:
            await self._resume(row.payload, row.delivery_id)
        except RequestError as error:  # refused by a hook, or the session is gone
            log.warning("the end of run %s resumes nobody: %s", row.run_id, error)

    async def _send_webhook(self, row: Delivery) -> None:
        told = row.payload
        content = jsons.dumps({**told["run"], "webhook_sent_at": time.time()})
        try:
            answer = await self._parts.outbound.send(
                "POST",
                told["url"],
                headers={"content-type": "application/json", "webhook-id": row.delivery_id},
                content=content,
                sign_with=self._parts.settings.webhook_secret,
                message_id=row.delivery_id,
            )
        except OutboundUnreachable as error:
            raise DeliveryError(str(error)) from None
        if answer.status >= 300:
            refused = f"the webhook answered {answer.status}"
            raise DeliveryError(refused, status_code=answer.status)


def describe_debt(row: Delivery) -> str:
    """Return for what a delivery is owed, as the log says it."""
    return f"of session {row.session_id}" if row.run_id is None else f"of run {row.run_id}"


def next_attempt(row: Delivery, error: str, most: int, now: float) -> dict[str, Any]:
    """Return when a delivery is tried again, or that it is dead."""
    attempts = row.attempts + 1
    changed = {"attempts": attempts, "last_error": error}
    if attempts >= most:
        told = (row.delivery_id, describe_debt(row), attempts, error)
        log.error("delivery %s %s is dead after %s attempts: %s", *told)
        return changed | {"status": "dead", "ended_at": now}
    pause = min(3600.0, 2.0**attempts) * random.uniform(0.8, 1.2)  # noqa: S311
    return changed | {"status": "owed", "due_at": now + pause}


def _dead_columns(row: Delivery, error: str) -> dict[str, Any]:
    """Return how a delivery is settled that is not tried again."""
    attempts = row.attempts + 1
    return {"status": "dead", "ended_at": time.time(), "last_error": error, "attempts": attempts}


def _parse_delivery(row: Delivery) -> Delivery:
    """Return a delivery as it is read from the table."""
    payload = row.payload
    return replace(row, payload=jsons.loads(payload)) if isinstance(payload, bytes) else row
