"""What the server is measured with: a graph of one node. LangGraph's own server reads it too."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    count: int


async def add(state: State) -> State:
    return {"count": state["count"] + 1}


one = StateGraph(State).add_node("add", add).add_edge(START, "add").add_edge("add", END).compile()


def nothing(parameters):
    return {}
