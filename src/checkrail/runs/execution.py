"""Carrying out a run: its start hooks, its graph under the hooks' eyes, its result, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkrail.agent.patience import within
from checkrail.engine.errors import error_type
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.scope import Scope
from checkrail.runs import approving, jsons
from checkrail.runs import outcome as outcomes
from checkrail.runs.agent_run import AgentRun
from checkrail.runs.approving import BodyDesk, Leaving
from checkrail.runs.catalogue import GRAPH
from checkrail.runs.ending import Finisher
from checkrail.runs.graphs.fences import RunFence, fenced, set_fence
from checkrail.runs.live import EventLimitError, LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.outside import leases, reports
from checkrail.runs.outside.memos import verify_memo
from checkrail.runs.parts import AgentsSeen, Parts
from checkrail.runs.requests import subject, with_subject
from checkrail.runs.work import MEMO
from checkrail.store import approvals, runs
from checkrail.store.database import Reads
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.rows import Row

if TYPE_CHECKING:
    from checkrail.engine.verdict import Verdict
    from checkrail.runs.graph_run import GraphRun

    Body = GraphRun | AgentRun

log = logging.getLogger("checkrail.runs")


class Executor:
    """Carries out the runs that this process has claimed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._finisher = Finisher(parts)

    async def carry_out(self, live: LiveRun) -> list[Row] | None:
        """Work on a run until it has ended, and give what is owed for it; None: not ours any more.

        Only the body is ever cancelled: the end of a run is not.
        """
        body = asyncio.get_running_loop().create_task(self._body(live))
        if live.stopped.done():
            body.cancel()  # before it begins
        waits: list[asyncio.Future[Any]] = [body, live.stopped]
        kept = live.row["kept"] or {}
        live.countdown.begin(kept.get("seconds_left", live.row["timeout_seconds"]))
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        live.seconds_left = live.countdown.end()
        unwound = None
        if not body.done():
            live.stop("timeout")
            unwound = await self._unwind(body, live)
        if live.ending in (None, "handover") and (left := _leaving(body)) is not None:
            live.ending = None
            came = await approving.leave(self._parts, live, left.memo)
            if came == "waiting":
                live.left = True
                return None
            live.stop(came)
        if live.ending is None and _is_cut_off(body):
            live.stop("lost")
        if live.ending == "lost" or (live.ending == "handover" and _answer(body) is None):
            live.mute = True
            return None
        return await self._finisher.finish(live, await self._outcome(live, body, unwound=unwound))

    async def _unwind(self, body: asyncio.Task[Outcome | Leaving], live: LiveRun) -> bool:
        body.cancel()
        grace = self._parts.settings.cancel_grace
        await asyncio.wait({body}, timeout=0 if live.ending == "lost" else grace)
        if not body.done():
            live.mute = True
            body.add_done_callback(_seen)
            if live.ending != "lost":
                told = (live.run_id, grace)
                log.warning("run %s did not stop within %s s and is left behind", *told)
        return body.done()

    async def _outcome(
        self, live: LiveRun, body: asyncio.Task[Outcome | Leaving], *, unwound: bool | None
    ) -> Outcome:
        if live.ending != "rollback" and (answer := _answer(body)) is not None:
            return answer
        run: Body | None = live.body
        before = live.attempt > 1 or live.row["kept"] is not None
        if run is None and before:  # it may have left something
            run = self._made(live, self._parts.scope(live.row))
        if live.ending in ("interrupt", "rollback"):
            ended = outcomes.cancelled(rolled_back=live.ending == "rollback", unwound=unwound)
            return await self._left(live, ended, run)
        if live.ending == "timeout":
            late = f"the run took longer than {live.row['timeout_seconds']:g} s"
            return await self._left(live, outcomes.timed_out(late, unwound=unwound), run)
        error = asyncio.CancelledError() if body.cancelled() else body.exception()
        return await self._left(live, _failed(error), run)

    async def _left(self, live: LiveRun, ended: Outcome, run: Body | None) -> Outcome:
        """Return what a run that did not get to its end leaves behind."""
        if run is None:
            return ended
        try:
            fence = self._fence(live, lambda: live.ending == "lost", patient=False)
            with fenced(fence):
                return await within(None, run.left(ended))
        except Exception as error:
            if ended.rolled_back and isinstance(error, DatabaseUnavailableError):
                raise  # whoever takes it next has to remove what it left
            log.exception("the state of thread %s could not be read", live.thread_id)
            return ended

    def _fence(
        self, live: LiveRun, is_over: Callable[[], bool], *, patient: bool = True
    ) -> RunFence:
        """Return what keeps a run from writing checkpoints that is not ours any more."""
        database, worker_id = self._parts.database, self._parts.worker_id

        def find(reads: Reads) -> bool:
            return runs.find_owned(reads, live.run_id, worker_id, live.attempt) is not None

        async def is_held() -> bool:  # on SQLite nobody else can have it
            return not database.postgres or await database.read(find, patient=patient)

        def stop() -> None:
            live.stop("lost")

        return RunFence(live.run_id, live.attempt, worker_id, is_over, is_held, stop, patient)

    async def _body(self, live: LiveRun) -> Outcome | Leaving:
        set_fence(self._fence(live, lambda: live.mute or live.ending == "lost"))
        await self._parts.known(live.row["agent_name"])
        if live.row["kept"] is None:
            live.emit("metadata", (), {"run_id": live.run_id, "attempt": live.attempt})
        live.desk = BodyDesk(self._parts, live)
        scope = self._parts.scope(live.row).asking(live.desk)
        try:
            if (kept := live.row["kept"]) is not None:
                if MEMO in kept:
                    verify_memo(live.run_id, kept)
                    await self._enter(live)
                    return await self._made(live, scope).result(kept)
                return await self._again(live, scope, kept)
            while live.row["phase"] == "starting":
                ended = await self._start(live, scope)
                if ended is not None:
                    return ended
                scope = self._parts.scope(live.row).asking(live.desk)
            if self._parts.catalogue.get(live.row["agent_name"]) is None:
                self._parts.catalogue.runnable(live.row["agent_name"])  # raises why there is none
            return await self._made(live, scope).result()
        except Leaving as left:
            return left

    async def _enter(self, live: LiveRun) -> None:
        """Enter a body again: from now on it is one that is executed, like any other."""

        def begin(tx: Any) -> bool:
            mine = live.run_id, self._parts.worker_id, live.attempt
            return runs.change_owned(tx, *mine, kept=None)

        if not await self._parts.database.write(begin, patient=True):
            live.stop("lost")
            raise asyncio.CancelledError

    async def _again(self, live: LiveRun, scope: Scope, kept: Any) -> Outcome:
        """Ask the hooks about a result that is there: again, or for a runner that reported it."""
        if kept.get("replaced"):
            return await self._replaced(live, scope, kept["output"])
        run = self._made(live, scope)
        if (ended := reports.ended_by(kept, live.row)) is None:
            return await run.again(kept)
        return await run.left(ended)

    def _made(self, live: LiveRun, scope: Scope) -> Body:
        """Make the body of a run, by the kind of its agent."""
        agent = self._parts.catalogue.get(live.row["agent_name"])
        if agent is not None and agent.config.kind != GRAPH:
            return AgentRun(self._parts, live, scope)
        from checkrail.runs.graph_run import GraphRun  # LangChain, which only graphs need

        return GraphRun(self._parts, live, scope)

    async def _start(self, live: LiveRun, scope: Scope) -> Outcome | None:
        """Ask the start hooks; what they change is kept before anything acts on it.

        Unless the agent has changed meanwhile: then the run is still starting.
        """
        seen = self._parts.see_agents(live.row["agent_name"])
        changed: dict[str, Any] = {}
        live.answers = []
        if scope.has("on_run_start"):
            key, value = subject(live.row)
            verdict = await approving.fire(self._parts, live, scope, "on_run_start", value)
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                return refused(verdict)
            if verdict.decision is Decision.REPLACE:
                return await self._replaced(live, scope, thaw(verdict.value))
            if (given := jsons.jsonable(thaw(verdict.value))) != value:
                changed = with_subject(live.row, key, given)
            if key == "parameters" and (left := jsons.jsonable(thaw(verdict.given))) != value:
                changed["input"] = left  # what was redacted is not to be found there either
        if live.passes or not self._parts.fits(live.row["needs"]):
            await self._pass_on(live, changed, seen)
            return None
        answers = [row["approval_id"] for row in live.answers]

        def begin(tx: Any) -> bool:
            mine = live.run_id, self._parts.worker_id, live.attempt
            approvals.use(tx, answers, tx.time())
            return runs.change_owned(tx, *mine, phase="running", **changed)

        begun = await self._parts.write_current(seen, begin, patient=True)
        if begun is False:
            live.stop("lost")
            raise asyncio.CancelledError
        if begun:
            live.row |= changed | {"phase": "running"}
            live.answers = []
        return None

    async def _pass_on(self, live: LiveRun, changed: dict[str, Any], seen: AgentsSeen) -> None:
        """Let a runner have a run whose start hooks have agreed, with what they changed."""
        row = live.row | {"worker_id": self._parts.worker_id}
        answers = [each["approval_id"] for each in live.answers]

        def release(tx: Any) -> bool:
            fired = changed or self._parts.has_start_hooks(row["agent_name"])
            released = leases.release(tx, row, **changed) if fired else leases.give_back(tx, row)
            if released:
                approvals.use(tx, answers, tx.time())
            return released

        await self._parts.log.flush()
        live.mute = True
        released = await self._parts.write_current(seen, release, patient=True)
        if released is None:
            live.mute = False
            return
        live.left = released  # this process may have it again
        live.stop("lost")
        raise asyncio.CancelledError

    async def _replaced(self, live: LiveRun, scope: Scope, output: Any) -> Outcome:
        """Let what a start hook gave stand for the result, if the hooks on results agree."""
        if scope.has("on_result"):

            def keep() -> dict[str, Any]:
                return {"replaced": True, "output": output}

            verdict = await approving.fire(self._parts, live, scope, "on_result", output, keep=keep)
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                return refused(verdict)
            output = thaw(verdict.value)
        if "values" in (live.row["kwargs"].get("modes") or ()):
            live.emit("values", (), output)
        return Outcome("success", "success", output=output, keeps_values=True)


def refused(verdict: Verdict) -> Outcome:
    """Return the end of a run that a hook refused or failed."""
    if verdict.decision is Decision.FAIL:
        return outcomes.failed(verdict.reason, "HookFailed", blocked_by=verdict.hook)
    return outcomes.blocked(verdict.hook, verdict.reason)


def _answer(body: asyncio.Task[Outcome | Leaving]) -> Outcome | None:
    """Give what a body came to, if it got to its end; one that was cancelled may raise anything."""
    if not body.done() or body.cancelled() or body.exception() is not None:
        return None
    result = body.result()
    return None if isinstance(result, Leaving) else result


def _leaving(body: asyncio.Task[Outcome | Leaving]) -> Leaving | None:
    """Return why a body did not get to its end, if somebody has to be asked first."""
    if not body.done() or body.cancelled() or body.exception() is not None:
        return None
    result = body.result()
    return result if isinstance(result, Leaving) else None


def _is_cut_off(body: asyncio.Task[Outcome | Leaving]) -> bool:
    """Return whether a body could not go on for want of our database, through no fault of its."""
    if not body.done() or body.cancelled():
        return False
    return isinstance(body.exception(), DatabaseUnavailableError)


def _failed(error: BaseException | None) -> Outcome:
    if isinstance(error, EventLimitError):
        return outcomes.failed(str(error), "event_limit")
    if isinstance(error, asyncio.CancelledError):
        return outcomes.failed("the graph cancelled itself", "CancelledError")
    kind = error_type(error)
    return outcomes.failed(str(error) or kind, kind)


def _seen(body: asyncio.Task[Outcome | Leaving]) -> None:
    """Take what a body left behind, so that nobody complains that it was never looked at."""
    with contextlib.suppress(asyncio.CancelledError):
        body.exception()
