"""MCP servers that are reached over HTTP."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from checkrail.agent.tools import ToolError, ToolSourceError, mcp_http


class Answers(uvicorn.Server):
    """Answers every request alike, in a thread, and keeps the requests' headers."""

    def __init__(self, status):
        self.status = status
        self.headers = []
        super().__init__(
            uvicorn.Config(
                self.app, port=0, lifespan="off", interface="asgi3", log_level="critical"
            )
        )

    async def app(self, scope, receive, send):
        self.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
        await PlainTextResponse("no", self.status)(scope, receive, send)

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}"


@pytest.fixture
def answering():
    """Starts a server that answers with a status, and stops it."""
    with contextlib.ExitStack() as stack:

        def start(status):
            server = Answers(status)
            thread = threading.Thread(target=server.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)
            while not server.started:
                thread.join(0.01)
            return server

        yield start


async def test_a_server_that_dies_fails_the_call_and_is_found_again(start_http, call, context):
    with start_http() as port:
        source = mcp_http(f"http://127.0.0.1:{port}/mcp")
        tools = {tool.name: tool for tool in await source.tools()}
        with pytest.raises(ToolError):
            await tools["die"].call({}, context)
    with pytest.raises(ToolError):
        await tools["add"].call({"a": 1}, context)
    with pytest.raises(ToolError, match=f"at http://127.0.0.1:{port} cannot be reached"):
        await tools["add"].call({"a": 1}, context)
    with pytest.raises(ToolSourceError, match="cannot be reached"):
        await source.tools()
    with start_http(port):
        assert await tools["add"].call({"a": 1}, context) == "2"
    with start_http(port):
        assert await call(source, "add", a=1) == "2"
        await source.aclose()


async def test_headers_are_sent_and_shown_nowhere(answering):
    server = answering(401)
    source = mcp_http(f"{server.origin}/k3y/mcp?key=k3y", headers={"Authorization": "Bearer k3y"})
    with pytest.raises(ToolSourceError) as caught:
        await source.tools()
    await source.aclose()
    assert {sent["authorization"] for sent in server.headers} == {"Bearer k3y"}
    assert "k3y" not in f"{caught.value}{source!r}{source._server!r}{caught.value.__cause__}"
    assert repr(source) == f"MCPTools(at {server.origin})"


@pytest.mark.parametrize(
    ("status", "problem", "remedy"),
    [
        (401, "answered 401 Unauthorized", "Check its headers"),
        (403, "answered 403 Forbidden", "Check its headers"),
        (404, "answered 404 Not Found", "Check the path of its URL"),
        (503, "answered 503 Service Unavailable", "what it logs"),
        (599, "answered 599", "what it logs"),
        (200, "did not connect: ", "is an MCP server"),
    ],
)
async def test_a_server_that_refuses_is_told_with_a_remedy(answering, status, problem, remedy):
    server = answering(status)
    source = mcp_http(f"{server.origin}/mcp")
    with pytest.raises(ToolSourceError) as caught:
        await source.tools()
    assert caught.value.server == f"at {server.origin}"
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    await source.aclose()


async def test_a_server_that_is_not_there_is_told_with_a_remedy(unused_port):
    source = mcp_http(f"http://ann:s3cret@127.0.0.1:{unused_port}/mcp")
    with pytest.raises(ToolSourceError) as caught:
        await source.tools()
    assert caught.value.server == f"at http://127.0.0.1:{unused_port}"
    assert caught.value.problem.startswith("cannot be reached: ")
    assert caught.value.remedy == "Check its URL, and that it runs"
    await source.aclose()


@pytest.fixture
def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.parametrize("url", ["", "example.com/mcp", "ftp://example.com/mcp", "http:///mcp"])
def test_what_is_no_url_is_refused_at_once(url):
    with pytest.raises(ToolSourceError, match="Write such as https"):
        mcp_http(url)


def test_what_is_no_text_in_the_headers_is_refused_at_once():
    with pytest.raises(ToolSourceError, match="is given NoneType for 'Authorization' in headers"):
        mcp_http("http://127.0.0.1/mcp", headers={"Authorization": None})


def test_a_missing_package_is_named_with_its_extra():
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from checkrail.agent.tools import mcp_http, mcp_stdio\n"
        "for make, given in ((mcp_http, 'http://x'), (mcp_stdio, 'x')):\n"
        "    try: make(given)\n"
        "    except ImportError as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = 'MissingExtraError an MCP server needs mcp: pip install "checkrail[mcp]"'
    assert done.stdout.splitlines() == [line, line]


async def test_a_session_goes_on_though_one_of_its_callers_gave_up(http, call):
    made = http()
    pids = set()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call(made, "wait"), 0.2)
        pids.add(json.loads(await call(made, "about"))["pid"])
    assert len(pids) == 1


async def test_a_server_that_never_answers_costs_what_its_timeout_says():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        source = mcp_http(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", timeout=0.05)
        with pytest.raises(ToolSourceError, match=r"did not answer within 0\.05 s"):
            await source.tools()
        await source.aclose()
