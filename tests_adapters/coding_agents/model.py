"""A model with a script: what it does turn by turn, in whichever of the three APIs it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from tests.gateway.provider import Received, Reply, Say


@dataclass(frozen=True)
class Run:
    """A turn in which the model wants a command to be run, and may say why."""

    command: str
    text: str = ""


Turn = Run | Say


@dataclass
class Script:
    """Answers each request of an agent's loop by how many turns its conversation has had.

    What an agent calls a model for beside its loop, such as a title, offers no `tool`. An agent
    without tools has no such calls. `requests` are those of the loop.
    """

    tool: str | None
    argument: str
    turns: Sequence[Turn]
    more: Mapping[str, Any] = field(default_factory=dict)
    requests: list[Received] = field(default_factory=list)

    def answer(self, received: Received) -> Reply | None:
        """Return what the model says next."""
        body = received.json
        if self.tool is not None and self.tool not in tool_names(body):
            return Say("A title")
        self.requests.append(received)
        number = count_turns(body)
        turn = self.turns[min(number, len(self.turns) - 1)]
        if isinstance(turn, Say):
            return replace(turn, turn=number + 1)
        about = {"description": "Work on it", **self.more}
        call = (str(self.tool), {self.argument: turn.command, **about})
        return Say(turn.text, calls=[call], turn=number + 1)


def tool_names(body: Any) -> list[str]:
    """Return the tools that a request offers."""
    tools = body.get("tools") or ()
    return [tool.get("name") or tool.get("function", {}).get("name") for tool in tools]


def count_turns(body: Any) -> int:
    """Return how often the model has spoken in a conversation."""
    said = body.get("messages") or body.get("input") or ()
    return sum(speaks for speaks, _ in groupby(said, _is_of_model))


def _is_of_model(item: Any) -> bool:
    return item.get("role") == "assistant" or item.get("type") in {"function_call", "reasoning"}
