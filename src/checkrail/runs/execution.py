"""Carrying out a run: its start hooks, its graph under the hooks' eyes, its result, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.scope import Scope
from checkrail.runs import jsons
from checkrail.runs import outcome as outcomes
from checkrail.runs.ending import Finisher
from checkrail.runs.graph_run import GraphRun
from checkrail.runs.live import EventLimitError, LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import Parts
from checkrail.runs.requests import subject, with_subject
from checkrail.store import runs
from checkrail.store.rows import Row

if TYPE_CHECKING:
    from checkrail.engine.verdict import Verdict

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
        await asyncio.wait(
            waits,
            timeout=live.row["timeout_seconds"],
            return_when=asyncio.FIRST_COMPLETED,
        )
        unwound = None
        if not body.done():
            live.stop("timeout")
            unwound = await self._unwind(body, live)
        if live.ending == "lost" or (live.ending == "handover" and not _answered(body)):
            live.mute = True
            return None
        return await self._finisher.finish(live, await self._outcome(live, body, unwound=unwound))

    async def _unwind(self, body: asyncio.Task[Outcome], live: LiveRun) -> bool:
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
        self, live: LiveRun, body: asyncio.Task[Outcome], *, unwound: bool | None
    ) -> Outcome:
        if _answered(body) and live.ending != "rollback":
            return body.result()
        run: GraphRun | None = live.body
        if run is None and live.attempt > 1:  # one before this may have left something
            run = GraphRun(self._parts, live, self._parts.scope(live.row))
        if live.ending in ("interrupt", "rollback"):
            ended = outcomes.cancelled(rolled_back=live.ending == "rollback", unwound=unwound)
            return await self._left(live, ended, run)
        if live.ending == "timeout":
            ended = Outcome(
                status="timeout",
                phase="timeout",
                error=f"the run took longer than {live.row['timeout_seconds']:g} s",
                error_type="TimeoutError",
                thread_status="error",
                keeps_values=True,
                unwound=unwound,
            )
            return await self._left(live, ended, run)
        error = asyncio.CancelledError() if body.cancelled() else body.exception()
        return await self._left(live, _failed(error), run)

    async def _left(self, live: LiveRun, ended: Outcome, run: GraphRun | None) -> Outcome:
        """Say what a run that did not get to its end leaves behind."""
        if run is None:
            return ended
        try:
            return await run.left(ended)
        except Exception:
            log.exception("the state of thread %s could not be read", live.thread_id)
            return ended

    async def _body(self, live: LiveRun) -> Outcome:
        live.emit("metadata", (), {"run_id": live.run_id, "attempt": live.attempt})
        scope = self._parts.scope(live.row)
        if live.row["phase"] == "starting":
            ended = await self._start(live, scope)
            if ended is not None:
                return ended
        run = GraphRun(self._parts, live, scope)
        return await run.result()

    async def _start(self, live: LiveRun, scope: Scope) -> Outcome | None:
        """Ask the start hooks; what they change is kept before anything acts on it."""
        changed: dict[str, Any] = {}
        if scope.has("on_run_start"):
            key, value = subject(live.row)
            verdict = await scope.fire("on_run_start", value)
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                return refused(verdict)
            if verdict.decision is Decision.REPLACE:
                return await self._replaced(live, scope, thaw(verdict.value))
            if (given := jsons.jsonable(thaw(verdict.value))) != value:
                changed = with_subject(live.row, key, given)
        live.row |= changed | {"phase": "running"}

        def begin(tx: Any) -> bool:
            mine = live.run_id, self._parts.worker_id, live.attempt
            return runs.change_owned(tx, *mine, phase="running", **changed)

        if not await self._parts.database.write(begin):
            live.stop("lost")
            raise asyncio.CancelledError
        return None

    async def _replaced(self, live: LiveRun, scope: Scope, output: Any) -> Outcome:
        """Let what a start hook gave stand for the result, if the hooks on results agree."""
        if scope.has("on_result"):
            verdict = await scope.fire("on_result", output)
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                return refused(verdict)
            output = thaw(verdict.value)
        if "values" in (live.row["kwargs"].get("modes") or ()):
            live.emit("values", (), output)
        return Outcome("success", "success", output=output, keeps_values=True)


def refused(verdict: Verdict) -> Outcome:
    """Give the end of a run that a hook refused or failed."""
    if verdict.decision is Decision.FAIL:
        return outcomes.failed(verdict.reason, "HookFailed", blocked_by=verdict.hook)
    return outcomes.blocked(verdict.hook, verdict.reason)


def _answered(body: asyncio.Task[Outcome]) -> bool:
    """Say whether a body got to its end; one that was cancelled may raise anything."""
    return body.done() and not body.cancelled() and body.exception() is None


def _failed(error: BaseException | None) -> Outcome:
    if isinstance(error, EventLimitError):
        return outcomes.failed(str(error), "event_limit")
    if isinstance(error, asyncio.CancelledError):
        return outcomes.failed("the graph cancelled itself", "CancelledError")
    return outcomes.failed(str(error) or type(error).__name__, type(error).__name__)


def _seen(body: asyncio.Task[Outcome]) -> None:
    """Take what a body left behind, so that nobody complains that it was never looked at."""
    with contextlib.suppress(asyncio.CancelledError):
        body.exception()
