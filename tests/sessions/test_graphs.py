"""Graphs behind channels: they get the conversation, reply with their last message, and ask."""

import pytest

from .conftest import open_desk

pytestmark = pytest.mark.usefixtures("database_url")

FILE = """
agents:
  desk: ./graph.py:graph
sessions: { idle_minutes: 0 }
"""
GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def reply(state: MessagesState):
    said = [message.content for message in state["messages"] if message.type == "human"]
    if said[-1] == "transfer":
        amount = interrupt("How much?")
        return {"messages": [AIMessage(f"Moved {amount}")]}
    return {"messages": [AIMessage([{"type": "text", "text": f"{len(said)}: {said[-1]}"}])]}


graph = StateGraph(MessagesState).add_node(reply).add_edge(START, "reply").compile()
"""


async def test_a_graph_answers_and_remembers(project):
    async with open_desk(project(FILE, graph=GRAPH)) as desk:
        said = [(await desk.say(text)).json()["reply"] for text in ("one", "two")]
        assert said == ["1: one", "2: two"]


async def test_a_graph_that_asks_goes_on_with_what_is_said_next(project):
    async with open_desk(project(FILE, graph=GRAPH)) as desk:
        asked = (await desk.say("transfer")).json()
        assert (asked["status"], asked["reply"]) == ("answered", "How much?")
        told = (await desk.say("500")).json()
        assert told["reply"] == "Moved 500"
        assert (await desk.say("three")).json()["reply"] == "2: three"
