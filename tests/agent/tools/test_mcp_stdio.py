"""MCP servers that are started as programs."""

import asyncio
import contextlib
import contextvars
import gc
import io
import json
import os
import sys
import threading
import weakref

import pytest

from checkrail.agent.tools import (
    ToolError,
    ToolRefusedError,
    ToolSourceError,
    mcp_stdio,
)

SILENT = "import sys; sys.stdin.read()"
MUTE = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if said.get("method") == "initialize":
        result = {
            "protocolVersion": said["params"]["protocolVersion"],
            "serverInfo": {"name": "mute", "version": "1"},
            "capabilities": {"tools": {}},
        }
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


async def test_all_pages_of_the_list_are_read(stdio):
    tools = await stdio("pages").tools()
    assert [tool.name for tool in tools] == [f"tool_{number}" for number in range(7)]
    assert tools[0].parameters == {"type": "object", "properties": {}}


async def test_a_result_that_is_not_what_the_server_says_is_an_error(stdio, call):
    with pytest.raises(ToolError, match="the answer cannot be used: Invalid structured content"):
        await call(stdio("pages"), "tool_3")


async def test_a_server_can_be_started_where_there_is_no_real_standard_error(stdio):
    with contextlib.redirect_stderr(io.StringIO()):
        assert await stdio("pages").tools()


async def test_of_our_environment_a_server_gets_what_is_named(stdio, call, monkeypatch, tmp_path):
    monkeypatch.setenv("OUR_API_KEY", "s3cret")
    about = json.loads(await call(stdio(env={"ITS_KEY": "42"}, cwd=tmp_path), "about"))
    assert "OUR_API_KEY" not in about
    assert about["ITS_KEY"] == "42"
    assert about["PATH"] == os.environ["PATH"]
    assert about["cwd"] == str(tmp_path)


async def test_the_same_process_serves_until_it_is_closed_and_is_gone_then(stdio, call, alive):
    made = stdio()
    pids = {json.loads(await call(made, "about"))["pid"] for _ in range(2)}
    assert len(pids) == 1
    pid = pids.pop()
    assert alive(pid)
    await made.aclose()
    assert not alive(pid)


async def test_a_server_that_dies_fails_the_call_and_is_started_again_for_the_next(
    stdio, call, context, alive
):
    made = stdio()
    tools = {tool.name: tool for tool in await made.tools()}
    pid = json.loads(await call(made, "about"))["pid"]
    with pytest.raises(ToolError, match=r"the MCP server 'python.*' is gone"):
        await tools["die"].call({}, context)
    assert await tools["add"].call({"a": 1}, context) == "2"
    assert json.loads(await call(made, "about"))["pid"] != pid
    assert not alive(pid)


async def test_a_server_that_died_unnoticed_is_started_again_for_the_next_run(stdio, call):
    made = stdio()
    pid = json.loads(await call(made, "about"))["pid"]
    os.kill(int(pid), 9)
    assert await call(made, "add", a=1) == "2"


async def test_parallel_calls_all_fail_when_the_server_dies(stdio, call, context, until):
    made = stdio()
    tools = {tool.name: tool for tool in await made.tools()}
    task = asyncio.create_task(tools["wait"].call({}, context))

    async def begun():
        return json.loads(await call(made, "waits"))["begun"] == 1

    await until(begun)
    for failing in (tools["die"].call({}, context), task):
        with pytest.raises(ToolError, match="is gone"):
            await failing


async def test_those_who_ask_at_the_same_time_start_one_server(stdio, tmp_path):
    started = tmp_path / "started"
    made = stdio(env={"STARTED": str(started)})
    one, other = await asyncio.gather(made.tools(), made.tools())
    assert [tool.name for tool in one] == [tool.name for tool in other]
    assert started.read_text() == "started\n"


async def test_whoever_stops_waiting_for_the_connection_does_not_break_it(stdio, call, tmp_path):
    started = tmp_path / "started"
    made = stdio(env={"STARTED": str(started)})
    task = asyncio.create_task(made.tools())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await call(made, "add", a=1) == "2"
    assert started.read_text() == "started\n"


async def test_a_connection_does_not_hold_on_to_the_run_that_opened_it(stdio, call):
    class Thing:
        pass

    made = stdio()
    whose = contextvars.ContextVar("whose")

    async def run():
        thing = Thing()
        whose.set(thing)
        await made.tools()
        return weakref.ref(thing)

    thing = await asyncio.create_task(run())
    await asyncio.sleep(0)
    gc.collect()
    assert thing() is None
    assert await call(made, "add", a=1) == "2"


def test_no_process_is_left_when_the_event_loop_is_over(stdio_outside, call, alive):
    async def main():
        return json.loads(await call(stdio_outside, "about"))["pid"]

    first, second = asyncio.run(main()), asyncio.run(main())
    assert first != second
    assert not alive(first)
    assert not alive(second)


@pytest.fixture
def stdio_outside(request):
    """A source that nobody closes."""
    script = str(request.path.with_name("mcp_server.py"))
    return mcp_stdio(sys.executable, script, "stdio")


async def test_closing_reaches_the_connections_of_other_event_loops(stdio, call, alive, until):
    made = stdio()
    pids, over = [], threading.Event()

    async def elsewhere():
        pids.append(json.loads(await call(made, "about"))["pid"])
        await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    try:
        pids.append(json.loads(await call(made, "about"))["pid"])

        async def both():
            return len(pids) == 2

        async def gone():
            return not any(map(alive, pids))

        await until(both)
        assert len({*pids}) == 2
        await made.aclose()
        await until(gone)
    finally:
        over.set()
        await asyncio.to_thread(thread.join)


@pytest.mark.parametrize(
    ("command", "options", "problem", "remedy"),
    [
        (["no-such-command"], {}, "cannot be started: ", "installed and on the PATH"),
        (["npx -y some-server"], {}, "cannot be started: ", "each of its arguments by itself"),
        ([sys.executable], {"cwd": "/no/such/folder"}, "there is no folder", "Check cwd"),
        ([sys.executable, "-c", "pass"], {}, "ended before it answered", "standard error"),
        (["cat"], {}, "did not connect: ", "is an MCP server"),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_a_remedy(
    command, options, problem, remedy
):
    source = mcp_stdio(*command, **options)
    for _ in range(2):
        with pytest.raises(ToolSourceError) as caught:
            await source.tools()
        assert problem in caught.value.problem
        assert remedy in caught.value.remedy
        assert str(caught.value).startswith("the MCP server '")
    await source.aclose()


async def test_a_script_without_its_interpreter_is_named_with_it(tmp_path):
    script = tmp_path / "server"
    script.write_text("#!/no/such/python3\n")
    script.chmod(0o755)
    source = mcp_stdio(script)
    with pytest.raises(ToolSourceError) as caught:
        await source.tools()
    assert "the interpreter '/no/such/python3' of the script" in caught.value.problem
    assert "correct the first line" in caught.value.remedy
    await source.aclose()


def test_what_is_no_text_in_the_environment_is_refused_at_once():
    with pytest.raises(ToolSourceError, match="is given NoneType for 'KEY' in env"):
        mcp_stdio("npx", env={"KEY": None})


def test_a_timeout_that_is_none_is_refused_at_once():
    with pytest.raises(ToolRefusedError, match="its timeout is 0"):
        mcp_stdio("npx", timeout=0)


async def test_a_silent_server_costs_what_its_timeout_says():
    source = mcp_stdio(sys.executable, "-c", SILENT, timeout=0.05)
    with pytest.raises(ToolSourceError, match=r"did not answer within 0\.05 s.*its `timeout`"):
        await source.tools()
    await source.aclose()


@pytest.mark.parametrize("options", [{}, {"timeout": None}])
async def test_without_a_timeout_a_silent_server_is_given_up_too(monkeypatch, options):
    monkeypatch.setattr("checkrail.agent.tools.mcp.ANSWER_SECONDS", 0.05)
    source = mcp_stdio(sys.executable, "-c", SILENT, **options)
    with pytest.raises(ToolSourceError, match=r"did not answer within 0\.05 s"):
        await source.tools()
    await source.aclose()


async def test_connecting_and_listing_the_tools_share_one_timeout():
    source = mcp_stdio(sys.executable, "-c", MUTE, timeout=0.5)
    with pytest.raises(ToolSourceError, match=r"did not answer within 0\.5 s"):
        await source.tools()
    await source.aclose()


async def test_a_source_can_be_closed_while_it_connects():
    source = mcp_stdio(sys.executable, "-c", SILENT)
    task = asyncio.create_task(source.tools())
    await asyncio.sleep(0.05)
    await source.aclose()
    with pytest.raises(ToolSourceError, match="was disconnected"):
        await task


async def test_no_argument_and_no_environment_is_shown():
    source = mcp_stdio("no-such-command", "--key=s3cret", env={"KEY": "s3cret"})
    with pytest.raises(ToolSourceError) as caught:
        await source.tools()
    assert "s3cret" not in f"{caught.value}{source!r}{source._server!r}{caught.value.__cause__}"
    assert repr(source) == "MCPTools('no-such-command')"
