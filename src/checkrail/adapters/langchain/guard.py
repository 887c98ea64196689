"""The guard: what one run knows of the calls that it makes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

from checkrail.adapters.langchain.frames import ACTIVE
from checkrail.adapters.langchain.journal import Journal
from checkrail.adapters.langchain.run_endings import RunEnded, RunEnding
from checkrail.adapters.langchain.tool_call_hooks import ReviewedToolCall, transform_hooks
from checkrail.adapters.langchain.usage import Usage
from checkrail.engine.asks import AnswerLater
from checkrail.engine.frozen import thaw
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.scope import Scope
from checkrail.engine.values import ToolCall, digest
from checkrail.engine.verdict import Verdict

if TYPE_CHECKING:
    from checkrail.adapters.langchain.plans import PlanExecution


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

    def fire(self, scope: Scope, point: str, value: Any, options: Mapping[str, Any]) -> Verdict:
        """Fire a point, and wait for the verdict."""

        def fire_point() -> Coroutine[Any, Any, Verdict]:
            return scope.fire(point, value, **options)

        loop = self.loop
        if loop is None or self._stuck or loop.is_closed() or _is_in_event_loop():
            return self._fire_in_thread(fire_point, scope)
        return self._fire_on_loop(loop, fire_point, scope)

    def _fire_on_loop(
        self, loop: asyncio.AbstractEventLoop, firing: Firing, scope: Scope
    ) -> Verdict:
        done: Future[Verdict] = Future()
        try:
            loop.call_soon_threadsafe(self._start_task, loop, firing, done, context=copy_context())
        except RuntimeError:  # it was closed this moment
            return self._fire_in_thread(firing, scope)
        try:
            return done.result(PATIENCE)
        except TimeoutError:
            if done.done() or not done.cancel():
                return done.result()
        self._stuck = True
        return self._fire_in_thread(firing, scope)

    def _start_task(
        self, loop: asyncio.AbstractEventLoop, firing: Firing, done: Future[Verdict]
    ) -> None:
        self._stuck = False
        if done.set_running_or_notify_cancel():
            task = loop.create_task(firing())
            self._tasks.add(task)  # the loop itself holds tasks but weakly
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda ended: _transfer_result(ended, done))

    def _fire_in_thread(self, firing: Firing, scope: Scope) -> Verdict:
        done: Future[Verdict] = Future()
        context = copy_context()
        work = threading.Thread(
            target=lambda: context.run(asyncio.run, _fire_in_own_loop(firing, scope, done)),
            name="checkrail-hooks",
        )
        work.start()
        return done.result()


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _transfer_result(task: asyncio.Task[Verdict], done: Future[Verdict]) -> None:
    if task.cancelled():
        done.set_exception(asyncio.CancelledError("the run's event loop was shut down"))
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


async def _fire_in_own_loop(firing: Firing, scope: Scope, done: Future[Verdict]) -> None:
    """Fire in a loop that is there for this alone, and see its background observers through."""
    try:
        done.set_result(await firing())
    except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits for it
        done.set_exception(error)
    for level in scope.levels:
        await level.aclose()


log = logging.getLogger("checkrail.langchain")

Message = Mapping[str, Any]
ModelNames = Mapping[str, str]
"""What events tell of a model: `model`, `provider`, and the `MODEL_NAMES` that there are."""


class Guard:
    """Makes the hooks of a scope hold in all models and tools that one run calls.

    `on_tool` is told of each tool as it starts and ends, with values as hooks have left them, and
    `mark` when a model is called and when it has answered.
    `usage` is what the run's models have used, `ended` the verdict that ended it, if one did:
    that decides, whatever the graph has made of it. A run that can be left for a person to answer
    has a `journal`; `left` says that it is to be, by an interrupt of its graph.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        on_tool: Callable[[dict[str, Any]], None] | None = None,
        mark: Callable[[str, dict[str, Any]], object] | None = None,
        journal: Journal | None = None,
        used: Usage | None = None,
    ) -> None:
        self.scope = scope
        self.on_tool = on_tool
        self.mark = mark
        self.journal = journal
        self.ended: RunEnding | None = None
        self.left: AnswerLater | None = None
        self.bridge = Bridge()
        self.used = Usage() if used is None else used
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], ReviewedToolCall] = {}
        self._injected: dict[str, list[Message]] = {}
        self._models: dict[str, ModelNames] = {}
        self._under_way: set[PlanExecution] = set()
        self._silence: asyncio.Event | None = None

    @property
    def usage(self) -> dict[str, dict[str, Any]]:
        """What each model has used so far, by its name."""
        return self.used.by_model

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Guard what is called inside, and in the tasks and threads that are begun inside."""
        from checkrail.adapters.langchain.install import install

        install()
        with suppress(RuntimeError):  # a graph may be run where there is no loop
            self.bridge.loop = asyncio.get_running_loop()
        token = ACTIVE.set(self)
        try:
            yield
        finally:
            with suppress(ValueError):  # closed from another context, which never had this guard
                ACTIVE.reset(token)

    def check_running(self) -> None:
        """Let no call begin, or give its result, once the run has ended."""
        if self.ended is not None:
            raise RunEnded(self.ended)

    def end_run(self, ended: RunEnding) -> RunEnded:
        """Store the first ending of the run, and return the exception that ends it."""
        with self._lock:
            self.ended = self.ended or ended
        return RunEnded(self.ended)

    def suspend_run(self, later: AnswerLater) -> GraphInterrupt:
        """Store that an approval is needed first, and return the exception that ends the node."""
        with self._lock:
            self.left = self.left or later
        return GraphInterrupt((Interrupt(later.told, id=str(later)),))

    def add_call(self, course: PlanExecution) -> None:
        """Note that a call is under way."""
        with self._lock:
            self._under_way.add(course)

    def remove_call(self, course: PlanExecution) -> None:
        """Note that a call is over."""
        with self._lock:
            self._under_way.discard(course)
            last = not self._under_way and self._silence is not None
        if last and self.bridge.loop is not None and self._silence is not None:
            self.bridge.loop.call_soon_threadsafe(self._silence.set)

    async def wait_for_calls(self) -> None:
        """Wait for calls that outlive their node, so that what they do is recorded."""
        with self._lock:
            self._silence = asyncio.Event()
            if not self._under_way:
                return
        await self._silence.wait()

    def take_snapshot(self, tasks: Collection[str]) -> dict[str, Any]:
        """Return what a suspended run needs when these tasks of its graph run again."""
        plain_ones = [key for key, seen in self._seen.items() if seen.is_plain]
        return {
            "calls": [] if self.journal is None else self.journal.export_calls(tasks),
            "seen": [[*key] for key in plain_ones],
            "injected": {name: thaw(said) for name, said in self._injected.items()},
            "models": {name: dict(names) for name, names in self._models.items()},
            "retries": self.scope.budget.used_by_hook(),
        }

    def restore(self, memo: Mapping[str, Any]) -> None:
        """Restore what a run knew when it was suspended."""
        hooks = transform_hooks(self.scope)
        self._seen = {(name, what): ReviewedToolCall(hooks, None) for name, what in memo["seen"]}
        self._injected = {name: [*said] for name, said in memo["injected"].items()}
        self._models = dict(memo.get("models", {}))  # memos of earlier versions have none
        self.scope.budget.resume(memo["retries"])

    def note_model(self, ids: Iterable[str], names: ModelNames) -> None:
        """Remember whose tool calls these are."""
        self._models.update(dict.fromkeys(ids, names))

    def tool_ids(self, id: str) -> dict[str, Any]:
        """Return the ids in events of a tool call: its own, and the model that made it."""
        return {"tool_call_id": id, **self.model_ids(self._models.get(id, {}))}

    def model_ids(self, names: ModelNames) -> dict[str, Any]:
        """Return the fields in events that name a model."""
        ids: dict[str, Any] = dict(names)
        others = {name: ids.pop(name) for name in MODEL_NAMES if name in ids}
        return {**ids, "metadata": {**self.scope.context.metadata, **others}} if others else ids

    def store_reviewed_call(self, call: ToolCall, seen: ReviewedToolCall) -> None:
        """Store what hooks decided on a tool call until it is made, perhaps more than once."""
        self._seen[_call_key(call)] = seen

    def find_reviewed_call(self, call: ToolCall) -> ReviewedToolCall | None:
        """Return what hooks decided on this very call when the model requested it."""
        return self._seen.get(_call_key(call)) if self._seen else None

    def store_injected(self, ids: Sequence[str], messages: Sequence[Message]) -> None:
        """Store messages of hooks for the requests that contain these tool calls."""
        if messages and ids:
            self._injected.setdefault(ids[-1], []).extend(messages)
        elif messages:
            log.error("a hook injected messages after an answer that nothing follows: left out")

    def injected_messages(self, ids: Sequence[str]) -> list[Message]:
        """Return the messages that belong behind the results of some tool calls."""
        return [message for name in ids for message in self._injected.get(name, ())]

    def notify_tool(self, event: str, call: ToolCall, **more: Any) -> None:
        """Report an event of a tool call to `on_tool`."""
        if self.on_tool is None:
            return
        try:
            self.on_tool({"event": event, "tool_call_id": call.id, "tool_name": call.name, **more})
        except Exception:
            log.exception("on_tool failed at %s of %s", event, call.name)


def _call_key(call: ToolCall) -> tuple[str, str]:
    return call.id, digest([call.name, call.args])
