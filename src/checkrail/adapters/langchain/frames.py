"""The calls that are under way: by them a call is told from a part of the one around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from checkrail.engine.asks import midway

if TYPE_CHECKING:
    from checkrail.adapters.langchain.guard import Guard

ACTIVE: ContextVar[Guard | None] = ContextVar("checkrail_guard", default=None)
"""The guard of the run whose work this is."""

MODEL: ContextVar[ModelFrame | None] = ContextVar("checkrail_model_call", default=None)
TOOL: ContextVar[ToolFrame | None] = ContextVar("checkrail_tool_call", default=None)

Told = tuple[str, Any]
"""What one call used: the model's name, and its tokens."""


class ModelFrame:
    """One request to a model, as hooks have let it pass.

    A class may reach its model over several of its methods, or have another class do it: that
    is one request as long as it says the same to a model of the same name.
    """

    __slots__ = ("guard", "messages", "model", "name", "over", "told")

    def __init__(self, guard: Guard, model: Any, name: str, messages: Sequence[Any]) -> None:
        self.guard = guard
        self.model = model
        self.name = name
        self.messages = messages
        self.over = False
        self.told: list[Told] = []

    def is_same_call(self, guard: Guard, model: Any, name: str, messages: Any) -> bool:
        """Return whether a call is a part of this request."""
        known = model is self.model or name == self.name
        mine = guard is self.guard and not self.over
        return mine and known and has_same_messages(self.messages, messages)


class ToolFrame:
    """One call of a tool, as hooks have let it pass."""

    __slots__ = ("given", "guard", "id", "over", "tool")

    def __init__(self, guard: Guard, tool: Any, id: str | None, given: Any) -> None:
        self.guard = guard
        self.tool = tool
        self.id = id
        self.given = given
        self.over = False

    def is_same_call(self, guard: Guard, tool: Any, id: str | None, given: Any) -> bool:
        """Return whether a call is a part of this one, such as `run` in a thread of `arun`."""
        mine = guard is self.guard and not self.over
        known = tool is self.tool and id == self.id
        return mine and known and (given is self.given or given == self.given)


def has_same_messages(ours: Sequence[Any], theirs: Any) -> bool:
    """Return whether two lists of messages are the same; most often they share them."""
    if ours is theirs:
        return True
    if not isinstance(theirs, (list, tuple)) or len(ours) != len(theirs):
        return False
    return all(a is b or a == b for a, b in zip(ours, theirs, strict=True))


@contextmanager
def enter_frame(frame: ModelFrame | ToolFrame) -> Iterator[None]:
    """Run a part of a call within its frame.

    Only while it is being waited for: what a generator sets is seen by whoever consumes it.
    """
    place: ContextVar[Any] = MODEL if isinstance(frame, ModelFrame) else TOOL
    token = place.set(frame)
    try:
        with midway():
            yield
    finally:
        place.reset(token)
