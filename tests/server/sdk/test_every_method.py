"""That nothing the official client can do is left out: every method, and every argument."""

import ast
import contextlib
import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langgraph_sdk.client import (
    AssistantsClient,
    CronClient,
    RunsClient,
    StoreClient,
    SyncAssistantsClient,
    SyncCronClient,
    SyncRunsClient,
    SyncStoreClient,
    SyncThreadsClient,
    ThreadsClient,
)

from .support import RESOURCES, collect, eventually, over, tag

ASYNC = dict(
    zip(
        RESOURCES,
        (AssistantsClient, CronClient, RunsClient, StoreClient, ThreadsClient),
        strict=True,
    )
)
SYNC = dict(
    zip(
        RESOURCES,
        (SyncAssistantsClient, SyncCronClient, SyncRunsClient, SyncStoreClient, SyncThreadsClient),
        strict=True,
    )
)
EVERYWHERE = {"self", "headers", "params"}  # the client's own; the server never sees the difference


@pytest.fixture
def called(monkeypatch):
    """The methods of both clients that are called from now on."""
    calls = set()
    for resource in RESOURCES:
        for kind in (ASYNC[resource], SYNC[resource]):
            for name in public_methods_of(kind):
                monkeypatch.setattr(kind, name, _noted(calls, kind, name, getattr(kind, name)))
    return calls


def _noted(calls, kind, name, method):
    def noting(*args, **options):
        calls.add((kind, name))
        return method(*args, **options)

    return noting


def public_methods_of(kind):
    functions = inspect.getmembers(kind, inspect.isfunction)
    return [name for name, _ in functions if not name.startswith("_")]


async def test_every_method_of_the_client_is_answered(pair, server, client, called):
    await _assistants(client)
    await _threads(client)
    await _runs(client)
    await _crons(client)
    await _store(client)
    await _thread_stream(pair[1], server)
    kinds = ASYNC if pair[1] == "async" else SYNC
    every = {(kind, name) for kind in kinds.values() for name in public_methods_of(kind)}
    assert every - called == set()


async def _assistants(client):
    labels = tag()
    mine = (await client.assistants.create("nested", metadata=labels))["assistant_id"]
    assert (await client.assistants.get(mine))["graph_id"] == "nested"
    assert (await client.assistants.update(mine, name="b"))["version"] == 2
    assert len(await client.assistants.get_versions(mine)) == 2
    assert (await client.assistants.set_latest(mine, 1))["version"] == 1
    assert (await client.assistants.get_graph(mine))["nodes"]
    assert (await client.assistants.get_schemas(mine))["graph_id"] == "nested"
    assert {*await client.assistants.get_subgraphs(mine)} == {"child"}
    assert len(await client.assistants.search(metadata=labels)) == 1
    assert await client.assistants.count(metadata=labels) == 1
    await client.assistants.delete(mine)
    assert await client.assistants.count(metadata=labels) == 0


async def _threads(client):
    labels = tag()
    mine = (await client.threads.create(metadata=labels, graph_id="steps"))["thread_id"]
    assert (await client.threads.update(mine, metadata={"n": 1}))["metadata"]["n"] == 1
    await client.threads.update_state(mine, {"log": ["zero"]}, as_node="__start__")
    assert (await client.threads.get_state(mine))["values"]["log"] == ["zero"]
    assert len(await client.threads.get_history(mine)) == 1
    assert (await client.threads.get(mine))["thread_id"] == mine
    copy = (await client.threads.copy(mine))["thread_id"]
    assert await client.threads.count(metadata=labels) == 2
    assert len(await client.threads.search(metadata=labels)) == 2
    assert (await client.threads.prune([copy]))["pruned_count"] == 1
    await client.runs.wait(mine, "steps", input=None)
    stream = await client.threads.join_stream(mine, last_event_id="-")
    async with contextlib.aclosing(stream):
        assert (await anext(stream)).event == "metadata"
    await client.threads.delete(mine)
    assert await client.threads.count(metadata=labels) == 0


async def _runs(client):
    mine = (await client.threads.create())["thread_id"]
    run = await client.runs.create(mine, "echo", input={"text": "hi"})
    assert (await client.runs.join(mine, run["run_id"]))["answer"] == "hi"
    assert (await client.runs.get(mine, run["run_id"]))["status"] == "success"
    assert await collect(client.runs.join_stream(mine, run["run_id"], last_event_id="-1"))
    assert await collect(client.runs.stream(mine, "echo", input={"text": "hi"}))
    assert (await client.runs.wait(mine, "echo", input={"text": "ho"}))["answer"] == "ho"
    assert len(await client.runs.list(mine)) == 3
    assert len(await client.runs.create_batch([{"assistant_id": "echo", "input": {}}])) == 1
    await client.runs.delete(mine, run["run_id"])
    assert len(await client.runs.list(mine)) == 2
    slow = await client.runs.create(mine, "slow", input={"seconds": 60})
    await client.runs.cancel(mine, slow["run_id"])
    assert (await over(client, slow))["status"] == "interrupted"
    slow = await client.runs.create(mine, "slow", input={"seconds": 60})
    await client.runs.cancel_many(thread_id=mine, run_ids=[slow["run_id"]])
    assert (await over(client, slow))["status"] == "interrupted"


async def _crons(client):
    labels = tag()
    mine = (await client.threads.create())["thread_id"]
    later = datetime.now(UTC) + timedelta(days=1)
    cron = await client.crons.create("echo", schedule="0 0 29 2 *", metadata=labels)
    await client.crons.create_for_thread(mine, "echo", schedule="0 0 29 2 *", metadata=labels)
    assert (await client.crons.update(cron["cron_id"], end_time=later))["end_time"]
    assert len(await client.crons.search(metadata=labels)) == 2
    await client.crons.delete(cron["cron_id"])
    assert await client.crons.count(metadata=labels) == 1


async def _store(client):
    place = ["tour", tag()["tag"]]
    await client.store.put_item(place, "a", {"n": 1})
    assert (await client.store.get_item(place, "a"))["value"] == {"n": 1}
    assert len((await client.store.search_items(place))["items"]) == 1
    assert (await client.store.list_namespaces(prefix=place))["namespaces"] == [place]
    await client.store.delete_item(place, "a")
    assert await client.store.get_item(place, "a") is None


async def _thread_stream(kind, server):
    if kind == "async":
        async with (
            server.client() as client,
            client.threads.stream(assistant_id="echo", run_start_timeout=30) as thread,
        ):
            await thread.run.start(input={"text": "hi"})
            assert (await thread.output)["answer"] == "hi"
        return
    with server.sync_client() as client, client.threads.stream(assistant_id="echo") as thread:
        thread.run.start(input={"text": "hi"})

        async def done():
            return thread.output

        assert (await eventually(done))["answer"] == "hi"


def test_the_two_clients_can_do_the_same():
    for resource in RESOURCES:
        assert public_methods_of(ASYNC[resource]) == public_methods_of(SYNC[resource])


def test_every_argument_of_every_method_is_tried():
    tried = _arguments_in(Path(__file__).parent)
    missing = {
        f"{resource}.{method}({argument})"
        for resource, kind in ASYNC.items()
        for method in public_methods_of(kind)
        for argument in _arguments_of(getattr(kind, method))
        if argument not in tried.get((resource, method), set())
    }
    assert sorted(missing) == []


def _arguments_of(method):
    """The arguments that can be named; those that are always given need no proof."""
    parameters = inspect.signature(method).parameters.values()
    return {
        parameter.name
        for parameter in parameters
        if parameter.default is not parameter.empty and parameter.name not in EVERYWHERE
    }


def _arguments_in(folder):
    """What tests pass by name to `client.<resource>.<method>(…)`, or by position."""
    tried = {}
    for file in folder.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr=resource), attr=method)
                ) if resource in RESOURCES:
                    names = {keyword.arg for keyword in node.keywords}
                    given = _by_position(resource, method, len(node.args))
                    tried.setdefault((resource, method), set()).update(names, given)
    return tried


def _by_position(resource, method, count):
    function = getattr(ASYNC[resource], method, None)
    names = [*inspect.signature(function).parameters][1:] if function else []
    return names[:count]
