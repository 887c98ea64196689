"""What a guarded call goes through: written once as a plan, driven with and without `await`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from checkrail.adapters.langchain.frames import ModelFrame, ToolFrame, enter_frame
from checkrail.engine.asks import AnswerLater
from checkrail.engine.containment import contain_errors
from checkrail.engine.points import HookPoint
from checkrail.engine.scope import Scope

if TYPE_CHECKING:
    from checkrail.adapters.langchain.guard import Guard
    from checkrail.adapters.langchain.journal import JournalEntry


class FireStep(NamedTuple):
    """A point to be fired, with ids and other options; the plan goes on with the verdict."""

    scope: Scope
    point: HookPoint
    value: Any
    options: Mapping[str, Any]


class CallStep:
    """The call itself; the plan goes on with what it gave."""

    frame: ModelFrame | ToolFrame

    def accept_piece(self, piece: Any) -> bool:
        """Take the result of the call, or a piece of it; return whether it may go out at once."""
        raise NotImplementedError

    def close(self) -> None:
        """Clean up, however the call ended."""


Plan = Generator[FireStep | CallStep, Any, Any]


class PlanExecution:
    """A plan being executed: its next step, or in the end its result.

    What it gave is noted in the `slot` of a run that may be left; one that was made before is over
    at once.
    """

    def __init__(self, plan: Plan, guard: Guard, slot: JournalEntry | None = None) -> None:
        self._plan = plan
        self._guard = guard
        self._slot = slot
        self.step: Any = None
        self.over = False
        self.result: Any = None
        if slot is not None and slot.over:
            self.over, self.result = True, slot.result
        else:
            self.send(None)

    @contextmanager
    def keep_run_open(self) -> Iterator[None]:
        """Register with the guard: a run is not suspended before its calls have ended."""
        self._guard.add_call(self)
        try:
            yield
        finally:
            self._guard.remove_call(self)

    def record_result(self, result: Any) -> Any:
        """Return the result of the call, and record it in the journal."""
        journal = self._guard.journal
        if journal is not None and self._slot is not None and not self._slot.over:
            journal.close_entry(self._slot, result)
        return result

    async def fire(self, step: FireStep) -> Any:
        """Fire a point, and return its verdict."""
        try:
            return await step.scope.fire(step.point, step.value, **step.options)
        except AnswerLater as later:
            raise self._guard.suspend_run(later) from None

    def fire_sync(self, step: FireStep) -> Any:
        """Fire a point from code that cannot await."""
        try:
            return self._guard.bridge.fire(step.scope, step.point, step.value, step.options)
        except AnswerLater as later:
            raise self._guard.suspend_run(later) from None

    def send(self, value: Any) -> None:
        """Continue the plan with the result of its last step."""
        self._advance(self._plan.send, value)

    def throw(self, error: Exception) -> None:
        """Continue the plan with the error of its last step, which it may let pass."""
        self._advance(self._plan.throw, error)

    def _advance(self, resume: Callable[[Any], Any], value: Any) -> None:
        try:
            self.step = resume(value)
        except StopIteration as over:
            self.over, self.result = True, over.value


@contextmanager
def finish_step(act: CallStep) -> Iterator[None]:
    """Perform a call; what it leaves running is not a part of it any more."""
    try:
        yield
    finally:
        act.frame.over = True
        act.close()


async def run_plan(course: PlanExecution, perform: Callable[[Any], Awaitable[Any]]) -> Any:
    """Execute a plan whose call is awaited."""
    with course.keep_run_open():
        while not course.over:
            step = course.step
            try:
                if isinstance(step, FireStep):
                    result: Any = await course.fire(step)
                else:
                    with finish_step(step), enter_frame(step.frame), contain_errors():
                        result = await perform(step)
                        step.accept_piece(result)
            except Exception as error:  # noqa: BLE001 - the plan says what becomes of it
                course.throw(error)
            else:
                course.send(result)
        return course.record_result(course.result)


def run_plan_sync(course: PlanExecution, perform: Callable[[Any], Any]) -> Any:
    """Execute a plan whose call blocks."""
    with course.keep_run_open():
        while not course.over:
            step = course.step
            try:
                if isinstance(step, FireStep):
                    result: Any = course.fire_sync(step)
                else:
                    with finish_step(step), enter_frame(step.frame), contain_errors():
                        result = perform(step)
                        step.accept_piece(result)
            except Exception as error:  # noqa: BLE001 - the plan says what becomes of it
                course.throw(error)
            else:
                course.send(result)
        return course.record_result(course.result)


async def stream_plan(course: PlanExecution, perform: Callable[[Any], Any]) -> AsyncGenerator[Any]:
    """Execute a plan whose call is an asynchronous stream; what may not go out yet is held."""
    sent: list[Any] = []
    with course.keep_run_open():
        while not course.over:
            step = course.step
            if isinstance(step, FireStep):
                course.send(await course.fire(step))
                continue
            with finish_step(step):
                with enter_frame(step.frame):
                    source = perform(step)
                async with aclosing(_iterate_async(source, step)) as pieces:
                    async for piece in pieces:
                        if step.accept_piece(piece):
                            sent.append(piece)
                            yield piece
            course.send(None)
        rest = [*course.result]
        course.record_result([*sent, *rest])
    for piece in rest:
        yield piece


async def _iterate_async(source: Any, act: CallStep) -> AsyncGenerator[Any]:
    pieces = source.__aiter__()
    try:
        while True:
            with enter_frame(act.frame), contain_errors():
                try:
                    piece = await pieces.__anext__()
                except StopAsyncIteration:
                    return
            yield piece
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()


def stream_plan_sync(course: PlanExecution, perform: Callable[[Any], Any]) -> Generator[Any]:
    """Execute a plan whose call is a stream; what may not go out yet is held."""
    sent: list[Any] = []
    with course.keep_run_open():
        while not course.over:
            step = course.step
            if isinstance(step, FireStep):
                course.send(course.fire_sync(step))
                continue
            with finish_step(step):
                with enter_frame(step.frame):
                    source = perform(step)
                for piece in _iterate_sync(source, step):
                    if step.accept_piece(piece):
                        sent.append(piece)
                        yield piece
            course.send(None)
        rest = [*course.result]
        course.record_result([*sent, *rest])
    yield from rest


def _iterate_sync(source: Any, act: CallStep) -> Generator[Any]:
    pieces = iter(source)
    try:
        while True:
            with enter_frame(act.frame), contain_errors():
                try:
                    piece = next(pieces)
                except StopIteration:
                    return
            yield piece
    finally:
        if (close := getattr(pieces, "close", None)) is not None:
            close()
