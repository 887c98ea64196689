"""A graph of three steps, each of which is a place."""

from operator import add
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from places import reach
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    do: dict[str, str]
    trail: Annotated[list[str], add]


class Counted(BaseChatModel):
    """A model that says the same again and again, and what that took."""

    @property
    def _llm_type(self) -> str:
        return "counted"

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        used = {"input_tokens": 8, "output_tokens": 5, "total_tokens": 13}
        about = {"model_name": "counted"}
        said = AIMessage("Hello.", usage_metadata=used, response_metadata=about)
        return ChatResult(generations=[ChatGeneration(message=said)])


async def talk(state: State, config: RunnableConfig) -> State:
    await Counted().ainvoke("Hello?")
    told = config["metadata"]
    await reach("talked", state.get("do"), run_id=told["run_id"], attempt=told["run_attempt"])
    return {"trail": ["talked"]}


talks = StateGraph(State).add_node("talk", talk).add_edge(START, "talk").compile(name="talks")


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
