"""Runs that hooks start: ordinary runs, whose end is the hook's answer."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from checkrail.actions.errors import ActionError
from checkrail.engine.dispatch_state import hook_at_work
from checkrail.engine.errors import TimedOutError, UnreachableError
from checkrail.engine.event import ORIGINAL, Event
from checkrail.engine.frozen import thaw
from checkrail.engine.outcomes import Reject
from checkrail.engine.values import User, plain
from checkrail.runs.admit.requests import Idempotency, Principal, RunRequest
from checkrail.runs.agents.catalogue import AgentEntry
from checkrail.runs.errors import RequestError
from checkrail.runs.services import HOOK, RunServices
from checkrail.store import runs
from checkrail.store.database import Reads
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.runs import Run

MAX_DEPTH = 5
_START = ("before_run", "on_run_start")
_FINISH = ("after_run", "on_run_error")
NOBODY = User("anonymous")


class RunControl(Protocol):
    """What hooks may do with runs, as the run service does it for routes."""

    async def admit(
        self, requests: Sequence[RunRequest], asker: Principal, once: Idempotency | None = None
    ) -> list[Run]:
        """Admit runs, all or none."""

    async def cancel(self, run_id: str, action: str, reason: str | None = None) -> Run:
        """Cancel a run."""

    async def ended(self, run_id: str) -> Run:
        """Wait until a run has ended."""


class HookRuns:
    """Runs the agents that hooks call: see `AgentCaller`."""

    def __init__(self, parts: RunServices, service: RunControl) -> None:
        self._parts = parts
        self._service = service
        self._exists: dict[str, Callable[[], object]] = {}
        self._withdrawing: set[asyncio.Task[None]] = set()

    def call_when_exists(self, delivery_id: str, told: Callable[[], object]) -> None:
        """Call back when the run that a delivery calls for exists: then it is delivered."""
        self._exists[delivery_id] = told

    def forget(self, delivery_id: str) -> None:
        """Call nobody back any more."""
        self._exists.pop(delivery_id, None)

    async def __call__(
        self,
        agent_name: str,
        parameters: dict[str, Any],
        event: Event[Any],
        timeout: float,
        *,
        summarizes: str | None = None,
    ) -> Any:
        """Run an agent, and give its output, or raise what went wrong.

        One that `summarizes` a session has its output stored there when it ends.
        """
        try:
            asked = await self._build_request(agent_name, parameters, event, timeout)
            if summarizes is not None:
                told = {**(asked.notify_on_end or {}), "summarizes": summarizes}
                asked = replace(asked, notify_on_end=told)
            return await self._run_agent(asked, event)
        except DatabaseUnavailableError as error:
            raise UnreachableError(f"the agent {agent_name!r} could not be run: {error}") from error

    async def _run_agent(self, asked: RunRequest, event: Event[Any]) -> Any:
        delivery_id = event.metadata.get("delivery_id")
        if delivery_id is None:
            run = await self._admit_run(asked, event, None)
            return await self._await_output(run)
        run = await self._admit_run(
            asked, event, Idempotency(delivery_id, HOOK, asked.assistant_id)
        )
        if (told := self._exists.pop(delivery_id, None)) is not None:
            told()
        return _output_of(await self._service.ended(run.run_id))

    async def _build_request(
        self, agent_name: str, parameters: dict[str, Any], event: Event[Any], timeout: float
    ) -> RunRequest:
        parent, line = await self._parts.read_current(
            lambda reads: _load_ancestors(reads, event.run_id), patient=True
        )
        agent = self._parts.catalogue.get(agent_name)
        if agent is None:
            problem = f"there is no agent {agent_name!r}"
            raise ActionError(problem, "Declare it, or name another", public=problem)
        around = _Around.of(parent, event)
        _check_line(agent_name, line or [event.agent_name or ""], around.depth)
        _check_start(agent, event)
        parameters = parameters | _original_parameters(agent, event)
        _check_fits(agent, parameters, event)
        without = [*(around.notify_on_end or {}).get("without", ())]
        if (hook := hook_at_work()) is not None:
            without.append(hook.key)
        return RunRequest(
            assistant_id=agent_name,
            input=parameters,
            keep_thread=True,
            origin=HOOK,
            channel=HOOK,
            parent_run_id=event.run_id,
            parent_session_id=event.session_id,
            depth=around.depth + 1,
            scope=thaw(around.scope),
            timeout_seconds=timeout,
            notify_on_end={"without": without},
            at_once=event.point not in _FINISH,
        )

    async def _admit_run(
        self, asked: RunRequest, event: Event[Any], once: Idempotency | None
    ) -> Run:
        """Admit a run outside of the hook's own context: it is work of its own."""
        admit = self._service.admit([asked], Principal(event.user or NOBODY), once)
        loop = asyncio.get_running_loop()
        task = loop.create_task(admit, context=contextvars.Context())
        try:
            [row] = await asyncio.shield(task)
        except RequestError as error:
            problem = f"the agent {asked.assistant_id!r} could not be run: {error}"
            raise ActionError(problem, public=problem) from error
        except asyncio.CancelledError:
            self._withdrawing.add(withdrawing := loop.create_task(self._cancel_late(task)))
            withdrawing.add_done_callback(self._withdrawing.discard)
            raise
        return row

    async def _cancel_late(self, admitting: asyncio.Task[list[Run]]) -> None:
        """Cancel a run that came to be after its hook was cancelled."""
        with contextlib.suppress(RequestError):
            for row in await admitting:
                await self._cancel_run(row)

    async def _await_output(self, run: Run) -> Any:
        """Wait for the end of a run; a hook that is cancelled or late takes it along."""
        self._parts.awaited.add(run.run_id)
        try:
            return _output_of(await self._service.ended(run.run_id))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.get_running_loop().create_task(self._cancel_run(run)))
            raise
        finally:
            self._parts.awaited.discard(run.run_id)

    async def _cancel_run(self, run: Run) -> None:
        with contextlib.suppress(RequestError):  # it is over, or gone
            await self._service.cancel(run.run_id, "interrupt", "its hook was stopped")


def _output_of(row: Run) -> Any:
    if row.status == "success":
        return row.output
    told = row.error or row.phase
    problem = f"the run {row.run_id} of {row.agent_name!r} ended: {told}"
    if row.status == "timeout":
        raise TimedOutError(problem)
    public = f"the agent {row.agent_name!r} failed, see its run {row.run_id}"
    raise ActionError(problem, public=public)


class _Around(NamedTuple):
    """What a hook's run inherits of the run whose hook it is."""

    notify_on_end: Any
    depth: int
    scope: Any

    @classmethod
    def of(cls, parent: Run | None, event: Event[Any]) -> _Around:
        """Return it as the run has it, or the event: at `before_run` there is no run yet."""
        if parent is not None:
            return cls(parent.notify_on_end, parent.depth, parent.scope)
        known = event.metadata
        return cls(known.get("notify_on_end"), known.get("depth", 0), known.get("scope"))


def _load_ancestors(reads: Reads, run_id: str | None) -> tuple[Run | None, list[str]]:
    """Return the run whose hook calls, and the agents of the runs whose hooks led to it."""
    first = row = None if run_id is None else runs.get(reads, run_id)
    names: list[str] = []
    while row is not None and len(names) <= MAX_DEPTH:
        names.append(row.agent_name)
        above = row.parent_run_id if row.origin == HOOK else None
        row = None if above is None else runs.get(reads, above)
    return first, names


def _check_line(agent_name: str, line: list[str], depth: int) -> None:
    if agent_name in line:
        circle = " → ".join([*reversed(line), agent_name])
        problem = f"the agent hooks are a circle: {circle}"
        raise ActionError(problem, "Let one of them end", public=problem)
    if depth >= MAX_DEPTH:
        problem = f"hooks start runs {MAX_DEPTH} deep, which is the limit"
        raise ActionError(problem, "Chain fewer", public=problem)


def _check_start(agent: AgentEntry, event: Event[Any]) -> None:
    if event.point in _START and any(map(agent.hooks.has, _START)):
        problem = f"the agent {agent.name!r} has start hooks of its own, and cannot be one"
        remedy = "Move them to where it is called, or use another agent"
        raise ActionError(problem, remedy, public=problem)


def _original_parameters(agent: AgentEntry, event: Event[Any]) -> dict[str, Any]:
    """Return the parameters of the run before, if an agent's schema has a place for them."""
    named = (agent.config.parameters_schema or {}).get("properties") or {}
    if event.point not in _FINISH or ORIGINAL not in named:
        return {}
    return {ORIGINAL: plain(event.metadata.get(ORIGINAL, event.value.input))}


def _check_fits(agent: AgentEntry, parameters: Any, event: Event[Any]) -> None:
    """Refuse the run if its hook cannot be called: that nobody looked is no permission."""
    wrong = (
        None
        if agent.takes is None
        else agent.takes.first_problem(parameters, "what it is told does")
    )
    if wrong is None:
        return
    problem = f"the hook agent {agent.name!r} cannot be asked: {wrong}"
    if event.verdict is not None:  # an observer refuses nothing
        raise ActionError(problem, "Let its parameters_schema take what it is sent", public=problem)
    raise Reject(problem, status=500)
