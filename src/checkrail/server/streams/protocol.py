"""The event protocol: the stored events of a thread's runs as envelopes.

A view reads one run from its beginning and always gives the same envelopes for the same events,
so that whoever comes back is served by reading the run again and leaving out what they have.
A stored event may become several envelopes. Each has a number of its own: the stored event's
number in its thread times `SLOTS`, plus its place among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from checkrail.server.streams import tools
from checkrail.server.streams.messages import Messages
from checkrail.server.streams.subgraphs import Subgraphs, lifecycle_end
from checkrail.store.events import RunEvent

Namespace = tuple[str, ...]
KEY = "__interrupt__"


class Interrupts:
    """The interrupts of one run. Each comes from its subgraph first, and then from all above it.

    They are asked once, when the run has ended as interrupted: an answer that comes sooner would
    find the thread busy, and a client stops listening to a run that asks.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Namespace, Any]] = {}

    def feed(self, ns: Namespace, data: Any) -> Any:
        """Take the interrupts out of values or updates, and return the rest."""
        if not isinstance(data, Mapping) or KEY not in data:
            return data
        self.add(ns, data[KEY])
        return {key: value for key, value in data.items() if key != KEY}

    def add(self, ns: Namespace, interrupts: Iterable[Mapping[str, Any]] | None) -> None:
        """Remember interrupts of a namespace."""
        for one in interrupts or ():
            self._seen.setdefault(str(one.get("id")), (ns, one.get("value")))

    def open_requests(
        self, ended_with: Iterable[Mapping[str, Any]] | None
    ) -> list[tuple[Namespace, Any]]:
        """Return the requests for input of a run that paused; its end knows best which are open."""
        self.add((), ended_with)
        open_ones = [str(one.get("id")) for one in ended_with or ()] or [*self._seen]
        return [self._render_request(name) for name in dict.fromkeys(open_ones)]

    def _render_request(self, name: str) -> tuple[Namespace, Any]:
        ns, value = self._seen[name]
        return ns, {"interrupt_id": name, "payload": value, "value": value}


Part = tuple[str, Namespace, Any]
Envelope = dict[str, Any]

SLOTS = 4096
"""Numbers that a stored event has for its envelopes; if it has more, the last ones share one."""

_LOST = "the attempt was lost; the run goes on in another"


def cursor_of(thread_seq: int) -> int:
    """Return the number that comes after every envelope of a stored event, and before the next."""
    return thread_seq * SLOTS + SLOTS - 1


def thread_seq_of(cursor: int) -> int:
    """Return the stored event that an envelope's number belongs to."""
    return cursor // SLOTS


class ProtocolView:
    """Turn the stored events of one run, given in order from the first, into envelopes."""

    def __init__(
        self, run_id: str, *, base_seq: int = 0, graph_name: str | None = None, timestamp: int = 0
    ) -> None:
        self.run_id = run_id
        self.base_seq = base_seq
        self.timestamp = timestamp
        self.status = "started"
        self._graph_name = graph_name
        self._attempted = False
        self._error: str | None = None
        self._checkpoint: str | None = None
        self._messages = Messages()
        self._lives = Subgraphs()
        self._interrupts = Interrupts()

    def feed(self, event: RunEvent, *, timestamp: int | None = None) -> list[Envelope]:
        """Take in one stored event; `timestamp` is when it was emitted, in ms, if that is known."""
        parts = self._parts_of(event)
        at = self.timestamp if timestamp is None else timestamp
        return [
            self._build_envelope(event.seq, place, part, at) for place, part in enumerate(parts)
        ]

    def tree(self) -> dict[str, Any]:
        """Return the run and its subgraphs as far as they have been read."""
        return self._lives.tree(self._graph_name or "", self.status)

    def _parts_of(self, event: RunEvent) -> list[Part]:
        """Subgraphs start before what they tell, and end after it."""
        if event.event == "end":
            return self._on_end(event.data)
        lives = [("lifecycle", ns, data) for ns, data in self._lives.feed(event)]
        handler = self._HANDLERS.get(event.event)
        told = [] if handler is None else handler(self, event.ns, event.data)
        starts = [part for part in lives if part[2]["event"] == "started"]
        return [*starts, *told, *(part for part in lives if part[2]["event"] != "started")]

    def _build_envelope(self, seq: int, place: int, part: Part, timestamp: int) -> Envelope:
        method, ns, data = part
        return {
            "type": "event",
            "event_id": f"{self.run_id}:{seq}:{place}",
            "seq": (self.base_seq + seq) * SLOTS + min(place, SLOTS - 1),
            "method": method,
            "params": {"namespace": [*ns], "timestamp": timestamp, "data": data},
        }

    def _on_metadata(self, ns: Namespace, data: Any) -> list[Part]:  # noqa: ARG002
        """Start, or start again: what was being said when an attempt was lost stays unsaid."""
        again = self._attempted
        self._attempted = True
        if again:
            return [*self._close_open("failed", _LOST), self._root_lifecycle("running")]
        return [self._root_lifecycle("started"), self._root_lifecycle("running")]

    def _on_values(self, ns: Namespace, data: Any) -> list[Part]:
        return [*self._close_messages(ns), ("values", ns, self._interrupts.feed(ns, data))]

    def _on_updates(self, ns: Namespace, data: Any) -> list[Part]:
        """Return each node's update by itself; an update that holds only interrupts is none."""
        rest = self._interrupts.feed(ns, data)
        if not isinstance(rest, Mapping):
            return [("updates", ns, {"values": rest})]
        return [
            ("updates", ns, {"node": node, "values": {} if values is None else values})
            for node, values in rest.items()
        ]

    def _on_messages(self, ns: Namespace, data: Any) -> list[Part]:
        return [("messages", at, told) for at, told in self._messages.feed(ns, data)]

    def _on_tools(self, ns: Namespace, data: Any) -> list[Part]:
        return [("tools", ns, tools.to_protocol_form(data))]

    def _on_tasks(self, ns: Namespace, data: Any) -> list[Part]:
        self._interrupts.add(ns, data.get("interrupts"))
        return [("tasks", ns, data)]

    def _on_checkpoints(self, ns: Namespace, data: Any) -> list[Part]:
        name = _find_checkpoint_id(data, "config", "checkpoint")
        if name is None:
            return []
        if not ns:
            self._checkpoint = name
        metadata = data.get("metadata") or {}
        told = {"id": name, "step": metadata.get("step"), "source": metadata.get("source")}
        parent = _find_checkpoint_id(data, "parent_config", "parent_checkpoint")
        return [("checkpoints", ns, told if parent is None else {**told, "parent_id": parent})]

    def _on_custom(self, ns: Namespace, data: Any) -> list[Part]:
        """A payload with a name can be subscribed to by it."""
        name = data.get("name") if isinstance(data, Mapping) else None
        if not isinstance(name, str):
            return [("custom", ns, {"payload": data})]
        return [("custom", ns, {"name": name, "payload": data.get("payload", data)})]

    def _on_error(self, ns: Namespace, data: Any) -> list[Part]:  # noqa: ARG002
        self._error = str(data.get("message") or data.get("error"))
        return []

    def _on_end(self, data: Mapping[str, Any]) -> list[Part]:
        """Close what is open, request input where a run waits, and return how it ended."""
        status, error = lifecycle_end({"error": self._error, **_without_none(data)})
        asked = (
            self._interrupts.open_requests(data.get("interrupts"))
            if status == "interrupted"
            else []
        )
        return [
            *self._close_open(status, error),
            *(("input.requested", ns, told) for ns, told in asked),
            self._root_lifecycle(status, error),
        ]

    def _close_open(self, status: str, error: str | None) -> list[Part]:
        said = [("messages", ns, told) for ns, told in self._messages.close(error=error)]
        return [*said, *(("lifecycle", ns, told) for ns, told in self._lives.close(status, error))]

    def _root_lifecycle(self, status: str, error: str | None = None) -> Part:
        self.status = status
        over = status not in ("started", "running")
        known = {
            "graph_name": self._graph_name,
            "error": error,
            "checkpoint": {"id": self._checkpoint} if over and self._checkpoint else None,
        }
        return "lifecycle", (), {"event": status, **_without_none(known)}

    def _close_messages(self, ns: Namespace) -> list[Part]:
        """Close the messages of a graph, one of whose steps is over."""
        return [("messages", at, told) for at, told in self._messages.close(ns)]

    _HANDLERS: ClassVar[Mapping[str, Callable[[ProtocolView, Namespace, Any], list[Part]]]] = {
        "metadata": _on_metadata,
        "values": _on_values,
        "updates": _on_updates,
        "messages": _on_messages,
        "tools": _on_tools,
        "tasks": _on_tasks,
        "checkpoints": _on_checkpoints,
        "custom": _on_custom,
        "error": _on_error,
    }


def _find_checkpoint_id(data: Mapping[str, Any], config: str, checkpoint: str) -> str | None:
    """Find the id where LangGraph puts it, or where its API does."""
    configurable = (data.get(config) or {}).get("configurable") or {}
    found = (data.get(checkpoint) or configurable).get("checkpoint_id")
    return found if isinstance(found, str) else None


def _without_none(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}
