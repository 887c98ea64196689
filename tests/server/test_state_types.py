"""Servers and runners build what the config names when they read the state of a graph."""

import pytest

from checkrail.config import ConfigError, load
from checkrail.runner.project import RunnerProject
from checkrail.server.project import Project
from checkrail.server.startup import open_services

CONFIG = """
data_dir: {folder}/data
python_path: ["."]
checkpointer: {{types: ["./graph.py:Fact", facts:Other]}}
agents:
  facts: ./graph.py:graph
"""

GRAPH = """
from dataclasses import dataclass
from typing import Any, TypedDict

from facts import Other
from langgraph.graph import START, StateGraph


@dataclass
class Fact:
    n: int


class State(TypedDict):
    facts: list[Any]


def find(state):
    return {"facts": [Fact(1), Other(2)]}


graph = StateGraph(State).add_node("find", find).add_edge(START, "find").compile()
"""

FACTS = """
from dataclasses import dataclass


@dataclass
class Other:
    n: int
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "graph.py").write_text(GRAPH)
    (tmp_path / "facts.py").write_text(FACTS)
    file = tmp_path / "checkrail.yaml"
    file.write_text(CONFIG.format(folder=tmp_path))
    return file


async def kinds(graphs):
    at = {"configurable": {"thread_id": "t"}}
    async with graphs.open("facts") as graph:
        await graph.ainvoke({"facts": []}, at)
        found = (await graph.aget_state(at)).values["facts"]
    return [(type(each).__name__, each.n) for each in found]


async def test_a_server_builds_them(file):
    async with open_services(Project(file)) as services:
        assert await kinds(services.graphs) == [("Fact", 1), ("Other", 2)]


async def test_a_runner_builds_them(file):
    file.write_text(f"{file.read_text()}database: sqlite:///{file.parent}/state.db\n")
    project = RunnerProject(file)
    async with project.open_storage():
        assert await kinds(project.graphs) == [("Fact", 1), ("Other", 2)]


def test_what_is_no_type_is_refused(file):
    file.write_text(file.read_text().replace("./graph.py:Fact", "./graph.py:graph"))
    with pytest.raises(ConfigError, match=r"checkpointer.types.*graph"):
        load(file).load_state_types()
