"""A run of a graph: under the hooks' eyes, up to its result or to what it leaves behind."""

from __future__ import annotations

import dataclasses
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from checkrail.adapters.langchain import Guard, Journal
from checkrail.adapters.langchain.usage import Usage
from checkrail.engine.enforcement import has_enforcing_hooks
from checkrail.engine.errors import CheckrailError
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.verdict import Verdict
from checkrail.runs import jsons
from checkrail.runs.events.hub import Hub
from checkrail.runs.execute.job import MEMO, NOT_LEFT, suspended_state
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.execute.run_messages import fire_result, holds_result, reviews_result
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.graphs import state, thread_rows
from checkrail.runs.graphs.execution import (
    INTERRUPT,
    Emit,
    GraphOutcome,
    HeldEvents,
    execute_graph,
    returned_channels,
)
from checkrail.runs.graphs.loader import Graphs
from checkrail.runs.graphs.requests import PROTOCOL_MODES, GraphRequest
from checkrail.runs.services import RunServices, RunSettings, user_of

Event = Mapping[str, Any]

_MODELS = ("on_chat_model_", "on_llm_")


class EventFilter:
    """Removes from LangChain's events what hooks may have changed or refused.

    Of a tool whose results they rule on, nothing is told but that it started and ended, and with
    what input; nothing at all of what it did inside. Of a model whose requests they change, the
    request is left out.
    """

    def __init__(self, *, results: bool, requests: bool) -> None:
        self._results = results
        self._requests = requests
        self._tools: set[str] = set()

    def __call__(self, event: Event) -> Event | None:
        """Return an event as it may be told; None: not at all."""
        kind: str = event["event"]
        if self._results:
            if not self._tools.isdisjoint(event.get("parent_ids") or ()):
                return None
            if kind == "on_tool_start":
                self._tools.add(event["run_id"])
            elif kind.startswith("on_tool_"):
                return {**event, "data": _pick(event["data"], "input")}
        if self._requests and kind.startswith(_MODELS):
            return {**event, "data": _pick(event["data"], "chunk", "output")}
        return event


def _pick(data: Event, *names: str) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


def build_event_filter(scope: Scope) -> EventFilter | None:
    """Return the filter that the hooks of a scope call for; None: nothing has to be removed."""
    ruled = (HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR)
    results = any(has_enforcing_hooks(scope, point, Lane.TRANSFORM, Lane.GATE) for point in ruled)
    requests = has_enforcing_hooks(scope, HookPoint.BEFORE_LLM_CALL, Lane.TRANSFORM)
    return EventFilter(results=results, requests=requests) if results or requests else None


_NOT_ASKED = "UnknownInterruptError"  # LangGraph's word for an answer to a question nobody asked


class SwallowedError(CheckrailError):
    """A question never left the node in which it came up."""

    def __init__(self) -> None:
        super().__init__(
            "a hook asked somebody about a call, and the node that made it caught the interrupt: "
            "let exceptions of the kind GraphBubbleUp pass there"
        )


class GraphServices(Protocol):
    """What the execution of a graph works with, on a server and on a runner."""

    @property
    def graphs(self) -> Graphs:
        """The graphs of the project."""

    @property
    def checkpointer(self) -> Any:
        """Where graphs keep their state."""

    @property
    def hub(self) -> Hub:
        """Who listens to runs here."""

    @property
    def settings(self) -> RunSettings:
        """How runs are executed."""

    def on_crash(self, agent_name: str) -> str:
        """Return what becomes of a run whose process died."""


class GraphRun(ABC):
    """One attempt at a run of a graph; what becomes of its result is said where it runs."""

    def __init__(self, parts: GraphServices, live: LiveRun, scope: Scope) -> None:
        self._parts = parts
        self._live = live
        self._scope = scope
        self._loop_thread = threading.get_ident()
        used = Usage(live.usage, live.mark_usage)
        self._guard = Guard(scope, on_tool=self._emit_tool_event, mark=live.mark, used=used)
        self._emit: Emit = live.emit
        self._modes = frozenset(live.row.kwargs.get("modes") or ("values",))
        asked = live.row.kwargs
        # The lives of subgraphs are told from what happens inside them.
        self._subgraphs = asked.get("stream_subgraphs") or "lifecycle" in asked["stream_mode"]
        self._whole_state = "events" in self._modes or self._modes >= PROTOCOL_MODES
        if parts.hub.has_listeners(("protocol", live.thread_id)):
            self._modes |= PROTOCOL_MODES
            self._subgraphs = True
        live.set_body(self)

    async def execute(self, kept: Mapping[str, Any] | None = None) -> RunOutcome:
        """Run the graph and fire the hooks on its result.

        A run that was left goes on where its graph stands, with what was `kept` of it.
        """
        row, guard = self._live.row, self._guard
        left = kept or NOT_LEFT
        held = None
        if left["events"] or self.has_result_hooks():
            held = HeldEvents(self._live.emit, self._parts.settings.limits.events, left["events"])
            self._emit = held.emit
        config = row.kwargs.get("config") or {}
        context = row.kwargs.get("context")
        async with self._parts.graphs.open(
            row.agent_name, config, user_of(row), context=context
        ) as graph:
            self._allow_suspension(graph, left)
            try:
                with guard.activate():
                    request = await self._build_request(
                        steps=held is not None, again=kept is not None
                    )
                    found = await execute_graph(graph, request, self._emit, self._live.mark)
            except Exception:
                if guard.ended is None:
                    raise
                found = None
            if guard.ended is not None:
                return await self._apply_ending_verdict(graph, held)
            if guard.left is not None:
                await self._suspend(found, held)
            assert found is not None  # noqa: S101 - told by the type checker's own lights
            return await self.review_result(graph, found, held)

    @abstractmethod
    def has_result_hooks(self) -> bool:
        """Return whether a hook may change or refuse the result, so that nothing is told before."""

    @abstractmethod
    async def review_result(
        self, graph: Any, found: GraphOutcome, held: HeldEvents | None
    ) -> RunOutcome:
        """Return the outcome of a run whose graph came to a result, or waits for somebody."""

    @abstractmethod
    async def unfinished_outcome(self, ended: RunOutcome) -> RunOutcome:
        """Return the outcome of a run that did not get to its end."""

    def _allow_suspension(self, graph: Any, left: Mapping[str, Any]) -> None:
        """Let a graph with a checkpointer be suspended where hooks ask about a call in it."""
        live, memo = self._live, left[MEMO]
        if not graph.checkpointer or live.row.kwargs.get("durability") == "exit":
            return
        live.allow_suspension(allowed=True)

        def forbid_suspension() -> None:
            live.allow_suspension(allowed=False)

        self._guard.journal = Journal(() if memo is None else memo["calls"], forbid_suspension)
        if memo is not None:
            self._guard.restore(memo)

    async def _suspend(self, found: GraphOutcome | None, held: HeldEvents | None) -> None:
        """Suspend the run where its graph stands, until somebody answers."""
        guard, left = self._guard, self._guard.left
        await guard.wait_for_calls()
        waiting = {} if found is None else found.waiting
        if not waiting or left is None:
            raise SwallowedError
        held_back = () if held is None else held.events
        left.memo = suspended_state(guard.take_snapshot(waiting.keys()), guard.usage, held_back)
        raise left

    async def _build_request(self, *, steps: bool, again: bool) -> GraphRequest:
        live, row = self._live, self._live.row
        kwargs = row.kwargs
        given = row.parameters if row.parameters is not None else row.input
        restart = live.attempt > 1 and not again and self._crash_policy() == "restart"
        if restart:
            saver = self._parts.checkpointer
            await thread_rows.delete_run(saver, live.thread_id, live.run_id)
        return GraphRequest(
            thread_id=live.thread_id,
            run_id=live.run_id,
            input=given,
            command=kwargs.get("command"),
            config=_with_metadata(kwargs.get("config") or {}, row.metadata),
            context=kwargs.get("context"),
            context_names=kwargs.get("context_names") or (),
            checkpoint=kwargs.get("checkpoint"),
            assistant_id=row.assistant_id,
            graph_id=row.agent_name,
            user=user_of(row),
            attempt=live.attempt,
            modes=self._modes - {"tools"},  # the guard tells of them, after the hooks
            subgraphs=self._subgraphs,
            whole_state=self._whole_state,
            interrupt_before=kwargs.get("interrupt_before"),
            interrupt_after=kwargs.get("interrupt_after"),
            durability=kwargs.get("durability"),
            strict_resume=kwargs.get("strict_resume", False),
            resume_from_checkpoint=live.attempt > 1 and not restart,
            # LangChain tells `events` when it comes to it: no step is known to be over by them.
            steps=steps and "events" not in self._modes,
            shown=build_event_filter(self._scope) if "events" in self._modes else None,
        )

    def _crash_policy(self) -> str:
        if self._live.row.kwargs.get("durability") == "exit":
            return "restart"
        return self._parts.on_crash(self._live.row.agent_name)

    async def _apply_ending_verdict(self, graph: Any, held: HeldEvents | None) -> RunOutcome:
        """Let the verdict that ended the run decide, whatever the graph returned."""
        ended = self._guard.ended
        assert ended is not None  # noqa: S101
        if ended.decision is not Decision.STOP:
            if held is not None:
                held.drop()
            return await self.unfinished_outcome(self._outcome_from_verdict(ended))
        message = ended.message
        said = None if message is None else {"role": "assistant", "content": thaw(message.content)}
        update = None if said is None else {"messages": [said]}
        values = await state.end_with_update(graph, self._live.thread_id, update)
        found = GraphOutcome(values, returned=returned_channels(graph))
        return await self.review_result(graph, found, held)

    def _outcome_from_verdict(self, verdict: Any) -> RunOutcome:
        if verdict.decision is Decision.FAIL:
            ended = outcomes.error_outcome(verdict.reason, "HookFailed", blocked_by=verdict.hook)
        else:
            ended = outcomes.blocked_outcome(verdict.hook, verdict.reason)
        return self._with_usage(ended)

    def _with_usage(self, ended: RunOutcome) -> RunOutcome:
        return dataclasses.replace(ended, usage=dict(self._guard.usage))

    def _emit_tool_event(self, told: dict[str, Any]) -> None:
        """Emit an event of a tool call; tools may run in threads of their own."""
        self._mark_tool(told)
        if "tools" not in self._modes:
            return
        if threading.get_ident() == self._loop_thread:
            self._emit("tools", (), told)
        else:
            self._parts.hub.loop.call_soon_threadsafe(self._emit, "tools", (), told)

    def _mark_tool(self, told: Mapping[str, Any]) -> None:
        about = {name: told[name] for name in ("tool_call_id", "tool_name")}
        if told["event"] == "tool-started":
            self._live.mark("tool_started", about)
        else:
            self._live.mark("tool_finished", {**about, "is_error": told["event"] == "tool-error"})


class ServerGraphRun(GraphRun):
    """One attempt at a run of a graph on the server, whose hooks see its result."""

    def __init__(self, parts: RunServices, live: LiveRun, scope: Scope) -> None:
        super().__init__(parts, live, scope)
        self._services = parts

    def has_result_hooks(self) -> bool:
        """Return whether a hook of the server may change or refuse the result."""
        return holds_result(self._services, self._live.row, self._scope)

    async def review_stored_result(self, kept: Mapping[str, Any]) -> RunOutcome:
        """Fire the hooks again on a result of the graph that was stored meanwhile."""
        row = self._live.row
        held = HeldEvents(self._live.emit, self._parts.settings.limits.events, kept["events"])
        if not reviews_result(self._services, self._live.row, self._scope):
            held.release()
        config = row.kwargs.get("config") or {}
        async with self._parts.graphs.open(
            row.agent_name, config, user_of(row), context=row.kwargs.get("context")
        ) as graph:
            waits = kept.get("graph", {})  # where it waits, if it does, as a runner has seen it
            found = GraphOutcome(kept["output"], **{**waits, "returned": returned_channels(graph)})
            return await self.review_result(graph, found, held)

    async def review_result(
        self, graph: Any, found: GraphOutcome, held: HeldEvents | None
    ) -> RunOutcome:
        """Fire the hooks on the result; an interrupted run has none yet."""
        if found.is_interrupted:
            if held is not None:
                held.release()
            return self._interrupt_outcome(found)
        values = found.values
        ended = self._output_mismatch(found.output)
        verdict = None if ended is not None else await self._fire_on_result(values, held)
        if verdict is not None:
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                ended = self._outcome_from_verdict(verdict)
            else:
                values = await self._accept_result(graph, found, thaw(verdict.value), held)
        if ended is None:
            output = found.select_output(values)
            ended = RunOutcome("success", "success", output=output, values=values)
        elif held is not None:
            held.drop()
        return self._with_usage(ended)

    def _output_mismatch(self, values: Any) -> RunOutcome | None:
        """Return the outcome of a run whose result does not fit its schema; None if it does."""
        agent = self._services.catalogue.get(self._live.row.agent_name)
        if agent is None or agent.gives is None:
            return None
        return agent.output_mismatch(jsons.jsonable(values))

    async def _accept_result(
        self, graph: Any, found: GraphOutcome, changed: Any, held: HeldEvents | None
    ) -> Any:
        """Accept a result as the hooks left it: others see it, and so does the thread."""
        if changed == found.values:
            if held is not None:
                held.release()
            return found.values
        if held is not None:
            held.drop()
        if "values" in self._modes:
            shown = changed if self._whole_state else found.select_output(changed)
            self._live.emit("values", (), shown)
        await state.rewrite_values(graph, self._live.thread_id, changed)
        return changed

    async def _fire_on_result(self, values: Any, held: HeldEvents | None) -> Verdict | None:
        """Fire the hooks on a result, if any; it is stored if somebody has to be asked first."""

        def build_suspended() -> dict[str, Any]:
            held_back = [] if held is None else held.events
            return {"output": values, "usage": self._guard.usage, "events": held_back}

        return await fire_result(
            self._services, self._live, self._scope, values, keep=build_suspended
        )

    def _interrupt_outcome(self, found: GraphOutcome) -> RunOutcome:
        """Return the outcome of a run that waits for somebody: its output says for what."""
        output = found.output
        if isinstance(output, dict):
            output = {**output, **({INTERRUPT: found.interrupts} if found.interrupts else {})}
        return self._with_usage(
            RunOutcome(
                "interrupted",
                "interrupted",
                output=output,
                values=found.values,
                interrupts=found.waiting,
                thread_status="interrupted",
            )
        )

    async def unfinished_outcome(self, ended: RunOutcome) -> RunOutcome:
        """Return the outcome of a run that did not get to its end."""
        live = self._live
        if ended.rolled_back:
            await thread_rows.delete_run(self._parts.checkpointer, live.thread_id, live.run_id)
        told: Mapping[str, Any] | None = None
        config = live.row.kwargs.get("config") or {}
        async with self._parts.graphs.open(
            live.row.agent_name, config, user_of(live.row), access="threads.read"
        ) as graph:
            told = await state.load_state(graph, live.thread_id)
        interrupts = {task["id"]: task["interrupts"] for task in told["tasks"]}
        unmoved = ended.phase == "cancelled" or ended.error_type == _NOT_ASKED
        if told["next"] and unmoved:
            ended = dataclasses.replace(ended, thread_status="interrupted")
        if self.has_result_hooks():  # nobody has ruled on what is there now
            return self._with_usage(ended)
        return self._with_usage(
            dataclasses.replace(
                ended,
                values=told["values"],
                output=ended.output if ended.output is not None else told["values"],
                interrupts={key: many for key, many in interrupts.items() if many},
                keeps_values=False,
            )
        )


def _with_metadata(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's config with the metadata of the run, which go into its checkpoints."""
    return {**config, "metadata": {**(config.get("metadata") or {}), **metadata}}
