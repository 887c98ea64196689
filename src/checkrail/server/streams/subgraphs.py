"""The life of subgraphs, read from the tasks that hold them and from where events come from.

A subgraph's namespace ends in `name:task`, the task of its parent that runs it. It starts with
the first thing that is heard from it, and ends with the result of that task. Snapshots of state
do not start it: they come before its first task, which is what knows its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkrail.store.events import RunEvent

Namespace = tuple[str, ...]
Told = tuple[Namespace, dict[str, Any]]

_SILENT = frozenset({"values", "checkpoints", "debug", "events", "metadata", "error", "end"})
_OVER = frozenset({"completed", "failed", "interrupted"})


@dataclass(slots=True)
class _SubgraphLife:
    name: str
    task: str | None
    status: str


class Subgraphs:
    """Which subgraphs of one run are alive."""

    def __init__(self) -> None:
        self._lives: dict[Namespace, _SubgraphLife] = {}
        self._calls: dict[str, str] = {}

    def feed(self, event: RunEvent) -> list[Told]:
        """Take in a stored event, and yield which subgraphs it started or ended."""
        if event.event == "lifecycle":
            return [*self._on_lifecycle(event.ns, event.data)]
        if event.event == "end":
            return self.close(*lifecycle_end(event.data))
        if event.event in _SILENT:
            return []
        found = [*self._start_missing(event)]
        if event.event == "tasks":
            found += self._on_task(event.ns, event.data)
        return found

    def close(self, status: str, error: str | None = None) -> list[Told]:
        """End everything that is still alive, the innermost first."""
        alive = [ns for ns, life in self._lives.items() if life.status not in _OVER]
        return [self._end_one(ns, status, error) for ns in sorted(alive, key=len, reverse=True)]

    def tree(self, name: str, status: str) -> dict[str, Any]:
        """Return the run and its subgraphs as the protocol's tree of agents."""
        root: dict[str, Any] = {"namespace": [], "status": status, "graph_name": name}
        nodes: dict[Namespace, dict[str, Any]] = {(): root}
        for ns, life in sorted(self._lives.items(), key=lambda item: len(item[0])):
            node = {"namespace": [*ns], "status": life.status, "graph_name": life.name}
            nodes[ns] = node
            nodes[ns[:-1]].setdefault("children", []).append(node)
        return root

    def _start_missing(self, event: RunEvent) -> Iterator[Told]:
        for depth in range(1, len(event.ns) + 1):
            ns = event.ns[:depth]
            known = self._lives.get(ns)
            if known is None or (known.status in _OVER and _is_start(event)):
                yield self._start_one(ns, event)

    def _start_one(self, ns: Namespace, event: RunEvent) -> Told:
        node, _, task = ns[-1].partition(":")
        agent = _agent_name(event) if ns == event.ns else None
        life = self._lives[ns] = _SubgraphLife(agent or node, task or None, "started")
        data: dict[str, Any] = {"event": "started", "graph_name": life.name}
        if task:
            data["trigger_call_id"] = task
        if task in self._calls:
            data["cause"] = {"type": "toolCall", "tool_call_id": self._calls[task]}
        return ns, data

    def _on_task(self, ns: Namespace, data: Mapping[str, Any]) -> list[Told]:
        task = str(data.get("id"))
        if "result" in data:
            return self._on_task_end(ns, task, data)
        call = _find_tool_call(data.get("input"))
        if call is not None:
            self._calls[task] = call
        return []

    def _on_task_end(self, parent: Namespace, task: str, data: Mapping[str, Any]) -> list[Told]:
        status, error = _task_end(data)
        depth = len(parent)
        alive = [
            ns
            for ns, life in self._lives.items()
            if life.status not in _OVER
            and len(ns) > depth
            and ns[:depth] == parent
            and ns[depth].partition(":")[2] == task
        ]
        alive.sort(key=len, reverse=True)
        return [self._end_one(ns, status, error) for ns in alive]

    def _end_one(self, ns: Namespace, status: str, error: str | None) -> Told:
        self._lives[ns].status = status
        data = {"event": status, "graph_name": self._lives[ns].name}
        return ns, data if error is None else {**data, "error": error}

    def _on_lifecycle(self, ns: Namespace, data: Mapping[str, Any]) -> Iterator[Told]:
        """Take an executor's lifecycle event, once."""
        place = tuple(data.get("namespace") or ns)
        status = str(data.get("event"))
        known = self._lives.get(place)
        if not place or (known is not None and known.status == status):
            return
        node, _, task = place[-1].partition(":")
        name = str(data.get("graph_name") or (node if known is None else known.name))
        self._lives[place] = _SubgraphLife(name, task or None, status)
        yield place, {**{k: v for k, v in data.items() if k != "namespace"}, "graph_name": name}


def lifecycle_end(data: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return how a run ended as a lifecycle's status: every bad end is `failed`.

    A run that was stopped is `interrupted` in its public status like one that waits for a person,
    but nobody can go on with it, and a client would wait for ever.
    """
    status = data.get("status")
    if status == "success":
        return "completed", None
    if status == "interrupted" and data.get("phase") in (None, "interrupted"):
        return "interrupted", None
    return "failed", str(data.get("error") or _WHY.get(str(status), "the run failed"))


_WHY = {"timeout": "the run timed out", "interrupted": "the run was cancelled"}


def _task_end(data: Mapping[str, Any]) -> tuple[str, str | None]:
    if data.get("interrupts"):
        return "interrupted", None
    error = data.get("error")
    return ("failed", str(error)) if error else ("completed", None)


def _is_start(event: RunEvent) -> bool:
    return event.event == "tasks" and "result" not in event.data


def _agent_name(event: RunEvent) -> str | None:
    """Read the name that `create_agent` gives to whatever happens inside an agent."""
    data = event.data
    if event.event == "messages":
        metadata = data[1]
    else:
        metadata = data.get("metadata") if event.event == "tasks" else None
    name = metadata.get("lc_agent_name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else None


def _find_tool_call(payload: Any) -> str | None:
    """Find the tool call that a task carries out: alone with its context, or first in a list."""
    if isinstance(payload, Mapping):
        call = payload.get("tool_call")
    else:
        call = payload[0] if isinstance(payload, list) and payload else None
    name = call.get("id") if isinstance(call, Mapping) else None
    return name if isinstance(name, str) else None
