"""What a guarded call goes through: written once as a plan, driven with and without `await`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from checkrail.adapters.langchain.frames import ModelFrame, ToolFrame, inside
from checkrail.engine.asks import AnswerLater
from checkrail.engine.containment import contained
from checkrail.engine.points import HookPoint
from checkrail.engine.scope import Scope

if TYPE_CHECKING:
    from checkrail.adapters.langchain.guard import Guard
    from checkrail.adapters.langchain.journal import Slot


class Fire(NamedTuple):
    """A point to be fired; the plan goes on with the verdict."""

    scope: Scope
    point: HookPoint
    value: Any
    ids: Mapping[str, Any]


class Act:
    """The call itself; the plan goes on with what it gave."""

    frame: ModelFrame | ToolFrame

    def take(self, piece: Any) -> bool:
        """Take what the call gave, or a piece of it; say whether that may go out at once."""
        raise NotImplementedError

    def close(self) -> None:
        """See to what is due however the call ended."""


Plan = Generator[Fire | Act, Any, Any]


class Course:
    """A plan on its way: its next step, or in the end its result.

    What it gave is noted in the `slot` of a run that may be left; one that was made before is over
    at once.
    """

    def __init__(self, plan: Plan, guard: Guard, slot: Slot | None = None) -> None:
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
    def under_way(self) -> Iterator[None]:
        """Be on the way: a run is not left before it has come to its end."""
        self._guard.begin(self)
        try:
            yield
        finally:
            self._guard.end_of(self)

    def kept(self, result: Any) -> Any:
        """Return what the call gave, and note it."""
        journal = self._guard.journal
        if journal is not None and self._slot is not None and not self._slot.over:
            journal.end(self._slot, result)
        return result

    async def fire(self, step: Fire) -> Any:
        """Fire a point, and give its verdict."""
        try:
            return await step.scope.fire(step.point, step.value, **step.ids)
        except AnswerLater as later:
            raise self._guard.leave(later) from None

    def fire_sync(self, step: Fire) -> Any:
        """Fire a point from code that cannot await."""
        try:
            return self._guard.bridge.fire(step.scope, step.point, step.value, step.ids)
        except AnswerLater as later:
            raise self._guard.leave(later) from None

    def send(self, value: Any) -> None:
        """Go on with what the last step gave."""
        self._go(self._plan.send, value)

    def throw(self, error: Exception) -> None:
        """Go on with the last step's failure, which the plan may let pass."""
        self._go(self._plan.throw, error)

    def _go(self, resume: Callable[[Any], Any], value: Any) -> None:
        try:
            self.step = resume(value)
        except StopIteration as over:
            self.over, self.result = True, over.value


@contextmanager
def acting(act: Act) -> Iterator[None]:
    """Perform a call; what it leaves running is no part of it any more."""
    try:
        yield
    finally:
        act.frame.over = True
        act.close()


async def run(course: Course, perform: Callable[[Any], Awaitable[Any]]) -> Any:
    """Drive a plan whose call is awaited."""
    with course.under_way():
        while not course.over:
            step = course.step
            try:
                if isinstance(step, Fire):
                    result: Any = await course.fire(step)
                else:
                    with acting(step), inside(step.frame), contained():
                        result = await perform(step)
                        step.take(result)
            except Exception as error:  # noqa: BLE001 - the plan says what becomes of it
                course.throw(error)
            else:
                course.send(result)
        return course.kept(course.result)


def run_sync(course: Course, perform: Callable[[Any], Any]) -> Any:
    """Drive a plan whose call blocks."""
    with course.under_way():
        while not course.over:
            step = course.step
            try:
                if isinstance(step, Fire):
                    result: Any = course.fire_sync(step)
                else:
                    with acting(step), inside(step.frame), contained():
                        result = perform(step)
                        step.take(result)
            except Exception as error:  # noqa: BLE001 - the plan says what becomes of it
                course.throw(error)
            else:
                course.send(result)
        return course.kept(course.result)


async def stream(course: Course, perform: Callable[[Any], Any]) -> AsyncGenerator[Any]:
    """Drive a plan whose call is an asynchronous stream; what may not go out yet is held."""
    sent: list[Any] = []
    with course.under_way():
        while not course.over:
            step = course.step
            if isinstance(step, Fire):
                course.send(await course.fire(step))
                continue
            with acting(step):
                with inside(step.frame):
                    source = perform(step)
                async with aclosing(_waited(source, step)) as pieces:
                    async for piece in pieces:
                        if step.take(piece):
                            sent.append(piece)
                            yield piece
            course.send(None)
        rest = [*course.result]
        course.kept([*sent, *rest])
    for piece in rest:
        yield piece


async def _waited(source: Any, act: Act) -> AsyncGenerator[Any]:
    pieces = source.__aiter__()
    try:
        while True:
            with inside(act.frame), contained():
                try:
                    piece = await pieces.__anext__()
                except StopAsyncIteration:
                    return
            yield piece
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()


def stream_sync(course: Course, perform: Callable[[Any], Any]) -> Generator[Any]:
    """Drive a plan whose call is a stream; what may not go out yet is held."""
    sent: list[Any] = []
    with course.under_way():
        while not course.over:
            step = course.step
            if isinstance(step, Fire):
                course.send(course.fire_sync(step))
                continue
            with acting(step):
                with inside(step.frame):
                    source = perform(step)
                for piece in _pulled(source, step):
                    if step.take(piece):
                        sent.append(piece)
                        yield piece
            course.send(None)
        rest = [*course.result]
        course.kept([*sent, *rest])
    yield from rest


def _pulled(source: Any, act: Act) -> Generator[Any]:
    pieces = iter(source)
    try:
        while True:
            with inside(act.frame), contained():
                try:
                    piece = next(pieces)
                except StopIteration:
                    return
            yield piece
    finally:
        if (close := getattr(pieces, "close", None)) is not None:
            close()
