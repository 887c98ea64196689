import pytest

from checkrail import CheckrailError, ToolCall, tool
from checkrail.agent import RunFailed, Tool


class Handmade(Tool):
    name, description, parameters = "handmade", "By hand.", {"type": "object"}

    async def call(self, args, context):
        return {"given": dict(args)}


@tool
async def decorated(text: str) -> str:
    """Say it again."""
    return text


def plain(number: int) -> int:
    """Add one."""
    return number + 1


def names(request):
    return [told["function"]["name"] for told in request.tools]


async def test_functions_tools_agents_and_sources_are_all_tools(make, source):
    inner = make("pong", name="inner")
    given = [plain, decorated, Handmade(), inner, source(tool(len, name="count"))]
    agent = make("hi", tools=given)
    await agent.run("hello")
    (request,) = agent.model.requests
    assert names(request) == ["plain", "decorated", "handmade", "inner", "count"]
    assert request.tools[0]["function"]["description"] == "Add one."
    assert request.tools[0]["function"]["parameters"]["required"] == ["number"]
    assert request.tools[2]["function"]["parameters"] == {"type": "object"}


async def test_each_of_them_is_called(make, source):
    inner = make("pong", name="inner")
    outside = source(tool(lambda: "from outside", name="outside"))
    script = [
        ToolCall("1", "plain", {"number": 1}),
        ToolCall("2", "decorated", {"text": "x"}),
        ToolCall("3", "handmade", {"a": 1}),
        ToolCall("4", "inner", {"query": "go"}),
        ToolCall("5", "outside"),
    ]
    agent = make(*script, "hi", tools=[plain, decorated, Handmade(), inner, outside])
    response = await agent.run("hello")
    results = [m["content"] for m in response.messages if m["role"] == "tool"]
    assert results == ["2", "x", '{"given": {"a": 1}}', "pong", "from outside"]


@pytest.mark.parametrize("wrong", ["name", 42, None, {"name": "x"}])
def test_what_is_no_tool_is_refused(make, wrong):
    with pytest.raises(TypeError, match="is no tool: give functions, tools, agents or MCP servers"):
        make("hi", tools=[wrong])


def test_two_tools_of_one_name_are_refused_at_once(make):
    with pytest.raises(CheckrailError, match="'clerk' has two tools of the name 'plain'"):
        make("hi", tools=[plain, plain], name="clerk")


@pytest.mark.parametrize("name", ["", "two words", "a/b", "ä", "x" * 65])
def test_a_name_that_providers_refuse_is_refused_at_once(make, name):
    class Named(Handmade):
        pass

    Named.name = name
    with pytest.raises(CheckrailError, match="is no name for a tool of agent 'clerk'"):
        make("hi", tools=[Named()], name="clerk")


async def test_two_tools_of_one_name_from_a_source_end_the_run_and_say_so(
    make, source, hooks, witness
):
    agent = make("hi", tools=[plain, source(tool(plain))], hooks=hooks)
    with pytest.raises(RunFailed, match="has two tools of the name 'plain'"):
        await agent.run("hello")
    assert witness.end.stop_reason == "error"


async def test_a_source_is_asked_at_every_run_for_what_it_has_then(make, source):
    shop = source()
    agent = make("a", "b", tools=[shop])
    await agent.run("hello")
    shop.offered = (Handmade(),)
    await agent.run("hello")
    assert [names(request) for request in agent.model.requests] == [[], ["handmade"]]
    assert shop.opened == 2


async def test_sources_are_closed_with_the_agent_also_those_of_agents_beneath(make, source):
    own, beneath = source(), source()
    inner = make("pong", name="inner", tools=[beneath])
    async with make("hi", tools=[own, inner]) as agent:
        await agent.run("hello")
        assert (own.closed, beneath.closed) == (0, 0)
    assert (own.closed, beneath.closed) == (1, 1)


async def test_a_source_that_cannot_be_closed_does_not_keep_the_others_open(make, source):
    class Stuck(type(source())):
        async def aclose(self):
            raise ConnectionError("gone already")

    other = source()
    agent = make("hi", tools=[Stuck(), other])
    with pytest.raises(ConnectionError):
        await agent.aclose()
    assert other.closed == 1


async def test_a_rule_holds_for_the_tools_of_a_source(make, source, hooks):
    from checkrail import Block

    ran = []

    @tool
    async def delete(path: str) -> None:
        ran.append(path)

    hooks.before_tool_call(lambda event: Block("no"), tools=["delete"], lane="gate")
    call = ToolCall("1", "delete", {"path": "/"})
    response = await make(call, "hi", tools=[source(delete)], hooks=hooks).run("hello")
    assert (ran, response.messages[2]["content"]) == ([], "no")
