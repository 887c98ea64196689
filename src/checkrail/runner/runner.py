"""The runner: registers with a server, takes runs as it has room, and hands back what it must."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from checkrail.engine.containment import contain_tasks
from checkrail.runner.api import RequestRefused, ServerApi, ServerUnavailable
from checkrail.runner.execution import Execution
from checkrail.runner.heartbeat import Heartbeat, HeartbeatResult, Holding
from checkrail.runner.project import RunnerProject

log = logging.getLogger("checkrail.runner")

_LATE = 15.0  # seconds on top of what a poll may take
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """How a runner describes itself, and how it lets go. Times are in seconds."""

    name: str = field(default_factory=platform.node)
    capacity: int = 4
    tags: tuple[str, ...] = ()
    stop_grace: float = 10.0
    cancel_grace: float = 30.0


class Runner:
    """Executes runs of a server until it is shut down."""

    def __init__(self, project: RunnerProject, api: ServerApi, settings: RunnerSettings) -> None:
        self._project = project
        self._api = api
        self._settings = settings
        self._stopping = asyncio.Event()
        self._held: dict[str, Execution] = {}
        self._since: dict[str, float] = {}
        self._heard_of: set[str] = set()  # runs that the server knows we are stopping
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._away = False  # the server, as it seems
        self.runner_id: str | None = None

    def shut_down(self) -> None:
        """Take no more runs, and come to an end."""
        if not self._stopping.is_set():
            grace = self._settings.stop_grace
            log.info("stopping: %d runs have %g s to come to their end", len(self._held), grace)
        self._stopping.set()

    async def serve(self) -> None:
        """Take runs until it is shut down."""
        contain_tasks()
        registered = await self._until_shutdown(self._register())
        if registered is None:
            return
        beat = Heartbeat(
            self._api.options, registered["beat_seconds"], self._held_runs, self._receive_beat
        )
        try:
            while not self._stopping.is_set():
                await self._until_shutdown(self._poll(registered["poll_seconds"]))
            await self._close()
        finally:
            beat.close()

    async def _until_shutdown(self, work: Any) -> Any:
        """Await something, unless the runner is shut down first."""
        doing = self._loop.create_task(work)
        stopping = self._loop.create_task(self._stopping.wait())
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})
        return None if doing.cancelled() else doing.result()

    async def _register(self) -> Any:
        settings, project = self._settings, self._project
        told = {
            "name": settings.name,
            "capacity": settings.capacity,
            "tags": [*settings.tags],
            "kinds": project.kinds,
            "agents": project.agents,
            "config_digest": project.loaded.digest,
            "version": version("checkrail"),
            "host": platform.node(),
            "pid": os.getpid(),
        }
        answer = await self._api.send_until_answered("POST", "/runner/register", None, told)
        self.runner_id = answer["runner_id"]
        log.info("registered as %s (%s)", settings.name, self.runner_id)
        return answer

    async def _poll(self, seconds: float) -> None:
        """Poll for runs once, and start what there is."""
        try:
            found = await self._request_runs(seconds)
        except (ServerUnavailable, RequestRefused) as error:
            if isinstance(error, RequestRefused) and error.status < 500:
                raise
            if not self._away:
                log.warning("%s; it is tried again", error)
            self._away = True
            await asyncio.sleep(_PAUSE)
            return
        self._away = False
        for stop in (found or {}).get("stops", ()):
            self._cancel_run(stop["run_id"], stop["attempt"], stop["cancel"])
        for claim in (found or {}).get("runs", ()):
            self._start_run(claim)

    async def _request_runs(self, seconds: float) -> Any:
        """Return what a poll gave; None: the server had forgotten this runner, and knows it now."""
        try:
            return await self._send_poll(seconds)
        except RequestRefused as refused:
            if not refused.is_lease_lost:
                raise
        log.warning("the server does not know this runner any more; it registers again")
        await self._register()
        return None

    async def _send_poll(self, seconds: float) -> Any:
        """Poll; where there was no room, poll again when a run that ends makes some."""
        self._changed.clear()
        room = max(0, self._settings.capacity - len(self._held))
        mine = [run_id for run_id, each in self._held.items() if each.runner_id == self.runner_id]
        params = [("room", str(room)), *(("holding", run_id) for run_id in mine)]
        params += [("stopping", run_id) for run_id in mine if run_id in self._heard_of]
        asking = self._loop.create_task(
            self._api.send(
                "GET", "/runner/runs", self.runner_id, params=params, patience=seconds + _LATE
            )
        )
        changing = self._loop.create_task(self._changed.wait())
        try:
            waits: set[asyncio.Task[Any]] = {asking} if room else {asking, changing}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return await asking if asking.done() else None
        finally:
            for task in (asking, changing):
                task.cancel()
            await asyncio.wait({asking, changing})

    def _start_run(self, claim: Mapping[str, Any]) -> None:
        settings = self._settings
        assert self.runner_id is not None  # noqa: S101 - nothing is claimed without one
        made = Execution(self._project, self._api, self.runner_id, claim, settings.cancel_grace)
        if made.run_id in self._held:
            return  # it was sent again, though we have it
        self._held[made.run_id] = made
        self._since[made.run_id] = time.monotonic()
        task = self._loop.create_task(self._execute_run(made))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute_run(self, made: Execution) -> None:
        ended = False
        try:
            ended = await made.execute()
        except Exception:
            log.exception("run %s could not be carried out", made.run_id)
        finally:
            if ended or not self._stopping.is_set():
                del self._held[made.run_id]
            self._heard_of.discard(made.run_id)
            self._changed.set()

    def _cancel_run(self, run_id: str, attempt: int, how: str) -> None:
        made = self._held.get(run_id)
        if made is None or made.live.attempt != attempt:
            return
        self._heard_of.add(run_id)
        if how == "lost":
            made.live.abort("lost")
        else:
            made.live.abort("rollback" if how == "rollback" else "interrupt")

    def _held_runs(self) -> Holding:
        """Return the runs that are here; called by the heartbeat's thread."""
        held = self._held.copy()
        return {run_id: (made.runner_id, made.live.attempt) for run_id, made in held.items()}

    def _receive_beat(self, heard: HeartbeatResult) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._apply_beat, heard)

    def _apply_beat(self, heard: HeartbeatResult) -> None:
        for run_id, made in tuple(self._held.items()):
            if made.runner_id != heard.runner_id or self._since[run_id] > heard.began:
                continue
            how = heard.cancel_action(run_id, made.live.attempt)
            if how is not None:
                self._cancel_run(run_id, made.live.attempt, how)

    async def _close(self) -> None:
        """Let the runs that are here end for a while, and hand back the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.stop_grace)
        for made in tuple(self._held.values()):
            made.live.abort("handover")
        if self._tasks:
            await asyncio.wait(self._tasks)
        params = [("holding", run_id) for run_id in self._held]
        try:
            await self._api.send("POST", "/runner/deregister", self.runner_id, params=params)
        except (RequestRefused, ServerUnavailable) as error:
            log.warning("the runner could not be deregistered: %s", error)


async def serve_runner(
    project: RunnerProject, server: str, key: str | None, settings: RunnerSettings
) -> None:
    """Run until SIGTERM or SIGINT."""
    api = ServerApi(server, key)
    try:
        async with project.open_storage():
            runner = Runner(project, api, settings)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, runner.shut_down)
            await runner.serve()
    finally:
        await api.aclose()
