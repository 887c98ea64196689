"""The SDK's two clients behind one face, so that one test body serves both."""

import asyncio
import inspect
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient

RESOURCES = ("assistants", "crons", "runs", "store", "threads")
PATIENCE = 120.0


class Awaited:
    """A sync client whose methods are awaited as the async client's are."""

    def __init__(self, client: SyncLangGraphClient) -> None:
        for name in RESOURCES:
            setattr(self, name, _AwaitedResource(name, getattr(client, name)))


class _AwaitedResource:
    def __init__(self, name: str, resource: Any) -> None:
        self._name = name
        self._resource = resource

    def __getattr__(self, method: str) -> Callable[..., Any]:
        sync = getattr(self._resource, method)
        if (self._name, method) in {("runs", "stream"), ("runs", "join_stream")}:
            return lambda *args, **options: _pulled(lambda: sync(*args, **options))
        if (self._name, method) == ("threads", "join_stream"):
            return lambda *args, **options: _at_once(_pulled(lambda: sync(*args, **options)))
        return lambda *args, **options: asyncio.to_thread(sync, *args, **options)


async def _at_once(value: Any) -> Any:
    return value


async def _pulled(opened: Callable[[], Any]) -> AsyncIterator[Any]:
    iterator, end = await asyncio.to_thread(opened), object()
    try:
        while (part := await asyncio.to_thread(next, iterator, end)) is not end:
            yield part
    finally:
        await asyncio.to_thread(iterator.close)


Client = LangGraphClient | Awaited


def public_methods(client: Any) -> dict[str, list[str]]:
    """The public methods of every resource of a client."""
    return {
        name: [
            method
            for method, _ in inspect.getmembers(type(getattr(client, name)), inspect.isfunction)
            if not method.startswith("_")
        ]
        for name in RESOURCES
    }


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [part async for part in stream]


def data_of(parts: list[Any], event: str) -> list[Any]:
    return [part.data for part in parts if part.event == event]


def names_of(parts: list[Any]) -> list[str]:
    return [part.event for part in parts]


async def eventually(question: Callable[[], Any], what: str = "it") -> Any:
    """Ask until the answer is true, and give it."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := await question()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)
    return answer


async def over(client: Client, run: Any) -> Any:
    """The run, once it has ended."""

    async def ended() -> Any:
        now = await client.runs.get(run["thread_id"], run["run_id"])
        return now if now["status"] not in {"pending", "running"} else None

    return await eventually(ended, f"the end of run {run['run_id']}")


async def running(client: Client, run: Any) -> None:
    """Wait until a run is executed."""

    async def begun() -> bool:
        now = await client.runs.get(run["thread_id"], run["run_id"])
        assert now["status"] in {"pending", "running"}, now
        return now["status"] == "running"

    await eventually(begun, f"the beginning of run {run['run_id']}")


def tag() -> dict[str, str]:
    """Metadata that nothing else on the shared server has."""
    return {"tag": uuid.uuid4().hex}


def said(*texts: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text} for text in texts]}
