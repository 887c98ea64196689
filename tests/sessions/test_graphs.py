"""Graphs behind channels: they get the conversation, reply with their last message, and ask."""

import pytest

from checkrail.server.streams.modes import STREAM_MODES

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


async def test_marks_of_steps_are_for_dashboards_and_reach_nobody_else(project):
    marks = ("attempt_started", "node_started", "node_finished")
    said = {"messages": [{"role": "user", "content": "one"}]}
    body = {"assistant_id": "desk", "input": said, "stream_mode": [*STREAM_MODES]}
    async with open_desk(project(FILE, graph=GRAPH)) as desk:
        path = f"/threads/{(await desk.client.post('/threads', json={})).json()['thread_id']}/runs"
        streamed = await desk.client.post(f"{path}/stream", json=body | {"stream_subgraphs": True})
        [run] = (await desk.client.get(path)).json()
        joined = await desk.client.get(f"{path}/{run['run_id']}/stream")
        frames = await desk.stream("two")
        assert "values" in streamed.text
        assert frames[-1][1]["reply"] == "1: two"
        for mark in marks:
            assert f"event: {mark}" not in streamed.text + joined.text
            assert mark not in str(frames)
        for run_id in (run["run_id"], frames[-1][1]["run_id"]):
            told = (await desk.client.get(f"/runs/{run_id}/events")).text
            assert [mark for mark in marks if f"event: {mark}" in told] == [*marks]
