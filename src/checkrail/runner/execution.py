"""Carrying out one run on a runner: from its claim to the report that the server has taken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.engine.asks import AnswerLater
from checkrail.engine.errors import error_type
from checkrail.engine.scope import Scope
from checkrail.runner.api import RequestRefused, ServerApi
from checkrail.runner.hooks import PREFIX, RemoteHooks, run_ids
from checkrail.runner.project import RunnerProject
from checkrail.runs import jsons
from checkrail.runs.agents.catalogue import GRAPH
from checkrail.runs.execute.agent_run import PROCEDURAL, error_of_job, execute_job
from checkrail.runs.execute.job import MEMO, NOT_LEFT, Job, suspended_state
from checkrail.runs.execute.live_run import EventLimitError, EventLimits, LiveRun
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.graphs.execution import HeldEvents
from checkrail.runs.graphs.fences import RunFence, set_fence
from checkrail.runs.jsons import Fragment
from checkrail.runs.remote.snapshots import verify_snapshot
from checkrail.runs.services import user_of
from checkrail.store.events import RunEvent
from checkrail.store.runs import Run

if TYPE_CHECKING:
    from checkrail.runner.graph_execution import GraphExecution

Report = tuple[str, dict[str, Any]]
"""What came of a run: the route that it is reported by, and what is said there."""

_UPLOAD_EVERY = 0.02  # seconds
_UPLOAD_EVENTS = 500
_UPLOAD_BYTES = 1 << 20

Send = Callable[[list[Any], Mapping[str, Any] | None], Awaitable[object]]
"""Sends events, and what the run has used so far if that is news."""


class AgentExecution:
    """A run of an autonomous or procedural agent."""

    def __init__(
        self, project: RunnerProject, claim: Mapping[str, Any], live: LiveRun, scope: Scope
    ) -> None:
        self._project = project
        self._claim = claim
        self._live = live
        self._scope = scope

    async def report(self) -> Report:
        """Execute it, and return the report."""
        live, row = self._live, self._live.row
        left = self._claim["left"] or NOT_LEFT
        held = None
        if self._claim["holds"] or left["events"]:
            held = HeldEvents(live.emit, self._claim["limits"]["events"], left["events"])
        agent = self._project.find_agent(row.agent_name, self._claim["blueprint"])
        live.allow_suspension(allowed=agent.kind != PROCEDURAL)
        given = row.parameters if row.parameters is not None else row.input
        work = Job(
            run_id=live.run_id,
            thread_id=live.thread_id,
            session_id=row.session_id,
            attempt=live.attempt,
            agent=agent,
            parameters=given if given is not None else {},
            history=self._claim["history"],
            scope=self._scope,
            emit=live.emit if held is None else held.emit,
            user=user_of(row),
            context=row.scope or {},
            memo=left[MEMO],
            used=live.usage,
            mark_usage=live.mark_usage,
            mark=live.mark,
        )
        try:
            done = await execute_job(work, self._project.workshop)
        except AnswerLater as later:
            held_back = () if held is None else held.events
            later.memo = suspended_state(later.memo, live.usage, held_back)
            raise
        if (failed := error_of_job(done)) is not None:
            return report_outcome(failed)
        return "completed", {
            "output": done.output,
            "messages": None if done.messages is None else jsons.jsonable([*done.messages]),
            "held": [] if held is None else held.events,
        }


def report_outcome(outcome: RunOutcome) -> Report:
    """Return the report of a run that came to no result."""
    phase = outcome.phase if outcome.phase in ("blocked", "timeout") else "error"
    return "failed", {
        "error": outcome.error or outcome.phase,
        "error_type": outcome.error_type or "Error",
        "phase": phase,
        "blocked_by": outcome.blocked_by,
        "unwound": outcome.unwound,
    }


LEFT = "left"
"""How a run is reported that waits for somebody to answer."""

log = logging.getLogger("checkrail.runner")


class Execution:
    """One attempt at a run, under the lease of a runner."""

    def __init__(
        self,
        project: RunnerProject,
        api: ServerApi,
        runner_id: str,
        claim: Mapping[str, Any],
        cancel_grace: float,
    ) -> None:
        self._project = project
        self._api = api
        self._claim = claim
        self._grace = cancel_grace
        self._telling = EventUpload(self._send_events, self._handle_refused_events)
        self._broken: str | None = None
        self.runner_id = runner_id
        row = Run(**claim["run"])
        self.live = LiveRun(
            row,
            EventLimits(**claim["limits"]),
            self._telling.mark_dirty,
            lambda: True,
            seq=0,  # the server numbers what others see
        )
        self.live.add_usage((claim["left"] or {}).get("usage") or {})
        self.hooks = RemoteHooks(claim["points"], self._fire_on_server, self._abort)
        if row.cancel is not None:
            self.live.abort("rollback" if row.cancel == "rollback" else "interrupt")

    @property
    def run_id(self) -> str:
        """The run."""
        return self.live.run_id

    @property
    def _has_lost_lease(self) -> bool:
        return self.live.ending == "lost"

    def _run_path(self, what: str) -> str:
        return f"/runner/runs/{self.run_id}/{what}"

    def _with_attempt(self, told: Mapping[str, Any]) -> dict[str, Any]:
        return {"attempt": self.live.attempt, **told}

    async def _send_events(self, events: list[Any], usage: Mapping[str, Any] | None) -> None:
        told = self._with_attempt({"events": events, "usage": usage})
        await self._api.send_until_answered("POST", self._run_path("events"), self.runner_id, told)

    def _handle_refused_events(self, refused: RequestRefused) -> None:
        if refused.is_lease_lost:
            self.live.abort("lost")
        else:
            self._abort(f"the server does not take what the run tells: {refused}")

    async def _fire_on_server(self, asked: dict[str, Any]) -> Any:
        """Fire the server's hooks, outside of the run's time; nothing goes on without them."""
        with self.live.countdown.pause():
            try:
                return await self._api.send_until_answered(
                    "POST",
                    self._run_path("points"),
                    self.runner_id,
                    self._with_attempt(asked),
                    patience=None,
                )
            except RequestRefused as refused:
                if refused.is_lease_lost:
                    self.live.abort("lost")
                raise

    def _abort(self, reason: str) -> None:
        """End the run as an error, whatever its job makes of it."""
        self._broken = self._broken or reason
        self.live.stop()

    async def execute(self) -> bool:
        """Execute the run, and report its result, until the server has taken that.

        False: it did not come to its end, and is handed back.
        """
        live = self.live
        body = asyncio.get_running_loop().create_task(self._run_body())
        if live.stopped.done():
            body.cancel()  # before it begins
        left = self._claim["left"] or {}
        live.countdown.start(left.get("seconds_left", live.row.timeout_seconds))
        waits: set[asyncio.Future[Any]] = {body, live.stopped}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        live.stop_countdown()
        unwound = None if body.done() else await self._unwind(body)
        live.silence()
        if not self._has_lost_lease:
            await self._telling.flush()
        if self._has_lost_lease:
            self._telling.close()
        elif live.ending == "handover" and not _has_result(body):
            return False
        else:
            await self._send_report(*self._build_report(body, unwound=unwound))
        return True

    def _build_fence(self) -> RunFence:
        """Return the fence that keeps a run that is lost from writing checkpoints."""
        live = self.live

        async def is_held() -> bool:
            try:
                path, said = self._run_path("heartbeat"), self._with_attempt({})
                await self._api.send_until_answered("POST", path, self.runner_id, said)
            except RequestRefused as refused:
                if refused.is_lease_lost:
                    return False
                raise
            return True

        return RunFence(
            live.run_id,
            live.attempt,
            self.runner_id,
            is_over=lambda: live.mute or self._has_lost_lease,
            is_held=is_held,
            abort=lambda: live.abort("lost"),
        )

    async def _run_body(self) -> Report:
        set_fence(self._build_fence())
        live = self.live
        live.begin_body(self.hooks)
        verify_snapshot(self.run_id, self._claim["left"] or {})
        scope = self.hooks.registry.scope(**run_ids(live.row)).with_ask_handler(
            self.hooks.suspend_for_answer
        )
        try:
            return await self._build_body(scope).report()
        except AnswerLater as later:
            left = later.memo
            return LEFT, {"memo": left[MEMO], "held": left["events"]}

    def _build_body(self, scope: Scope) -> AgentExecution | GraphExecution:
        """Return the job of the run, by the kind of its agent."""
        given = (self._project, self._claim, self.live, scope)
        if self._claim["kind"] != GRAPH:
            return AgentExecution(*given)
        from checkrail.runner.graph_execution import (
            GraphExecution,  # LangChain, which only graphs need
        )

        return GraphExecution(*given)

    async def _unwind(self, body: asyncio.Task[Report]) -> bool:
        body.cancel()
        await asyncio.wait({body}, timeout=0 if self.live.ending == "lost" else self._grace)
        if not body.done():
            body.add_done_callback(_retrieve_exception)
            told = (self.run_id, self._grace)
            log.warning("run %s did not stop within %s s and is left behind", *told)
        return body.done()

    def _build_report(self, body: asyncio.Task[Report], *, unwound: bool | None) -> Report:
        ending = self.live.ending
        if self._broken is not None:
            return report_outcome(outcomes.error_outcome(self._broken, "HookFailed"))
        if _has_result(body) and ending != "rollback":
            how, told = self._with_names(body.result())
            return how, told | {"seconds_left": self.live.seconds_left} if how == LEFT else told
        if ending in ("interrupt", "rollback"):
            return "stopped", {"unwound": unwound is not False}
        if ending == "timeout":
            late = f"the run took longer than {self.live.row.timeout_seconds:g} s"
            return report_outcome(outcomes.timeout_outcome(late, unwound=unwound))
        error = asyncio.CancelledError() if body.cancelled() else body.exception()
        return report_outcome(_error_outcome(error))

    def _with_names(self, report: Report) -> Report:
        """Name the server's hook that ended a run, and not the one that stands for it here."""
        how, told = report
        local = told["blocked_by"] or "" if how == "failed" else ""
        if local.startswith(PREFIX):
            failed = told["phase"] != "blocked"
            told = {**told, "blocked_by": self.hooks.find_server_hook(local, failed=failed)}
        return how, told

    async def _send_report(self, how: str, told: Mapping[str, Any]) -> None:
        said = self._with_attempt({**told, "usage": dict(self.live.usage)})
        try:
            await self._api.send_until_answered("POST", self._run_path(how), self.runner_id, said)
        except RequestRefused as refused:
            if refused.is_lease_lost or how == "failed":
                log.warning("run %s: the report was refused: %s", self.run_id, refused)
                return
            reason = f"the server does not take what the run came to: {refused}"
            await self._send_report(
                *report_outcome(outcomes.error_outcome(reason, "ReportRefused"))
            )


def _has_result(body: asyncio.Task[Report]) -> bool:
    return body.done() and not body.cancelled() and body.exception() is None


def _error_outcome(error: BaseException | None) -> outcomes.RunOutcome:
    if isinstance(error, EventLimitError):
        return outcomes.error_outcome(str(error), "event_limit")
    if isinstance(error, asyncio.CancelledError):
        return outcomes.error_outcome("the run cancelled itself", "CancelledError")
    kind = error_type(error)
    return outcomes.error_outcome(str(error) or kind, kind)


def _retrieve_exception(body: asyncio.Task[Report]) -> None:
    """Retrieve the exception of a task, so that asyncio does not log that nobody did."""
    with contextlib.suppress(asyncio.CancelledError):
        body.exception()


class EventUpload:
    """Sends the events of one run; `refused` is called when the server does not take them."""

    def __init__(self, send: Send, refused: Callable[[RequestRefused], object]) -> None:
        self._send = send
        self._refused = refused
        self._sending: asyncio.Task[None] | None = None

    def mark_dirty(self, live: LiveRun) -> None:
        """Note that a run has emitted something."""
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._upload_loop(live))

    async def flush(self) -> None:
        """Wait until everything was taken, or refused."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    def close(self) -> None:
        """Send nothing any more."""
        if self._sending is not None:
            self._sending.cancel()

    async def _upload_loop(self, live: LiveRun) -> None:
        try:
            await asyncio.sleep(_UPLOAD_EVERY)
            while live.pending or live.usage != live.usage_kept:
                batch, usage = _next_batch(live.pending), dict(live.usage)
                now = time.time()
                told = [
                    (each.seq, each.event, each.ns, Fragment(each.raw), max(0.0, now - each.time))
                    for each in batch
                ]
                await self._send(told, usage if usage != live.usage_kept else None)
                live.mark_usage_stored(usage)
                if batch:
                    live.mark_stored(batch[-1].seq)
        except RequestRefused as refused:
            live.drop_pending()
            self._refused(refused)
        finally:
            self._sending = None


def _next_batch(pending: list[RunEvent]) -> list[RunEvent]:
    """Return the first events, but not too much at a time."""
    size = 0
    for number, event in enumerate(pending[:_UPLOAD_EVENTS]):
        size += len(event.raw)
        if size > _UPLOAD_BYTES and number:
            return pending[:number]
    return pending[:_UPLOAD_EVENTS]
