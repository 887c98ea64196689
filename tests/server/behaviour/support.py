"""Short words for what tests do over HTTP."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx


async def eventually(question: Callable[[], Any], what: str = "it", seconds: float = 20) -> Any:
    """Ask until the answer is true, and give it."""
    deadline = time.monotonic() + seconds
    while not (answer := await question()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)
    return answer


async def over(http: httpx.AsyncClient, run_id: str) -> Any:
    """A run, once it has ended and all that was owed for it is done."""

    async def ended() -> Any:
        run = (await http.get(f"/runs/{run_id}")).json()
        done = all(each["status"] != "owed" for each in run["deliveries"])
        return run if run["ended_at"] and done else None

    return await eventually(ended, f"the end of run {run_id}")


async def frames(answer: httpx.Response) -> AsyncIterator[tuple[str, str, Any]]:
    """The events of a stream: id, name and data."""
    number = name = ""
    async for line in answer.aiter_lines():
        key, _, value = line.partition(": ")
        if key == "id":
            number = value
        elif key == "event":
            name = value
        elif key == "data":
            yield number, name, json.loads(value)


async def streamed(
    http: httpx.AsyncClient, path: str, body: Any = None, **options: Any
) -> list[tuple[str, str, Any]]:
    """All events of a stream, up to its end."""
    method = "GET" if body is None else "POST"
    async with http.stream(method, path, json=body, **options) as answer:
        assert answer.status_code == 200, await answer.aread()
        return [each async for each in frames(answer)]
