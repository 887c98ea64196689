"""`auth: {isolate: owner}` of a project that lets everybody in: users are kept apart."""

import asyncio
import json

import pytest
from langgraph_sdk.errors import NotFoundError

GRAPHS = """
from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    text: str


def say(state):
    return {"text": "said"}


graph = StateGraph(State).add_node(say).add_edge(START, "say").compile()
"""
AUTH = """
from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def who(authorization: str | None):
    return {"identity": (authorization or "nobody").removeprefix("Bearer ")}


@auth.on
async def allow(ctx, value):
    return True
"""


@pytest.fixture
def serve_project(serve, database, tmp_path):
    """Serve a project whose handlers allow everything, with more said of its `auth`."""

    def served(**more):
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "graphs.py").write_text(GRAPHS)
        (folder / "auth.py").write_text(AUTH)
        auth = {"path": "./auth.py:auth", **more}
        project = {"graphs": {"say": "./graphs.py:graph"}, "auth": auth}
        (folder / "aegra.json").write_text(json.dumps(project))
        return serve(database, config=folder / "aegra.json").start()

    return served


def client_of(server, user):
    return server.client(timeout=60, headers={"authorization": f"Bearer {user}"})


async def make_thread(ann):
    """A thread with a run, a state that was written by hand, and a cron."""
    thread = (await ann.threads.create())["thread_id"]
    run = await ann.runs.create(thread, "say", input={})
    await ann.runs.join(thread, run["run_id"])
    await ann.threads.update_state(thread, {"text": "by hand"})
    cron = await ann.crons.create_for_thread(thread, "say", schedule="0 0 1 1 *", input={})
    return thread, run["run_id"], cron["cron_id"]


async def first_state(client, thread):
    stream = await client.threads.join_stream(thread, stream_mode="state_update", last_event_id="-")
    async with asyncio.timeout(60):
        return await anext(aiter(stream))


async def test_nobody_reaches_what_another_user_made(serve_project):
    server = serve_project(isolate="owner")
    async with client_of(server, "ann") as ann, client_of(server, "bob") as bob:
        thread, run, cron = await make_thread(ann)
        assert await bob.threads.search() == await bob.crons.search() == []
        for attempt in (
            bob.threads.get(thread),
            bob.threads.get_state(thread),
            bob.threads.update_state(thread, {"text": "bob's"}),
            bob.threads.delete(thread),
            bob.runs.list(thread),
            bob.runs.get(thread, run),
            bob.runs.create(thread, "say", input={}),
            bob.crons.delete(cron),
            first_state(bob, thread),
        ):
            with pytest.raises(NotFoundError):
                await attempt
        assert (await first_state(ann, thread)).data["state"]["values"] == {"text": "by hand"}
        assert [each["thread_id"] for each in await ann.threads.search()] == [thread]


async def test_without_it_the_handlers_decide(serve_project):
    server = serve_project()
    async with client_of(server, "ann") as ann, client_of(server, "bob") as bob:
        thread, _, _ = await make_thread(ann)
        assert (await bob.threads.get(thread))["thread_id"] == thread
        assert (await first_state(bob, thread)).data["thread_id"] == thread
