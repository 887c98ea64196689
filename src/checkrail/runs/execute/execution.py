"""Carrying out a run: its start hooks, its graph under the hooks' eyes, its result, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from socket import gethostname
from typing import TYPE_CHECKING, Any

from checkrail.engine.errors import error_type
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.scope import Scope
from checkrail.llm.timeouts import run_with_timeout
from checkrail.runs import jsons
from checkrail.runs.admit.requests import hook_subject, subject_changes
from checkrail.runs.agents.catalogue import GRAPH
from checkrail.runs.approvals import (
    JobAskHandler,
    RunSuspended,
    fire_or_suspend,
    suspend_run,
)
from checkrail.runs.execute.agent_run import AgentRun
from checkrail.runs.execute.job import MEMO
from checkrail.runs.execute.live_run import EventLimitError, LiveRun
from checkrail.runs.execute.run_messages import (
    REFUSING,
    find_message,
    find_said,
    fire_inbound,
    fire_result,
    replace_said,
)
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.finisher import Finisher
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.graphs.fences import RunFence, hold_fence, set_fence
from checkrail.runs.remote import leases, reports
from checkrail.runs.remote.snapshots import verify_snapshot
from checkrail.runs.services import AgentsSeen, RunServices
from checkrail.runs.summaries import summary_columns
from checkrail.runs.tools import ResumeSession
from checkrail.store import approvals, runs
from checkrail.store.database import Reads
from checkrail.store.deliveries import Delivery
from checkrail.store.health import DatabaseUnavailableError

if TYPE_CHECKING:
    from checkrail.engine.verdict import Verdict
    from checkrail.runs.execute.graph_run import ServerGraphRun

    Body = ServerGraphRun | AgentRun

log = logging.getLogger("checkrail.runs")


class RunExecutor:
    """Executes the runs that this process has claimed."""

    def __init__(self, parts: RunServices, resume: ResumeSession | None = None) -> None:
        self._parts = parts
        self._resume = resume
        self._finisher = Finisher(parts)

    async def execute(self, live: LiveRun) -> list[Delivery] | None:
        """Execute a run until it has ended, and return its deliveries; None: it is not ours.

        Only the body is ever cancelled: the end of a run is not.
        """
        body = asyncio.get_running_loop().create_task(self._run_body(live))
        if live.stopped.done():
            body.cancel()  # before it begins
        waits: list[asyncio.Future[Any]] = [body, live.stopped]
        kept = live.row.suspended_state or {}
        live.countdown.start(kept.get("seconds_left", live.row.timeout_seconds))
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        live.stop_countdown()
        unwound = None
        if not body.done():
            live.abort("timeout")
            unwound = await self._unwind(body, live)
        if live.ending in (None, "handover") and (left := _suspension_of(body)) is not None:
            live.withdraw_ending()
            came = await suspend_run(self._parts, live, left.memo)
            if came == "waiting":
                live.mark_left()
                return None
            live.abort(came)
        if live.ending is None and _is_cut_off(body):
            live.abort("lost")
        if live.ending == "lost" or (live.ending == "handover" and _body_outcome(body) is None):
            live.silence()
            return None
        return await self._finisher.finish(
            live, await self._resolve_outcome(live, body, unwound=unwound)
        )

    async def _unwind(self, body: asyncio.Task[RunOutcome | RunSuspended], live: LiveRun) -> bool:
        body.cancel()
        grace = self._parts.settings.cancel_grace
        await asyncio.wait({body}, timeout=0 if live.ending == "lost" else grace)
        if not body.done():
            live.silence()
            body.add_done_callback(_retrieve_exception)
            if live.ending != "lost":
                told = (live.run_id, grace)
                log.warning("run %s did not stop within %s s and is left behind", *told)
        return body.done()

    async def _resolve_outcome(
        self, live: LiveRun, body: asyncio.Task[RunOutcome | RunSuspended], *, unwound: bool | None
    ) -> RunOutcome:
        if live.ending != "rollback" and (answer := _body_outcome(body)) is not None:
            return answer
        run: Body | None = live.body
        before = live.attempt > 1 or live.row.suspended_state is not None
        if run is None and before:  # it may have left something
            run = self._build_body(live, self._parts.scope(live.row))
        if live.ending in ("interrupt", "rollback"):
            ended = outcomes.cancelled_outcome(
                rolled_back=live.ending == "rollback", unwound=unwound
            )
            return await self._unfinished_outcome(live, ended, run)
        if live.ending == "timeout":
            late = f"the run took longer than {live.row.timeout_seconds:g} s"
            return await self._unfinished_outcome(
                live, outcomes.timeout_outcome(late, unwound=unwound), run
            )
        error = asyncio.CancelledError() if body.cancelled() else body.exception()
        return await self._unfinished_outcome(live, _error_outcome(error), run)

    async def _unfinished_outcome(
        self, live: LiveRun, ended: RunOutcome, run: Body | None
    ) -> RunOutcome:
        """Return the outcome of a run that did not get to its end, with what it leaves behind."""
        if run is None:
            return ended
        try:
            fence = self._build_fence(live, lambda: live.ending == "lost", patient=False)
            with hold_fence(fence):
                return await run_with_timeout(None, run.unfinished_outcome(ended))
        except Exception as error:
            if ended.rolled_back and isinstance(error, DatabaseUnavailableError):
                raise  # whoever takes it next has to remove what it left
            log.exception("the state of thread %s could not be read", live.thread_id)
            return ended

    def _build_fence(
        self, live: LiveRun, is_over: Callable[[], bool], *, patient: bool = True
    ) -> RunFence:
        """Return the fence that keeps a run that is lost from writing checkpoints."""
        database, worker_id = self._parts.database, self._parts.worker_id

        def find_held(reads: Reads) -> bool:
            return runs.find_owned(reads, live.run_id, worker_id, live.attempt) is not None

        async def is_held() -> bool:  # on SQLite nobody else can have it
            return not database.postgres or await database.read(find_held, patient=patient)

        def abort_run() -> None:
            live.abort("lost")

        return RunFence(live.run_id, live.attempt, worker_id, is_over, is_held, abort_run, patient)

    async def _run_body(self, live: LiveRun) -> RunOutcome | RunSuspended:
        set_fence(self._build_fence(live, lambda: live.mute or live.ending == "lost"))
        await self._parts.ensure_known(live.row.agent_name)
        if live.row.suspended_state is None:
            live.emit("metadata", (), {"run_id": live.run_id, "attempt": live.attempt})
        if live.row.suspended_state is None or MEMO in live.row.suspended_state:
            live.mark("attempt_started", self._describe_attempt(live.attempt))
        ask_handler = JobAskHandler(self._parts, live)
        live.begin_body(ask_handler)
        scope = self._parts.scope(live.row).with_ask_handler(ask_handler)
        try:
            if (kept := live.row.suspended_state) is not None:
                if MEMO in kept:
                    verify_snapshot(live.run_id, kept)
                    await self._reenter(live)
                    return await self._build_body(live, scope).execute(kept)
                return await self._review_result(live, scope, kept)
            while live.row.phase == "starting":
                ended = await self._fire_start_hooks(live, scope)
                if ended is not None:
                    return ended
                scope = self._parts.scope(live.row).with_ask_handler(ask_handler)
            if self._parts.catalogue.get(live.row.agent_name) is None:
                self._parts.catalogue.require_runnable(
                    live.row.agent_name
                )  # raises why there is none
            return await self._build_body(live, scope).execute()
        except RunSuspended as left:
            return left

    def _describe_attempt(self, attempt: int) -> dict[str, Any]:
        return {"attempt": attempt, "worker_id": self._parts.worker_id, "host": gethostname()}

    async def _reenter(self, live: LiveRun) -> None:
        """Enter a suspended job again: from now on it is executed like any other."""

        def clear_suspended(tx: Any) -> bool:
            mine = live.run_id, self._parts.worker_id, live.attempt
            return runs.update_owned(tx, *mine, suspended_state=None)

        if not await self._parts.database.write(clear_suspended, patient=True):
            live.abort("lost")
            raise asyncio.CancelledError

    async def _review_result(self, live: LiveRun, scope: Scope, kept: Any) -> RunOutcome:
        """Fire the hooks on a result that exists: again, or for a runner that reported it."""
        if kept.get("replaced"):
            return await self._use_replacement(live, scope, kept["output"])
        run = self._build_body(live, scope)
        if (ended := reports.reported_outcome(kept, live.row)) is None:
            return await run.review_stored_result(kept)
        return await run.unfinished_outcome(ended)

    def _build_body(self, live: LiveRun, scope: Scope) -> Body:
        """Return the job of a run, by the kind of its agent."""
        agent = self._parts.catalogue.get(live.row.agent_name)
        if agent is not None and agent.config.kind != GRAPH:
            return AgentRun(self._parts, live, scope, self._resume)
        from checkrail.runs.execute.graph_run import (
            ServerGraphRun,  # LangChain, which only graphs need
        )

        return ServerGraphRun(self._parts, live, scope)

    async def _fire_start_hooks(self, live: LiveRun, scope: Scope) -> RunOutcome | None:
        """Fire the start hooks; what they change is stored before anything acts on it.

        Unless the agent has changed meanwhile: then the run is still starting.
        """
        seen = self._parts.see_agents(live.row.agent_name)
        live.clear_answers()
        changed = await self._decide_start(live, scope)
        if isinstance(changed, RunOutcome):
            return changed
        if live.passes or not self._parts.can_run(live.row.needs):
            await self._release_to_runner(live, changed, seen)
            return None
        answers = [row.approval_id for row in live.answers]

        def store_start(tx: Any) -> bool:
            mine = live.run_id, self._parts.worker_id, live.attempt
            approvals.use_answers(tx, answers, tx.time())
            return runs.update_owned(tx, *mine, phase="running", **changed)

        begun = await self._parts.write_current(seen, store_start, patient=True)
        if begun is False:
            live.abort("lost")
            raise asyncio.CancelledError
        if begun:
            live.change_row(changed | {"phase": "running"})
            live.clear_answers()
        return None

    async def _decide_start(self, live: LiveRun, scope: Scope) -> RunOutcome | dict[str, Any]:
        """Fire the hooks before a run; return the columns that they changed, or how it ended."""
        key, subject = hook_subject(live.row)
        decided = await self._decide_message(live, scope, subject)
        if isinstance(decided, RunOutcome):
            return decided
        value, changed = decided
        if value != subject:
            changed |= subject_changes(live.row, key, value)
        if not scope.has("on_run_start"):
            return changed
        verdict = await fire_or_suspend(self._parts, live, scope, "on_run_start", value)
        if verdict.decision in REFUSING:
            return outcome_from_verdict(verdict)
        if verdict.decision is Decision.REPLACE:
            return await self._use_replacement(live, scope, thaw(verdict.value))
        if (given := jsons.jsonable(thaw(verdict.value))) != value:
            changed |= subject_changes(live.row, key, given)
        if key == "parameters" and (left := jsons.jsonable(thaw(verdict.given))) != value:
            changed["input"] = left  # what was redacted is not to be found there either
            changed |= summary_columns(live.row, left)
        return changed

    async def _decide_message(
        self, live: LiveRun, scope: Scope, subject: Any
    ) -> RunOutcome | tuple[Any, dict[str, Any]]:
        """Fire the hooks on a message that a run brings: see `run_messages`.

        Return the input as they left it, and the columns that this changes beside it.
        """
        said = find_message(self._parts, live.row, subject)
        verdict = None if said is None else await fire_inbound(self._parts, live, scope, said)
        if verdict is None:
            return subject, {}
        if verdict.decision in REFUSING:
            return outcome_from_verdict(verdict)
        if verdict.decision is Decision.STOP:
            output = self._build_answer(live, subject, verdict.value)
            return await self._use_replacement(live, scope, output)
        if verdict.value.content == said:
            return subject, {}
        changed = {}
        if verdict.redacted and find_said(live.row.input) == said:
            changed["input"] = replace_said(live.row.input, verdict.given.content)
            changed |= summary_columns(live.row, changed["input"])
        return replace_said(subject, verdict.value.content), changed

    def _build_answer(self, live: LiveRun, subject: Any, text: str) -> Any:
        """Return the output of a run whose message a hook has answered in place of the agent."""
        agent = self._parts.catalogue.get(live.row.agent_name)
        if agent is None or agent.config.kind != GRAPH:
            return text
        before = subject.get("messages") or ()
        return {"messages": [*before, {"type": "ai", "content": text}]}

    async def _release_to_runner(
        self, live: LiveRun, changed: dict[str, Any], seen: AgentsSeen
    ) -> None:
        """Let a runner have a run whose start hooks have agreed, with what they changed."""
        row = replace(live.row, worker_id=self._parts.worker_id)
        answers = [each.approval_id for each in live.answers]

        def release_run(tx: Any) -> bool:
            fired = changed or self._parts.has_start_hooks(row.agent_name)
            released = (
                leases.release_run(tx, row, **changed) if fired else leases.give_back(tx, row)
            )
            if released:
                approvals.use_answers(tx, answers, tx.time())
            return released

        await self._parts.log.flush()
        live.silence()
        released = await self._parts.write_current(seen, release_run, patient=True)
        if released is None:
            live.end_silence()
            return
        live.mark_left(left=released)  # this process may have it again
        live.abort("lost")
        raise asyncio.CancelledError

    async def _use_replacement(self, live: LiveRun, scope: Scope, output: Any) -> RunOutcome:
        """Use a start hook's value as the result, if the hooks on results agree."""
        first = output

        def build_suspended() -> dict[str, Any]:
            return {"replaced": True, "output": first}

        verdict = await fire_result(self._parts, live, scope, output, keep=build_suspended)
        if verdict is not None:
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                return outcome_from_verdict(verdict)
            output = thaw(verdict.value)
        if "values" in (live.row.kwargs.get("modes") or ()):
            live.emit("values", (), output)
        return RunOutcome("success", "success", output=output, keeps_values=True)


def outcome_from_verdict(verdict: Verdict) -> RunOutcome:
    """Return the outcome of a run that a hook refused or failed."""
    if verdict.decision is Decision.FAIL:
        return outcomes.error_outcome(verdict.reason, "HookFailed", blocked_by=verdict.hook)
    return outcomes.blocked_outcome(verdict.hook, verdict.reason)


def _body_outcome(body: asyncio.Task[RunOutcome | RunSuspended]) -> RunOutcome | None:
    """Return the outcome of a job that got to its end; a cancelled one may raise anything."""
    if not body.done() or body.cancelled() or body.exception() is not None:
        return None
    result = body.result()
    return None if isinstance(result, RunSuspended) else result


def _suspension_of(body: asyncio.Task[RunOutcome | RunSuspended]) -> RunSuspended | None:
    """Return why a job did not get to its end, if somebody has to be asked first."""
    if not body.done() or body.cancelled() or body.exception() is not None:
        return None
    result = body.result()
    return result if isinstance(result, RunSuspended) else None


def _is_cut_off(body: asyncio.Task[RunOutcome | RunSuspended]) -> bool:
    """Return whether a job could not go on because our database was away."""
    if not body.done() or body.cancelled():
        return False
    return isinstance(body.exception(), DatabaseUnavailableError)


def _error_outcome(error: BaseException | None) -> RunOutcome:
    if isinstance(error, EventLimitError):
        return outcomes.error_outcome(str(error), "event_limit")
    if isinstance(error, asyncio.CancelledError):
        return outcomes.error_outcome("the graph cancelled itself", "CancelledError")
    kind = error_type(error)
    return outcomes.error_outcome(str(error) or kind, kind)


def _retrieve_exception(body: asyncio.Task[RunOutcome | RunSuspended]) -> None:
    """Retrieve the exception of a task, so that asyncio does not log that nobody did."""
    with contextlib.suppress(asyncio.CancelledError):
        body.exception()
