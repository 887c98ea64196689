"""The clock: runs and crons whose time has come, workers that are gone, and what is too old."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from checkrail.engine.values import User
from checkrail.runs.admission import Admission
from checkrail.runs.answering import expire
from checkrail.runs.errors import KeyRevokedError, RequestError
from checkrail.runs.hub import Bell
from checkrail.runs.outside.unclaimed import Unclaimed
from checkrail.runs.parts import Parts
from checkrail.runs.recovery import recover
from checkrail.runs.requests import Asker, Idempotency, RunRequest
from checkrail.runs.retention import Retention
from checkrail.runs.schedule import next_time
from checkrail.store import approvals, crons, keys, runs, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")

_MINUTE = 60.0
_ASKING = ("member", "admin")
"""Roles of keys that may ask for runs."""


class Clock:
    """Does what is due."""

    def __init__(self, parts: Parts, admission: Admission) -> None:
        self._parts = parts
        self._admission = admission
        self._bell = Bell(parts.hub, ("clock", ""))
        self._retention = Retention(parts)
        self._unclaimed = Unclaimed(parts)
        self._starting: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Do what is due, until cancelled."""
        try:
            await self._serve()
        finally:
            for task in self._starting:
                task.cancel()
            await asyncio.gather(*self._starting, return_exceptions=True)

    async def _serve(self) -> None:
        chores: list[tuple[float, Callable[[], Awaitable[object]]]] = [
            (self._parts.settings.beat, self._recover),
            (self._parts.settings.beat, self._unclaimed.end),
            (self._parts.settings.sweep_every, self._retention.clean),
        ]
        due = [0.0] * len(chores)
        while True:
            await self._safely(self._scheduled)
            await self._safely(self._crons)
            await self._safely(self._unanswered)
            now = time.monotonic()
            for number, (every, chore) in enumerate(chores):
                if now >= due[number]:
                    due[number] = now + every
                    await self._safely(chore)
            await self._bell.wait(min(await self._pause(), max(0.01, min(due) - now)))

    async def _safely(self, chore: Callable[[], Awaitable[object]]) -> None:
        try:
            await chore()
        except DatabaseUnavailableError:
            await asyncio.sleep(0.5)  # it is logged where it is found out
        except Exception:
            log.exception("something that was due failed; it is tried again")
            await asyncio.sleep(0.5)

    async def _pause(self) -> float:
        def soonest(reads: Reads) -> float | None:
            found = (runs.next_due(reads), crons.next_due(reads), approvals.next_due(reads))
            return min((each for each in found if each is not None), default=None)

        try:
            due = await self._parts.database.read(soonest)
        except Exception:  # noqa: BLE001 - said where it is used
            return 1.0
        return _MINUTE if due is None else max(0.005, due - self._parts.database.time())

    async def _recover(self) -> None:
        seen = self._parts.see_agents()  # what becomes of a run is its agent's to say
        while await self._parts.write_current(seen, self._recovered) is None:
            seen = self._parts.see_agents()

    def _recovered(self, tx: Tx) -> bool:
        recover(tx, self._parts)
        return True

    async def _scheduled(self) -> None:
        await self._parts.database.write(_let_in)

    async def _unanswered(self) -> None:
        """Let runs go on whose questions nobody has answered in time."""
        await self._parts.database.write(expire)

    async def _crons(self) -> None:
        """Start what is due; nothing waits for what hooks have to say to it."""
        most_lost = self._parts.settings.most_lost
        for row in await self._parts.database.write(lambda tx: _due_crons(tx, most_lost)):
            starting = self._safely(partial(self._start, row))
            task = asyncio.get_running_loop().create_task(starting)
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start(self, row: Row) -> None:
        """Ask for a cron's run as its owner would; what is refused is the cron's last error."""
        asker = Asker(User(**row["user"]) if row["user"] else User(identity=row["owner"] or ""))
        once = Idempotency(f"{row['cron_id']}:{row['occurrence']}", "cron", "")
        error = None
        try:
            await self._check_key(row["key_id"])
            await self._admission.admit([cron_request(row)], asker, once)
        except RequestError as refused:
            error = f"{refused.status}: {refused}"
            log.warning("the run of cron %s was refused: %s", row["cron_id"], error)
        await self._parts.database.write(
            lambda tx: crons.change(tx, row["cron_id"], last_error=error, occurrence=None, lost=0)
        )

    async def _check_key(self, key_id: str | None) -> None:
        """Raise if the key that vouches for a cron could not ask for a run itself any more."""
        if key_id is None:
            return
        roles = await self._parts.database.read(lambda reads: keys.roles_in_force(reads, [key_id]))
        if roles.get(key_id) not in _ASKING:
            raise KeyRevokedError(
                f"the API key {key_id} that made or last changed this cron was revoked, or may "
                "only read. Change the cron with a key that is in force, and it goes on"
            )


def cron_request(row: Row) -> RunRequest:
    """Return the run that a cron asks for."""
    metadata = {**(row["payload"].get("metadata") or {}), "cron_id": row["cron_id"]}
    known = RunRequest.__dataclass_fields__
    given = {key: value for key, value in row["payload"].items() if key in known}
    return RunRequest(
        **given
        | {
            "assistant_id": row["assistant_id"],
            "thread_id": row["thread_id"],
            "metadata": metadata,
            "origin": "cron",
            "keep_thread": row["on_run_completed"] == "keep",
        }
    )


def _let_in(tx: Tx) -> None:
    """Let scheduled runs that are due into their threads."""
    now = tx.time()
    for row in runs.due(tx, now):
        free = True
        changed: dict[str, object] = {"due_at": None, "updated_at": now}
        if not row["temporary"]:
            thread = threads.lock(tx, row["thread_id"])
            changed["base_seq"] = 0 if thread is None else thread["last_seq"]
            free = runs.slot_holder(tx, row["thread_id"]) is None
            threads.change(tx, row["thread_id"], status="busy", updated_at=now)
        phase = "starting" if free else "queued"
        runs.change_if(tx, row["run_id"], {"phase": "scheduled"}, phase=phase, **changed)
        if free:
            tx.tell("work", "")


def _due_crons(tx: Tx, most_lost: int) -> list[Row]:
    """Take the crons that are due, and set each to its next time."""
    now = tx.time()
    taken = []
    for row in crons.due(tx, now):
        over = row["end_at"] is not None and row["end_at"] <= now
        following = None if over else next_time(row["schedule"], row["timezone"], now)
        if following is not None and row["end_at"] is not None and following > row["end_at"]:
            following = None
        occurrence = None if over else row["next_run_at"]
        changed = {"next_run_at": following, "occurrence": occurrence, "updated_at": now, "lost": 0}
        crons.change(tx, row["cron_id"], **changed)
        if not over:
            taken.append(row | changed)
    for row in crons.stranded(tx, now - _MINUTE):
        lost = row["lost"] + 1
        if lost >= most_lost:
            error = f"{lost} processes went away while its run was asked for: it is left out"
            log.error("the run of cron %s is not asked for again: %s", row["cron_id"], error)
            crons.change(tx, row["cron_id"], occurrence=None, lost=0, last_error=error)
            continue
        crons.change(tx, row["cron_id"], updated_at=now, lost=lost)
        taken.append(row)
    return taken
