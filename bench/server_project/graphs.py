"""What the server is measured with: a graph of one node, and a model that counts."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from checkrail.testing import ScriptedModel


class State(TypedDict):
    count: int


async def add(state: State) -> State:
    return {"count": state["count"] + 1}


one = StateGraph(State).add_node("add", add).add_edge(START, "add").add_edge("add", END).compile()


def nothing(parameters):
    return {}


def count_said(request):
    said = [message for message in request.messages if message["role"] == "user"]
    return f"{len(said)}: {said[-1]['content']}"


counter = ScriptedModel(count_said)
