"""A graph that was left at an interrupt goes on in another folder, with the types of its state."""

import shutil
from dataclasses import dataclass

import pytest

CONFIG = """
agents:
  fields: {path}:fields
  model: {path}:model
  data: {path}:data
"""

KINDS = """
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple, TypedDict

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


class Shelf(BaseModel):
    items: dict[str, list[Item]] = {}
    address: Address | None = None


class Fields(TypedDict, total=False):
    basket: Basket
    shelf: Shelf
    size: Size
    label: Label
    level: Level
    price: Price
    seen: list[str]


class Model(BaseModel):
    basket: Basket | None = None
    shelf: Shelf = Shelf()
    size: Size = Size.LARGE
    label: Label | None = None
    level: Level | None = None
    price: Price | None = None
    seen: list[str] = []


@dataclass
class Data:
    basket: Basket | None = None
    shelf: Shelf | None = None
    size: Size = Size.LARGE
    label: Label | None = None
    level: Level | None = None
    price: Price | None = None
    seen: list[str] = field(default_factory=list)
"""

GRAPHS = """
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt


def fill(_state):
    tea = Item(name="tea", size=Size.LARGE)
    ghent = Address("Ghent")
    held = {"basket": Basket([tea], ghent), "shelf": Shelf(items={"top": [tea]}, address=ghent)}
    rest = {"size": Size.SMALL, "label": Label.FRAGILE, "level": Level.HIGH, "price": Price(7)}
    return {**held, **rest}


def confirm(state):
    answer = interrupt("Shall it be sent?")
    found = state if isinstance(state, dict) else vars(state)
    basket, shelf = found["basket"], found["shelf"]
    top = shelf.items["top"][0]
    kinds = [basket, basket.address, basket.items[0], basket.items[0].size]
    kinds += [shelf, shelf.address, top, top.size]
    kinds += [found[name] for name in ("size", "label", "level", "price")]
    names = [type(each).__name__ for each in kinds]
    assert found["size"] is Size.SMALL
    assert top.size is Size.LARGE
    return {"seen": [type(state).__name__, *names, shelf.address.city, answer]}


def build(schema):
    graph = StateGraph(schema).add_node(fill).add_node(confirm)
    return graph.add_edge(START, "fill").add_edge("fill", "confirm").compile()


fields, model, data = build(Fields), build(Model), build(Data)
"""

SEEN = ["Basket", "Address", "Item", "Size", "Shelf", "Address", "Item", "Size"]
SEEN += ["Size", "Label", "Level", "Price", "Ghent", "yes"]
STATES = {"fields": "dict", "model": "Model", "data": "Data"}


@dataclass(frozen=True)
class Layout:
    """The file of a project's graphs, its folders that are packages, and the file of its types."""

    graphs: str
    packages: tuple[str, ...] = ()
    kinds: str = ""
    imports: str = ""


LAYOUTS = {
    "a file": Layout("order.py"),
    "a folder": Layout("shop/order.py"),
    "a folder that can be no package": Layout("web-shop/order.py"),
    "a package": Layout("shop/order.py", ("shop",), "shop/kinds.py", "from .kinds import *"),
    "all of it a package": Layout("order.py", (".",), "kinds.py", "from .kinds import *"),
    "a package with types": Layout(
        "shop/order.py", (".", "shop"), "__init__.py", "from .. import *"
    ),
    "a project within a package": Layout("order.py", ("..", ".")),
}


@pytest.fixture(params=LAYOUTS)
def project(request, tmp_path):
    """A project in each of the layouts."""
    layout = LAYOUTS[request.param]
    folder = tmp_path / "before" / "here"
    file = folder / layout.graphs
    file.parent.mkdir(parents=True)
    for package in layout.packages:
        (folder / package / "__init__.py").touch()
    if layout.kinds:
        (folder / layout.kinds).write_text(KINDS)
    file.write_text(f"{layout.imports or KINDS}\n{GRAPHS}")
    (folder / "checkrail.yaml").write_text(CONFIG.format(path=f"./{layout.graphs}"))
    return folder


async def test_a_graph_goes_on_in_another_folder(project, database, serve, tmp_path):
    first = serve(database, config=project / "checkrail.yaml").start()
    threads = {}
    async with first.client() as client:
        for name in STATES:
            threads[name] = (await client.threads.create())["thread_id"]
            left = await client.runs.wait(threads[name], name, input={})
            assert left["__interrupt__"][0]["value"] == "Shall it be sent?"
    first.stop()
    shutil.move(project.parent, tmp_path / "after")
    moved = shutil.move(tmp_path / "after" / "here", tmp_path / "after" / "there")
    second = serve(database, config=moved / "checkrail.yaml").start()
    async with second.client() as client:
        for name, state in STATES.items():
            result = await client.runs.wait(threads[name], name, command={"resume": "yes"})
            assert result["seen"] == [state, *SEEN]
            history = await client.threads.get_history(threads[name])
            assert [each["next"] for each in history] == [[], ["confirm"], ["fill"], ["__start__"]]
    assert "plain data" not in second.output()
