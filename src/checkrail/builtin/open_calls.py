"""Calls of models that are not answered yet, and what a hook noted of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

from checkrail.builtin.dimensions import read_dimensions
from checkrail.engine.event import Event

T = TypeVar("T")

CallId = tuple[Any, ...]


def call_id(event: Event[Any]) -> CallId | None:
    """Return an id that the request and the answer of a call share; None: there is none.

    Callers may choose ids as they like, so who they are is part of it.
    """
    at = event.context
    if at.request_id is None and at.run_id is None:
        return None
    ids = at.request_id, at.run_id, at.agent_name, at.iteration, at.tool_call_id
    return *ids, *read_dimensions(event, ("user", "key")).values()


class OpenCalls(Generic[T]):
    """Notes on requests, to be found again at their answers.

    Calls under the same ids at the same time cannot be told apart: then an answer may belong to any
    of them. Beyond `most`, those that were asked the longest ago are forgotten.
    """

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self._open: OrderedDict[CallId, tuple[int, dict[T, None]]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def note_request(self, event: Event[Any], note: T) -> None:
        """Note something of a request."""
        if (found := call_id(event)) is None:
            return
        with self._lock:
            count, notes = self._open.pop(found, (0, {}))
            self._open[found] = count + 1, {**notes, note: None}
            while len(self._open) > self.most:
                self._open.popitem(last=False)

    def pop_notes(self, event: Event[Any]) -> list[T]:
        """Remove and return the notes on the requests that this may answer; most often one."""
        found = call_id(event)
        with self._lock:
            count, notes = self._open.pop(found, (0, {})) if found is not None else (0, {})
            if found is not None and count > 1:
                self._open[found] = count - 1, notes
        return list(notes)
