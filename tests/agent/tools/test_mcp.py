"""What holds for every MCP server, started as a program or reached over HTTP."""

import asyncio
import json

import pytest

from checkrail.agent.tools import Tool, ToolError, ToolSource, ToolSourceError, mcp_http
from checkrail.engine.frozen import freeze

NAMES = [
    *("add", "refuse", "broken", "picture", "data", "files_read_all"),
    *("meet", "wait", "waits", "about", "die"),
]


async def test_the_tools_of_a_server_are_listed_with_their_schemas(source):
    made = source()
    assert isinstance(made, ToolSource)
    tools = await made.tools()
    assert [tool.name for tool in tools] == NAMES
    assert all(isinstance(tool, Tool) for tool in tools)
    add = tools[0]
    assert (add.description, add.timeout) == ("Add two numbers.", 300)
    assert add.parameters["required"] == ["a"]
    assert add.parameters["properties"]["a"]["type"] == "integer"
    assert freeze(add.parameters) is add.parameters
    assert repr(add) == "MCPTool('add')"


async def test_a_tool_gives_its_text_parts_if_there_are_pictures_or_its_data(source, context):
    tools = {tool.name: tool for tool in await source().tools()}
    assert await tools["add"].call(freeze({"a": 2, "b": 3}), context) == "5"
    assert await tools["data"].call({}, context) == {"degrees": 21}
    assert await tools["picture"].call({}, context) == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
    ]


async def test_an_error_that_the_server_reports_is_given_to_the_model(source, call):
    made = source()
    for name, args, told in (
        ("refuse", {"why": "no such customer"}, "no such customer"),
        ("broken", {}, "the MCP server says: the database is away"),
        ("add", {"a": "two"}, "valid integer"),
    ):
        with pytest.raises(ToolError, match=told):
            await call(made, name, **args)
    assert await call(made, "add", a=1) == "2"


async def test_a_prefix_goes_before_the_names_and_only_what_is_included_is_there(source, call):
    made = source(prefix="t_", include=["a*", "/^files/"], timeout=None)
    tools = await made.tools()
    assert [tool.name for tool in tools] == ["t_add", "t_files_read_all", "t_about"]
    assert [tool.description for tool in tools] == ["Add two numbers.", "Reads files", ""]
    assert tools[0].timeout is None
    assert await call(made, "t_add", a=1) == "2"
    assert await call(made, "t_files_read_all") == "read"


async def test_what_is_to_be_included_and_is_not_there_is_an_error(source):
    with pytest.raises(ToolSourceError) as caught:
        await source(include=["add", "refuze"]).tools()
    assert caught.value.problem == "has no tool 'refuze' (did you mean 'refuse'?)"
    assert caught.value.remedy.startswith("Its tools are: add, refuse, ")


async def test_calls_run_at_the_same_time(source, call):
    made = source()
    assert await asyncio.gather(call(made, "meet"), call(made, "meet")) == ["met", "met"]


async def test_a_cancelled_call_is_cancelled_at_the_server_and_breaks_nothing(source, call, until):
    made = source()
    waits = json.loads(await call(made, "waits"))
    other = asyncio.create_task(call(made, "wait"))
    task = asyncio.create_task(call(made, "wait"))

    async def waiting(key, more):
        return json.loads(await call(made, "waits"))[key] == waits[key] + more

    await until(lambda: waiting("begun", 2))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: waiting("cancelled", 1))
    assert not other.done()
    other.cancel()
    await until(lambda: waiting("cancelled", 2))
    with pytest.raises(asyncio.CancelledError):
        await other


async def test_a_call_in_progress_fails_when_the_source_is_closed(source, call, until):
    made = source()
    waits = json.loads(await call(made, "waits"))["begun"]
    task = asyncio.create_task(call(made, "wait"))

    async def begun():
        return json.loads(await call(made, "waits"))["begun"] > waits

    await until(begun)
    await made.aclose()
    with pytest.raises(ToolError, match="is gone"):
        await task


async def test_after_it_was_closed_tools_say_so_and_the_source_connects_again(
    source, call, context
):
    made = source()
    add = (await made.tools())[0]
    await made.aclose()
    await made.aclose()
    with pytest.raises(ToolError, match="was disconnected"):
        await add.call({"a": 1}, context)
    assert await call(made, "add", a=1) == "2"
    assert await add.call({"a": 1}, context) == "2"


async def test_nothing_of_the_connection_is_left_when_it_is_closed(source, call):
    before = asyncio.all_tasks()
    made = source()
    await call(made, "add", a=1)
    assert asyncio.all_tasks() != before
    await made.aclose()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("closed", [True, False])
def test_each_event_loop_has_a_connection_of_its_own(url, context, closed):
    source = mcp_http(url)

    async def first():
        return (await source.tools())[0]

    async def second(add):
        found = await add.call({"a": 1}, context)
        if closed:
            await source.aclose()
        return found

    add = asyncio.run(first())
    assert asyncio.run(second(add)) == "2"
    assert len(source._connections) == (0 if closed else 1)
    assert not source._tasks
