"""Calls that wait for their answers, found again by what LiteLLM carries along with them.

Its id of a call is no help: callers may send one, and two of them the same.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

from checkrail.adapters.litellm.calls import Call
from checkrail.adapters.litellm.requests import LOGGED
from checkrail.times import uuid7

MARK = "_checkrail_call"
"""Where a call that no model answers has its number: LiteLLM takes such a one for failed, and
lets go of that object."""

MOST = 10_000
"""How many calls that no model answers may wait for their streams."""


class PendingCalls:
    """The calls whose answers have not come yet; those that LiteLLM forgets are forgotten."""

    def __init__(self) -> None:
        self._logged: WeakKeyDictionary[Any, Call] = WeakKeyDictionary()
        self._marked: OrderedDict[str, Call] = OrderedDict()

    def add_logged(self, call: Call, data: dict[str, Any]) -> None:
        """Remember a call until its answer comes."""
        logged = data.get(LOGGED)
        if logged is not None:
            self._logged[logged] = call

    def add_marked(self, call: Call, data: dict[str, Any]) -> None:
        """Remember a call that a stream of ours will answer: nothing of `data` goes to a model."""
        data[MARK] = number = uuid7()
        self._marked[number] = call
        while len(self._marked) > MOST:
            self._marked.popitem(last=False)

    def pop_answered(self, data: dict[str, Any]) -> Call | None:
        """Remove and return the call that is answered now."""
        marked = self._marked.pop(str(data.get(MARK)), None)
        logged = data.get(LOGGED)
        return marked or (self._logged.pop(logged, None) if logged is not None else None)
