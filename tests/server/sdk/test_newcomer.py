"""What somebody tries first: five lines against `checkrail dev`."""

import subprocess
import sys

import pytest
from tests.processes import environment
from tests.server.harness import Database, on_sqlite

GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def answer(state):
    return {"messages": [AIMessage("Hello, " + state["messages"][-1].text)]}


graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile()
"""

SCRIPT = """
from langgraph_sdk import get_sync_client
client = get_sync_client(url="{url}")
for part in client.runs.stream(None, "agent", input={{"messages": [("user", "world")]}}):
    if part.event == "values":
        print(part.data["messages"][-1]["content"])
"""


def script(text):
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def dev(serve, tmp_path):
    """`checkrail dev` in a folder of somebody's own."""
    (tmp_path / "graph.py").write_text(GRAPH)
    config = tmp_path / "checkrail.yaml"
    config.write_text("agents:\n  agent: ./graph.py:graph\n")
    return serve(Database("sqlite", {}), config=config, command="dev").start()


def test_five_lines_talk_to_an_agent(dev):
    assert script(SCRIPT.format(url=dev.url)) == ["world", "Hello, world"]


def test_dev_says_where_it_is(dev):
    printed = dev.output()
    assert dev.url in printed
    assert "/docs" in printed


def test_dev_keeps_its_data_beside_the_file(dev):
    assert (dev.config.parent / ".checkrail" / "checkrail.db").exists()


def test_dev_needs_no_config_file_of_ours(serve, tmp_path):
    (tmp_path / "graph.py").write_text(GRAPH)
    config = tmp_path / "langgraph.json"
    config.write_text('{"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}')
    dev = serve(on_sqlite(tmp_path / "data"), config=config, command="dev").start()
    assert script(SCRIPT.format(url=dev.url)) == ["world", "Hello, world"]


def test_dev_ends_when_it_is_told_to(dev):
    assert dev.stop() == 0
    assert not dev.running
