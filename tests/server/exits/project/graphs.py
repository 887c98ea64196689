"""A graph whose nodes, tool, reducer, edge and factory are places."""

import asyncio
from contextlib import asynccontextmanager
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from raising import pass_by
from typing_extensions import TypedDict


def reduce(before, given):
    pass_by("reducer", given)
    return given


class State(TypedDict, total=False):
    place: str
    way: str
    reduced: Annotated[Any, reduce]
    messages: list[Any]


async def async_node(state: State):
    pass_by("async node", state)
    await asyncio.sleep(0)
    pass_by("suspended node", state)
    return {"reduced": dict(state)}


def sync_node(state: State):
    pass_by("sync node", state)


async def spawning(state: State):
    async def child():
        await asyncio.sleep(0)
        pass_by("task of a node", state)

    await asyncio.gather(child(), asyncio.sleep(0))


@tool
def plain_tool(place: str, way: str) -> str:
    """Raise."""
    pass_by("tool", {"place": place, "way": way})
    return "well"


@tool
async def async_tool(place: str, way: str) -> str:
    """Raise."""
    pass_by("async tool", {"place": place, "way": way})
    return "well"


def call_tools(state: State):
    args = {key: state.get(key, "") for key in ("place", "way")}
    calls = [{"name": name, "args": args, "id": name} for name in ("plain_tool", "async_tool")]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def edge(state: State):
    pass_by("edge", state)
    return "inner"


def inside(state: State):
    pass_by("sub-graph", state)


inner = StateGraph(State).add_node("inside", inside).add_edge(START, "inside").compile()

builder = (
    StateGraph(State)
    .add_node("async_node", async_node)
    .add_node("sync_node", sync_node)
    .add_node("spawning", spawning)
    .add_node("call_tools", call_tools)
    .add_node("tools", ToolNode([plain_tool, async_tool], handle_tool_errors=False))
    .add_node("inner", inner)
    .add_edge(START, "async_node")
    .add_edge("async_node", "sync_node")
    .add_edge("sync_node", "spawning")
    .add_edge("spawning", "call_tools")
    .add_edge("call_tools", "tools")
    .add_conditional_edges("tools", edge, ["inner"])
)
graph = builder.compile(name="graph")


@asynccontextmanager
async def make(config):
    given = config.get("configurable", {})
    pass_by("factory", given)
    yield graph
    pass_by("end of a factory", given)
