"""The graphs that these tests serve. None of them knows of Checkrail."""

import asyncio
from operator import add as joined
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

SECRET = "sk-1234567890abcdef"


class Work(TypedDict, total=False):
    text: str
    seconds: float
    cleanup_seconds: float
    events: int
    laps: int
    said: Annotated[list[str], joined]


def chain(*nodes: Any, state: Any = Work) -> Any:
    graph, last = StateGraph(state), START
    for node in nodes:
        graph.add_node(node.__name__, node).add_edge(last, node.__name__)
        last = node.__name__
    return graph.add_edge(last, END).compile()


async def say(state: Work) -> Work:
    return {"said": [state.get("text", "")]}


async def rest(state: Work) -> Work:
    try:
        await asyncio.sleep(state.get("seconds", 0))
    finally:
        await asyncio.sleep(state.get("cleanup_seconds", 0))
    return {"said": ["rested"]}


async def fail(state: Work) -> Work:
    raise ValueError(state.get("text", "it broke"))


async def ask(state: Work) -> Work:
    return {"said": [str(interrupt({"question": "go on?"}))]}


def pour(state: Work) -> Work:
    write = get_stream_writer()
    for number in range(state.get("events", 0)):
        write({"n": number})
    return {"said": ["poured"]}


async def reveal(state: Work) -> Work:
    return {"said": [f"the key is {SECRET}"]}


echo = chain(say)
slow = chain(say, rest)
hanging = chain(say, rest)
failing = chain(say, fail)
asking = chain(ask)
flood = chain(pour)
revealing = chain(say, reveal)


class Model(BaseChatModel):
    """Looks something up, and says what it found."""

    @property
    def _llm_type(self) -> str:
        return "looker"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        last = messages[-1]
        used = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        told: Any = {"usage_metadata": used, "response_metadata": {"model_name": "looker-1"}}
        if isinstance(last, ToolMessage):
            message = AIMessage(f"I found: {last.content}", **told)
        else:
            call = {"name": "look_up", "args": {"name": "the key"}, "id": "call-1"}
            message = AIMessage("", tool_calls=[call], **told)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def look_up(name: str) -> str:
    """Look something up."""
    return f"{name} is {SECRET}"


agent = create_agent(Model(), tools=[look_up], name="agent")


async def talk(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Model().ainvoke(state["messages"])]}


async def break_down(state: MessagesState) -> dict[str, Any]:
    raise ValueError("after the model")


async def linger(state: MessagesState) -> dict[str, Any]:
    await asyncio.sleep(60)
    return {}


talking = chain(talk, state=MessagesState)
talk_and_fail = chain(talk, break_down, state=MessagesState)
talk_and_linger = chain(talk, linger, state=MessagesState)
