"""What `events` must not tell: LangChain tells it of tools and models before hooks rule on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.adapters.enforcement import enforcing
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.scope import Scope

Event = Mapping[str, Any]

_MODELS = ("on_chat_model_", "on_llm_")


class Withheld:
    """Takes from LangChain's events what hooks may have changed or refused.

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
                return {**event, "data": _only(event["data"], "input")}
        if self._requests and kind.startswith(_MODELS):
            return {**event, "data": _only(event["data"], "chunk", "output")}
        return event


def _only(data: Event, *names: str) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


def withheld(scope: Scope) -> Withheld | None:
    """Return what has to be kept back under the hooks of a scope; None: nothing."""
    ruled = (HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TOOL_ERROR)
    results = any(enforcing(scope, point, Lane.TRANSFORM, Lane.GATE) for point in ruled)
    requests = enforcing(scope, HookPoint.BEFORE_LLM_CALL, Lane.TRANSFORM)
    return Withheld(results=results, requests=requests) if results or requests else None
