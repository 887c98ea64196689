"""An autonomous agent as the body of a run: our own loop, told as it goes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Any

from checkrail.agent.agent import Agent
from checkrail.agent.errors import RunFailed
from checkrail.agent.events import StreamEvent, TextDelta, ToolFinished, ToolStarted
from checkrail.agent.results import Ending
from checkrail.agent.snapshot import parse_snapshot
from checkrail.agent.stream import AgentStream
from checkrail.agent.tools.tool import RUN_SCOPE
from checkrail.engine.asks import AnswerLater
from checkrail.engine.scope import Scope
from checkrail.engine.values import AgentResponse, ToolCall, ToolResult, plain
from checkrail.llm.conversation import content_of, freeze_history, text_of
from checkrail.llm.usage import sum_usage
from checkrail.runs.execute.job import Job, JobResult, Message
from checkrail.runs.executors.query import InvalidParameters, read_query


class LoopEvents:
    """Emits the events of one run of an agent; `ended_by` is the hook that ended it, if one did."""

    def __init__(self, work: Job, agent: Agent) -> None:
        self.ended_by: str | None = None
        self._emit = work.emit
        self._mark = work.mark
        self._prefix = f"{work.run_id}:{work.attempt}"
        self._speaking: str | None = None
        self._about = {
            "run_id": work.run_id,
            "thread_id": work.thread_id,
            "langgraph_node": agent.name,
            "ls_provider": agent.model.provider,
            "ls_model_name": agent.model.name,
        }

    def emit_event(self, event: StreamEvent) -> None:
        """Emit the events for what has happened."""
        if isinstance(event, TextDelta):
            self._emit_text(event)
        elif isinstance(event, ToolStarted):
            self._emit_tool_start(event.call)
        elif isinstance(event, ToolFinished):
            self._emit_tool_end(event.result)

    def note_ending(self, ending: Ending) -> None:
        """Note which hook ended the run."""
        self.ended_by = ending.hook

    def emit_values(self, values: dict[str, Any]) -> None:
        """Emit the conversation as it is in the end."""
        self._close_message()
        self._emit("values", (), values)

    def _emit_text(self, delta: TextDelta) -> None:
        name = f"{self._prefix}:{delta.iteration}"
        if name != self._speaking:
            self._close_message()
            self._speaking = name
        self._emit_custom("text_delta", text=delta.text, iteration=delta.iteration)
        self._emit_chunk(name, delta.text)

    def _close_message(self) -> None:
        """Close the message that is being streamed, if one is."""
        if self._speaking is not None:
            name, self._speaking = self._speaking, None
            self._emit_chunk(name, "", chunk_position="last")

    def _emit_tool_start(self, call: ToolCall) -> None:
        self._close_message()
        about = {"tool_call_id": call.id, "tool_name": call.name}
        self._mark("tool_started", about)
        args = plain(call.args)
        self._emit_custom("tool_started", **about, args=args)
        self._emit("tools", (), {"event": "tool-started", **about, "input": args})

    def _emit_tool_end(self, result: ToolResult) -> None:
        about = {"tool_call_id": result.id, "tool_name": result.name}
        self._mark("tool_finished", {**about, "is_error": result.is_error})
        content = plain(result.content)
        self._emit_custom("tool_finished", **about, content=content, is_error=result.is_error)
        told: dict[str, Any] = {"event": "tool-finished", **about, "output": content}
        if result.is_error:
            message = str(result.error or content_of(result))
            told = {"event": "tool-error", **about, "message": message}
        self._emit("tools", (), told)

    def _emit_custom(self, kind: str, **told: Any) -> None:
        """Emit a custom event; a `name` in it would be taken for the name of a channel."""
        self._emit("custom", (), {"type": kind, **told})

    def _emit_chunk(self, name: str, text: str, **more: Any) -> None:
        piece = {"type": "AIMessageChunk", "id": name, "content": text, **more}
        self._emit("messages", (), [piece, self._about])


ERROR_TYPES = {"block": "Blocked", "fail": "HookFailed", "max_iterations": "MaxIterations"}
"""What the ends of a loop are called as errors of a run."""


async def run_loop(work: Job, agent: Agent) -> JobResult:
    """Run an agent on the query of a run, and emit events as it goes.

    The hooks of `work.scope` hold in it, and the agent's own, each once: a level that stands in
    the scope already is not entered again. So make the agent of the very registries that the scope
    is made of: `AgentBuilder(loaded, hooks=the server's, levels={name: each agent's own})`. Hooks
    that stand in another registry as well would be called twice.

    Where somebody has to be asked first, `AnswerLater` comes out of it, with a memo of where it was
    left: as data, for another `work` to be entered again there.
    """
    try:
        query, before = read_query(work)
    except InvalidParameters as error:
        return JobResult(error=str(error), error_type=type(error).__name__)
    messages = freeze_history(before)
    teller, meter = LoopEvents(work, agent), Usage(work)
    memo = None if work.memo is None else parse_snapshot(work.memo)
    stream = AgentStream(
        lambda emit: agent.run_loop(
            messages,
            query,
            emit,
            scope=_job_scope(work),
            meter=meter.add,
            mark=work.mark,
            memo=memo,
            on_end=teller.note_ending,
        )
    )
    try:
        async with aclosing(aiter(stream)) as events:
            async for event in events:
                teller.emit_event(event)
    except AnswerLater as later:
        later.memo = later.memo.to_json()
        raise
    except RunFailed as failed:
        return _error_result(work, messages, failed.response, _error_type(failed), teller.ended_by)
    response = stream.response
    if response.error is not None:
        kind = ERROR_TYPES.get(response.stop_reason or "", "AgentError")
        return _error_result(work, messages, response, kind, teller.ended_by)
    kept = plain(messages)
    teller.emit_values({"messages": kept})
    return JobResult(_response_output(agent, response), kept, dict(work.used))


class Usage:
    """Adds up what models use, in LangChain's form, as runs of graphs have it."""

    def __init__(self, work: Job) -> None:
        self._by_model = work.used
        self._mark = work.mark_usage
        self._lock = threading.Lock()

    def add(self, model: str, usage: Mapping[str, Any]) -> None:
        """Count the usage of one response; agents beneath may do so from their threads."""
        with self._lock:
            self._by_model[model] = sum_usage(
                self._by_model.get(model, {}), _to_langchain_usage(usage)
            )
        self._mark()


def _to_langchain_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    counts = {f"{name}_tokens": usage.get(f"{name}_tokens") or 0 for name in ("input", "output")}
    total = usage.get("total_tokens") or sum(counts.values())
    written = {**plain(usage), **counts, "total_tokens": total}
    for name in ("input", "output"):
        if isinstance(details := written.pop(f"{name}_tokens_details", None), Mapping):
            written[f"{name}_token_details"] = {
                _langchain_detail(key): n for key, n in details.items()
            }
    return written


def _langchain_detail(name: str) -> str:
    short = name.removesuffix("_tokens")
    return "cache_read" if short == "cached" else short


def _job_scope(work: Job) -> Scope:
    """Return the scope of the run, with what it carries for its tools."""
    if not work.context:
        return work.scope
    return work.scope.bind(metadata={**work.scope.context.metadata, RUN_SCOPE: work.context})


def _response_output(agent: Agent, response: AgentResponse) -> Any:
    """Return what an agent answered: data if it has a schema, unless a hook said something else."""
    stopped = response.stop_reason == "stop" and response.output is None
    if agent.output is None or stopped:
        return text_of(response.content)
    return plain(response.output)


def _error_result(
    work: Job,
    messages: Iterable[Message],
    response: AgentResponse,
    kind: str,
    hook: str | None,
) -> JobResult:
    return JobResult(
        messages=plain([*messages]),
        usage=dict(work.used),
        error=response.error or kind,
        error_type=kind,
        blocked_by=hook,
    )


def _error_type(failed: RunFailed) -> str:
    if failed.by_hook:
        return "HookFailed"
    return type(failed if failed.__cause__ is None else failed.__cause__).__name__
