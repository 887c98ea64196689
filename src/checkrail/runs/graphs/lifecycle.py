"""The lives of subgraphs, told from the tasks that a graph streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checkrail.engine.errors import error_type

_AGENT = "lc_agent_name"


class Lifecycle:
    """Says when a subgraph starts, and how it ends, each at its own namespace.

    A subgraph starts with the first task inside it, and ends with the result of the task that it
    is: that task's id is the last part of its namespace.
    """

    __slots__ = ("_called", "_emit", "_open", "_seen")

    def __init__(self, emit: Callable[[str, tuple[str, ...], Any], None]) -> None:
        self._emit = emit
        self._seen: set[tuple[str, ...]] = {()}
        self._open: dict[str, tuple[str, ...]] = {}
        self._called: dict[str, str] = {}

    def see(self, ns: tuple[str, ...], task: Mapping[str, Any]) -> None:
        """Take the start or the result of a task."""
        if "result" in task:
            if (ended := self._open.pop(task["id"], None)) is not None:
                self._emit("lifecycle", ended, _ending(task))
            return
        if (call := _tool_call(task.get("input"))) is not None:
            self._called[task["id"]] = call
        if ns not in self._seen:
            self._seen.add(ns)
            self._start(ns, (task.get("metadata") or {}).get(_AGENT))

    def end(self, error: BaseException | None = None) -> None:
        """Close what is still open when the run is over."""
        ending = {"event": "completed"} if error is None else _failed(error)
        for ns in self._open.values():
            self._emit("lifecycle", ns, ending)
        self._open.clear()

    def _start(self, ns: tuple[str, ...], agent: str | None) -> None:
        name, _, task_id = ns[-1].partition(":")
        started: dict[str, Any] = {"event": "started", "graph_name": agent or name}
        if agent and task_id in self._called:
            cause = {"type": "toolCall", "tool_call_id": self._called[task_id]}
            started["cause"] = cause
        if task_id:
            self._open[task_id] = ns
        self._emit("lifecycle", ns, started)


def _ending(task: Mapping[str, Any]) -> dict[str, Any]:
    if task.get("interrupts"):
        return {"event": "interrupted"}
    error = task.get("error")
    return {"event": "failed", "error": str(error)} if error else {"event": "completed"}


def _failed(error: BaseException) -> dict[str, str]:
    return {"event": "failed", "error": str(error) or error_type(error)}


def _tool_call(given: Any) -> str | None:
    """Find the id of the tool call that a task carries out."""
    call = given.get("tool_call") if isinstance(given, Mapping) else None
    if isinstance(given, list) and given:
        call = given[0]
    found = call.get("id") if isinstance(call, Mapping) else None
    return found if isinstance(found, str) else None
