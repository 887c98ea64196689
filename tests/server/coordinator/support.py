"""Short words for what tests ask of a coordinator."""

import asyncio
import json
import time
from typing import Any

import httpx


async def asked(http: httpx.AsyncClient, agent_name: str, status: int = 200, **body: Any) -> Any:
    """Ask for a run, and give the answer."""
    answer = await http.post("/runs", json={"agent_name": agent_name, **body})
    assert answer.status_code == status, answer.text
    return answer.json()


async def ran(http: httpx.AsyncClient, agent_name: str, parameters: Any = None, **body: Any) -> Any:
    """Ask for a run, and give it when it has ended."""
    given = {"parameters": parameters or {}, "execution_mode": "sync", **body}
    return await asked(http, agent_name, **given)


async def got(http: httpx.AsyncClient, path: str, status: int = 200, **params: Any) -> Any:
    answer = await http.get(path, params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


async def eventually(question: Any, what: str = "it", seconds: float = 30) -> Any:
    """Ask until the answer is true, and give it."""
    deadline = time.monotonic() + seconds
    while not (answer := await question()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)
    return answer


async def ended(http: httpx.AsyncClient, run_id: str) -> Any:
    """A run, once it has ended."""

    async def over() -> Any:
        run = await got(http, f"/runs/{run_id}")
        return run if run["ended_at"] else None

    return await eventually(over, f"the end of run {run_id}")


class Sent:
    """What a stream has sent so far: id, name and data of each event."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.events: list[tuple[str, str, Any]] = []
        self._lines = answer.aiter_lines()

    async def next(self) -> tuple[str, str, Any]:
        number = name = ""
        async for line in self._lines:
            key, _, value = line.partition(": ")
            if key == "id":
                number = value
            elif key == "event":
                name = value
            elif key == "data":
                self.events.append((number, name, json.loads(value)))
                return self.events[-1]
        raise EOFError("the stream has ended")

    async def until(self, wanted: Any) -> list[tuple[str, str, Any]]:
        """Read on until an event is as wanted, and give all that were read by now."""
        async with asyncio.timeout(30):
            while not wanted(*(await self.next())):
                pass
        return self.events
