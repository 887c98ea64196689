"""The graphs that tests serve. None of them knows of Checkrail."""

import asyncio
import time
from dataclasses import dataclass
from operator import add as joined
from typing import Annotated, Any
from typing import TypedDict as PlainDict

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from models import Parrot
from typing_extensions import TypedDict


class Echo(PlainDict, total=False):  # of this kind pydantic makes no schema before Python 3.12
    text: str
    answer: str
    log: Annotated[list[str], joined]


def say(state: Echo) -> Echo:
    return {"answer": state["text"], "log": [state["text"]]}


echo = StateGraph(Echo).add_node("say", say).add_edge(START, "say").compile(name="echo")


async def reply(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Parrot().ainvoke(state["messages"])]}


chat = StateGraph(MessagesState).add_node("model", reply).add_edge(START, "model").compile()


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


agent = create_agent(Parrot(), tools=[add], name="agent")


class Asked(TypedDict, total=False):
    topic: str
    answers: Annotated[list[Any], joined]


def ask_first(state: Asked) -> Asked:
    return {"answers": [interrupt({"question": f"first {state['topic']}?"})]}


def ask_second(state: Asked) -> Asked:
    return {"answers": [interrupt({"question": f"second {state['topic']}?"})]}


ask = StateGraph(Asked).add_node("first", ask_first).add_edge(START, "first").compile()

ask_twice = (
    StateGraph(Asked)
    .add_node("first", ask_first)
    .add_node("second", ask_second)
    .add_edge(START, "first")
    .add_edge("first", "second")
    .compile()
)

ask_both = (
    StateGraph(Asked)
    .add_node("first", ask_first)
    .add_node("second", ask_second)
    .add_edge(START, "first")
    .add_edge(START, "second")
    .compile()
)


class Steps(TypedDict, total=False):
    log: Annotated[list[str], joined]
    note: str


def step(name: str) -> Any:
    def logged(state: Steps) -> Steps:
        return {"log": [name]}

    return logged


steps = (
    StateGraph(Steps)
    .add_node("one", step("one"))
    .add_node("two", step("two"))
    .add_node("three", step("three"))
    .add_edge(START, "one")
    .add_edge("one", "two")
    .add_edge("two", "three")
    .compile()
)


def work_inside(state: Steps) -> Steps:
    get_stream_writer()({"inside": len(state.get("log", []))})
    return {"log": ["inside"]}


def pause_inside(state: Steps) -> Steps:
    if state.get("note") == "pause":
        interrupt({"question": "go on?"})
    return {"log": ["again"]}


inner = (
    StateGraph(Steps)
    .add_node("inside", work_inside)
    .add_node("again", pause_inside)
    .add_edge(START, "inside")
    .add_edge("inside", "again")
    .compile(name="inner")
)


def call_inner(state: Steps) -> Steps:
    get_stream_writer()({"outside": True})
    return {"log": ["outside"]}


nested = (
    StateGraph(Steps)
    .add_node("outside", call_inner)
    .add_node("child", inner)
    .add_edge(START, "outside")
    .add_edge("outside", "child")
    .compile(name="nested")
)


class Slow(TypedDict, total=False):
    seconds: float
    laps: int
    done: Annotated[list[int], joined]


async def sleep(state: Slow) -> Slow:
    await asyncio.sleep(state.get("seconds", 0))
    return {"done": [len(state.get("done", [])) + 1]}


def block(state: Slow) -> Slow:
    time.sleep(state.get("seconds", 0))
    return {"done": [len(state.get("done", [])) + 1]}


def again(state: Slow) -> str:
    return "lap" if len(state.get("done", [])) < state.get("laps", 1) else END


def lapped(body: Any) -> Any:
    graph = StateGraph(Slow).add_node("lap", body).add_edge(START, "lap")
    return graph.add_conditional_edges("lap", again, ["lap", END]).compile()


slow = lapped(sleep)
blocking = lapped(block)


class Count(TypedDict, total=False):
    upto: int
    count: int


def increment(state: Count) -> Count:
    return {"count": state.get("count", 0) + 1}


def more(state: Count) -> str:
    return "increment" if state["count"] < state["upto"] else END


counter = (
    StateGraph(Count)
    .add_node("increment", increment)
    .add_edge(START, "increment")
    .add_conditional_edges("increment", more, ["increment", END])
    .compile()
)


class Failing(TypedDict, total=False):
    message: str
    prepared: bool


def prepare(state: Failing) -> Failing:
    return {"prepared": True}


def fail(state: Failing) -> Failing:
    raise ValueError(state["message"])


failing = (
    StateGraph(Failing)
    .add_node("prepare", prepare)
    .add_node("fail", fail)
    .add_edge(START, "prepare")
    .add_edge("prepare", "fail")
    .compile()
)


@dataclass
class Tone:
    tone: str = "plain"
    volume: int = 1


class Seen(TypedDict, total=False):
    tone: str
    volume: int
    configured: dict[str, Any]
    tags: list[str]
    metadata: dict[str, Any]


class SeenInput(TypedDict, total=False):
    nothing: str


def look(state: SeenInput, config: RunnableConfig, runtime: Runtime[Tone]) -> Seen:
    kept = {name: value for name, value in config["configurable"].items() if name[:2] != "__"}
    return {
        "tone": runtime.context.tone if runtime.context else "none",
        "volume": runtime.context.volume if runtime.context else 0,
        "configured": {name: value for name, value in kept.items() if isinstance(value, str)},
        "tags": list(config.get("tags") or []),
        "metadata": {k: v for k, v in config["metadata"].items() if isinstance(v, str)},
    }


configured = (
    StateGraph(Seen, context_schema=Tone, input_schema=SeenInput)
    .add_node("look", look)
    .add_edge(START, "look")
    .compile()
)


class Memory(TypedDict, total=False):
    user: str
    fact: str
    remembered: list[str]


async def remember(state: Memory, runtime: Runtime[None]) -> Memory:
    place = ("facts", state["user"])
    if fact := state.get("fact"):
        await runtime.store.aput(place, fact, {"fact": fact})
    found = await runtime.store.asearch(place)
    return {"remembered": sorted(item.value["fact"] for item in found)}


memory = StateGraph(Memory).add_node("remember", remember).add_edge(START, "remember").compile()


class Flood(TypedDict, total=False):
    events: int
    size: int
    name: str


def pour(state: Flood) -> Flood:
    write = get_stream_writer()
    named = {"name": state["name"]} if "name" in state else {}
    for number in range(state["events"]):
        write({**named, "n": number, "pad": "x" * state.get("size", 0)})
    return {}


flood = StateGraph(Flood).add_node("pour", pour).add_edge(START, "pour").compile()
