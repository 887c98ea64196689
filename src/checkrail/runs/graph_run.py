"""A run of a graph: under the hooks' eyes, up to its result or to what it leaves behind."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

from checkrail.adapters.langchain import Guard, Journal
from checkrail.adapters.langchain.usage import Usage
from checkrail.engine.errors import CheckrailError
from checkrail.engine.frozen import thaw
from checkrail.engine.points import Decision
from checkrail.engine.scope import Scope
from checkrail.engine.verdict import Verdict
from checkrail.runs import approving, jsons
from checkrail.runs import outcome as outcomes
from checkrail.runs.graphs import rewriting, state, thread_rows
from checkrail.runs.graphs.execution import INTERRUPT, GraphOutcome, execute
from checkrail.runs.graphs.requests import PROTOCOL_MODES, GraphRequest
from checkrail.runs.holding import Emit, Held, rules_on_result
from checkrail.runs.live import LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import Parts, user_of
from checkrail.runs.withholding import withheld
from checkrail.runs.work import MEMO, NOT_LEFT, left_at

_NOT_ASKED = "UnknownInterruptError"  # LangGraph's word for an answer to a question nobody asked


class SwallowedError(CheckrailError):
    """A question never left the node in which it came up."""

    def __init__(self) -> None:
        super().__init__(
            "a hook asked somebody about a call, and the node that made it caught the interrupt: "
            "let exceptions of the kind GraphBubbleUp pass there"
        )


class GraphRun:
    """One attempt at a run of a graph."""

    def __init__(self, parts: Parts, live: LiveRun, scope: Scope) -> None:
        self._parts = parts
        self._live = live
        self._scope = scope
        self._loop_thread = threading.get_ident()
        used = Usage(live.usage, live.mark_usage)
        self._guard = Guard(scope, on_tool=self._tool, used=used)
        self._emit: Emit = live.emit
        self._modes = frozenset(live.row["kwargs"].get("modes") or ("values",))
        asked = live.row["kwargs"]
        # The lives of subgraphs are told from what happens inside them.
        self._subgraphs = asked.get("stream_subgraphs") or "lifecycle" in asked["stream_mode"]
        if parts.hub.has(("protocol", live.thread_id)):
            self._modes |= PROTOCOL_MODES
            self._subgraphs = True
        live.body = self

    async def result(self, kept: Mapping[str, Any] | None = None) -> Outcome:
        """Run the graph and ask the hooks about what came of it.

        A run that was left goes on where its graph stands, with what was `kept` of it.
        """
        row, guard = self._live.row, self._guard
        left = kept or NOT_LEFT
        held = None
        if left["events"] or self._rules():
            held = Held(self._live.emit, self._parts.settings.limits.events, left["events"])
            self._emit = held.emit
        config = row["kwargs"].get("config") or {}
        context = row["kwargs"].get("context")
        async with self._parts.graphs.open(
            row["agent_name"], config, user_of(row), context=context
        ) as graph:
            self._may_be_left(graph, left)
            try:
                with guard.active():
                    request = await self._request(steps=held is not None, again=kept is not None)
                    found = await execute(graph, request, self._emit)
            except Exception:
                if guard.ended is None:
                    raise
                found = None
            if guard.ended is not None:
                return await self._ended_by_hook(graph, held)
            if guard.left is not None:
                await self._leave(found, held)
            assert found is not None  # noqa: S101 - told by the type checker's own lights
            return await self._ruled(graph, found, held)

    def _may_be_left(self, graph: Any, left: Mapping[str, Any]) -> None:
        """Have a graph that keeps its steps left where hooks ask somebody about a call in it."""
        desk, memo = self._live.desk, left[MEMO]
        if not graph.checkpointer or self._live.row["kwargs"].get("durability") == "exit":
            return
        desk.leaves = True

        def hold() -> None:
            desk.leaves = False

        self._guard.journal = Journal(() if memo is None else memo["calls"], hold)
        if memo is not None:
            self._guard.take_up(memo)

    async def _leave(self, found: GraphOutcome | None, held: Held | None) -> None:
        """Leave the run where its graph stands, which waits for what somebody answers."""
        guard, left = self._guard, self._guard.left
        await guard.quiet()
        waiting = {} if found is None else found.waiting
        if not waiting or left is None:
            raise SwallowedError
        held_back = () if held is None else held.events
        left.memo = left_at(guard.memo(waiting.keys()), guard.usage, held_back)
        raise left

    async def again(self, kept: Mapping[str, Any]) -> Outcome:
        """Ask the hooks again about what the graph came to, as it was kept meanwhile."""
        row = self._live.row
        held = Held(self._live.emit, self._parts.settings.limits.events, kept["events"])
        if not self._scope.has("on_result"):
            held.release()
        config = row["kwargs"].get("config") or {}
        async with self._parts.graphs.open(
            row["agent_name"], config, user_of(row), context=row["kwargs"].get("context")
        ) as graph:
            found = GraphOutcome(kept["output"], **kept.get("graph", {}))
            return await self._ruled(graph, found, held)

    async def _request(self, *, steps: bool, again: bool) -> GraphRequest:
        live, row = self._live, self._live.row
        kwargs = row["kwargs"]
        given = row["parameters"] if row["parameters"] is not None else row["input"]
        restart = live.attempt > 1 and not again and self._policy() == "restart"
        if restart:
            saver = self._parts.checkpointer
            await thread_rows.delete_run(saver, live.thread_id, live.run_id)
        return GraphRequest(
            thread_id=live.thread_id,
            run_id=live.run_id,
            input=given,
            command=kwargs.get("command"),
            config=_marked(kwargs.get("config") or {}, row["metadata"]),
            context=kwargs.get("context"),
            checkpoint=kwargs.get("checkpoint"),
            assistant_id=row["assistant_id"],
            graph_id=row["agent_name"],
            user=user_of(row),
            attempt=live.attempt,
            modes=self._modes - {"tools"},  # the guard tells of them, after the hooks
            subgraphs=self._subgraphs,
            interrupt_before=kwargs.get("interrupt_before"),
            interrupt_after=kwargs.get("interrupt_after"),
            durability=kwargs.get("durability"),
            strict_resume=kwargs.get("strict_resume", False),
            resume_from_checkpoint=live.attempt > 1 and not restart,
            # LangChain tells `events` when it comes to it: no step is known to be over by them.
            steps=steps and "events" not in self._modes,
            shown=withheld(self._scope) if "events" in self._modes else None,
        )

    def _rules(self) -> bool:
        return rules_on_result(self._scope)

    def _policy(self) -> str:
        if self._live.row["kwargs"].get("durability") == "exit":
            return "restart"
        return self._parts.on_crash(self._live.row["agent_name"])

    async def _ruled(self, graph: Any, found: GraphOutcome, held: Held | None) -> Outcome:
        """Ask the hooks about the result; an interrupted run has none yet."""
        if found.interrupted:
            if held is not None:
                held.release()
            return self._interrupted(found)
        values = found.values
        ended = self._mismatch(values)
        if ended is None and self._scope.has("on_result"):
            verdict = await self._verdict(values, held)
            if verdict.decision in (Decision.BLOCK, Decision.FAIL):
                ended = self._refused(verdict)
            else:
                values = await self._taken(graph, values, thaw(verdict.value), held)
        if ended is None:
            ended = Outcome("success", "success", output=values, values=values)
        elif held is not None:
            held.drop()
        return self._with_usage(ended)

    def _mismatch(self, values: Any) -> Outcome | None:
        """Return the end of a run whose result is not what its agent promises; None: it is."""
        agent = self._parts.catalogue.get(self._live.row["agent_name"])
        if agent is None or agent.gives is None:
            return None
        return agent.mismatch(jsons.jsonable(values))

    async def _taken(self, graph: Any, values: Any, changed: Any, held: Held | None) -> Any:
        """Take what the hooks left of a result: others see it, and so does the thread."""
        if changed == values:
            if held is not None:
                held.release()
            return values
        if held is not None:
            held.drop()
        if "values" in self._modes:
            self._live.emit("values", (), changed)
        await rewriting.write_back(graph, self._live.thread_id, changed)
        return changed

    async def _verdict(self, values: Any, held: Held | None) -> Verdict:
        """Ask the hooks about a result; it is kept if somebody has to be asked first."""

        def keep() -> dict[str, Any]:
            held_back = [] if held is None else held.events
            return {"output": values, "usage": self._guard.usage, "events": held_back}

        return await approving.fire(
            self._parts, self._live, self._scope, "on_result", values, keep=keep
        )

    def _interrupted(self, found: GraphOutcome) -> Outcome:
        """Return the end of a run that waits for somebody: its output says for what."""
        output = found.values
        if isinstance(output, dict):
            output = {**output, **({INTERRUPT: found.interrupts} if found.interrupts else {})}
        return self._with_usage(
            Outcome(
                "interrupted",
                "interrupted",
                output=output,
                values=found.values,
                interrupts=found.waiting,
                thread_status="interrupted",
            )
        )

    async def _ended_by_hook(self, graph: Any, held: Held | None) -> Outcome:
        """Let the verdict that ended the run decide, whatever the graph returned."""
        ended = self._guard.ended
        assert ended is not None  # noqa: S101
        if ended.decision is not Decision.STOP:
            if held is not None:
                held.drop()
            return await self.left(self._refused(ended))
        message = ended.message
        said = None if message is None else {"role": "assistant", "content": thaw(message.content)}
        update = None if said is None else {"messages": [said]}
        values = await rewriting.stopped_with(graph, self._live.thread_id, update)
        return await self._ruled(graph, GraphOutcome(values), held)

    def _refused(self, verdict: Any) -> Outcome:
        if verdict.decision is Decision.FAIL:
            ended = outcomes.failed(verdict.reason, "HookFailed", blocked_by=verdict.hook)
        else:
            ended = outcomes.blocked(verdict.hook, verdict.reason)
        return self._with_usage(ended)

    async def left(self, ended: Outcome) -> Outcome:
        """Return what is left of a run that did not get to its end."""
        live = self._live
        if ended.rolled_back:
            await thread_rows.delete_run(self._parts.checkpointer, live.thread_id, live.run_id)
        told: Mapping[str, Any] | None = None
        config = live.row["kwargs"].get("config") or {}
        async with self._parts.graphs.open(
            live.row["agent_name"], config, user_of(live.row), access="threads.read"
        ) as graph:
            told = await state.get_state(graph, live.thread_id)
        interrupts = {task["id"]: task["interrupts"] for task in told["tasks"]}
        unmoved = ended.phase == "cancelled" or ended.error_type == _NOT_ASKED
        if told["next"] and unmoved:
            ended = dataclasses.replace(ended, thread_status="interrupted")
        if self._rules():  # nobody has ruled on what is there now
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

    def _with_usage(self, ended: Outcome) -> Outcome:
        return dataclasses.replace(ended, usage=dict(self._guard.usage))

    def _tool(self, told: dict[str, Any]) -> None:
        """Tell of a tool call; tools may run in threads of their own."""
        if "tools" not in self._modes:
            return
        if threading.get_ident() == self._loop_thread:
            self._emit("tools", (), told)
        else:
            self._parts.hub.loop.call_soon_threadsafe(self._emit, "tools", (), told)


def _marked(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Put what a run is marked with into its config, and so into its checkpoints."""
    return {**config, "metadata": {**(config.get("metadata") or {}), **metadata}}
