"""A graph that was left at an interrupt goes on in another folder, with the types of its state."""

import shutil

import pytest

CONFIG = """
agents:
  order: {path}:graph
"""

GRAPH = """
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Label(StrEnum):
    FRAGILE = "fragile"


class Level(IntEnum):
    HIGH = 2


@dataclass
class Address:
    city: str


class Item(BaseModel):
    name: str
    size: Size


class Price(NamedTuple):
    amount: int


@dataclass
class Basket:
    items: list[Item] = field(default_factory=list)
    address: Address | None = None


class State(TypedDict, total=False):
    basket: Basket
    size: Size
    label: Label
    level: Level
    price: Price
    seen: list[str]


def fill(state: State) -> State:
    basket = Basket([Item(name="tea", size=Size.LARGE)], Address("Ghent"))
    rest = {"size": Size.SMALL, "label": Label.FRAGILE, "level": Level.HIGH, "price": Price(7)}
    return {"basket": basket, **rest}


def confirm(state: State) -> State:
    answer = interrupt("Shall it be sent?")
    basket = state["basket"]
    kinds = [basket, basket.address, basket.items[0], basket.items[0].size, state["size"]]
    kinds += [state["label"], state["level"], state["price"]]
    names = [type(each).__name__ for each in kinds]
    assert state["size"] is Size.SMALL
    return {"seen": [*names, basket.address.city, str(state["price"].amount), answer]}


graph = (
    StateGraph(State)
    .add_node(fill)
    .add_node(confirm)
    .add_edge(START, "fill")
    .add_edge("fill", "confirm")
    .compile()
)
"""

KINDS = ["Basket", "Address", "Item", "Size", "Size", "Label", "Level", "Price"]


@pytest.fixture(params=["./order.py", "./shop/order.py", "./web-shop/order.py"])
def project(request, tmp_path):
    """A project whose graph is in a file, in a package, or in a folder that cannot be one."""
    folder = tmp_path / "here"
    file = folder / request.param
    file.parent.mkdir(parents=True)
    file.write_text(GRAPH)
    (folder / "checkrail.yaml").write_text(CONFIG.format(path=request.param))
    return folder


async def test_a_graph_goes_on_in_another_folder(project, database, serve, tmp_path):
    first = serve(database, config=project / "checkrail.yaml").start()
    async with first.client() as client:
        thread = (await client.threads.create())["thread_id"]
        left = await client.runs.wait(thread, "order", input={})
        assert left["__interrupt__"][0]["value"] == "Shall it be sent?"
    first.stop()
    moved = tmp_path / "there"
    shutil.move(project, moved)
    second = serve(database, config=moved / "checkrail.yaml").start()
    async with second.client() as client:
        result = await client.runs.wait(thread, "order", command={"resume": "yes"})
        assert result["seen"] == [*KINDS, "Ghent", "7", "yes"]
        history = await client.threads.get_history(thread)
        assert [state["next"] for state in history] == [[], ["confirm"], ["fill"], ["__start__"]]
        assert "plain data" not in second.output()
