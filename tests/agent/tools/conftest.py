import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkrail import ToolCall
from checkrail.agent.tools import ToolContext, mcp_http, mcp_stdio
from checkrail.engine.event import Context

SCRIPT = str(Path(__file__).with_name("mcp_server.py"))


@pytest.fixture
def context():
    call = ToolCall("call-1", "lookup", {"city": "Paris"})
    return ToolContext(call, Context(run_id="run-1", agent_name="support"))


@contextlib.contextmanager
def http_server(port=0):
    """Start the server of these tests on a port, a free one unless said."""
    command = [sys.executable, SCRIPT, "http", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture
def start_http():
    return http_server


@pytest.fixture(scope="session")
def url():
    with http_server() as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture
async def stdio():
    """Makes sources that start the server of these tests, and closes them."""
    made = []

    def make(mode="stdio", **options):
        made.append(mcp_stdio(sys.executable, SCRIPT, mode, **options))
        return made[-1]

    yield make
    for source in made:
        await source.aclose()


@pytest.fixture
async def http(url):
    """Makes sources that talk to one server over HTTP, and closes them."""
    made = []

    def make(**options):
        made.append(mcp_http(url, **options))
        return made[-1]

    yield make
    for source in made:
        await source.aclose()


@pytest.fixture(params=["stdio", "http"])
def source(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def call(context):
    """Calls a tool of a source by its name."""

    async def call(source, name, **args):
        tools = {tool.name: tool for tool in await source.tools()}
        return await tools[name].call(args, context)

    return call


@pytest.fixture
def until():
    """Waits until something holds."""

    async def until(holds):
        async with asyncio.timeout(20):
            while not await holds():  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.01)

    return until


@pytest.fixture
def alive():
    """Says whether a process is there."""

    def alive(pid):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        return True

    return alive
