"""Real graphs, and what they stream as the events that a server would have stored."""

import itertools

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from checkrail.runs.jsons import jsonable
from checkrail.server.streams.modes import PROTOCOL_MODES
from checkrail.store.events import RunEvent

ASK = {"messages": [{"role": "user", "content": "hi"}]}


class Scripted(BaseChatModel):
    """A model that streams what it was told to, one answer for each call."""

    answers: list[list[AIMessageChunk]]
    calls: int = 0

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _next(self):
        self.calls += 1
        return self.answers[(self.calls - 1) % len(self.answers)]

    def _generate(self, messages, stop=None, run_manager=None, **options):
        whole, *more = self._next()
        for chunk in more:
            whole += chunk
        message = AIMessage(content=whole.content, tool_calls=whole.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(self, messages, stop=None, run_manager=None, **options):
        for chunk in self._next():
            made = ChatGenerationChunk(message=chunk.model_copy())
            if run_manager:
                await run_manager.on_llm_new_token("", chunk=made)
            yield made


def calls(args, *, id=None, name=None, index=0):
    return {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}


USED = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
LOOKS = [
    AIMessageChunk(content="Let "),
    AIMessageChunk(content="me"),
    AIMessageChunk(content="", tool_call_chunks=[calls('{"q":', id="call-1", name="look")]),
    AIMessageChunk(content="", tool_call_chunks=[calls('"x"}')], usage_metadata=USED),
]
SAYS = [
    AIMessageChunk(content=[{"type": "reasoning", "reasoning": "hm", "index": 0}]),
    AIMessageChunk(content=[{"type": "text", "text": "Do", "index": 1}]),
    AIMessageChunk(content=[{"type": "text", "text": "ne", "index": 1}]),
]


@tool
def look(q: str) -> str:
    """Look something up."""
    get_stream_writer()({"name": "progress", "payload": 1})
    return f"saw {q}"


@tool("look")
def asking_look(q: str) -> str:
    """Look something up, if a person agrees."""
    return f"saw {interrupt({'ask': q})}"


@tool("look")
def failing_look(q: str) -> str:
    """Fail."""
    raise LookupError(f"nothing about {q}")


def agent(tool=look, **options):
    """An agent that calls a tool once and then answers."""
    model = Scripted(answers=[LOOKS, SAYS])
    return create_agent(model, tools=[tool], checkpointer=InMemorySaver(), **options)


def parent(tool=look):
    """A graph with that agent as its subgraph, and a node that says two things as a whole."""

    def note(state):
        get_stream_writer()("half way")
        return {"messages": [AIMessage("whole", id="w1"), HumanMessage("heard", id="h1")]}

    model = Scripted(answers=[LOOKS, SAYS])
    graph = StateGraph(MessagesState)
    graph.add_node("child", create_agent(model, tools=[tool], name="helper"))
    graph.add_node("note", note)
    graph.add_edge(START, "child")
    graph.add_edge("child", "note")
    return graph.compile(checkpointer=InMemorySaver())


async def streamed(
    graph, given=ASK, *, thread="t", modes=PROTOCOL_MODES, run_id="r1", context=None
):
    """Run a graph, and give its events as they are stored, one after the other."""
    count = itertools.count(1)
    yield RunEvent(next(count), "metadata", (), {"run_id": run_id, "attempt": 1})
    interrupts = {}
    config = {"configurable": {"thread_id": thread}}
    try:
        async for ns, mode, data in graph.astream(
            given, config, stream_mode=[*modes], subgraphs=True
        ):
            told = jsonable(data)
            if mode == "updates" and "__interrupt__" in told:
                interrupts |= {one["id"]: one for one in told["__interrupt__"]}
            yield RunEvent(next(count), mode, ns, told)
    except Exception as error:
        name, message = type(error).__name__, str(error)
        yield RunEvent(next(count), "error", (), {"error": name, "message": message})
        closing = {"status": "error", "phase": "error", "error": message}
        yield RunEvent(next(count), "end", (), closing)
        return
    if interrupts:
        waits = {"status": "interrupted", "phase": "interrupted"}
        waits["interrupts"] = [*interrupts.values()]
        yield RunEvent(next(count), "end", (), waits)
        return
    yield RunEvent(next(count), "end", (), {"status": "success", "phase": "success"})


async def stored(graph, given=ASK, **options):
    """Give all the events of one run."""
    return [event async for event in streamed(graph, given, **options)]


def read(view, events):
    """Feed a view, and give everything that it tells."""
    return [told for event in events for told in view.feed(event)]


def of(envelopes, method, namespace=None):
    """Pick the data of envelopes by their method, and by their namespace if it is given."""
    return [
        one["params"]["data"]
        for one in envelopes
        if one["method"] == method
        and (namespace is None or one["params"]["namespace"] == namespace)
    ]
