"""Run services for tests, and graphs that do as a test says."""

import asyncio
import contextlib
import operator
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from checkrail.actions.outbound import Outbound
from checkrail.actions.outside import Outside
from checkrail.config import AgentConfig, load_blueprint_hooks, load_text
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import User
from checkrail.runs.admit.admission import new_thread
from checkrail.runs.admit.requests import Principal, RunRequest
from checkrail.runs.agents.catalogue import Catalogue
from checkrail.runs.agents.factory import AgentFactory
from checkrail.runs.agents.managed_agents import sync_agents
from checkrail.runs.graphs.checkpoints import open_checkpointer
from checkrail.runs.graphs.loader import Graphs
from checkrail.runs.run_service import open_runs
from checkrail.runs.services import RunSettings
from checkrail.store import deliveries, events, records, runs, threads

ADA = Principal(User("ada", email="ada@example.com"))
QUICK = RunSettings(lease=3.0, beat=0.1, cancel_grace=0.3, stop_grace=0.2)


@dataclass(frozen=True)
class Place:
    """Where a service keeps its own things, and where LangGraph keeps its checkpoints."""

    url: str
    checkpoints: str


class Said(TypedDict, total=False):
    text: str
    said: Annotated[list[str], operator.add]


def is_of_steps(name):
    """Return whether an event tells of a hook or a step, for dashboards, and not of a result."""
    return name.startswith("hook_") or name.endswith(("_started", "_finished"))


def chain(*nodes, state=Said):
    """A graph whose nodes run one after the other."""
    builder, last = StateGraph(state), START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(last, node.__name__)
        last = node.__name__
    return builder.add_edge(last, END).compile()


async def say(state):
    return {"said": [state.get("text", "")]}


async def fail(state):
    raise ValueError(state.get("text", "it broke"))


async def ask(state):
    return {"said": [interrupt({"question": "go on?"})]}


class Gate:
    """A node that waits until it is let go, and says when somebody is in it."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.count = 0
        self.stubborn = False

    async def pass_through(self, state):
        self.count += 1
        self.entered.set()
        while not self.open.is_set():
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
        return {"said": [f"{state.get('text', '')} passed"]}

    def graph(self, *before, after=()):
        return chain(*before, self.pass_through, *after)


class Counting(BaseChatModel):
    """A model that says what it is told, and what that took."""

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        used = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        message = AIMessage(
            f"heard {messages[-1].text}",
            usage_metadata=used,
            response_metadata={"model_name": "counting-1"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


async def reply(state):
    return {"messages": [await Counting().ainvoke(state["messages"])]}


def talk(*after):
    """A graph that asks a model, and goes on to other nodes."""
    return chain(reply, *after, state=MessagesState)


USED = {"counting-1": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}


class Open:
    """A service that is open, and short ways to ask it things."""

    def __init__(self, service, asker=ADA) -> None:
        self.service = service
        self.parts = service.parts
        self.asker = asker

    async def thread(self, **more: Any) -> str:
        thread_id = str(uuid.uuid4())
        row = new_thread(thread_id, self.asker.owner_of_new, time.time(), **more)
        await self.write(lambda tx: threads.add(tx, row))
        return thread_id

    async def admit(self, agent, input=None, thread=None, once=None, **more: Any):
        """Ask for a run, and give its row."""
        request = RunRequest(assistant_id=agent, input=input, thread_id=thread, **more)
        [row] = await self.service.admit([request], self.asker, once)
        return row

    async def run(self, agent, input=None, thread=None, **more: Any):
        """Ask for a run, and give it as it is when it is over."""
        row = await self.admit(agent, input, thread, **more)
        return await self.over(row)

    async def over(self, row):
        async with asyncio.timeout(60):
            return await self.service.ended(row.run_id)

    async def read(self, job: Callable[..., Any]) -> Any:
        return await self.parts.database.read(job)

    async def write(self, job: Callable[..., Any]) -> Any:
        return await self.parts.database.write(job)

    async def row(self, run) -> Any:
        """A run as the database has it."""
        run_id = run if isinstance(run, str) else run.run_id
        return await self.read(lambda reads: runs.get(reads, run_id))

    async def thread_row(self, thread_id) -> Any:
        return await self.read(lambda reads: threads.get(reads, thread_id))

    async def state(self, agent, thread_id) -> Any:
        """The values that the graph itself finds on a thread."""
        return (await self.state_of(agent, thread_id)).values

    async def state_of(self, agent, thread_id) -> Any:
        """What the graph itself finds on a thread."""
        async with self.parts.graphs.open(agent) as graph:
            return await graph.aget_state({"configurable": {"thread_id": thread_id}})

    async def events(self, run) -> list[Any]:
        """The events of a run that are kept."""
        run_id = run if isinstance(run, str) else run.run_id
        return await self.read(lambda reads: events.load_after(reads, run_id, 0, 100_000, 2**40))

    async def followed(self, run, after=0) -> list[Any]:
        """The events of a run as a client gets them."""
        async with asyncio.timeout(60):
            found = self.service.follow(run.run_id, after)
            return [event async for batch in found for event in batch]

    async def owed(self, run) -> list[Any]:
        return await self.read(lambda reads: deliveries.of_run(reads, run.run_id))

    async def records(self, run) -> list[Any]:
        """The records of a run's hooks, once they are written."""
        run_id = run if isinstance(run, str) else run.run_id
        await self.parts.log.flush()
        found = await self.read(lambda reads: records.of_run(reads, run_id))
        return [each.whole for each in found]

    async def settled(self, run) -> list[Any]:
        """What was owed for a run, once nothing is any more."""
        return await until(lambda: self._settled(run), "the deliveries")

    async def _settled(self, run) -> Any:
        found = await self.owed(run)
        return found if all(row.status != "owed" for row in found) else None


def graph_agent(name, **more: Any) -> AgentConfig:
    """An agent that is a graph, as a file would declare it."""
    said = {"kind": "graph", "path": "./graphs.py:graph", "on_crash": "resume", **more}
    return AgentConfig(name, "tests", **said)


def procedural(name, **more: Any) -> AgentConfig:
    """An agent that is a function; it takes anything unless it has a schema."""
    said = {"kind": "procedural", "path": "./functions.py:fn", "parameters_schema": {}, **more}
    return AgentConfig(name, "tests", **said)


class Functions(AgentFactory):
    """A workshop that has the functions of procedural agents at hand."""

    def __init__(self, functions, catalogue, registry) -> None:
        super().__init__(load_text("hooks: {}"), catalogue, registry)
        self._functions = functions

    def load_function(self, config):
        return self._functions[config.name]


def agent_hook(outside, agent_name, point, **more: Any):
    """A hook of type agent, as a blueprint declares it."""
    entry = {"type": "agent", "agent_name": agent_name, "on_error": "block", **more}
    [spec] = load_blueprint_hooks("any", {point: entry}, outside=outside)
    return spec


class World:
    """Services on one database, all closed in the end; one that dies is never closed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.outside = Outside(serving=True)
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.saver = await self._stack.enter_async_context(
            open_checkpointer(self.place.checkpoints)
        )
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._stack.aclose()

    async def open(self, graphs, *hooks, **settings: Any) -> Open:
        """Open a service with graphs by name and hooks; each hook a function with its point."""
        return await self._stack.enter_async_context(self.opened(graphs, *hooks, **settings))

    @contextlib.asynccontextmanager
    async def opened(
        self, graphs, *hooks, allow=(), agents=(), functions=None, store=None, **settings: Any
    ):
        """Open a service; `agents` are those that have more to say than their graph.

        `functions` are what procedural agents do, by their names.
        """
        functions = functions or {}
        registry = HookRegistry()
        said = {agent.name: agent for agent in agents}
        made = {name: procedural(name) for name in functions}
        configs = {name: graph_agent(name) for name in graphs} | made | said
        for hook, point, *options in hooks:
            registry.register(hook, point, **(options[0] if options else {}))
        outbound, outside = Outbound(allow), self.outside
        catalogue = Catalogue(configs)
        async with open_runs(
            self.place.url,
            registry=registry,
            graphs=Graphs(graphs, self.saver, store),
            checkpointer=self.saver,
            settings=replace(QUICK, **settings),
            outbound=outbound,
            catalogue=catalogue,
            workshop=Functions(functions, catalogue, registry),
        ) as service:
            outside.agents = service.hook_runs
            names = dict.fromkeys(configs)
            await service.parts.database.write(lambda tx: sync_agents(tx, names, time.time()))
            yield Open(service)
            await registry.aclose()
        await outbound.aclose()


async def until(found: Callable[[], Any], what="it", seconds=60.0) -> Any:
    """Wait until something is there, and give it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = await found()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        await asyncio.sleep(0.01)


STEPS = events.MARKS - {"approval", "error", "end"}


def told(found) -> list[Any]:
    """Events, but for those that say when a step of the run began and ended."""
    return [event for event in found if event.event not in STEPS]


def statuses(rows) -> list[str]:
    return [row.status for row in rows]
