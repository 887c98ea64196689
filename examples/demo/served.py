"""The part of the demo that goes over HTTP: a server is started, asked, and stopped again."""

import asyncio
import contextlib
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client

PROJECT = Path(__file__).parents[1] / "server"
PATIENCE = 90.0


@contextlib.asynccontextmanager
async def server() -> AsyncIterator[str]:
    """Serve the example project with its default, SQLite, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(".checkrail"))
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


async def asked(url: str, agent: str, text: str) -> tuple[str, str]:
    """Ask an agent; give the answer and the run's id, or the refusal and nothing."""
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
    """Give what the server has recorded of a run's hooks, when the last has been called."""
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client:
        while True:
            found = (await client.get(f"{url}/runs/{run_id}/hooks")).json()
            ended = [each for each in found if each["event_type"] != "hook_start"]
            if any(each["point"] == "after_run" for each in ended):
                return ended
            await asyncio.sleep(0.02)
