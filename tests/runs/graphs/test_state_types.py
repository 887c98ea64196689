"""What is read of a graph's state: the types of its schemas and of the config, and no others."""

import dataclasses
import enum
import logging
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import pytest
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel, SecretStr
from pydantic.v1 import BaseModel as OldModel

from checkrail.runs.graphs.checkpoints import open_checkpointer
from checkrail.runs.graphs.factories import GraphFactory
from checkrail.runs.graphs.loader import Graphs
from checkrail.runs.graphs.state_types import state_types

from .support_graphs import at


class Color(enum.Enum):
    RED = "red"


class Shape(BaseModel):
    name: str = ""


class Circle(Shape):
    color: Color = Color.RED


class Old(OldModel):
    n: int = 0


@dataclass
class Inner:
    n: int


@dataclass
class Outer:
    inner: "Inner | None" = None


class Pair(NamedTuple):
    left: int
    right: Outer


@dataclass
class Unnamed:
    n: int


Renamed = NewType("Renamed", Outer)
Bound = TypeVar("Bound", bound=Old)


class State(TypedDict, total=False):
    shapes: Annotated[Sequence[Shape], operator.add]
    pairs: Mapping[str, Pair]
    secret: NotRequired[SecretStr]
    many: Iterable[Renamed] | None
    bound: Bound
    free: Any


def node(state):
    return {"shapes": [Circle(name="c")], "pairs": {"a": Pair(1, Outer(Inner(2)))}}


def graph_of(*nodes, state=State):
    graph, last = StateGraph(state), START
    for each in nodes:
        name = getattr(each, "__name__", "inner")
        graph.add_node(name, each)
        graph.add_edge(last, name)
        last = name
    return graph.compile()


async def state_of(saver, graph, thread="t"):
    """What a server finds on a thread after a graph has run on it."""
    async with Graphs({"g": graph}, saver).open("g") as bound:
        await bound.ainvoke({}, at(thread))
    async with Graphs({"g": graph}, saver).open("g") as bound:
        return (await bound.aget_state(at(thread))).values


def test_the_types_of_a_graph_are_those_that_its_schemas_name():
    named = {Shape, Circle, Color, Pair, Outer, Inner, SecretStr, Old}
    assert state_types([graph_of(node)]) == named

    @entrypoint()
    def work(given: Inner) -> Outer:
        return Outer(given)

    assert state_types([work]) == {Inner, Outer}


async def test_types_that_a_schema_names_are_built_again(database):
    async with open_checkpointer(database) as saver:
        found = await state_of(saver, graph_of(node))
        assert found["shapes"] == [Circle(name="c")]
        assert type(found["shapes"][0].color) is Color
        assert found["pairs"] == {"a": Pair(1, Outer(Inner(2)))}


async def test_types_of_graphs_inside_and_of_factories_are_built_again(database):
    class Wide(TypedDict, total=False):
        unnamed: Unnamed

    def fill(state):
        return {"unnamed": Unnamed(1)}

    def pause(state):
        return interrupt("wait")

    inside = graph_of(fill, pause, state=Wide)

    async def make(config):
        return graph_of(node, inside)

    async with open_checkpointer(database) as saver:
        graphs = Graphs({"g": GraphFactory.from_function(make, "g")}, saver)
        async with graphs.open("g") as graph:
            await graph.ainvoke({}, at("t"))
        async with graphs.open("g") as graph:
            state = await graph.aget_state(at("t"), subgraphs=True)
            assert state.tasks[0].state.values == {"unnamed": Unnamed(1)}
            assert state.values["shapes"] == [Circle(name="c")]


async def test_a_type_that_nobody_names_is_read_as_its_data_and_said(database, caplog):
    async with open_checkpointer(database) as saver:
        with caplog.at_level(logging.WARNING, "checkrail.runs.graphs"):
            found = await state_of(
                saver, graph_of(lambda state: {"free": [Unnamed(1), Unnamed(2)]})
            )
        assert found["free"] == [{"n": 1}, {"n": 2}]
    [said] = [each.getMessage() for each in caplog.records if each.name == "checkrail.runs.graphs"]
    assert f"checkpointer.types: ['{__name__}:Unnamed']" in said
    async with (
        open_checkpointer(database, types=[Unnamed]) as saver,
        Graphs({"g": graph_of(node)}, saver).open("g") as graph,
    ):
        assert (await graph.aget_state(at("t"))).values["free"] == [Unnamed(1), Unnamed(2)]


@pytest.mark.parametrize("name", ["mkdir", "system"])
async def test_nothing_is_called_that_a_checkpoint_names(database, tmp_path, name):
    evil = dataclasses.make_dataclass(name, [("path" if name == "mkdir" else "command", str)])
    evil.__module__ = "os"
    folder = tmp_path / "made"
    given = str(folder) if name == "mkdir" else f"mkdir {folder}"
    async with open_checkpointer(database) as saver:
        found = await state_of(saver, graph_of(lambda state: {"free": evil(given)}))
        assert list(found["free"].values()) == [given]
    assert not folder.exists()
