"""Other people's code may raise anything; it does not end the process that calls it.

asyncio raises a `SystemExit` or `KeyboardInterrupt` of any task out of the event loop. Processes of
our own therefore create their tasks by `create_contained_task`, which makes an ordinary error of
it (and of a `GeneratorExit`, which no event loop sends to a task); where we call somebody's code
ourselves, `contain_errors` does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from checkrail.engine.errors import CodeExited, ControlFlow


def is_process_ours() -> bool:
    """Return whether the running event loop contains what code raises: it is a process of ours."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return loop.get_task_factory() is create_contained_task


def ends_process(error: BaseException) -> bool:
    """Return whether an error is to pass: Ctrl-C in a process that is the user's."""
    return isinstance(error, KeyboardInterrupt) and not is_process_ours()


def is_unasked(error: BaseException) -> bool:
    """Return whether an error is a cancellation that nobody asked this task for."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread, which cannot be cancelled itself
        return False
    return task is not None and not task.cancelling()


def contain(error: BaseException) -> BaseException:
    """Return an ordinary exception for one that is none, unless it is meant to pass."""
    if isinstance(error, asyncio.CancelledError):
        return CodeExited(error) if is_unasked(error) else error
    if isinstance(error, (Exception, GeneratorExit, ControlFlow)) or ends_process(error):
        return error
    return CodeExited(error)


@contextmanager
def contain_errors() -> Iterator[None]:
    """Call somebody's code inside: whatever it raises by itself is an ordinary exception."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if (ordinary := contain(error)) is error:
            raise
        raise ordinary from error


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine of a task, out of which come ordinary exceptions and cancellations only."""

    __slots__ = ("__weakref__", "_close", "_send", "_throw", "coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine
        self._send, self._throw, self._close = coroutine.send, coroutine.throw, coroutine.close

    def send(self, value: Any) -> Any:
        """Resume it."""
        return self._resume(self._send, value)

    def throw(self, *error: Any) -> Any:
        """Resume it with an error."""
        return self._resume(self._throw, *error)

    def _resume(self, step: Callable[..., Any], *given: Any) -> Any:
        try:
            return step(*given)
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            if ends_process(error):
                raise
            raise CodeExited(error) from error

    def close(self) -> None:
        """End it."""
        self._close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.coroutine, name)  # its frame and name, for whoever shows a task


def create_contained_task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
) -> asyncio.Task[Any]:
    """Create a task whose `SystemExit` or `KeyboardInterrupt` is the task's error and no more."""
    return asyncio.Task(_Contained(coroutine), loop=loop, **options)


def contain_tasks() -> None:
    """Have all tasks of the running event loop, whoever creates them, contain what they raise."""
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        loop.set_task_factory(create_contained_task)
