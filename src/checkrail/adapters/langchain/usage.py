"""Tokens by model, as LangChain's own usage handler counts them, without a callback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.messages.ai import add_usage

NAMES = ("model_name", "model", "model_id")
"""Where integrations tell which model has answered."""


class Usage:
    """What the models of a run have used so far; threads may count at the same time.

    `changed` is called after each count, in the thread that counts.
    """

    def __init__(
        self,
        by_model: dict[str, dict[str, Any]] | None = None,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._lock = threading.Lock()
        self._changed = changed
        self.by_model: dict[str, dict[str, Any]] = {} if by_model is None else by_model

    def add(self, name: str, used: Any) -> None:
        """Count what one call has used."""
        with self._lock:
            self.by_model[name] = sum_usage(self.by_model.get(name), used)
        self._changed()


def sum_usage(total: Any, more: Any) -> dict[str, Any]:
    """Add up two usages; either may be missing."""
    summed: Any = add_usage(total, more)
    return dict(summed)


def used_by(messages: Iterable[Any]) -> dict[str, Any] | None:
    """Return the usage that the pieces of an answer contain so far."""
    total: dict[str, Any] | None = None
    for message in messages:
        if told := getattr(message, "usage_metadata", None):
            total = sum_usage(total, told)
    return total


def model_in(told: Iterable[Mapping[str, Any] | None]) -> str | None:
    """Find the name of the model that answered, the latest word first."""
    for metadata in reversed([*told]):
        found = ((metadata or {}).get(name) for name in NAMES)
        if name := next((value for value in found if isinstance(value, str) and value), None):
            return name
    return None
