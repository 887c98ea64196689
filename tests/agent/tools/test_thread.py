"""Functions in threads of their own."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from checkrail.agent.tools.threads import run_in_thread

WHERE = contextvars.ContextVar("where", default="nowhere")


async def test_it_gives_what_the_function_returns_from_another_thread():
    here = threading.get_ident()
    assert await run_in_thread(threading.get_ident) != here


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
async def test_what_the_function_raises_is_raised_where_it_is_waited_for(error):
    def fail():
        raise error

    with pytest.raises(type(error)):
        await run_in_thread(fail)


async def test_stop_iteration_does_not_leave_the_caller_waiting():
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await run_in_thread(lambda: next(iter(())))


async def test_the_function_sees_the_context_of_the_caller_and_cannot_change_it():
    WHERE.set("here")

    def look():
        seen = WHERE.get()
        WHERE.set("there")
        return seen

    assert await run_in_thread(look) == "here"
    assert WHERE.get() == "here"


async def test_more_functions_than_a_pool_has_threads_run_at_the_same_time():
    together = threading.Barrier(64, timeout=30)
    met = await asyncio.gather(*(run_in_thread(together.wait) for _ in range(64)))
    assert sorted(met) == [*range(64)]


async def test_nobody_waits_for_a_function_after_its_caller_was_cancelled():
    release = threading.Event()
    waiting = asyncio.create_task(run_in_thread(release.wait))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    await asyncio.sleep(0.05)


def test_a_function_that_hangs_does_not_hold_up_the_end_of_the_program():
    program = """
import asyncio, time
from checkrail.agent.tools.threads import run_in_thread
async def main():
    try:
        await asyncio.wait_for(run_in_thread(lambda: time.sleep(600)), 0.05)
    except TimeoutError:
        print("left it behind")
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left it behind\n", "")
