"""One execution of a graph: its events as they come, and what it came to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.runs.graphs.context import graph_context
from checkrail.runs.graphs.lifecycle import Lifecycle
from checkrail.runs.graphs.payloads import checkpoint_of, convert, show_interrupts
from checkrail.runs.graphs.requests import MODES, GraphRequest, config_of, input_of
from checkrail.runs.graphs.thread_rows import hold, latest_of_run, put_back
from checkrail.runs.jsons import Fragment, dumps, jsonable

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.pregel import Pregel
    from langgraph.types import StateSnapshot

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

__all__ = ["Emit", "GraphOutcome", "GraphRequest", "execute"]

Emit: TypeAlias = Callable[[str, tuple[str, ...], Any], None]
"""Takes an event, its namespace and its data, which is written JSON: a `jsons.Fragment`."""

INTERRUPT = "__interrupt__"
STEP = "step"
"""Tells that another step begins, so that the one before was not the last; for no client."""

_ROOT: tuple[str, ...] = ()
_HIDDEN = "langsmith:hidden"
_UNSEEN: Any = object()


@dataclass(frozen=True, slots=True)
class GraphOutcome:
    """What an execution came to, as JSON: the thread's values, and where it waits, if it does.

    `waiting` has the interrupts by the task that raised them. `checkpoint` is known where the
    graph was asked for it: when it waits, or when it streams checkpoints.
    """

    values: Any
    interrupts: list[dict[str, Any]] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    checkpoint: dict[str, Any] | None = None
    waiting: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether the graph waits for somebody, instead of being done."""
        return bool(self.next or self.interrupts)


async def execute(graph: Graph, request: GraphRequest, emit: Emit) -> GraphOutcome:
    """Run a graph to its end or to where it waits, and emit what it streams, in order."""
    given = await _given(graph, request)
    config = config_of(request)
    watch = _Watch(request, emit)
    try:
        async with aclosing(_stream(graph, given, config, request, watch)) as stream:
            if watch.nested:
                async for ns, mode, data in stream:
                    watch.see(ns, mode, data)
            else:
                async for mode, data in stream:
                    watch.see(_ROOT, mode, data)
    except BaseException as error:
        watch.end(error)
        raise
    watch.end()
    return await _outcome(graph, watch, request)


async def _given(graph: Graph, request: GraphRequest) -> Any:
    """Return the input, or none where a run goes on from its own checkpoint after a crash."""
    saver, thread_id, run_id = graph.checkpointer, request.thread_id, request.run_id
    if saver and request.resume_from_checkpoint:
        if await latest_of_run(saver, thread_id, run_id):
            return None
        await put_back(saver, thread_id, run_id)
    if saver and (request.continues or _keeps_deltas(graph)):
        await hold(saver, thread_id, run_id)
    return input_of(request)


def _keeps_deltas(graph: Graph) -> bool:
    """Whether the graph keeps even an input with the checkpoint before it."""
    from langgraph.channels import DeltaChannel

    return any(type(channel) is DeltaChannel for channel in graph.channels.values())


def _stream(
    graph: Graph, given: Any, config: RunnableConfig, request: GraphRequest, watch: _Watch
) -> AsyncGenerator[Any, None]:
    options: dict[str, Any] = {
        "context": graph_context(graph.context_schema, request.context),
        "stream_mode": watch.streamed,
        "subgraphs": watch.nested,
        "interrupt_before": request.interrupt_before,
        "interrupt_after": request.interrupt_after,
        "durability": request.durability if graph.checkpointer else None,
    }
    if "events" in request.modes:
        return watch.events(graph.astream_events(given, config, version="v2", **options))
    return graph.astream(given, config, **options)  # type: ignore[return-value]


class _Watch:
    """Sees everything that a graph streams, and remembers what its outcome needs."""

    __slots__ = (
        "_emit",
        "_lifecycle",
        "_metadata",
        "_modes",
        "_shown",
        "_stepped",
        "_steps",
        "_subgraphs",
        "checkpoint",
        "interrupts",
        "nested",
        "streamed",
        "values",
    )

    def __init__(self, request: GraphRequest, emit: Emit) -> None:
        self._emit = emit
        self._modes = request.modes
        self._subgraphs = request.subgraphs
        self._lifecycle = Lifecycle(emit) if "lifecycle" in request.modes else None
        self._metadata: tuple[Any, Any] = (None, None)
        self._shown = request.shown
        self._steps = request.steps
        self._stepped = False
        self.nested = request.subgraphs or self._lifecycle is not None
        self.streamed = _streamed(request)
        self.values: tuple[Any, Any] | None = None
        self.interrupts: list[Any] | None = None
        self.checkpoint: dict[str, Any] | None = None

    def see(self, ns: tuple[str, ...], mode: str, data: Any) -> None:
        """Take one chunk: emit it if it was asked for, and remember it if it is the root's."""
        shown = _UNSEEN
        if self._steps and not ns:
            self._mark(mode, data)
        if mode in self._modes and (self._subgraphs or not ns):
            shown = self._message(data) if mode == "messages" else convert(mode, data)
            self._emit(mode, ns, shown)
        if mode == "tasks" and self._lifecycle is not None:
            self._lifecycle.see(ns, data)
        if not ns:
            self._remember(mode, data, shown)

    async def events(self, events: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        """Emit the events of everything inside a graph, and give the chunks of the graph itself."""
        root = None
        async for event in events:
            if _HIDDEN in (event.get("tags") or ()):
                continue
            root = root or event["run_id"]
            if event["event"] == "on_chain_stream" and event["run_id"] == root:
                yield event["data"]["chunk"]
                continue  # clients get it by its mode
            told = event if self._shown is None else self._shown(event)
            if told is not None:
                self._emit("events", _ROOT, Fragment(dumps(told)))

    def end(self, error: BaseException | None = None) -> None:
        """Close what is open when the graph is over."""
        if self._lifecycle is not None:
            self._lifecycle.end(error)

    def _mark(self, mode: str, data: Any) -> None:
        """Tell of a step that begins after another one has told its values."""
        if mode == "values":
            self._stepped = True
        elif mode == "tasks" and self._stepped and "result" not in data:
            self._stepped = False
            self._emit(STEP, _ROOT, None)

    def _message(self, data: Any) -> Fragment:
        """Write a message with its metadata, which is the same for all the tokens of a call."""
        message, metadata = data
        known, shown = self._metadata
        if metadata is not known:
            shown = Fragment(dumps(metadata))
            self._metadata = (metadata, shown)
        return Fragment(dumps([message, shown]))

    def _remember(self, mode: str, data: Any, shown: Any) -> None:
        if mode == "values":
            # Graphs whose state is no mapping tell of an interrupt as if it were their state.
            if self.values is None or not isinstance(data, dict) or data.keys() - {INTERRUPT}:
                self.values = (data, shown)
        elif mode == "updates":
            if isinstance(data, dict) and INTERRUPT in data:
                self.interrupts = [*(self.interrupts or ()), *data[INTERRUPT]]
        elif mode == "checkpoints":
            self.checkpoint = checkpoint_of(data["config"])


def _streamed(request: GraphRequest) -> list[str]:
    """Name the modes to stream: values tell the outcome, and only updates tell of every wait."""
    extra = (request.modes & MODES) - {"values", "updates"}
    if "lifecycle" in request.modes or request.steps:
        extra |= {"tasks"}
    return ["values", "updates", *sorted(extra)]


async def _outcome(graph: Graph, watch: _Watch, request: GraphRequest) -> GraphOutcome:
    if graph.checkpointer and (watch.interrupts is not None or watch.values is None):
        configurable = {"thread_id": request.thread_id, "checkpoint_ns": ""}
        return _standing(await graph.aget_state({"configurable": configurable}))
    interrupts = jsonable(watch.interrupts or [])
    return GraphOutcome(_values(watch.values), interrupts, checkpoint=watch.checkpoint)


def _values(seen: tuple[Any, Any] | None) -> Any:
    """Return the last values, as they were written if they were, without the interrupts in them."""
    if seen is None:
        return None
    data, shown = seen
    values = jsonable(data if shown is _UNSEEN else shown)
    if isinstance(values, dict):
        values.pop(INTERRUPT, None)
    return values


def _standing(snapshot: StateSnapshot) -> GraphOutcome:
    """Tell where a thread stands from its state."""
    asked = {task.id: task.interrupts for task in snapshot.tasks if task.interrupts}
    return GraphOutcome(
        values=jsonable(snapshot.values),
        interrupts=jsonable([each for interrupts in asked.values() for each in interrupts]),
        next=[*snapshot.next],
        checkpoint=checkpoint_of(snapshot.config),
        waiting={task: show_interrupts(interrupts) for task, interrupts in asked.items()},
    )
