"""One execution of a graph: its events as they come, and what it came to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.engine.errors import error_type
from checkrail.runs.execute.live_run import EventLimitError
from checkrail.runs.graphs.context import graph_context
from checkrail.runs.graphs.payloads import checkpoint_of, render_chunk, render_interrupts
from checkrail.runs.graphs.requests import MODES, GraphRequest, build_config, build_input
from checkrail.runs.graphs.thread_rows import hold_head, latest_of_run, restore_head
from checkrail.runs.jsons import Fragment, dumps, jsonable

if TYPE_CHECKING:
    from langgraph.pregel import Pregel
    from langgraph.types import StateSnapshot

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

__all__ = ["Emit", "GraphOutcome", "GraphRequest", "execute_graph"]

INTERRUPT = "__interrupt__"
STEP = "step"
"""Tells that another step begins, so that the one before was not the last; for no client."""

_ROOT: tuple[str, ...] = ()
_AGENT = "lc_agent_name"
_HIDDEN = "langsmith:hidden"
_UNSEEN: Any = object()

Emit: TypeAlias = Callable[[str, tuple[str, ...], Any], None]
"""Takes an event, its namespace and its data, which is written JSON: a `jsons.Fragment`."""

Mark: TypeAlias = Callable[[str, dict[str, Any]], object]
"""Is told when a node of the graph begins and ends."""


class SubgraphLifecycle:
    """Emits when a subgraph starts and how it ends, each at its own namespace.

    A subgraph starts with the first task inside it, and ends with the result of the task that it
    is: that task's id is the last part of its namespace.
    """

    __slots__ = ("_called", "_emit", "_open", "_seen")

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._seen: set[tuple[str, ...]] = {()}
        self._open: dict[str, tuple[str, ...]] = {}
        self._called: dict[str, str] = {}

    def feed(self, ns: tuple[str, ...], task: Mapping[str, Any]) -> None:
        """Take the start or the result of a task."""
        if "result" in task:
            if (ended := self._open.pop(task["id"], None)) is not None:
                self._emit("lifecycle", ended, _end_event(task))
            return
        if (call := _find_tool_call(task.get("input"))) is not None:
            self._called[task["id"]] = call
        if ns not in self._seen:
            self._seen.add(ns)
            self._emit_start(ns, (task.get("metadata") or {}).get(_AGENT))

    def end(self, error: BaseException | None = None) -> None:
        """Close what is still open when the run is over."""
        ending = {"event": "completed"} if error is None else _error_event(error)
        for ns in self._open.values():
            self._emit("lifecycle", ns, ending)
        self._open.clear()

    def _emit_start(self, ns: tuple[str, ...], agent: str | None) -> None:
        name, _, task_id = ns[-1].partition(":")
        started: dict[str, Any] = {"event": "started", "graph_name": agent or name}
        if agent and task_id in self._called:
            cause = {"type": "toolCall", "tool_call_id": self._called[task_id]}
            started["cause"] = cause
        if task_id:
            self._open[task_id] = ns
        self._emit("lifecycle", ns, started)


def _end_event(task: Mapping[str, Any]) -> dict[str, Any]:
    if task.get("interrupts"):
        return {"event": "interrupted"}
    error = task.get("error")
    return {"event": "failed", "error": str(error)} if error else {"event": "completed"}


def _error_event(error: BaseException) -> dict[str, str]:
    return {"event": "failed", "error": str(error) or error_type(error)}


def _find_tool_call(given: Any) -> str | None:
    """Find the id of the tool call that a task carries out."""
    call = given.get("tool_call") if isinstance(given, Mapping) else None
    if isinstance(given, list) and given:
        call = given[0]
    found = call.get("id") if isinstance(call, Mapping) else None
    return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class GraphOutcome:
    """What an execution came to, as JSON: the thread's values, and where it waits, if it does.

    `waiting` has the interrupts by the task that raised them. `checkpoint` is known where the
    graph was asked for it: when it waits, or when it streams checkpoints. `returned` names the
    values that are the graph's output, where its state has others too.
    """

    values: Any
    interrupts: list[dict[str, Any]] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    checkpoint: dict[str, Any] | None = None
    waiting: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    returned: Sequence[str] | None = None

    @property
    def output(self) -> Any:
        """Return the values that the graph returns."""
        return self.select_output(self.values)

    def select_output(self, values: Any) -> Any:
        """Return those of a thread's values that the graph returns."""
        if self.returned is None or not isinstance(values, dict):
            return values
        return {name: values[name] for name in self.returned if name in values}

    @property
    def is_interrupted(self) -> bool:
        """Whether the graph waits for somebody, instead of being done."""
        return bool(self.next or self.interrupts)


async def execute_graph(
    graph: Graph, request: GraphRequest, emit: Emit, mark: Mark | None = None
) -> GraphOutcome:
    """Run a graph to its end or to where it waits, and emit what it streams, in order."""
    given = await _graph_input(graph, request)
    watch = _Watch(request, emit, mark)
    try:
        async with aclosing(_open_stream(graph, given, request, watch)) as stream:
            if watch.nested:
                async for ns, mode, data in stream:
                    watch.feed(ns, mode, data)
            else:
                async for mode, data in stream:
                    watch.feed(_ROOT, mode, data)
    except BaseException as error:
        watch.end(error)
        raise
    watch.end()
    return await _build_outcome(graph, watch, request)


async def _graph_input(graph: Graph, request: GraphRequest) -> Any:
    """Return the input, or None where a run goes on from its own checkpoint after a crash."""
    saver, thread_id, run_id = graph.checkpointer, request.thread_id, request.run_id
    if saver and request.resume_from_checkpoint:
        if await latest_of_run(saver, thread_id, run_id):
            return None
        await restore_head(saver, thread_id, run_id)
    if saver and (request.is_resumption or _stores_deltas(graph)):
        await hold_head(saver, thread_id, run_id)
    return build_input(request)


def _stores_deltas(graph: Graph) -> bool:
    """Return whether the graph stores even an input with the checkpoint before it."""
    from langgraph.channels import DeltaChannel

    return any(type(channel) is DeltaChannel for channel in graph.channels.values())


def _open_stream(
    graph: Graph, given: Any, request: GraphRequest, watch: _Watch
) -> AsyncGenerator[Any, None]:
    returned = None if request.whole_state else returned_channels(graph)
    context = graph_context(graph.context_schema, request.context)
    config = build_config(request, context)
    options: dict[str, Any] = {
        "context": context,
        "stream_mode": watch.streamed,
        "subgraphs": watch.nested,
        "interrupt_before": request.interrupt_before,
        "interrupt_after": request.interrupt_after,
        "durability": request.durability if graph.checkpointer else None,
    }
    if "events" in request.modes:
        return watch.relay_events(graph.astream_events(given, config, version="v2", **options))
    return graph.astream(given, config, output_keys=returned, **options)  # type: ignore[return-value]


def returned_channels(graph: Graph) -> list[str] | None:
    """Return the channels that a graph returns; None if that is its whole state."""
    output, state = graph.output_channels, graph.stream_channels_asis
    if isinstance(output, str) or isinstance(state, str) or {*output} == {*state}:
        return None
    return [*output]


class _Watch:
    """Sees everything that a graph streams, and remembers what its outcome needs."""

    __slots__ = (
        "_emit",
        "_lifecycle",
        "_mark",
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

    def __init__(self, request: GraphRequest, emit: Emit, mark: Mark | None) -> None:
        self._emit = emit
        self._mark = mark
        self._modes = request.modes
        self._subgraphs = request.subgraphs
        self._lifecycle = SubgraphLifecycle(emit) if "lifecycle" in request.modes else None
        self._metadata: tuple[Any, Any] = (None, None)
        self._shown = request.shown
        self._steps = request.steps
        self._stepped = False
        self.nested = request.subgraphs or self._lifecycle is not None
        self.streamed = _stream_modes(request, tasks=mark is not None)
        self.values: tuple[Any, Any] | None = None
        self.interrupts: list[Any] | None = None
        self.checkpoint: dict[str, Any] | None = None

    def feed(self, ns: tuple[str, ...], mode: str, data: Any) -> None:
        """Take one chunk: emit it if the request wants it, and remember it if it is the root's."""
        shown = _UNSEEN
        if mode == "tasks" and not ns and self._mark is not None:
            _mark_node(self._mark, data)
        if self._steps and not ns:
            self._emit_step(mode, data)
        if mode in self._modes and (self._subgraphs or not ns):
            shown = self._render_message(data) if mode == "messages" else render_chunk(mode, data)
            self._emit(mode, ns, shown)
        if mode == "tasks" and self._lifecycle is not None:
            self._lifecycle.feed(ns, data)
        if not ns:
            self._remember(mode, data, shown)

    async def relay_events(self, events: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        """Emit the events of everything inside a graph, and yield the graph's own chunks."""
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

    def _emit_step(self, mode: str, data: Any) -> None:
        """Emit that a step begins after another one has streamed its values."""
        if mode == "values":
            self._stepped = True
        elif mode == "tasks" and self._stepped and "result" not in data:
            self._stepped = False
            self._emit(STEP, _ROOT, None)

    def _render_message(self, data: Any) -> Fragment:
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


def _mark_node(mark: Mark, task: Mapping[str, Any]) -> None:
    """Mark that a node begins, or how it ended: only what is no content of the graph."""
    about = {"node": task["name"], "task": task["id"]}
    if "result" not in task:
        mark("node_started", about)
        return
    how = "failed" if task.get("error") else "interrupted" if task.get("interrupts") else "done"
    mark("node_finished", {**about, "how": how})


def _stream_modes(request: GraphRequest, *, tasks: bool) -> list[str]:
    """Return the modes to stream: values make the outcome, and only updates show every wait."""
    extra = (request.modes & MODES) - {"values", "updates"}
    if tasks or "lifecycle" in request.modes or request.steps:
        extra |= {"tasks"}
    return ["values", "updates", *sorted(extra)]


async def _build_outcome(graph: Graph, watch: _Watch, request: GraphRequest) -> GraphOutcome:
    returned = returned_channels(graph)
    waits = watch.interrupts is not None or watch.values is None
    if graph.checkpointer and (waits or returned is not None):
        configurable = {"thread_id": request.thread_id, "checkpoint_ns": ""}
        return _outcome_from_state(await graph.aget_state({"configurable": configurable}), returned)
    interrupts = jsonable(watch.interrupts or [])
    values = _last_values(watch.values)
    return GraphOutcome(values, interrupts, checkpoint=watch.checkpoint, returned=returned)


def _last_values(seen: tuple[Any, Any] | None) -> Any:
    """Return the last values, as they were written if they were, without the interrupts in them."""
    if seen is None:
        return None
    data, shown = seen
    values = jsonable(data if shown is _UNSEEN else shown)
    if isinstance(values, dict):
        values.pop(INTERRUPT, None)
    return values


def _outcome_from_state(snapshot: StateSnapshot, returned: list[str] | None) -> GraphOutcome:
    """Return the outcome that a thread's state shows."""
    asked = {task.id: task.interrupts for task in snapshot.tasks if task.interrupts}
    return GraphOutcome(
        values=jsonable(snapshot.values),
        interrupts=jsonable([each for interrupts in asked.values() for each in interrupts]),
        next=[*snapshot.next],
        checkpoint=checkpoint_of(snapshot.config),
        waiting={task: render_interrupts(interrupts) for task, interrupts in asked.items()},
        returned=returned,
    )


class HeldEvents:
    """Holds back the events of the step that may be the last, but not more than `most`.

    Nobody knows that a step was the last one until nothing follows. So the events of a step are
    let out when the next one begins, and those of the last are settled with the verdict on the
    result.
    """

    def __init__(self, emit: Emit, most: int, events: Iterable[Sequence[Any]] = ()) -> None:
        self._emit = emit
        self._most = most
        self._step: list[tuple[str, tuple[str, ...], Any]] = [
            (event, tuple(ns), data) for event, ns, data in events
        ]

    @property
    def events(self) -> list[tuple[str, tuple[str, ...], Any]]:
        """The events that are held."""
        return [*self._step]

    def emit(self, event: str, ns: tuple[str, ...], data: Any) -> None:
        """Take an event; when a step begins, the one before was not the last and is released."""
        if event == STEP:
            self.release()
            return
        if len(self._step) >= self._most:
            raise EventLimitError(
                f"the run told more than {self._most} events that have to wait for the hooks at "
                "on_result. Stream less, or raise limits.events_per_run"
            )
        self._step.append((event, ns, data))

    def release(self) -> None:
        """Emit what is held, as it is."""
        step, self._step = self._step, []
        for item in step:
            self._emit(*item)

    def drop(self) -> None:
        """Drop what is held: it was refused, or something else took its place."""
        self._step.clear()
