"""A thread for one call: a function that hangs keeps nobody else waiting, not even the exit."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

R = TypeVar("R")


async def run_in_thread(call: Callable[[], R]) -> R:
    """Call a function in a thread of its own, with the caller's context.

    Python waits for the threads of a pool when it ends, and a pool runs out of threads when some
    hang. A thread that nobody waits for any more just goes on alone.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[R] = loop.create_future()
    context = contextvars.copy_context()

    def set_outcome(result: R | None, error: BaseException | None) -> None:
        if outcome.done():
            return  # nobody waits for it any more
        if error is None:
            outcome.set_result(result)  # type: ignore[arg-type]
        else:
            outcome.set_exception(error)

    def run_call() -> None:
        result: R | None = None
        error: BaseException | None = None
        try:
            result = context.run(call)
        except StopIteration as stop:  # which no future can hold: the caller would wait for ever
            error = RuntimeError("the function raised StopIteration")
            error.__cause__ = stop
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
            error = raised
        with suppress(RuntimeError):  # the event loop is over, and nobody waits for it
            loop.call_soon_threadsafe(set_outcome, result, error)

    threading.Thread(target=run_call, daemon=True, name="checkrail-tool").start()
    return await outcome
