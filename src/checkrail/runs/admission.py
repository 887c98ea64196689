"""Admission: a run is asked for, the hooks agree, and it is kept, all within the request."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.records import uuid7
from checkrail.engine.values import plain
from checkrail.runs import jsons
from checkrail.runs.cancelling import Canceller
from checkrail.runs.catalogue import Entry
from checkrail.runs.errors import (
    SOON,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    RequestError,
    TooManyError,
)
from checkrail.runs.graphs.context import mirror_settings
from checkrail.runs.parts import HOOK, AgentsSeen, Parts
from checkrail.runs.quotas import OwnerQuotas, stored_size
from checkrail.runs.requests import Asker, Idempotency, RunRequest, subject, with_subject
from checkrail.runs.worker import Worker
from checkrail.store import assistants, idempotency, records, runs, sessions, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row

NAMESPACE = uuid.UUID("5b1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11")
"""Names the assistants that stand for the agents themselves."""

_DAY = 86_400.0
_OWED = ("hook", "callback")  # runs that others wait for, and that were admitted with theirs
_WAITING = ("hook", "cron", "callback")  # no client asks again for what these ask for


def own_assistant(agent_name: str) -> str:
    """Return the id of the assistant that stands for an agent as its config has it."""
    return str(uuid.uuid5(NAMESPACE, agent_name))


@dataclass(frozen=True, slots=True)
class _Draft:
    """A run that the hooks have yet to see, or have seen."""

    request: RunRequest
    row: Row
    thread: Row | None

    @property
    def new_thread(self) -> bool:
        """Whether its thread has to be made."""
        return self.thread is None


class Admission:
    """The way in for every run."""

    def __init__(self, parts: Parts, worker: Worker, canceller: Canceller) -> None:
        self._parts = parts
        self._worker = worker
        self._canceller = canceller
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._undecided: dict[str, Counter[str]] = {}  # what owners have asked for, not stored yet
        self.quotas = OwnerQuotas(parts.settings.quotas)

    async def admit(
        self,
        requests: Sequence[RunRequest],
        asker: Asker,
        once: Idempotency | None = None,
    ) -> list[Row]:
        """Admit runs, all or none, and give their rows; those that can start have started."""
        patient = _waits_for_database(requests)
        if once is not None and (known := await self._repeated(asker, once, patient=patient)):
            return known
        while True:
            with ExitStack() as turn:
                seen, drafts, known = await self._drafted_and_seen(requests, asker, once, turn)
                if known is not None:
                    return known
                # A client that goes away now must not leave a run behind that nobody begins with.
                keeping = self._kept(requests, drafts, asker, once, seen)
                task = asyncio.get_running_loop().create_task(keeping)
                task.add_done_callback(partial(_end_turn, turn.pop_all()))
            rows = await asyncio.shield(task)
            if rows is not None:
                return rows
            if drafts:  # what hooks have said so far is told of the same runs
                made = zip(requests, drafts, strict=True)
                requests = [replace(each, run_id=draft.row["run_id"]) for each, draft in made]

    async def _drafted_and_seen(
        self,
        requests: Sequence[RunRequest],
        asker: Asker,
        once: Idempotency | None,
        turn: ExitStack,
    ) -> tuple[AgentsSeen, list[_Draft], list[Row] | None]:
        """Draft runs and fire `before_run`, and give the agents that this went by.

        The hooks come last: nothing else is known by then that would refuse the runs. Where no
        hook stands at it nothing is drafted yet. Third are the runs that the same request has made
        before, instead of any.
        """
        parts, owner = self._parts, asker.keeps_as
        if not parts.has("before_run"):
            return parts.see_agents(), [], None
        await self._wait_for_turn(requests, owner, once, turn)
        ahead, asked_for = self._undecided.get(owner, Counter()), _asked_for(requests)
        self._undecided[owner] = ahead + asked_for
        turn.callback(self._decide, owner, asked_for)

        def draft(reads: Reads) -> tuple[int | None, list[_Draft], list[Row] | None]:
            if once is not None and (known := _repeated(reads, asker, once, parts.database.time())):
                return None, [], known
            drafts = self._drafted(requests, asker, reads)
            self._check_quotas(reads, drafts, asker, ahead)
            for each in drafts:
                self._check_thread_is_free(reads, each)
            return parts.catalogue.version, drafts, None

        patient = _waits_for_database(requests)
        version, drafts, known = await parts.read_current(draft, patient=patient)
        seen = parts.see_agents(*{draft.row["agent_name"] for draft in drafts})
        asked = [await self._asked(draft) for draft in drafts]
        return (seen if seen.version == version else AgentsSeen(version)), asked, known

    async def _wait_for_turn(
        self,
        requests: Sequence[RunRequest],
        owner: str,
        once: Idempotency | None,
        turn: ExitStack,
    ) -> None:
        """Wait until no other run of the same thread or request is between check and storage.

        Or its hooks would charge for a run that the other one keeps from being made.
        """
        keys = {f"thread {each.thread_id}" for each in requests if each.thread_id is not None}
        if once is not None:
            keys.add(f"request {owner} {once.route} {once.key}")
        for key in sorted(keys):
            lock = self._turns.setdefault(key, asyncio.Lock())
            await lock.acquire()
            turn.callback(lock.release)

    def _decide(self, owner: str, asked_for: Counter[str]) -> None:
        left = self._undecided.pop(owner) - asked_for
        if left:
            self._undecided[owner] = left

    async def _kept(
        self,
        requests: Sequence[RunRequest],
        asked: Sequence[_Draft],
        asker: Asker,
        once: Idempotency | None,
        seen: AgentsSeen,
    ) -> list[Row] | None:
        """Keep runs and begin with them; those that no hook had to see are drafted where kept.

        None: the agents are not what they were when they were seen, and nothing is kept.
        """
        drafts = [*asked]
        before = self._take_records(requests, asked)

        def keep(tx: Tx) -> tuple[list[Row], bool] | RequestError:
            try:
                if not drafts:
                    drafts.extend(self._drafted(requests, asker, tx))
                self._check_quotas(tx, drafts, asker)
            except RequestError as error:  # nothing is written: others' writes can stand
                return error
            records.add(tx, before)
            return self._keep(tx, drafts, asker, once)

        kept: tuple[list[Row], bool] | RequestError | None = None
        try:
            patient = _waits_for_database(requests)
            kept = await self._parts.write_current(seen, keep, patient=patient)
            if kept is None:
                return None
            if isinstance(kept, RequestError):
                raise kept
            rows, new = kept
            for row in rows if new else ():
                if row["worker_id"] is not None:
                    self._worker.take(row)
        finally:
            if before and not isinstance(kept, tuple):
                self._parts.log.keep_all(before)
            self._worker.promised.difference_update(each.row["run_id"] for each in drafts)
        return rows

    def _take_records(
        self, requests: Sequence[RunRequest], asked: Sequence[_Draft]
    ) -> list[dict[str, Any]]:
        """Take the records of what came before these runs, so that they are read in this order.

        That is their `before_run`, and the start of a hook whose work they are.
        """
        run_ids = [draft.row["run_id"] for draft in asked]
        run_ids += [each.parent_run_id for each in requests if each.origin == HOOK]
        log = self._parts.log
        return [row for run_id in run_ids if run_id for row in log.taken_records(run_id)]

    def _check_quotas(
        self,
        reads: Reads,
        drafts: Sequence[_Draft],
        asker: Asker,
        ahead: Counter[str] | None = None,
    ) -> None:
        """Raise if these runs are more than their owner may have; hooks' runs are the hooks'.

        `ahead` of them are runs and threads of the owner that hooks have yet to agree to.
        """
        counted = [draft for draft in drafts if draft.request.origin not in _OWED]
        if not counted or not asker.has_quotas:
            return
        ahead = ahead or Counter()
        self.quotas.check_runs(reads, asker.keeps_as, len(counted) + ahead["runs"])
        threads_made = sum(each.new_thread and not each.row["temporary"] for each in counted)
        if threads_made:
            self.quotas.check_threads(reads, asker.keeps_as, threads_made + ahead["threads"])

    async def _repeated(
        self, asker: Asker, once: Idempotency, *, patient: bool
    ) -> list[Row] | None:
        def find(reads: Reads) -> list[Row] | None:
            return _repeated(reads, asker, once, self._parts.database.time())

        return await self._parts.database.read(find, patient=patient)

    def _drafted(self, requests: Sequence[RunRequest], asker: Asker, reads: Reads) -> list[_Draft]:
        return [self._draft(reads, request, asker) for request in requests]

    def _draft(self, reads: Reads, request: RunRequest, asker: Asker) -> _Draft:
        assistant = self._assistant(reads, request.assistant_id, asker)
        thread = threads.get(reads, request.thread_id) if request.thread_id else None
        if request.thread_id is not None:
            _check_thread(thread, request, asker)
        config, context = mirror_settings(request.config, request.context)
        merged = replace(
            request,
            config=_merged(assistant["config"], config),
            context=_merged(assistant["context"], context),
        )
        now = self._parts.database.time()
        agent = self._parts.catalogue.runnable(assistant["graph_id"])
        if request.command is None and not request.resumes:
            check_parameters(agent, request.input)
        thread_id = request.thread_id or uuid7()
        row = {
            "run_id": request.run_id or uuid7(),
            "thread_id": thread_id,
            "session_id": _session_of(request, thread, thread_id),
            "parent_run_id": request.parent_run_id,
            "depth": request.depth,
            "needs": agent.needs(request.demands),
            "scope": request.scope,
            "told": request.told,
            "ready_at": None,
            "kept": None,
            "assistant_id": assistant["assistant_id"],
            "agent_name": assistant["graph_id"],
            "owner": asker.keeps_as,
            "user": plain(asker.user),
            "status": "pending",
            "phase": "queued",
            "blocked_by": None,
            "block_reason": None,
            "multitask_strategy": request.multitask_strategy,
            "metadata": {
                **assistant["metadata"],
                **request.metadata,
                "graph_id": assistant["graph_id"],
                "assistant_id": assistant["assistant_id"],
            },
            "kwargs": merged.kwargs(),
            "input": request.input,
            "parameters": None,
            "attempt": 0,
            "lost": 0,
            "worker_id": None,
            "cancel": None,
            "due_at": now + request.after_seconds if request.after_seconds > 0 else None,
            "timeout_seconds": request.timeout_seconds or agent.config.timeout_seconds,
            "base_seq": 0,
            "last_seq": 0,
            "temporary": request.thread_id is None and not request.keep_thread,
            "origin": request.origin,
            "created_at": now,
            "updated_at": now,
            "started_at": None,
            "ended_at": None,
        }
        return _Draft(request, row, thread)

    def _assistant(self, reads: Reads, assistant_id: str, asker: Asker) -> Row:
        catalogue = self._parts.catalogue
        named = assistant_id in catalogue or assistant_id in catalogue.broken
        row = assistants.get(reads, own_assistant(assistant_id) if named else assistant_id)
        if row is None or (asker.owner is not None and row["owner"] not in (None, asker.owner)):
            gone = (
                runs.agent_of_assistant(reads, assistant_id, asker.owner) if row is None else None
            )
            why = "" if gone is None else f": its agent {gone!r} was removed"
            raise NotFoundError(
                f"assistant {assistant_id!r} not found{why}. "
                "POST /assistants/search lists those that you may see"
            )
        if row["graph_id"] not in catalogue and row["graph_id"] not in catalogue.broken:
            raise ConflictError(
                f"the assistant {assistant_id!r} is for the agent {row['graph_id']!r}, "
                "which this server does not have any more"
            )
        return row

    async def _asked(self, draft: _Draft) -> _Draft:
        """Ask the hooks at `before_run`; what they refuse is kept for the audit, and raised."""
        row = draft.row
        scope = self._parts.scope(row)
        if not scope.has("before_run"):
            return draft
        key, given = subject(row)
        verdict = await scope.fire("before_run", given)
        if verdict.decision in (Decision.BLOCK, Decision.FAIL):
            status = verdict.status or (500 if verdict.decision is Decision.FAIL else 403)
            told = self._parts.log.taken_records(row["run_id"])
            await self._parts.database.write(lambda tx: _keep_refused(tx, row, verdict, told))
            raise RefusedError(
                verdict.reason,
                status,
                row["run_id"],
                verdict.hook,
                verdict.code,
                retry_after=verdict.retry_after,
            )
        changed = thaw(verdict.value)
        if changed == given:
            return draft
        kept = {} if key == "command" else {"input": thaw(verdict.given)}  # as a redaction left it
        return replace(draft, row=row | kept | with_subject(row, key, changed))

    def _keep(
        self, tx: Tx, drafts: Sequence[_Draft], asker: Asker, once: Idempotency | None
    ) -> tuple[list[Row], bool]:
        """Keep the runs, unless the same request made them before; and say which it was."""
        if once is not None:
            known = _repeated(tx, asker, once, tx.time())
            made = [draft.row["run_id"] for draft in drafts]
            if known is None and not _remember(tx, asker, once, made):
                known = _repeated(tx, asker, once, tx.time())  # another server was quicker
            if known is not None:
                return known, False
        return [self._keep_one(tx, draft, asker) for draft in drafts], True

    def _keep_one(self, tx: Tx, draft: _Draft, asker: Asker) -> Row:
        row, request = dict(draft.row), draft.request
        free, thread = True, dict[str, Any]()
        if not row["temporary"]:
            thread, new = self._locked(tx, draft, asker)
            row["base_seq"] = thread["last_seq"]
            free = new or self._make_way(tx, row, request)
        if row["due_at"] is not None:
            row["phase"] = "scheduled"
            tx.tell("clock", "")
        elif free and self._is_ours(row, request):
            if row["origin"] != HOOK:  # which takes no capacity
                self._worker.promised.add(row["run_id"])
            row |= self._begun(row["agent_name"])
        elif free:
            row |= self._free(row["agent_name"])
            tx.tell("work", "")
        stored = _with_size({key: _stored(key, value) for key, value in row.items()})
        row["stored_bytes"] = stored["stored_bytes"]
        runs.add(tx, stored)
        records.note(tx, "run_created", row)
        if row["worker_id"] is not None:
            records.note(tx, "run_started", row)
        if not row["temporary"]:
            self._note_run(tx, row, thread)
        return row

    def _note_run(self, tx: Tx, row: Row, thread: Row) -> None:
        """Write on a thread that it has a run, and of what."""
        noted = {"updated_at": row["created_at"], "metadata": {**thread["metadata"], **_ids(row)}}
        if row["phase"] != "scheduled":
            noted["status"] = "busy"
        changed = {key: value for key, value in noted.items() if thread[key] != value}
        if changed:  # one that was made just now has it all
            threads.change(tx, row["thread_id"], **changed)

    def _is_ours(self, row: Row, request: RunRequest) -> bool:
        """Return whether this process begins with a run as soon as it is kept."""
        if request.origin == HOOK:
            room = self._worker.hook_room > 0 or (request.at_once and self._worker.takes_more)
        else:
            room = self._worker.room > 0
        return room and self._parts.fits(row["needs"])

    def _free(self, agent_name: str) -> dict[str, Any]:
        """Return what a run becomes that anybody may take: without start hooks it is ready."""
        if self._parts.has_start_hooks(agent_name):
            return {"phase": "starting"}
        return {"phase": "ready", "ready_at": self._parts.database.time()}

    def _begun(self, agent_name: str) -> dict[str, Any]:
        straight = not self._parts.has_start_hooks(agent_name)
        return {
            "phase": "running" if straight else "starting",
            "status": "running",
            "worker_id": self._parts.worker_id,
            "attempt": 1,
            "started_at": self._parts.database.time(),
        }

    def _locked(self, tx: Tx, draft: _Draft, asker: Asker) -> tuple[Row, bool]:
        """Lock the thread of a run, and say whether it had to be made first."""
        thread_id = draft.row["thread_id"]
        if draft.new_thread:
            made = new_thread(
                thread_id,
                asker.keeps_as,
                draft.row["created_at"],
                session_id=draft.row["session_id"],
                metadata={**draft.request.metadata, **_ids(draft.row)},
                stored_bytes=metadata_size(draft.request.metadata),
                status="busy" if draft.row["due_at"] is None else "idle",
                **self._parts.settings.thread_ttl(draft.row["created_at"]),
            )
            if threads.add(tx, made):
                open_session(tx, draft.row, asker, draft.request)
                return made, True
        thread = threads.lock(tx, thread_id)
        if thread is None:
            raise NotFoundError(f"thread {thread_id!r} not found")
        if draft.new_thread and asker.owner not in (None, thread["owner"]):
            raise NotFoundError(f"thread {thread_id!r} not found")
        return thread, False

    def _check_thread_is_free(self, reads: Reads, draft: _Draft) -> None:
        """Raise what storing a run would, if its thread has other runs already."""
        thread, strategy = draft.thread, draft.request.multitask_strategy
        if thread is not None and (thread["status"] == "busy" or strategy == "reject"):
            self._find_holder(reads, thread["thread_id"], strategy)

    def _find_holder(self, reads: Reads, thread_id: str, strategy: str) -> str | None:
        """Return the run that has a thread; raise if another one cannot wait for it."""
        holder = runs.slot_holder(reads, thread_id)
        if holder is None and strategy == "reject":  # one that is only scheduled is in the way too
            live = runs.live_of(reads, thread_id)
            holder = live[0]["run_id"] if live else None
        if holder is None:
            return None
        if strategy == "reject":
            raise ConflictError(
                f"the thread {thread_id!r} is busy with the run {holder}. "
                "Wait for it, or say multitask_strategy enqueue, interrupt or rollback"
            )
        waiting = runs.count_queued(reads, thread_id)
        if waiting >= self._parts.settings.queued_per_thread:
            raise TooManyError(
                f"{waiting} runs wait for the thread {thread_id!r} already. "
                "Try again when some of them have ended",
                retry_after=SOON,
            )
        return holder

    def _make_way(self, tx: Tx, row: Row, request: RunRequest) -> bool:
        """Do as the strategy says with runs that are under way; True: the thread is free."""
        strategy = request.multitask_strategy
        if self._find_holder(tx, row["thread_id"], strategy) is None:
            return True
        if strategy in ("interrupt", "rollback"):
            free = self._canceller.clear_thread(tx, row["thread_id"], strategy)
            row["base_seq"] = (threads.get(tx, row["thread_id"]) or row)["last_seq"]
            return free
        return False


def _asked_for(requests: Sequence[RunRequest]) -> Counter[str]:
    """Count the runs, and the threads that may be new, that an owner's requests ask for."""
    new = (each.keep_thread or each.if_not_exists == "create" for each in requests)
    return Counter(runs=len(requests), threads=sum(new))


def _end_turn(turn: ExitStack, _task: asyncio.Task[Any]) -> None:
    turn.close()


def check_parameters(agent: Entry, given: Any) -> None:
    """Raise everything that is wrong with what an agent is given, so that it can be corrected."""
    found = [] if agent.takes is None else agent.takes.problems({} if given is None else given)
    if found:
        told = f"{found[0]['path'] or 'at the top'}: {found[0]['message']}"
        raise InvalidError(
            f"the parameters do not fit what the agent {agent.name!r} takes, {told}", found
        )


def _session_of(request: RunRequest, thread: Row | None, thread_id: str) -> str:
    """Return the session of a run: the one it was asked for, its thread's, or one of its own."""
    known = thread["session_id"] if thread is not None else request.session_id
    return known or thread_id


def open_session(tx: Tx, row: Row, asker: Asker, request: RunRequest | None = None) -> None:
    """Open the session of a thread that is new, unless it belongs to one that is there."""
    sessions.add(
        tx,
        {
            "session_id": row["session_id"],
            "parent_session_id": request.parent_session_id if request else None,
            "owner": asker.keeps_as,
            "user": plain(asker.user),
            "channel": request.channel if request else "api",
            "metadata": dict(request.metadata) if request else {},
            "created_at": row["created_at"],
            "updated_at": row["created_at"],
        },
    )


def _ids(row: Row) -> dict[str, Any]:
    """Return what a thread says of its last run."""
    return {"graph_id": row["agent_name"], "assistant_id": row["assistant_id"]}


def metadata_size(metadata: Mapping[str, Any]) -> int | None:
    """Return the bytes of a thread's metadata, which count for its owner; none where it is bare."""
    return stored_size(metadata) if metadata else None


def new_thread(thread_id: str, owner: str | None, now: float, **more: Any) -> dict[str, Any]:
    """Return the row of a thread that is new."""
    return {
        "thread_id": thread_id,
        "owner": owner,
        "status": "idle",
        "metadata": {},
        "last_seq": 0,
        "temporary": False,
        "created_at": now,
        "updated_at": now,
        **more,
    }


def _check_thread(thread: Row | None, request: RunRequest, asker: Asker) -> None:
    if thread is not None and (asker.owner in (None, thread["owner"])):
        return
    if thread is None and request.if_not_exists == "create":
        return
    raise NotFoundError(
        f"thread {request.thread_id!r} not found. Create it first, or say if_not_exists: create"
    )


def _merged(own: Any, given: Any) -> Any:
    """Put what a request says over what the assistant says, `configurable` key by key."""
    if not own or not isinstance(own, dict) or not isinstance(given, (dict, type(None))):
        return given if given is not None else own
    merged = {**own, **(given or {})}
    for key in ("configurable", "metadata"):
        if key in own and given and key in given:
            merged[key] = {**own[key], **given[key]}
    return merged


_PACKED = ("kwargs", "input", "parameters", "user", "scope", "told")


def _stored(key: str, value: Any) -> Any:
    return jsons.dumps(value) if key in _PACKED and value is not None else value


def _keep_refused(tx: Tx, row: Row, verdict: Any, told: list[Row]) -> None:
    now = tx.time()
    given = thaw(verdict.given) if row["input"] is not None else None
    refused = {
        "status": "error",
        "phase": "refused",
        "input": given,
        "error": verdict.reason,
        "error_type": "Blocked" if verdict.decision is Decision.BLOCK else "HookFailed",
        "blocked_by": verdict.hook,
        "block_reason": verdict.reason,
        "due_at": None,
        "updated_at": now,
        "ended_at": now,
    }
    runs.add(tx, _with_size({key: _stored(key, value) for key, value in (row | refused).items()}))
    records.add(tx, told)
    records.note(tx, "run_ended", row | refused, error=verdict.reason, blocked_by=verdict.hook)


def _with_size(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the bytes of what the run was given, which count for its owner."""
    given = (stored[key] for key in ("input", "kwargs", "parameters"))
    size = sum(len(each) for each in given if each is not None)
    return {**stored, "stored_bytes": size + len(jsons.dumps(stored["metadata"]))}


def _waits_for_database(requests: Sequence[RunRequest]) -> bool:
    """Return whether runs are requested by somebody who would not do it a second time."""
    return any(request.origin in _WAITING for request in requests)


def _repeated(reads: Reads, asker: Asker, once: Idempotency, now: float) -> list[Row] | None:
    """Find the runs that the same request has made before."""
    known = idempotency.find(reads, asker.keeps_as, once.route, once.key)
    if known is None or known["created_at"] < now - _DAY:
        return None
    if known["digest"] != once.digest:
        raise InvalidError(
            f"the Idempotency-Key {once.key!r} was used with another body. Use a new key"
        )
    found = [runs.get(reads, run_id) for run_id in known["run_ids"]]
    if None in found:
        raise ConflictError(
            f"what the Idempotency-Key {once.key!r} made is gone by now. Use a new key"
        )
    return [row for row in found if row is not None]


def _remember(tx: Tx, asker: Asker, once: Idempotency, run_ids: list[str]) -> bool:
    owner, now = asker.keeps_as, tx.time()
    idempotency.drop_before(tx, owner, once.route, once.key, now - _DAY)
    return idempotency.add(
        tx,
        {
            "owner": owner,
            "route": once.route,
            "key": once.key,
            "digest": once.digest,
            "run_ids": run_ids,
            "created_at": now,
        },
    )
