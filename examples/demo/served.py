"""What the demo needs of HTTP: a server is started, talked to, and stopped again."""

import asyncio
import contextlib
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import httpx
from langgraph_sdk import get_client

from checkrail.cli.records import Recorded

PATIENCE = 90.0
ENDINGS = ("hook_complete", "hook_failed", "hook_blocked")


@contextlib.asynccontextmanager
async def server(project: Path) -> AsyncIterator[str]:
    """Serve a project with its default, SQLite, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        shutil.copytree(project, folder, ignore=shutil.ignore_patterns(".checkrail"))
        port = free_port()
        said = Path(place) / "said"
        with said.open("wb") as out:
            words = ("-m", "checkrail", "serve", "--config", folder, "--port", str(port))
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words, stdout=out, stderr=out
            )
        try:
            await answering(f"http://127.0.0.1:{port}", process, said)
            yield f"http://127.0.0.1:{port}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def free_port() -> int:
    with socket.socket() as given:
        given.bind(("127.0.0.1", 0))
        return given.getsockname()[1]


async def answering(url: str, process: asyncio.subprocess.Process, said: Path) -> None:
    """Wait until a server answers; one that does not is told with its last words."""
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client:
        while process.returncode is None:
            with contextlib.suppress(httpx.TransportError):
                await client.get(f"{url}/ok")
                return
            await asyncio.sleep(0.05)
    raise SystemExit(await asyncio.to_thread(said.read_text))


class Desk:
    """A client that says something on a server, and hears of every call of a hook there."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=PATIENCE)
        self._records: list[Recorded] = []
        self._shown = 0
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._open = asyncio.Event()
        self._following = asyncio.create_task(self._follow())
        await self._open.wait()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await self._client.aclose()

    async def _follow(self) -> None:
        async with self._client.stream("GET", "/events") as answer:
            self._open.set()
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    told = json.loads(line.removeprefix("data: "))
                    if told.get("event_type") in ENDINGS:
                        self._records.append(Recorded(told))
                        self._arrived.set()

    async def say(self, content: str, **more: Any) -> dict[str, Any]:
        """Say something as Ann, and return what became of it."""
        body = {"content": content, "user_id": "ann", "channel": "chat", **more}
        told: dict[str, Any] = (await self._client.post("/messages", json=body)).json()
        return told

    async def conversation(self, thread_id: str) -> list[dict[str, Any]]:
        """Return the messages of a thread."""
        state = (await self._client.get(f"/threads/{thread_id}/state")).json()
        messages: list[dict[str, Any]] = state["values"]["messages"]
        return messages

    async def end(self, session_id: str) -> None:
        """End a session."""
        (await self._client.post(f"/sessions/{session_id}/end")).raise_for_status()

    async def records_until(self, *points: str) -> list[Recorded]:
        """Return the calls of hooks since the last time, once some points are among them."""
        async with asyncio.timeout(PATIENCE):
            while {*points} - {each.point for each in self._records[self._shown :]}:
                self._arrived.clear()
                await self._arrived.wait()
        found = self._records[self._shown :]
        self._shown = len(self._records)
        return found


async def answer_of(url: str, agent: str, text: str) -> tuple[str, str]:
    """Ask an agent; return the answer and the run's id, or the refusal and nothing."""
    client = get_client(url=url, api_key=None)
    made: list[Any] = []
    try:
        state = await client.runs.wait(
            None,
            agent,
            input={"messages": [{"role": "user", "content": text}]},
            on_run_created=made.append,
        )
    except httpx.HTTPStatusError as refused:
        return f"{refused.response.status_code} {refused.response.json()['message']}", ""
    finally:
        await client.aclose()
    return state["messages"][-1]["content"], made[0]["run_id"]


async def hooks_of(url: str, run_id: str) -> list[dict[str, Any]]:
    """Return what the server has recorded of a run's hooks, when the last has been called."""
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client:
        while True:
            found = (await client.get(f"{url}/runs/{run_id}/hooks")).json()
            ended = [each for each in found if each["event_type"] != "hook_start"]
            if any(each["point"] == "after_run" for each in ended):
                return ended
            await asyncio.sleep(0.02)
