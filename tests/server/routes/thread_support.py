"""Graphs for threads that walk, wait, fail and take their time."""

import asyncio
import operator
import time
import uuid
from typing import Annotated, Any

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from tests.runs.support import graph_agent
from typing_extensions import TypedDict

from checkrail.runs.admit.requests import Principal, RunRequest
from checkrail.runs.agents.managed_agents import sync_agents
from checkrail.runs.graphs.loader import Graphs
from checkrail.server.auth import ANONYMOUS


class Walk(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str


def step(name):
    async def walk(state: Walk) -> Walk:
        return {"log": [name]}

    return walk


async def ask(state: Walk) -> Walk:
    return {"log": [interrupt("which way?")]}


async def wait(state: Walk) -> Walk:
    await asyncio.sleep(60)
    return {"log": ["waited"]}


async def fail(state: Walk) -> Walk:
    raise ValueError("no way")


def path(*nodes: tuple[str, Any]) -> Any:
    builder, last = StateGraph(Walk), START
    for name, action in nodes:
        builder.add_node(name, action).add_edge(last, name)
        last = name
    return builder.compile()


FOUND = {
    "steps": path(("one", step("one")), ("two", step("two")), ("three", step("three"))),
    "ask": path(("one", step("one")), ("ask", ask)),
    "slow": path(("one", step("one")), ("wait", wait)),
    "failing": path(("one", step("one")), ("fail", fail)),
    "nested": path(("one", step("one")), ("child", path(("inner", step("inner")), ("ask", ask)))),
}


class Threads:
    """A client of the routes, and runs on threads without the routes of runs."""

    def __init__(self, served, client):
        self.served = served
        self.client = client
        self.runs = served.services.runs

    async def call(self, method, path, body=None, status=200, **more):
        """Call a route, see that its status is as expected, and give its JSON."""
        given = {} if body is None else {"json": body}
        answer = await self.client.request(method, path, **given, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def get(self, path, status=200, **more):
        return await self.call("GET", path, status=status, **more)

    async def post(self, path, body=None, status=200):
        return await self.call("POST", path, body, status)

    async def create(self, status=200, **body):
        return await self.post("/threads", body, status)

    async def new(self, **body):
        return (await self.create(**body))["thread_id"]

    async def start(self, thread_id, graph, user=ANONYMOUS.user, **more):
        """Start a run on a thread, as that thread's owner."""
        request = RunRequest(assistant_id=graph, thread_id=thread_id, **more)
        [row] = await self.runs.admit([request], Principal(user))
        return row.run_id

    async def run(self, thread_id, graph, **more):
        more.setdefault("input", {})
        return await self.runs.ended(await self.start(thread_id, graph, **more))

    async def walked(self, graph="steps", **body):
        """Make a thread on which a graph has run."""
        thread_id = await self.new(**body)
        await self.run(thread_id, graph)
        return thread_id

    async def underway(self, **body):
        """Make a thread on which a run takes its time, with its first step kept."""
        thread_id = await self.new(**body)
        run_id = await self.start(thread_id, "slow", input={})
        while (await self.get(f"/threads/{thread_id}/state"))["next"] != ["wait"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return thread_id, run_id


async def threads_of(served):
    """Serve these graphs, and give a client for whoever sits at this machine."""
    services = served.services
    saver, store = services.checkpointer, services.store
    services.graphs.update_from(Graphs(FOUND, saver, store))
    services.catalogue.set_declared({name: graph_agent(name) for name in FOUND})
    agents = {name: f"The graph {name}" for name in FOUND}
    await services.database.write(lambda tx: sync_agents(tx, agents, time.time()))
    return Threads(served, served.client)


def unknown():
    return str(uuid.uuid4())
