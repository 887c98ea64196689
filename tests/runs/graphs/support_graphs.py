"""Small graphs that tests run."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]
    count: int


async def greet(state):
    return {"said": ["hello"], "count": state.get("count", 0) + 1}


async def part(state):
    return {"said": ["bye"]}


async def ask(state):
    return {"said": [interrupt("first?"), interrupt("second?")]}


def chain(*nodes, state=State, **compiled):
    """A graph whose nodes run one after the other: functions, or pairs of a name and a graph."""
    builder, last = StateGraph(state), START
    for node in nodes:
        name, action = node if isinstance(node, tuple) else (node.__name__, node)
        builder.add_node(name, action)
        builder.add_edge(last, name)
        last = name
    builder.add_edge(last, END)
    return builder.compile(**compiled)


def at(thread_id):
    return {"configurable": {"thread_id": thread_id}}
