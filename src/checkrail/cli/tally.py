"""A tally of what passed a gateway: calls, decisions by hook, tokens and cost."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from checkrail.engine.event import Event
from checkrail.engine.records import HookRecord, RecordKind
from checkrail.engine.registry import HookRegistry

OWN = "checkrail with"


class Tally:
    """Counts, from any thread, what hooks of a registry decide and what answers use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[str] = set()
        self._tokens: Counter[str] = Counter()
        self._cost: float | None = None
        self._hooks: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def watch(self, registry: HookRegistry) -> None:
        """Look on at every call and answer."""
        for point in ("before_llm_call", "after_llm_call"):
            registry.register(self._seen, point, name=f"{OWN}: {point}", lane="observe")

    def record(self, record: HookRecord) -> None:
        """Count what a hook decided; made to be a sink."""
        if record.kind is RecordKind.START or record.hook.startswith(OWN):
            return
        told = "failed" if record.failure else str(record.decision)
        if record.changed and told == "continue":
            told = "change"
        with self._lock:
            self._hooks[record.hook][f"would {told}" if record.shadow else told] += 1

    def _seen(self, event: Event[Any]) -> None:
        usage = getattr(event.value, "usage", None) or {}
        with self._lock:
            self._calls.add(event.request_id or "")
            for name in ("input_tokens", "output_tokens", "total_tokens"):
                self._tokens[name] += usage.get(name) or 0
            if (cost := usage.get("cost")) is not None:
                self._cost = (self._cost or 0.0) + cost

    def data(self) -> dict[str, Any]:
        """Return everything as JSON data; without prices, nobody knows the cost."""
        with self._lock:
            tokens = ("input_tokens", "output_tokens", "total_tokens")
            return {
                "calls": len(self._calls),
                **{name: self._tokens[name] for name in tokens},
                "cost": self._cost,
                "hooks": {name: dict(counts) for name, counts in self._hooks.items()},
            }

    def lines(self) -> Iterator[str]:
        """Tell it to a person."""
        found = self.data()
        calls = f"{found['calls']} {'call' if found['calls'] == 1 else 'calls'}"
        cost = "" if found["cost"] is None else f", {_dollars(found['cost'])}"
        yield f"{calls}, {found['input_tokens']} tokens in, {found['output_tokens']} out{cost}"
        wide = max(map(len, found["hooks"]), default=0)
        for name, counts in found["hooks"].items():
            told = ", ".join(f"{what} {count}" for what, count in counts.items())
            yield f"  {name:<{wide}}  {told}"


def _dollars(cost: float) -> str:
    """Write an amount so that a small one is not told as none."""
    return f"${cost:.6f}" if 0 < cost < 0.001 else f"${cost:.4f}"
