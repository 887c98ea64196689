"""Firing points from code that cannot await: on the run's event loop, or beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

from checkrail.engine.scope import Scope
from checkrail.engine.verdict import Verdict

PATIENCE = 0.5
"""How long a run's event loop may take to begin with a dispatch, in seconds."""

Firing = Callable[[], Coroutine[Any, Any, Verdict]]


class Bridge:
    """The way from the threads of a run to its event loop.

    Hooks belong on the loop, where their clients and locks live. But code on the loop's own
    thread may be waiting for the very thread that asks, and then nothing would ever begin there:
    such a dispatch is taken back, and gets a loop of its own.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stuck = False
        self._tasks: set[asyncio.Task[Verdict]] = set()

    def fire(self, scope: Scope, point: str, value: Any, ids: Mapping[str, Any]) -> Verdict:
        """Fire a point, and wait for the verdict."""

        def firing() -> Coroutine[Any, Any, Verdict]:
            return scope.fire(point, value, **ids)

        loop = self.loop
        if loop is None or self._stuck or loop.is_closed() or _on_a_loop():
            return self._beside(firing, scope)
        return self._across(loop, firing, scope)

    def _across(self, loop: asyncio.AbstractEventLoop, firing: Firing, scope: Scope) -> Verdict:
        done: Future[Verdict] = Future()
        try:
            loop.call_soon_threadsafe(self._begin, loop, firing, done, context=copy_context())
        except RuntimeError:  # it was closed this moment
            return self._beside(firing, scope)
        try:
            return done.result(PATIENCE)
        except TimeoutError:
            if done.done() or not done.cancel():
                return done.result()
        self._stuck = True
        return self._beside(firing, scope)

    def _begin(
        self, loop: asyncio.AbstractEventLoop, firing: Firing, done: Future[Verdict]
    ) -> None:
        self._stuck = False
        if done.set_running_or_notify_cancel():
            task = loop.create_task(firing())
            self._tasks.add(task)  # the loop itself holds tasks but weakly
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda ended: _passed_on(ended, done))

    def _beside(self, firing: Firing, scope: Scope) -> Verdict:
        done: Future[Verdict] = Future()
        context = copy_context()
        work = threading.Thread(
            target=lambda: context.run(asyncio.run, _alone(firing, scope, done)),
            name="checkrail-hooks",
        )
        work.start()
        return done.result()


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _passed_on(task: asyncio.Task[Verdict], done: Future[Verdict]) -> None:
    if task.cancelled():
        done.set_exception(asyncio.CancelledError("the run's event loop was shut down"))
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


async def _alone(firing: Firing, scope: Scope, done: Future[Verdict]) -> None:
    """Fire in a loop that is there for this alone, and see its background observers through."""
    try:
        done.set_result(await firing())
    except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits for it
        done.set_exception(error)
    for level in scope.levels:
        await level.aclose()
