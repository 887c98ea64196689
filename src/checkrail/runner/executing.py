"""Carrying out one run on a runner: from its claim to the report that the server has taken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checkrail.engine.asks import AnswerLater
from checkrail.engine.errors import error_type
from checkrail.engine.scope import Scope
from checkrail.runner.api import Api, Refused
from checkrail.runner.bodies import AgentBody, Report, ended
from checkrail.runner.hooks import PREFIX, RemoteHooks, ids_of
from checkrail.runner.projects import RunnerProject
from checkrail.runner.telling import Telling
from checkrail.runs import outcome as outcomes
from checkrail.runs.catalogue import GRAPH
from checkrail.runs.graphs.fences import RunFence, set_fence
from checkrail.runs.live import EventLimitError, Limits, LiveRun
from checkrail.runs.outside.memos import verify_memo
from checkrail.runs.work import MEMO

if TYPE_CHECKING:
    from checkrail.runner.graph_bodies import GraphBody

LEFT = "left"
"""How a run is reported that waits for somebody to answer."""

log = logging.getLogger("checkrail.runner")


class Execution:
    """One attempt at a run, under the lease of a runner."""

    def __init__(
        self,
        project: RunnerProject,
        api: Api,
        runner_id: str,
        claim: Mapping[str, Any],
        cancel_grace: float,
    ) -> None:
        self._project = project
        self._api = api
        self._claim = claim
        self._grace = cancel_grace
        self._telling = Telling(self._send, self._events_refused)
        self._broken: str | None = None
        self.runner_id = runner_id
        row = {**claim["run"], "last_seq": 0}
        self.live = LiveRun(row, Limits(**claim["limits"]), self._telling.dirty, lambda: True)
        self.live.seq = 0  # the server numbers what others see
        self.live.usage |= (claim["left"] or {}).get("usage") or {}
        self.hooks = RemoteHooks(claim["points"], self._ask, self._break)
        if row["cancel"] is not None:
            self.live.stop("rollback" if row["cancel"] == "rollback" else "interrupt")

    @property
    def run_id(self) -> str:
        """The run."""
        return self.live.run_id

    @property
    def _lost(self) -> bool:
        return self.live.ending == "lost"

    def _path(self, what: str) -> str:
        return f"/runner/runs/{self.run_id}/{what}"

    def _said(self, told: Mapping[str, Any]) -> dict[str, Any]:
        return {"attempt": self.live.attempt, **told}

    async def _send(self, events: list[Any], usage: Mapping[str, Any] | None) -> None:
        told = self._said({"events": events, "usage": usage})
        await self._api.insist("POST", self._path("events"), self.runner_id, told)

    def _events_refused(self, refused: Refused) -> None:
        if refused.lost:
            self.live.stop("lost")
        else:
            self._break(f"the server does not take what the run tells: {refused}")

    async def _ask(self, asked: dict[str, Any]) -> Any:
        """Ask the server's hooks: their time is not the run's, and nothing goes on without them."""
        with self.live.countdown.paused():
            try:
                return await self._api.insist(
                    "POST", self._path("points"), self.runner_id, self._said(asked), patience=None
                )
            except Refused as refused:
                if refused.lost:
                    self.live.stop("lost")
                raise

    def _break(self, reason: str) -> None:
        """End the run as an error, whatever its body makes of it."""
        self._broken = self._broken or reason
        if not self.live.stopped.done():
            self.live.stopped.set_result(None)

    async def carry_out(self) -> bool:
        """Work on the run, and report what came of it, until the server has taken that.

        False: it did not come to its end, and is handed back.
        """
        live = self.live
        body = asyncio.get_running_loop().create_task(self._body())
        if live.stopped.done():
            body.cancel()  # before it begins
        left = self._claim["left"] or {}
        live.countdown.begin(left.get("seconds_left", live.row["timeout_seconds"]))
        waits: set[asyncio.Future[Any]] = {body, live.stopped}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        live.seconds_left = live.countdown.end()
        unwound = None if body.done() else await self._unwind(body)
        live.mute = True
        if not self._lost:
            await self._telling.flush()
        if self._lost:
            self._telling.stop()
        elif live.ending == "handover" and not _answered(body):
            return False
        else:
            await self._reported(*self._report(body, unwound=unwound))
        return True

    def _fence(self) -> RunFence:
        """Return what keeps the run from writing checkpoints that is not ours any more."""
        live = self.live

        async def is_held() -> bool:
            try:
                path, said = self._path("heartbeat"), self._said({})
                await self._api.insist("POST", path, self.runner_id, said)
            except Refused as refused:
                if refused.lost:
                    return False
                raise
            return True

        return RunFence(
            live.run_id,
            live.attempt,
            self.runner_id,
            is_over=lambda: live.mute or self._lost,
            is_held=is_held,
            stop=lambda: live.stop("lost"),
        )

    async def _body(self) -> Report:
        set_fence(self._fence())
        live = self.live
        live.desk = self.hooks
        verify_memo(self.run_id, self._claim["left"] or {})
        scope = self.hooks.registry.scope(**ids_of(live.row)).asking(self.hooks.desk)
        try:
            return await self._build_body(scope).report()
        except AnswerLater as later:
            left = later.memo
            return LEFT, {"memo": left[MEMO], "held": left["events"]}

    def _build_body(self, scope: Scope) -> AgentBody | GraphBody:
        """Return the body of the run, by the kind of its agent."""
        given = (self._project, self._claim, self.live, scope)
        if self._claim["kind"] != GRAPH:
            return AgentBody(*given)
        from checkrail.runner.graph_bodies import GraphBody  # LangChain, which only graphs need

        return GraphBody(*given)

    async def _unwind(self, body: asyncio.Task[Report]) -> bool:
        body.cancel()
        await asyncio.wait({body}, timeout=0 if self.live.ending == "lost" else self._grace)
        if not body.done():
            body.add_done_callback(_seen)
            told = (self.run_id, self._grace)
            log.warning("run %s did not stop within %s s and is left behind", *told)
        return body.done()

    def _report(self, body: asyncio.Task[Report], *, unwound: bool | None) -> Report:
        ending = self.live.ending
        if self._broken is not None:
            return ended(outcomes.failed(self._broken, "HookFailed"))
        if _answered(body) and ending != "rollback":
            how, told = self._with_names(body.result())
            return how, told | {"seconds_left": self.live.seconds_left} if how == LEFT else told
        if ending in ("interrupt", "rollback"):
            return "stopped", {"unwound": unwound is not False}
        if ending == "timeout":
            late = f"the run took longer than {self.live.row['timeout_seconds']:g} s"
            return ended(outcomes.timed_out(late, unwound=unwound))
        error = asyncio.CancelledError() if body.cancelled() else body.exception()
        return ended(_failed(error))

    def _with_names(self, report: Report) -> Report:
        """Name the server's hook that ended a run, and not the one that stands for it here."""
        how, told = report
        if how == "failed" and str(told["blocked_by"] or "").startswith(PREFIX):
            told = {**told, "blocked_by": self.hooks.named.get(told["error"])}
        return how, told

    async def _reported(self, how: str, told: Mapping[str, Any]) -> None:
        said = self._said({**told, "usage": dict(self.live.usage)})
        try:
            await self._api.insist("POST", self._path(how), self.runner_id, said)
        except Refused as refused:
            if refused.lost or how == "failed":
                log.warning("run %s: the report was refused: %s", self.run_id, refused)
                return
            reason = f"the server does not take what the run came to: {refused}"
            await self._reported(*ended(outcomes.failed(reason, "ReportRefused")))


def _answered(body: asyncio.Task[Report]) -> bool:
    return body.done() and not body.cancelled() and body.exception() is None


def _failed(error: BaseException | None) -> outcomes.Outcome:
    if isinstance(error, EventLimitError):
        return outcomes.failed(str(error), "event_limit")
    if isinstance(error, asyncio.CancelledError):
        return outcomes.failed("the run cancelled itself", "CancelledError")
    kind = error_type(error)
    return outcomes.failed(str(error) or kind, kind)


def _seen(body: asyncio.Task[Report]) -> None:
    """Take what a body left behind, so that nobody complains that it was never looked at."""
    with contextlib.suppress(asyncio.CancelledError):
        body.exception()
