"""Agents of each kind, for requests that name them."""

from operator import add as joined
from typing import Annotated

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from checkrail.testing import ScriptedModel


class Said(TypedDict, total=False):
    text: str
    log: Annotated[list[str], joined]


def say(state: Said) -> Said:
    return {"log": [state.get("text", "")]}


echo = StateGraph(Said).add_node("say", say).add_edge(START, "say").compile(name="echo")


def repeat(request) -> str:
    """Greet, and say how often the user has spoken on this thread."""
    said = sum(message["role"] == "user" for message in request.messages)
    return "Hello" + " again" * (said - 1)


parrot = ScriptedModel(repeat)


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


def same(given: dict[str, object]) -> dict[str, object]:
    return given


def fail(given: dict[str, object]) -> None:
    raise ValueError(f"it broke at {given.get('at')}")


def scoped(given: dict[str, object], context) -> dict[str, object]:
    return {"scope": dict(context.scope), "given": given}


def double(told: dict[str, dict[str, int]]) -> dict[str, object]:
    count = told["parameters"]["count"]
    if count < 0:
        return {"action": "block", "block_reason": "less than nothing"}
    return {"action": "continue", "parameters": {"count": 2 * count}}


def audit(told: dict[str, object]) -> dict[str, object]:
    return {}
