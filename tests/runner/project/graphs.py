"""A graph that counts its steps."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    steps: Annotated[list[str], lambda old, new: [*old, *new]]
    pid: int
    file: str


def first(state: State) -> State:
    return {"steps": ["first"], "pid": os.getpid()}


def second(state: State) -> State:
    return {"steps": ["second"]}


async def waits(state: State) -> State:
    file = Path(state["file"])
    file.with_name(f"{file.name}.{os.getpid()}").touch()
    while not file.exists():  # noqa: ASYNC110, ASYNC240 - it outlives the process
        await asyncio.sleep(0.02)
    return {"steps": ["waited"], "pid": os.getpid()}


def breaks(state: State) -> State:
    raise ValueError("the second step")


@tool
def look(place: str) -> str:
    """Look into a place."""
    return f"{place} is empty, says {os.getpid()}"


def _looked(place: str) -> str:
    try:
        return str(look.invoke({"place": place}))
    except Exception as error:
        return str(error)


def looks(state: State) -> State:
    return {"steps": [_looked(place) for place in ("attic", "safe")]}


def _made(last):
    graph = StateGraph(State)
    graph.add_node("first", first)
    graph.add_node("second", last)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    return graph.compile()


counted = _made(second)
waiting = _made(waits)
broken = _made(breaks)
looking = _made(looks)


@tool
def pay(sum: int) -> str:
    """Pay a sum."""
    return f"{sum} paid by {os.getpid()}"


def pays(state: State) -> State:
    return {"steps": [str(look.invoke({"place": "till"})), str(pay.invoke({"sum": 5}))]}


paying = _made(pays)


def own_saver():
    """Return LangGraph's own saver, as a project would bring one."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    return AsyncPostgresSaver.from_conn_string(os.environ["CHECKRAIL_DATABASE_URL"])
