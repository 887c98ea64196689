"""An autonomous agent as the body of a run: our own loop, told as it goes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Any

from checkrail.agent import memo as memos
from checkrail.agent.agent import Agent
from checkrail.agent.errors import RunFailed
from checkrail.agent.messages import said, text_of
from checkrail.agent.streaming import AgentStream
from checkrail.agent.tools.tool import RUN_SCOPE
from checkrail.agent.usage import added
from checkrail.engine.asks import AnswerLater
from checkrail.engine.records import HookRecord
from checkrail.engine.scope import Scope
from checkrail.engine.values import AgentResponse, plain
from checkrail.runs.bodies.asked import InvalidParameters, asked_of
from checkrail.runs.bodies.telling import Teller
from checkrail.runs.work import Done, Message, Work

ERROR_TYPES = {"block": "Blocked", "fail": "HookFailed", "max_iterations": "MaxIterations"}
"""What the ends of a loop are called as errors of a run."""


async def run_loop(work: Work, agent: Agent) -> Done:
    """Have an agent answer what a run asks of it, and tell what happens as it does.

    The hooks of `work.scope` hold in it, and the agent's own, each once: a level that stands in
    the scope already is not entered again. So make the agent of the very registries that the scope
    is made of: `AgentBuilder(loaded, hooks=the server's, levels={name: each agent's own})`. Hooks
    that stand in another registry as well would be called twice.

    Where somebody has to be asked first, `AnswerLater` comes out of it, with a memo of where it was
    left: as data, for another `work` to be entered again there.
    """
    try:
        query, before = asked_of(work)
    except InvalidParameters as error:
        return Done(error=str(error), error_type=type(error).__name__)
    messages = said(before)
    teller, meter = Teller(work, agent), Usage(work)
    memo = None if work.memo is None else memos.read(work.memo)
    stream = AgentStream(
        lambda emit: agent.loop(
            messages, query, emit, scope=_scope(work), meter=meter.add, memo=memo
        )
    )
    try:
        async with aclosing(aiter(stream)) as events:
            async for event in events:
                teller.tell(event)
    except AnswerLater as later:
        later.memo = later.memo.as_data()
        raise
    except RunFailed as failed:
        return _failed(work, messages, failed.response, _error_type(failed), teller.records)
    response = stream.response
    if response.error is not None:
        kind = ERROR_TYPES.get(response.stop_reason or "", "AgentError")
        return _failed(work, messages, response, kind, teller.records)
    kept = plain(messages)
    teller.end({"messages": kept})
    return Done(_output(agent, response), kept, dict(work.used))


class Usage:
    """Adds up what models use, in the words of LangChain, as runs of graphs have it."""

    def __init__(self, work: Work) -> None:
        self._by_model = work.used
        self._mark = work.mark_usage
        self._lock = threading.Lock()

    def add(self, model: str, usage: Mapping[str, Any]) -> None:
        """Count what one answer has used; agents beneath may do so from their threads."""
        with self._lock:
            self._by_model[model] = added(self._by_model.get(model, {}), _in_langchain(usage))
        self._mark()


def _in_langchain(usage: Mapping[str, Any]) -> dict[str, Any]:
    counts = {f"{name}_tokens": usage.get(f"{name}_tokens") or 0 for name in ("input", "output")}
    total = usage.get("total_tokens") or sum(counts.values())
    written = {**plain(usage), **counts, "total_tokens": total}
    for name in ("input", "output"):
        if isinstance(details := written.pop(f"{name}_tokens_details", None), Mapping):
            written[f"{name}_token_details"] = {_detail(key): n for key, n in details.items()}
    return written


def _detail(name: str) -> str:
    short = name.removesuffix("_tokens")
    return "cache_read" if short == "cached" else short


def _scope(work: Work) -> Scope:
    """Return the scope of the run, with what it carries for its tools."""
    if not work.context:
        return work.scope
    return work.scope.bind(metadata={**work.scope.context.metadata, RUN_SCOPE: work.context})


def _output(agent: Agent, response: AgentResponse) -> Any:
    """Return what an agent answered: data if it has a schema, unless a hook said something else."""
    stopped = response.stop_reason == "stop" and response.output is None
    if agent.output is None or stopped:
        return text_of(response.content)
    return plain(response.output)


def _failed(
    work: Work,
    messages: Iterable[Message],
    response: AgentResponse,
    kind: str,
    records: Iterable[HookRecord],
) -> Done:
    error = response.error or kind
    by = _hook(error, records) if kind in ("Blocked", "HookFailed") else None
    return Done(
        messages=plain([*messages]),
        usage=dict(work.used),
        error=error,
        error_type=kind,
        blocked_by=by,
    )


def _error_type(failed: RunFailed) -> str:
    if failed.by_hook:
        return "HookFailed"
    return type(failed if failed.__cause__ is None else failed.__cause__).__name__


def _hook(error: str, records: Iterable[HookRecord]) -> str | None:
    """Find the hook that ended a run: the last that said so, or whose failure was told so."""
    for record in reversed([*records]):
        told = record.reason == error or (record.failure is not None and repr(record.hook) in error)
        if told and not record.shadow:
            return record.hook
    return None
