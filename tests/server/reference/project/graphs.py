"""Small graphs that answer the same on every server: no clocks, no chance, no network."""

import asyncio
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypedDict

import typing_extensions
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ConfigDict


class Text(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]


def answer(state: Text) -> Text:
    return {"text": f"you said {state.get('text')}", "log": ["answer"]}


echo = StateGraph(Text).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()


def first(state: Text) -> Text:
    return {"text": f"{state.get('text', '')}a", "log": ["first"]}


def second(state: Text) -> Text:
    return {"text": f"{state.get('text', '')}b", "log": ["second"]}


def third(state: Text) -> Text:
    return {"text": f"{state.get('text', '')}c", "log": ["third"]}


steps = StateGraph(Text).add_sequence([first, second, third]).add_edge(START, "first").compile()


class ScriptedModel(BaseChatModel):
    """Call the tool if asked for the weather, and otherwise repeat the last text by words."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ScriptedModel":
        return self

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        number = len(messages)
        usage = {"input_tokens": number, "output_tokens": 2, "total_tokens": number + 2}
        if last.type == "human" and "weather" in last.text:
            call = {"name": "weather", "args": {"city": "Bern"}, "id": f"call-{number}"}
            return AIMessage("", id=f"ai-{number}", tool_calls=[call], usage_metadata=usage)
        return AIMessage(f"Heard: {last.text}", id=f"ai-{number}", usage_metadata=usage)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _stream(
        self, messages, stop=None, run_manager=None, **kwargs
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages)
        for call in reply.tool_calls:
            piece = {"name": call["name"], "args": '{"city": ', "id": call["id"], "index": 0}
            rest = {"name": None, "args": '"Bern"}', "id": None, "index": 0}
            for one in (piece, rest):
                chunk = AIMessageChunk("", id=reply.id, tool_call_chunks=[one])
                yield ChatGenerationChunk(message=chunk)
        for word in reply.text.split(" ") if reply.text else ():
            chunk = ChatGenerationChunk(message=AIMessageChunk(f"{word} ", id=reply.id))
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
        ended = AIMessageChunk("", id=reply.id, usage_metadata=reply.usage_metadata)
        yield ChatGenerationChunk(message=ended)


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"


model = ScriptedModel().bind_tools([weather])


def call_model(state: MessagesState) -> dict[str, Any]:
    return {"messages": [model.invoke(state["messages"])]}


agent = (
    StateGraph(MessagesState)
    .add_node(call_model)
    .add_node("tools", ToolNode([weather]))
    .add_edge(START, "call_model")
    .add_conditional_edges("call_model", tools_condition)
    .add_edge("tools", "call_model")
    .compile()
)


def review(state: Text) -> Text:
    verdict = interrupt({"question": "May it be said?", "text": state.get("text")})
    return {"text": f"{state.get('text')}: {verdict}", "log": ["review"]}


approval = (
    StateGraph(Text)
    .add_node(first)
    .add_node(review)
    .add_node(third)
    .add_edge(START, "first")
    .add_edge("first", "review")
    .add_edge("review", "third")
    .compile()
)


def left(state: Text) -> Text:
    return {"log": [f"left {interrupt('left?')}"]}


def right(state: Text) -> Text:
    return {"log": [f"right {interrupt('right?')}"]}


pair = (
    StateGraph(Text)
    .add_node(left)
    .add_node(right)
    .add_edge(START, "left")
    .add_edge(START, "right")
    .compile()
)


def fail(state: Text) -> Text:
    if state.get("text") == "well":
        return {"log": ["fail"]}
    raise ValueError("this node fails")


failing = (
    StateGraph(Text)
    .add_node(first)
    .add_node(fail)
    .add_edge(START, "fail")
    .add_edge("fail", "first")
    .compile()
)


def hear(state: Text) -> Text:
    get_stream_writer()({"heard": state.get("text")})
    return {"log": ["hear"]}


def decide(state: Text) -> Text:
    if state.get("text") == "wait":
        return {"text": interrupt("inside"), "log": ["decide"]}
    return {"log": ["decide"]}


inner = StateGraph(Text).add_sequence([hear, decide]).add_edge(START, "hear").compile()
nested = (
    StateGraph(Text)
    .add_node("child", inner)
    .add_node(third)
    .add_edge(START, "child")
    .add_edge("child", "third")
    .compile()
)


class Order(TypedDict, total=False):
    pieces: int
    price: int
    total: int


class Bill(TypedDict, total=False):
    total: int


def set_price(state: Order) -> Order:
    return {"price": 5}


def add_up(state: Order) -> Order:
    return {"total": state["pieces"] * state["price"]}


bill = (
    StateGraph(Order, output_schema=Bill)
    .add_sequence([set_price, add_up])
    .add_edge(START, "set_price")
    .compile()
)


@dataclass
class Setting:
    tone: str = "plain"
    size: int = 3


class Seen(TypedDict, total=False):
    seen: Any
    kind: str


def look(state: Seen, runtime: Runtime[Setting]) -> Seen:
    given = runtime.context
    fields = {"tone": given.tone, "size": given.size} if isinstance(given, Setting) else given
    return {"seen": fields, "kind": type(given).__name__}


context = StateGraph(Seen, context_schema=Setting).add_node(look).add_edge(START, "look").compile()


class Options(typing_extensions.TypedDict, total=False):
    tone: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    tone: str = "plain"


def compare(state: Seen, runtime: Runtime[Any], config: RunnableConfig) -> Seen:
    """Return what is in the context, and which of it is in the config too."""
    given = runtime.context or {}
    fields = given if isinstance(given, dict) else dict(given)
    names = ("tone", "other", "third")
    return {"seen": [fields, {name: config["configurable"].get(name) for name in names}]}


def build_comparison(schema: Any) -> Any:
    graph = StateGraph(Seen, context_schema=schema).add_node(compare)
    return graph.add_edge(START, "compare").compile()


options, extras = build_comparison(Options), build_comparison(Open)


def report(state: Text) -> Text:
    write = get_stream_writer()
    for number in range(3):
        write({"done": number})
    write("ready")
    return {"log": ["report"]}


progress = StateGraph(Text).add_node(report).add_edge(START, "report").compile()


class Pause(TypedDict, total=False):
    seconds: float
    log: Annotated[list[str], operator.add]


async def begin(state: Pause) -> Pause:
    return {"log": ["begin"]}


async def pause(state: Pause) -> Pause:
    await asyncio.sleep(state.get("seconds", 0.2))
    return {"log": ["pause"]}


class Color(Enum):
    RED = "r"


class Place(BaseModel):
    city: str = "Bern"
    color: Color = Color.RED


@dataclass
class Record:
    number: int = 1
    place: Place | None = None


class Form(BaseModel):
    number: int = 1
    place: Place = Place()


def count(state: Any) -> dict[str, Any]:
    return {"number": state.number + 1, "place": Place(city="Chur")}


record = StateGraph(Record).add_node(count).add_edge(START, "count").compile()
form = StateGraph(Form).add_node(count).add_edge(START, "count").compile()


class Held(TypedDict, total=False):
    kind: str
    value: Any


class Opaque:
    pass


VALUES = {
    "object": Opaque(),
    "number": 2**70,
    "complex": 1j,
    "keys": {(1, 2): "b"},
    "nul": "a\0b",
    "surrogate": "\ud800",
    "nan": float("nan"),
    "bytes": b"\xff\0",
    "set": {1},
    "error": ValueError("held"),
}


def hold(state: Held) -> Held:
    return {"value": VALUES[state["kind"]]}


holder = StateGraph(Held).add_node(hold).add_edge(START, "hold").compile()

slow = StateGraph(Pause).add_sequence([begin, pause]).add_edge(START, "begin").compile()


class Asked(TypedDict, total=False):
    remember: str
    given: list[str]
    metadata: dict[str, Any]
    found: Any
    goto: str


async def describe(state: Asked, config: RunnableConfig, store: BaseStore) -> Asked:
    """Return what the server gave this run beside its input."""
    if text := state.get("remember"):
        await store.aput(("graph", "notes"), "last", {"text": text})
    found = await store.aget(("graph", "notes"), "last")
    hidden = ("__",)
    given = sorted(name for name in config["configurable"] if not name.startswith(hidden))
    return {
        "given": given,
        "metadata": dict(config["metadata"]),
        "found": found.value if found else None,
    }


def route(state: Asked) -> Command:
    return Command(goto="describe" if state.get("goto") != "end" else END)


def make_graph(config: RunnableConfig) -> Any:
    name = config.get("configurable", {}).get("node", "describe")
    return (
        StateGraph(Asked)
        .add_node(route, destinations=("describe", END))
        .add_node("describe", describe)
        .add_edge(START, "route")
        .compile(name=f"made-{name}")
    )
