"""Agents of every kind, each quick and none of them clever."""

import asyncio
import operator
from typing import Annotated, TypedDict

from hooks import note
from langgraph.graph import START, StateGraph

from checkrail import ToolCall, tool
from checkrail.agent.tools.tool import ToolContext
from checkrail.testing import ScriptedModel


class Trail(TypedDict, total=False):
    trail: Annotated[list[str], operator.add]


async def first(state):
    await asyncio.sleep(0.02)
    return {"trail": ["first"]}


async def second(state):
    await asyncio.sleep(0.02)
    return {"trail": ["second"]}


steps = (
    StateGraph(Trail)
    .add_node(first)
    .add_node(second)
    .add_edge(START, "first")
    .add_edge("first", "second")
    .compile()
)

model = ScriptedModel(lambda request: "well said", name="talker")


def _pays(request):
    asked = request.messages[-1]["role"] == "user"
    return ToolCall("once", "pay", {"sum": 5}) if asked else "paid"


payer = ScriptedModel(_pays, name="payer")


@tool
def pay(sum: int, context: ToolContext) -> str:
    """Pay a sum."""
    note("paid", context.ids.run_id)
    return f"paid {sum}"


async def work(parameters):
    await asyncio.sleep(0.05)
    return {"done": parameters.get("n")}


def check(told):
    return {"action": "continue", "parameters": {**told["parameters"], "checked": True}}


def follow(told):
    return {"after": told["run_id"]}
