"""A chat model that answers from a list, and graphs that have never heard of Checkrail."""

import asyncio
import json
import operator
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from checkrail.adapters.langchain import Guard
from checkrail.engine.registry import HookRegistry

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


def called(*calls, text=""):
    """Make an answer that calls tools, given as name, args and id."""
    return AIMessage(
        text,
        tool_calls=[{"name": name, "args": args, "id": own} for name, args, own in calls],
    )


class Scripted(BaseChatModel):
    """Gives the next of its replies: whole, or a word at a time."""

    model: str = "small"
    replies: list[Any]
    asked: list[Any]

    @property
    def _llm_type(self):
        return "scripted"

    def _get_ls_params(self, stop=None, **kwargs):
        return {"ls_provider": "acme"}

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools, **kwargs)

    def _reply(self, messages, kwargs):
        self.asked.append({"model": self.model, "messages": messages, **kwargs})
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        message = AIMessage(reply) if isinstance(reply, str) else reply.model_copy()
        message.usage_metadata = dict(USAGE)
        message.response_metadata = {"model_name": self.model}
        return message

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        message = self._reply(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _pieces(self, message):
        for word in message.text.split(" ") if message.text else ():
            yield AIMessageChunk(word + " ")
        for index, call in enumerate(message.tool_calls):
            half = {"name": call["name"], "id": call["id"], "args": "", "index": index}
            yield AIMessageChunk("", tool_call_chunks=[half])
            text = AIMessage("", tool_calls=[call]).tool_calls[0]["args"]
            rest = {"name": None, "id": None, "args": json.dumps(text), "index": index}
            yield AIMessageChunk("", tool_call_chunks=[rest])
        yield AIMessageChunk(
            "",
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
        )

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for piece in self._pieces(self._reply(messages, kwargs)):
            yield ChatGenerationChunk(message=piece)

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for piece in self._pieces(self._reply(messages, kwargs)):
            await asyncio.sleep(0)
            yield ChatGenerationChunk(message=piece)


def scripted(*replies, kind=Scripted, **fields):
    return kind(replies=[*replies], asked=[], **fields)


RAN = []


@tool
def pay(amount: int, to: str = "bob") -> str:
    """Pay somebody."""
    RAN.append(("pay", amount, to))
    return f"paid {amount} to {to}"


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    RAN.append(("look", where))
    await asyncio.sleep(0)
    return f"nothing in {where}"


TOOLS = [pay, look]


def agent_graph(model):
    return create_agent(model, TOOLS)


def _tool_graph(node):
    builder = StateGraph(MessagesState)
    builder.add_node("model", node)
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile()


def async_graph(model):
    bound = model.bind_tools(TOOLS)

    async def node(state):
        return {"messages": [await bound.ainvoke(state["messages"])]}

    return _tool_graph(node)


def sync_graph(model):
    bound = model.bind_tools(TOOLS)

    def node(state):
        return {"messages": [bound.invoke(state["messages"])]}

    return _tool_graph(node)


class Outer(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


def subgraph_graph(model):
    inner = async_graph(model)

    async def child(state):
        result = await inner.ainvoke({"messages": state["messages"]})
        return {"messages": result["messages"][len(state["messages"]) :]}

    builder = StateGraph(Outer)
    builder.add_node("child", child)
    builder.add_edge(START, "child")
    builder.add_edge("child", END)
    return builder.compile()


def functional_graph(model):
    bound = model.bind_tools(TOOLS)
    by_name = {one.name: one for one in TOOLS}

    @task
    async def ask(messages):
        return await bound.ainvoke(messages)

    @task
    async def use(call):
        return await by_name[call["name"]].ainvoke({**call, "type": "tool_call"})

    @entrypoint()
    async def agent(given):
        messages = [*given["messages"]]
        answer = await ask(messages)
        messages.append(answer)
        while answer.tool_calls:
            messages += await asyncio.gather(*(use(call) for call in answer.tool_calls))
            answer = await ask(messages)
            messages.append(answer)
        return {"messages": messages}

    return agent


GRAPHS = {
    "create_agent": agent_graph,
    "async node": async_graph,
    "sync node": sync_graph,
    "subgraph": subgraph_graph,
    "functional": functional_graph,
}
ASKED = {"messages": [HumanMessage("go", id="asked")]}


async def through_invoke(graph):
    return [], await graph.ainvoke(ASKED)


async def through_stream(graph):
    seen, last = [], None
    stream = graph.astream(ASKED, stream_mode=["values", "updates", "messages"], subgraphs=True)
    async for _, mode, data in stream:
        seen.append((mode, data))
        if mode == "values":
            last = data
    return seen, last


WAYS = {"ainvoke": through_invoke, "astream": through_stream}


def guard_of(registry=None, **options):
    registry = registry or HookRegistry()
    return Guard(registry.scope(run_id="r1"), **options)


def hooks(*given):
    """Make a registry of hooks, given as point, function and options."""
    registry = HookRegistry()
    for point, fn, *options in given:
        registry.register(fn, point, **(options[0] if options else {}))
    return registry
