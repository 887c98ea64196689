"""A graph of three steps, each of which is a place."""

from operator import add
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from places import reach
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    do: dict[str, str]
    trail: Annotated[list[str], add]


def step(place: str) -> Any:
    async def go(state: State, config: RunnableConfig) -> State:
        told = config["metadata"]
        await reach(place, state.get("do"), run_id=told["run_id"], attempt=told["run_attempt"])
        return {"trail": [place]}

    return go


steps = (
    StateGraph(State)
    .add_node("first", step("first"))
    .add_node("second", step("second"))
    .add_node("third", step("third"))
    .add_edge(START, "first")
    .add_edge("first", "second")
    .add_edge("second", "third")
    .compile(name="steps")
)
