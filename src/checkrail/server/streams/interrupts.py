"""Questions to a person, gathered while a run goes on and asked when it has paused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Namespace = tuple[str, ...]
KEY = "__interrupt__"


class Interrupts:
    """The interrupts of one run. Each is told by its subgraph first, and then by all above it.

    They are asked once, when the run has ended as interrupted: an answer that comes sooner would
    find the thread busy, and a client stops listening to a run that asks.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Namespace, Any]] = {}

    def feed(self, ns: Namespace, data: Any) -> Any:
        """Take the interrupts out of values or updates, and give the rest."""
        if not isinstance(data, Mapping) or KEY not in data:
            return data
        self.note(ns, data[KEY])
        return {key: value for key, value in data.items() if key != KEY}

    def note(self, ns: Namespace, interrupts: Iterable[Mapping[str, Any]] | None) -> None:
        """Keep interrupts that were told in a namespace."""
        for one in interrupts or ():
            self._seen.setdefault(str(one.get("id")), (ns, one.get("value")))

    def asked(self, ended_with: Iterable[Mapping[str, Any]] | None) -> list[tuple[Namespace, Any]]:
        """List the requests for input of a run that paused; its end knows best which are open."""
        self.note((), ended_with)
        open_ones = [str(one.get("id")) for one in ended_with or ()] or [*self._seen]
        return [self._request(name) for name in dict.fromkeys(open_ones)]

    def _request(self, name: str) -> tuple[Namespace, Any]:
        ns, value = self._seen[name]
        return ns, {"interrupt_id": name, "payload": value, "value": value}
