"""Runs that hooks start: ordinary runs, whose end is the hook's answer."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.actions.errors import ActionError
from checkrail.engine.chain import hook_at_work
from checkrail.engine.errors import TimedOutError, UnreachableError
from checkrail.engine.event import ORIGINAL, Event
from checkrail.engine.frozen import thaw
from checkrail.engine.outcomes import Reject
from checkrail.engine.values import User, plain
from checkrail.runs.catalogue import Entry
from checkrail.runs.errors import RequestError
from checkrail.runs.parts import HOOK, Parts
from checkrail.runs.requests import Asker, Idempotency, RunRequest
from checkrail.store import runs
from checkrail.store.database import Reads
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.rows import Row

if TYPE_CHECKING:
    from checkrail.runs.service import Runs

MAX_DEPTH = 5
_START = ("before_run", "on_run_start")
_FINISH = ("after_run", "on_run_error")
NOBODY = User("anonymous")


class HookRuns:
    """Answers hooks that ask an agent: see `AgentCaller`."""

    def __init__(self, parts: Parts, service: Runs) -> None:
        self._parts = parts
        self._service = service
        self._exists: dict[str, Callable[[], object]] = {}
        self._withdrawing: set[asyncio.Task[None]] = set()

    def when_exists(self, delivery_id: str, told: Callable[[], object]) -> None:
        """Have it told when the run that a delivery calls for exists: then it is delivered."""
        self._exists[delivery_id] = told

    def forget(self, delivery_id: str) -> None:
        """Tell nobody any more."""
        self._exists.pop(delivery_id, None)

    async def __call__(
        self, agent_name: str, parameters: dict[str, Any], event: Event[Any], timeout: float
    ) -> Any:
        """Run an agent, and give its output, or raise what went wrong."""
        try:
            return await self._run(agent_name, parameters, event, timeout)
        except DatabaseUnavailableError as error:
            raise UnreachableError(f"the agent {agent_name!r} could not be run: {error}") from error

    async def _run(
        self, agent_name: str, parameters: dict[str, Any], event: Event[Any], timeout: float
    ) -> Any:
        asked = await self._asked(agent_name, parameters, event, timeout)
        delivery_id = event.metadata.get("delivery_id")
        if delivery_id is None:
            run = await self._admitted(asked, event, None)
            return await self._answer(run)
        run = await self._admitted(asked, event, Idempotency(delivery_id, HOOK, agent_name))
        if (told := self._exists.pop(delivery_id, None)) is not None:
            told()
        return _output(await self._service.ended(run["run_id"]))

    async def _asked(
        self, agent_name: str, parameters: dict[str, Any], event: Event[Any], timeout: float
    ) -> RunRequest:
        parent, line = await self._parts.read_current(
            lambda reads: _ancestors(reads, event.run_id), patient=True
        )
        agent = self._parts.catalogue.get(agent_name)
        if agent is None:
            problem = f"there is no agent {agent_name!r}"
            raise ActionError(problem, "Declare it, or name another", public=problem)
        _check_line(agent_name, line or [event.agent_name or ""], parent or event.metadata)
        _check_start(agent, event)
        parameters = parameters | _original_parameters(agent, event)
        _check_fits(agent, parameters, event)
        around = parent or event.metadata  # at `before_run` there is no run yet
        without = [*(around.get("told") or {}).get("without", ())]
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
            depth=around.get("depth", 0) + 1,
            scope=thaw(around.get("scope")),
            timeout_seconds=timeout,
            told={"without": without},
            at_once=event.point not in _FINISH,
        )

    async def _admitted(
        self, asked: RunRequest, event: Event[Any], once: Idempotency | None
    ) -> Row:
        """Admit a run outside of the hook's own context: it is work of its own."""
        admit = self._service.admit([asked], Asker(event.user or NOBODY), once)
        loop = asyncio.get_running_loop()
        task = loop.create_task(admit, context=contextvars.Context())
        try:
            [row] = await asyncio.shield(task)
        except RequestError as error:
            problem = f"the agent {asked.assistant_id!r} could not be run: {error}"
            raise ActionError(problem, public=problem) from error
        except asyncio.CancelledError:
            self._withdrawing.add(withdrawing := loop.create_task(self._withdraw(task)))
            withdrawing.add_done_callback(self._withdrawing.discard)
            raise
        return row

    async def _withdraw(self, admitting: asyncio.Task[list[Row]]) -> None:
        """Stop a run that came to be after its hook was cancelled."""
        with contextlib.suppress(RequestError):
            for row in await admitting:
                await self._stop(row)

    async def _answer(self, run: Row) -> Any:
        """Wait for the end of a run; a hook that is cancelled or late takes it along."""
        self._parts.awaited.add(run["run_id"])
        try:
            return _output(await self._service.ended(run["run_id"]))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.get_running_loop().create_task(self._stop(run)))
            raise
        finally:
            self._parts.awaited.discard(run["run_id"])

    async def _stop(self, run: Row) -> None:
        with contextlib.suppress(RequestError):  # it is over, or gone
            await self._service.cancel(run["run_id"], "interrupt", "its hook was stopped")


def _output(row: Row) -> Any:
    if row["status"] == "success":
        return row["output"]
    told = row["error"] or row["phase"]
    problem = f"the run {row['run_id']} of {row['agent_name']!r} ended: {told}"
    if row["status"] == "timeout":
        raise TimedOutError(problem)
    public = f"the agent {row['agent_name']!r} failed, see its run {row['run_id']}"
    raise ActionError(problem, public=public)


def _ancestors(reads: Reads, run_id: str | None) -> tuple[Row | None, list[str]]:
    """Return the run whose hook asks, and the agents of the runs whose hooks led to it."""
    first = row = None if run_id is None else runs.get(reads, run_id)
    names: list[str] = []
    while row is not None and len(names) <= MAX_DEPTH:
        names.append(row["agent_name"])
        above = row["parent_run_id"] if row["origin"] == HOOK else None
        row = None if above is None else runs.get(reads, above)
    return first, names


def _check_line(agent_name: str, line: list[str], parent: Mapping[str, Any]) -> None:
    if agent_name in line:
        circle = " → ".join([*reversed(line), agent_name])
        problem = f"the agent hooks are a circle: {circle}"
        raise ActionError(problem, "Let one of them end", public=problem)
    if parent.get("depth", 0) >= MAX_DEPTH:
        problem = f"hooks start runs {MAX_DEPTH} deep, which is the limit"
        raise ActionError(problem, "Chain fewer", public=problem)


def _check_start(agent: Entry, event: Event[Any]) -> None:
    if event.point in _START and any(map(agent.hooks.has, _START)):
        problem = f"the agent {agent.name!r} has start hooks of its own, and cannot be one"
        remedy = "Move them to where it is called, or use another agent"
        raise ActionError(problem, remedy, public=problem)


def _original_parameters(agent: Entry, event: Event[Any]) -> dict[str, Any]:
    """Return what the run before was asked for, if an agent's schema has a place for that."""
    named = (agent.config.parameters_schema or {}).get("properties") or {}
    if event.point not in _FINISH or ORIGINAL not in named:
        return {}
    return {ORIGINAL: plain(event.metadata.get(ORIGINAL, event.value.input))}


def _check_fits(agent: Entry, parameters: Any, event: Event[Any]) -> None:
    """Refuse the run if its hook cannot be asked: that nobody looked is no permission."""
    wrong = None if agent.takes is None else agent.takes.wrong(parameters, "what it is told does")
    if wrong is None:
        return
    problem = f"the hook agent {agent.name!r} cannot be asked: {wrong}"
    if event.verdict is not None:  # an observer refuses nothing
        raise ActionError(problem, "Let its parameters_schema take what it is sent", public=problem)
    raise Reject(problem, status=500)
