"""Agents of every kind, each quick and none of them clever."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph

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


async def work(parameters):
    await asyncio.sleep(0.05)
    return {"done": parameters.get("n")}


def check(told):
    return {"action": "continue", "parameters": {**told["parameters"], "checked": True}}


def follow(told):
    return {"after": told["run_id"]}
