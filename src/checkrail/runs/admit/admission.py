"""Admission: a run is asked for, the hooks agree, and it is kept, all within the request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.records import RecordKind
from checkrail.engine.values import plain
from checkrail.engine.verdict import Verdict
from checkrail.runs import jsons
from checkrail.runs.admit.quotas import stored_size
from checkrail.runs.admit.requests import (
    Idempotency,
    Principal,
    RunRequest,
    hook_subject,
    subject_changes,
)
from checkrail.runs.agents.catalogue import AgentEntry, agent_assistant_id
from checkrail.runs.errors import (
    SOON,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    RequestError,
    TooManyError,
)
from checkrail.runs.execute.worker import Worker
from checkrail.runs.finish.canceller import Canceller
from checkrail.runs.graphs.context import context_names, mirror_settings
from checkrail.runs.services import HOOK, MESSAGE, AgentsSeen, RunServices
from checkrail.runs.summaries import summary_columns
from checkrail.store import assistants, idempotency, records, runs, sessions, threads
from checkrail.store.assistants import Assistant
from checkrail.store.database import Reads, Tx
from checkrail.store.idempotency import StoredRequest
from checkrail.store.records import HookCounts, StoredRecord
from checkrail.store.runs import Run
from checkrail.store.sessions import Session
from checkrail.store.threads import Thread
from checkrail.times import uuid7

_DAY = 86_400.0
_OWED = ("hook", "callback")  # runs that others wait for, and that were admitted with theirs
_WAITING = ("hook", "cron", "callback", MESSAGE)  # no client asks again for what these ask for

Confirm = Callable[[Tx], None]
"""Raises a `RequestError` before it has written anything, if runs are not to be stored."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A run that the hooks have yet to see, or have seen."""

    request: RunRequest
    row: Run
    thread: Thread | None
    hook_counts: dict[str, Any] = field(default_factory=dict)  # of those who have seen it

    @property
    def needs_thread(self) -> bool:
        """Whether its thread has to be created."""
        return self.thread is None


class Admission:
    """The way in for every run."""

    def __init__(self, parts: RunServices, worker: Worker, canceller: Canceller) -> None:
        self._parts = parts
        self._worker = worker
        self._canceller = canceller
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._undecided: dict[str, Counter[str]] = {}  # what owners have asked for, not stored yet

    async def admit(
        self,
        requests: Sequence[RunRequest],
        asker: Principal,
        once: Idempotency | None = None,
        confirm: Confirm | None = None,
    ) -> list[Run]:
        """Admit runs, all or none, and return their rows; those that can start have started.

        `confirm` has the last word, in the transaction that stores them.
        """
        patient = _waits_for_database(requests)
        if once is not None and (known := await self._find_repeated(asker, once, patient=patient)):
            return known
        while True:
            with ExitStack() as turn:
                seen, drafts, known = await self._draft_and_fire(requests, asker, once, turn)
                if known is not None:
                    return known
                # A client that goes away now must not leave a run behind that nobody begins with.
                keeping = self._store_runs(requests, drafts, asker, once, seen, confirm)
                task = asyncio.get_running_loop().create_task(keeping)
                task.add_done_callback(partial(_end_turn, turn.pop_all()))
            rows = await asyncio.shield(task)
            if rows is not None:
                return rows
            if drafts:  # what hooks have said so far is told of the same runs
                made = zip(requests, drafts, strict=True)
                requests = [replace(each, run_id=draft.row.run_id) for each, draft in made]

    async def _draft_and_fire(
        self,
        requests: Sequence[RunRequest],
        asker: Principal,
        once: Idempotency | None,
        turn: ExitStack,
    ) -> tuple[AgentsSeen, list[_Draft], list[Run] | None]:
        """Draft runs, fire `before_run`, and return the agents by which this was decided.

        The hooks come last: nothing else is known by then that would refuse the runs. Where no
        hook stands at it nothing is drafted yet. Third are the runs that the same request has made
        before, instead of any.
        """
        parts, owner = self._parts, asker.owner_of_new
        if not parts.has_hooks("before_run"):
            return parts.see_agents(), [], None
        await self._wait_for_turn(requests, owner, once, turn)
        ahead, asked_for = self._undecided.get(owner, Counter()), _count_requested(requests)
        self._undecided[owner] = ahead + asked_for
        turn.callback(self._count_decided, owner, asked_for)

        def read_drafts(reads: Reads) -> tuple[int | None, list[_Draft], list[Run] | None]:
            if once is not None and (
                known := _load_repeated(reads, asker, once, parts.database.time())
            ):
                return None, [], known
            drafts = self._draft_runs(requests, asker, reads)
            self._check_quotas(reads, drafts, asker, ahead)
            for each in drafts:
                self._check_thread_is_free(reads, each)
            return parts.catalogue.version, drafts, None

        patient = _waits_for_database(requests)
        version, drafts, known = await parts.read_current(read_drafts, patient=patient)
        seen = parts.see_agents(*{draft.row.agent_name for draft in drafts})
        asked = [await self._fire_before_run(draft) for draft in drafts]
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

    def _count_decided(self, owner: str, asked_for: Counter[str]) -> None:
        left = self._undecided.pop(owner) - asked_for
        if left:
            self._undecided[owner] = left

    async def _store_runs(  # noqa: PLR0917 - one call of it
        self,
        requests: Sequence[RunRequest],
        asked: Sequence[_Draft],
        asker: Principal,
        once: Idempotency | None,
        seen: AgentsSeen,
        confirm: Confirm | None = None,
    ) -> list[Run] | None:
        """Store runs and start them; those that no hook had to see are drafted here.

        None: the agents are not what they were when they were seen, and nothing is kept.
        """
        drafts = [*asked]
        before = self._take_records(requests, asked)

        def store_drafts(tx: Tx) -> tuple[list[Run], bool] | RequestError:
            try:
                if not drafts:
                    drafts.extend(self._draft_runs(requests, asker, tx))
                self._check_quotas(tx, drafts, asker)
                if confirm is not None:
                    confirm(tx)
            except RequestError as error:  # nothing is written: others' writes can stand
                return error
            records.add(tx, before)
            return self._store_drafts(tx, drafts, asker, once)

        kept: tuple[list[Run], bool] | RequestError | None = None
        try:
            patient = _waits_for_database(requests)
            kept = await self._parts.write_current(seen, store_drafts, patient=patient)
            if kept is None:
                return None
            if isinstance(kept, RequestError):
                raise kept
            rows, new = kept
            for row in rows if new else ():
                if row.worker_id is not None:
                    self._worker.take(row)
        finally:
            if before and not isinstance(kept, tuple):
                self._parts.log.restore_records(before)
            self._worker.promised.difference_update(each.row.run_id for each in drafts)
        return rows

    def _take_records(
        self, requests: Sequence[RunRequest], asked: Sequence[_Draft]
    ) -> list[StoredRecord]:
        """Take the records of what came before these runs, so that they are read in this order.

        That is their `before_run`, the hooks of a message that they answer, and the start of a
        hook whose work they are.
        """
        run_ids: list[str | None] = [draft.row.run_id for draft in asked]
        run_ids += [each.parent_run_id for each in requests if each.origin == HOOK]
        if not asked:
            run_ids += [each.run_id for each in requests if each.origin == MESSAGE]
        log = self._parts.log
        return [row for run_id in run_ids if run_id for row in log.take_records(run_id)]

    def _check_quotas(
        self,
        reads: Reads,
        drafts: Sequence[_Draft],
        asker: Principal,
        ahead: Counter[str] | None = None,
    ) -> None:
        """Raise if these runs are more than their owner may have; hooks' runs are the hooks'.

        `ahead` of them are runs and threads of the owner that hooks have yet to agree to.
        """
        counted = [draft for draft in drafts if draft.request.origin not in _OWED]
        if not counted or not asker.has_quotas:
            return
        ahead = ahead or Counter()
        self._parts.quotas.check_runs(reads, asker.owner_of_new, len(counted) + ahead["runs"])
        threads_made = sum(each.needs_thread and not each.row.temporary for each in counted)
        if threads_made:
            self._parts.quotas.check_threads(
                reads, asker.owner_of_new, threads_made + ahead["threads"]
            )

    async def _find_repeated(
        self, asker: Principal, once: Idempotency, *, patient: bool
    ) -> list[Run] | None:
        def find_runs(reads: Reads) -> list[Run] | None:
            return _load_repeated(reads, asker, once, self._parts.database.time())

        return await self._parts.database.read(find_runs, patient=patient)

    def _draft_runs(
        self, requests: Sequence[RunRequest], asker: Principal, reads: Reads
    ) -> list[_Draft]:
        return [self._draft_run(reads, request, asker) for request in requests]

    def _draft_run(self, reads: Reads, request: RunRequest, asker: Principal) -> _Draft:
        assistant = self._find_assistant(reads, request.assistant_id, asker)
        thread = threads.get(reads, request.thread_id) if request.thread_id else None
        if request.thread_id is not None:
            _check_thread(thread, request, asker)
        config, context = mirror_settings(request.config, request.context)
        merged = replace(
            request,
            config=_merge_settings(assistant.config, config),
            context=_merge_settings(assistant.context, context),
            context_names=context_names(request.config, request.context),
        )
        now = self._parts.database.time()
        agent = self._parts.catalogue.require_runnable(assistant.graph_id)
        if request.command is None and not request.resumes:
            check_parameters(agent, request.input)
        thread_id = request.thread_id or uuid7()
        row = Run(
            run_id=request.run_id or uuid7(),
            thread_id=thread_id,
            session_id=_session_of(request, thread, thread_id),
            parent_run_id=request.parent_run_id,
            depth=request.depth,
            needs=agent.needs(request.demands),
            scope=request.scope,
            notify_on_end=request.notify_on_end,
            assistant_id=assistant.assistant_id,
            agent_name=assistant.graph_id,
            agent_version=agent.version if agent.made_over_http else None,
            owner=asker.owner_of_new,
            user=plain(asker.user),
            multitask_strategy=request.multitask_strategy,
            metadata={
                **assistant.metadata,
                **request.metadata,
                "graph_id": assistant.graph_id,
                "assistant_id": assistant.assistant_id,
            },
            kwargs=merged.kwargs(),
            input=request.input,
            due_at=now + request.after_seconds if request.after_seconds > 0 else None,
            timeout_seconds=request.timeout_seconds or agent.config.timeout_seconds,
            temporary=request.thread_id is None and not request.keep_thread,
            origin=request.origin,
            created_at=now,
            updated_at=now,
        )
        return _Draft(request, row, thread)

    def _find_assistant(self, reads: Reads, assistant_id: str, asker: Principal) -> Assistant:
        catalogue = self._parts.catalogue
        named = assistant_id in catalogue or assistant_id in catalogue.broken
        row = assistants.get(reads, agent_assistant_id(assistant_id) if named else assistant_id)
        if row is None or (asker.owner is not None and row.owner not in (None, asker.owner)):
            gone = (
                runs.agent_of_assistant(reads, assistant_id, asker.owner) if row is None else None
            )
            why = "" if gone is None else f": its agent {gone!r} was removed"
            raise NotFoundError(
                f"assistant {assistant_id!r} not found{why}. "
                "POST /assistants/search lists those that you may see"
            )
        if row.graph_id not in catalogue and row.graph_id not in catalogue.broken:
            raise ConflictError(
                f"the assistant {assistant_id!r} is for the agent {row.graph_id!r}, "
                "which this server does not have any more"
            )
        return row

    async def _fire_before_run(self, draft: _Draft) -> _Draft:
        """Fire `before_run`; what the hooks refuse is stored for the audit, and raised."""
        row = draft.row
        scope = self._parts.scope(row)
        if not scope.has("before_run"):
            return draft
        key, given = hook_subject(row)
        verdict = await scope.fire_detached("before_run", given)
        if verdict.decision in (Decision.BLOCK, Decision.FAIL):
            status = verdict.status or (500 if verdict.decision is Decision.FAIL else 403)
            told = self._parts.log.take_records(row.run_id)
            counts = _count_calls(verdict)
            refused = await self._parts.database.write(
                lambda tx: _store_refused(tx, row, verdict, told, counts)
            )
            self._parts.quotas.charge_bytes(row.owner, refused.stored_bytes or 0)
            self._parts.rollups.add_run(
                refused,
                {"status": refused.status, "phase": refused.phase, "ended_at": refused.ended_at},
            )
            raise RefusedError(
                verdict.reason,
                status,
                row.run_id,
                verdict.hook,
                verdict.code,
                retry_after=verdict.retry_after,
            )
        changed = thaw(verdict.value)
        draft = replace(draft, hook_counts=_count_calls(verdict))
        if changed == given:
            return draft
        kept = {} if key == "command" else {"input": thaw(verdict.given)}  # as a redaction left it
        return replace(draft, row=replace(row, **kept, **subject_changes(row, key, changed)))

    def _store_drafts(
        self, tx: Tx, drafts: Sequence[_Draft], asker: Principal, once: Idempotency | None
    ) -> tuple[list[Run], bool]:
        """Store the runs, unless the same request created them before; return which it was."""
        if once is not None:
            known = _load_repeated(tx, asker, once, tx.time())
            made = [draft.row.run_id for draft in drafts]
            if known is None and not _store_idempotency(tx, asker, once, made):
                known = _load_repeated(tx, asker, once, tx.time())  # another server was quicker
            if known is not None:
                return known, False
        return [self._store_draft(tx, draft, asker) for draft in drafts], True

    def _store_draft(self, tx: Tx, draft: _Draft, asker: Principal) -> Run:
        row, request = draft.row, draft.request
        free, thread = True, None
        placed: dict[str, Any] = {}
        if not row.temporary:
            thread, new = self._lock_thread(tx, draft, asker)
            free, base_seq = (True, thread.last_seq) if new else self._make_way(tx, thread, request)
            placed["base_seq"] = base_seq
        if row.due_at is not None:
            placed["phase"] = "scheduled"
            tx.publish("clock", "")
        elif free and self._is_ours(row, request):
            if row.origin != HOOK:  # which takes no capacity
                self._worker.promised.add(row.run_id)
            placed |= self._started_columns(row.agent_name)
        elif free:
            placed |= self._unclaimed_columns(row.agent_name)
            tx.publish("work", "")
        packed = _pack_columns(row)
        row = replace(row, **placed, **draft.hook_counts, stored_bytes=_given_size(row, packed))
        row = _with_summary(row)
        runs.add(tx, row, packed)
        self._parts.quotas.charge_bytes(row.owner, row.stored_bytes or 0)
        records.note_event(tx, "run_created", row)
        if row.worker_id is not None:
            records.note_event(tx, "run_started", row)
        if thread is not None:
            self._note_run(tx, row, thread)
        return row

    def _note_run(self, tx: Tx, row: Run, thread: Thread) -> None:
        """Write on a thread that it has a run, and of what."""
        noted = {
            "updated_at": row.created_at,
            "metadata": {**thread.metadata, **_last_run_ids(row)},
        }
        if row.phase != "scheduled":
            noted["status"] = "busy"
        changed = {key: value for key, value in noted.items() if getattr(thread, key) != value}
        if changed:  # one that was made just now has it all
            threads.update_thread(tx, row.thread_id, **changed)

    def _is_ours(self, row: Run, request: RunRequest) -> bool:
        """Return whether this process starts a run as soon as it is stored."""
        if request.origin == HOOK:
            room = self._worker.hook_room > 0 or (request.at_once and self._worker.can_take_more)
        else:
            room = self._worker.room > 0
        return room and self._parts.can_run(row.needs)

    def _unclaimed_columns(self, agent_name: str) -> dict[str, Any]:
        """Return the columns of a run that anybody may take: without start hooks it is ready."""
        if self._parts.has_start_hooks(agent_name):
            return {"phase": "starting"}
        return {"phase": "ready", "ready_at": self._parts.database.time()}

    def _started_columns(self, agent_name: str) -> dict[str, Any]:
        straight = not self._parts.has_start_hooks(agent_name)
        return {
            "phase": "running" if straight else "starting",
            "status": "running",
            "worker_id": self._parts.worker_id,
            "attempt": 1,
            "started_at": self._parts.database.time(),
        }

    def _lock_thread(self, tx: Tx, draft: _Draft, asker: Principal) -> tuple[Thread, bool]:
        """Lock the thread of a run, and return whether it had to be created first."""
        thread_id = draft.row.thread_id
        if draft.needs_thread:
            made = new_thread(
                thread_id,
                asker.owner_of_new,
                draft.row.created_at,
                session_id=draft.row.session_id,
                metadata={**draft.request.metadata, **_last_run_ids(draft.row)},
                stored_bytes=metadata_size(draft.request.metadata),
                status="busy" if draft.row.due_at is None else "idle",
                **self._parts.settings.thread_ttl(draft.row.created_at),
            )
            if threads.add(tx, made):
                open_session(tx, draft.row, asker, draft.request)
                return made, True
        thread = threads.lock(tx, thread_id)
        if thread is None:
            raise NotFoundError(f"thread {thread_id!r} not found")
        if draft.needs_thread and asker.owner not in (None, thread.owner):
            raise NotFoundError(f"thread {thread_id!r} not found")
        return thread, False

    def _check_thread_is_free(self, reads: Reads, draft: _Draft) -> None:
        """Raise what storing a run would, if its thread has other runs already."""
        thread, strategy = draft.thread, draft.request.multitask_strategy
        if thread is not None and (thread.status == "busy" or strategy == "reject"):
            self._find_holder(reads, thread.thread_id, strategy)

    def _find_holder(self, reads: Reads, thread_id: str, strategy: str) -> str | None:
        """Return the run that has a thread; raise if another one cannot wait for it."""
        holder = runs.slot_holder(reads, thread_id)
        if holder is None and strategy == "reject":  # one that is only scheduled is in the way too
            live = runs.live_of(reads, thread_id)
            holder = live[0].run_id if live else None
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

    def _make_way(self, tx: Tx, thread: Thread, request: RunRequest) -> tuple[bool, int]:
        """Apply the multitask strategy to the runs of a thread.

        Return whether it is free, and the number of its last event then.
        """
        strategy, thread_id = request.multitask_strategy, thread.thread_id
        if self._find_holder(tx, thread_id, strategy) is None:
            return True, thread.last_seq
        if strategy in ("interrupt", "rollback"):
            free = self._canceller.clear_thread(tx, thread_id, strategy)
            return free, threads.last_seq(tx, thread_id)
        return False, thread.last_seq


def _count_requested(requests: Sequence[RunRequest]) -> Counter[str]:
    """Count the runs, and the threads that may be new, that an owner's requests call for."""
    new = (each.keep_thread or each.if_not_exists == "create" for each in requests)
    return Counter(runs=len(requests), threads=sum(new))


def _end_turn(turn: ExitStack, _task: asyncio.Task[Any]) -> None:
    turn.close()


def check_parameters(agent: AgentEntry, given: Any) -> None:
    """Raise everything that is wrong with what an agent is given, so that it can be corrected."""
    found = [] if agent.takes is None else agent.takes.problems({} if given is None else given)
    if found:
        told = f"{found[0]['path'] or 'at the top'}: {found[0]['message']}"
        raise InvalidError(
            f"the parameters do not fit what the agent {agent.name!r} takes, {told}", found
        )


def _session_of(request: RunRequest, thread: Thread | None, thread_id: str) -> str:
    """Return the session of a run: the one that was requested, its thread's, or one of its own."""
    known = thread.session_id if thread is not None else request.session_id
    return known or thread_id


def open_session(tx: Tx, row: Run, asker: Principal, request: RunRequest | None = None) -> None:
    """Open the session of a thread that is new, unless it belongs to one that is there."""
    sessions.add(
        tx,
        Session(
            session_id=row.session_id or row.thread_id,
            parent_session_id=request.parent_session_id if request else None,
            owner=asker.owner_of_new,
            user=plain(asker.user),
            channel=request.channel if request else "api",
            metadata=dict(request.metadata) if request else {},
            created_at=row.created_at,
            updated_at=row.created_at,
        ),
    )


def _last_run_ids(row: Run) -> dict[str, Any]:
    """Return what a thread says of its last run."""
    return {"graph_id": row.agent_name, "assistant_id": row.assistant_id}


def metadata_size(metadata: Mapping[str, Any]) -> int | None:
    """Return the bytes of a thread's metadata, which count for its owner; none where it is bare."""
    return stored_size(metadata) if metadata else None


def new_thread(
    thread_id: str,
    owner: str | None,
    now: float,
    *,
    metadata: dict[str, Any] | None = None,
    status: str = "idle",
    **more: Any,
) -> Thread:
    """Return a thread that is new."""
    return Thread(
        thread_id=thread_id,
        owner=owner,
        status=status,
        metadata=metadata or {},
        last_seq=0,
        temporary=False,
        created_at=now,
        updated_at=now,
        **more,
    )


def _check_thread(thread: Thread | None, request: RunRequest, asker: Principal) -> None:
    if thread is not None and (asker.owner in (None, thread.owner)):
        return
    if thread is None and request.if_not_exists == "create":
        return
    raise NotFoundError(
        f"thread {request.thread_id!r} not found. Create it first, or say if_not_exists: create"
    )


def _merge_settings(own: Any, given: Any) -> Any:
    """Merge the settings of a request over the assistant's, `configurable` key by key."""
    if not own or not isinstance(own, dict) or not isinstance(given, (dict, type(None))):
        return given if given is not None else own
    merged = {**own, **(given or {})}
    for key in ("configurable", "metadata"):
        if key in own and given and key in given:
            merged[key] = {**own[key], **given[key]}
    return merged


_PACKED = ("kwargs", "input", "parameters", "user", "scope", "notify_on_end")


def _pack_columns(run: Run) -> dict[str, bytes]:
    """Return the columns of a new run that are JSON, as they are stored."""
    values = {name: getattr(run, name) for name in _PACKED}
    return {name: jsons.dumps(value) for name, value in values.items() if value is not None}


def _count_calls(verdict: Verdict) -> dict[str, Any]:
    """Return the counts of the hooks that admitted a run, or did not."""
    counts = HookCounts()
    for record in verdict.records:
        if record.kind is not RecordKind.START:
            counts.add_ending(record)
    return counts.columns()


def _store_refused(
    tx: Tx, row: Run, verdict: Any, told: list[StoredRecord], counts: dict[str, Any]
) -> Run:
    now = tx.time()
    given = thaw(verdict.given) if row.input is not None else None
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
    run = replace(row, **refused)
    packed = _pack_columns(run)
    run = replace(run, stored_bytes=_given_size(run, packed), **counts)
    run = _with_summary(run, verdict.reason)
    runs.add(tx, run, packed)
    records.add(tx, told)
    records.note_event(tx, "run_ended", run, error=verdict.reason, blocked_by=verdict.hook)
    return run


def _with_summary(run: Run, error: str | None = None) -> Run:
    """Return a new run with what lists say of it, and what it is found by."""
    return replace(run, **summary_columns(run, run.input, error))


def _given_size(run: Run, packed: Mapping[str, bytes]) -> int:
    """Return the bytes of what a run was given, which count for its owner."""
    size = sum(len(packed.get(name, b"")) for name in ("input", "kwargs", "parameters"))
    return size + len(jsons.dumps(run.metadata))


def _waits_for_database(requests: Sequence[RunRequest]) -> bool:
    """Return whether runs are requested by somebody who would not request them a second time."""
    return any(request.origin in _WAITING for request in requests)


def _load_repeated(
    reads: Reads, asker: Principal, once: Idempotency, now: float
) -> list[Run] | None:
    """Return the runs that the same request has created before."""
    known = idempotency.find(reads, asker.owner_of_new, once.route, once.key)
    if known is None or known.created_at < now - _DAY:
        return None
    if known.digest != once.digest:
        raise InvalidError(
            f"the Idempotency-Key {once.key!r} was used with another body. Use a new key"
        )
    found = [runs.get(reads, run_id) for run_id in known.run_ids]
    if None in found:
        raise ConflictError(
            f"what the Idempotency-Key {once.key!r} created was removed. Use a new key"
        )
    return [row for row in found if row is not None]


def _store_idempotency(tx: Tx, asker: Principal, once: Idempotency, run_ids: list[str]) -> bool:
    owner, now = asker.owner_of_new, tx.time()
    idempotency.drop_before(tx, owner, once.route, once.key, now - _DAY)
    return idempotency.add(
        tx, StoredRequest(owner, once.route, once.key, once.digest, run_ids, now)
    )
