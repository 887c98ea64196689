"""Rules of a file in the agent loop: what they are to keep back does not get past it in any shape.

The model, the tool and the caller note what they are given. The tests know what they put in.
"""

import asyncio
import json
import logging
from typing import ClassVar

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tests.planting import ARGUMENTS, AROUND, CALM, PIECES, PLANTED_DATA, parts_of
from tests.shapes import NEEDLE, SHAPES

from checkrail import Agent, AssistantMessage, Hooks, ToolCall
from checkrail.agent import Tool
from checkrail.agent.tools.mcp import content_of
from checkrail.config import load_text
from checkrail.testing import ScriptedModel

BLOCK = {"block": "Not here"}
FORMS = {
    "block": BLOCK,
    "block first": {**BLOCK, "lane": "transform"},
    "fail": {"fail": "Not here"},
    "ask": {"ask": "Really?"},
    "stop": {"stop": "Closed"},
    "replace": {"replace": {"content": "cached"}},
    "retry": {"retry": "Again"},
}
AT = {
    "before_llm_call": ("request", ["block", "block first", "fail", "ask", "stop", "replace"]),
    "after_llm_call": ("message", ["block", "block first", "fail", "ask", "stop", "retry"]),
    "before_tool_call": ("tool_call", ["block", "block first", "fail", "ask", "replace"]),
    "after_tool_call": ("tool_result", ["block", "block first", "fail"]),
    "before_final_response": ("message", ["block", "block first", "fail", "ask", "stop", "retry"]),
}


def cases(point):
    return [pytest.param(form, id=form) for form in AT[point][1]]


def hooks_of(point, form):
    rule = {"name": "rule", "when": f"{AT[point][0]}.text.contains('{NEEDLE}')", **FORMS[form]}
    hooks = Hooks()
    hooks.registry.swap(load_text(json.dumps({"hooks": {point: [rule]}}), "json").specs)
    return hooks


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(params=["run", "stream"])
def ask(request):
    """Run an agent, and return all that its caller is told."""

    async def run(agent, query="Hello"):
        if request.param == "run":
            try:
                return repr(await agent.run(query))
            except Exception as error:
                return repr(error)
        told = []
        try:
            told += [repr(event) async for event in agent.stream(query)]
        except Exception as error:
            told.append(repr(error))
        return "".join(told)

    return run


PROMPTS = {name: make for name, make in SHAPES.items() if isinstance(make("a b"), str | list)}
IN_PARTS = [
    name
    for name, make in PROMPTS.items()
    if isinstance(made := make("a b"), list) and all(isinstance(part, dict) for part in made)
]


@pytest.mark.parametrize("form", cases("before_llm_call"))
async def test_no_request_with_the_text_reaches_the_model(ask, form):
    for shape in ["text", *IN_PARTS]:
        model = ScriptedModel(["Hi"])
        query = [{"role": "user", "content": PROMPTS[shape](NEEDLE)}]
        await ask(Agent(model, hooks=hooks_of("before_llm_call", form)), query)
        assert model.requests == [], shape


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
@pytest.mark.parametrize("form", cases("after_llm_call"))
async def test_no_answer_with_the_text_reaches_the_caller(ask, point, form):
    for shape in ["text", *IN_PARTS]:
        model = ScriptedModel([AssistantMessage(PROMPTS[shape](NEEDLE)), "Fine."])
        told = await ask(Agent(model, hooks=hooks_of(point, form)))
        assert "force" not in told.replace(f"contains('{NEEDLE}')", ""), shape
        assert "cHVzaC" not in told, shape


@pytest.mark.parametrize("form", cases("before_tool_call"))
async def test_no_tool_is_called_with_the_text(ask, form):
    called = []

    def bash(command: object) -> str:
        called.append(command)
        return "done"

    for shape, make in SHAPES.items():
        call = ToolCall("c1", "bash", {"command": make(NEEDLE)})
        agent = Agent(
            ScriptedModel([call, "Fine."]), tools=[bash], hooks=hooks_of("before_tool_call", form)
        )
        await ask(agent)
        assert called == [], shape


@pytest.mark.parametrize("form", cases("after_tool_call"))
async def test_no_result_with_the_text_reaches_the_model(ask, form):
    for shape, make in SHAPES.items():

        def read(make=make) -> object:
            return make(NEEDLE)

        model = ScriptedModel([ToolCall("c1", "read", {}), "Fine."])
        agent = Agent(model, tools=[read], hooks=hooks_of("after_tool_call", form))
        told = await ask(agent)
        given = repr([request.messages for request in model.requests]) + told
        assert "force" not in given, shape
        assert "cHVzaC" not in given, shape


def _resource(**fields):
    kind = TextResourceContents if "text" in fields else BlobResourceContents
    return EmbeddedResource(type="resource", resource=kind(uri="file:///a", **fields))


MCP = {
    "text": [TextContent(type="text", text=NEEDLE)],
    "texts": [TextContent(type="text", text=word) for word in ("see", NEEDLE)],
    "text and image": [
        ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png"),
        TextContent(type="text", text=NEEDLE),
    ],
    "resource": [_resource(text=NEEDLE, mime_type="text/plain")],
    "link": [ResourceLink(type="resource_link", name="n", uri="file:///a", description=NEEDLE)],
    "media type": [_resource(blob="iVBORw0KGgo=", mime_type=NEEDLE)],
    "image of a text": [
        ImageContent(type="image", data="cHVzaCAtLWZvcmNl", mime_type="image/svg+xml")
    ],
    "image that is none": [ImageContent(type="image", data=NEEDLE, mime_type="image/png")],
}
RESULTS = {
    **{name: CallToolResult(content=content) for name, content in MCP.items()},
    "data": CallToolResult(content=[], structured_content={"a": [{"b": NEEDLE}]}),
    "words": CallToolResult(content=[], structured_content={"a": NEEDLE.split(" ")}),
    "data and image": CallToolResult(
        content=[ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")],
        structured_content={"a": NEEDLE},
    ),
    "error": CallToolResult(content=[TextContent(type="text", text=NEEDLE)], is_error=True),
}


@pytest.mark.parametrize("form", cases("after_tool_call"))
@pytest.mark.parametrize("shape", RESULTS)
async def test_no_result_of_an_mcp_server_with_the_text_reaches_the_model(ask, form, shape):
    def read() -> object:
        return content_of(RESULTS[shape])

    model = ScriptedModel([ToolCall("c1", "read", {}), "Fine."])
    agent = Agent(model, tools=[read], hooks=hooks_of("after_tool_call", form))
    told = await ask(agent)
    given = repr([request.messages for request in model.requests]) + told
    assert "force" not in given
    assert "cHVzaC" not in given


CALM_BLOCKS = st.lists(
    CALM.map(lambda text: TextContent(type="text", text=text))
    | st.just(ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")),
    max_size=2,
)
PLANTED_BLOCKS = AROUND.flatmap(
    lambda text: st.sampled_from(
        [
            TextContent(type="text", text=text),
            ImageContent(type="image", data=text, mime_type="image/png"),
            ImageContent(type="image", data="iVBORw0KGgo=", mime_type=f"image/{text}"),
            AudioContent(type="audio", data="iVBORw0KGgo=", mime_type=text),
            ResourceLink(type="resource_link", name=text, uri="file:///a"),
            ResourceLink(type="resource_link", name="n", title=text, uri="file:///a"),
            ResourceLink(type="resource_link", name="n", description=text, uri="file:///a"),
            ResourceLink(type="resource_link", name="n", uri=f"file:///{text}"),
            _resource(text=text),
            _resource(blob="iVBORw0KGgo=", mime_type=text),
        ]
    )
)
MCP_RESULTS = st.builds(
    lambda before, block, after, is_error: CallToolResult(
        content=[*before, block, *after], is_error=is_error
    ),
    CALM_BLOCKS,
    PLANTED_BLOCKS,
    CALM_BLOCKS,
    st.booleans(),
) | st.builds(
    lambda content, text, is_error: CallToolResult(
        content=content, structured_content={"rows": [{"name": text}]}, is_error=is_error
    ),
    CALM_BLOCKS,
    AROUND,
    st.booleans(),
)
MCP_RESULTS |= PLANTED_DATA.map(
    lambda data: CallToolResult(content=[], structured_content={"result": data})
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(result=MCP_RESULTS)
def test_a_text_planted_in_a_result_of_an_mcp_server_does_not_reach_the_model(result):
    def read() -> object:
        return content_of(result)

    model = ScriptedModel([ToolCall("c1", "read", {}), "Fine."])
    agent = Agent(model, tools=[read], hooks=hooks_of("after_tool_call", "block"))
    asyncio.run(agent.run("Hello"))
    assert len(model.requests) == 2
    assert "force" not in repr([request.messages for request in model.requests])


TEXTS = parts_of(
    lambda text: {"type": "text", "text": text},
    [{"type": "thinking", "thinking": "Hm", "signature": "c2ln"}],
    PIECES,
)
THOUGHTS = parts_of(
    lambda text: {"type": "thinking", "thinking": text, "signature": "c2ln"}, [], PIECES
)
BESIDE = PLANTED_DATA.map(lambda data: AssistantMessage("x", metadata={"other_fields": data}))
CALLS = ARGUMENTS.map(lambda args: AssistantMessage("x", [ToolCall("c1", "f", args)]))
ANSWERS = (AROUND | TEXTS | THOUGHTS).map(AssistantMessage) | BESIDE | CALLS
QUERIES = AROUND | parts_of(
    lambda text: {"type": "text", "text": text},
    [{"type": "image_url", "image_url": {"url": "https://x"}}],
)
planted = settings(max_examples=60, derandomize=True, deadline=None)


class Noting(Tool):
    """A tool that takes any object, and notes what it was called with."""

    name = "f"
    description = "Take anything."
    parameters: ClassVar = {"type": "object"}

    def __init__(self, result="done"):
        self.called = []
        self.result = result

    async def call(self, args, context):
        self.called.append(args)
        return self.result


def told_by(agent, query="Hello"):
    """Run and stream an agent, and return all that its caller is told."""

    async def run():
        told = []
        try:
            told.append(repr(await agent.run(query)))
            told += [repr(event) async for event in agent.stream(query)]
        except Exception as error:
            told.append(repr(error))
        return "".join(told)

    return asyncio.run(run())


@planted
@given(form=st.sampled_from(AT["before_llm_call"][1]), query=QUERIES)
def test_a_text_planted_in_a_query_does_not_reach_the_model(form, query):
    model = ScriptedModel(["Hi", "Hi"])
    told_by(
        Agent(model, hooks=hooks_of("before_llm_call", form)), [{"role": "user", "content": query}]
    )
    assert model.requests == []


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
@planted
@given(form=st.sampled_from(AT["after_llm_call"][1]), answer=ANSWERS)
def test_a_text_planted_in_an_answer_does_not_reach_the_caller(point, form, answer):
    assume(not answer.tool_calls or point == "after_llm_call")
    noting = Noting()
    model = ScriptedModel([answer, "Fine.", answer, "Fine."])
    agent = Agent(model, tools=[noting], hooks=hooks_of(point, form))
    assert "force" not in told_by(agent).replace(f"contains('{NEEDLE}')", "")
    assert noting.called == []


@planted
@given(form=st.sampled_from(AT["before_tool_call"][1]), args=ARGUMENTS)
def test_no_tool_is_called_with_a_text_planted_in_its_arguments(form, args):
    noting = Noting()
    call = ToolCall("c1", "f", args)
    model = ScriptedModel([call, "Fine.", call, "Fine."])
    told_by(Agent(model, tools=[noting], hooks=hooks_of("before_tool_call", form)))
    assert noting.called == []


@planted
@given(form=st.sampled_from(AT["after_tool_call"][1]), result=PLANTED_DATA)
def test_a_text_planted_in_a_result_reaches_neither_model_nor_caller(form, result):
    def read() -> object:
        return result

    call = ToolCall("c1", "read", {})
    model = ScriptedModel([call, "Fine.", call, "Fine."])
    told = told_by(Agent(model, tools=[read], hooks=hooks_of("after_tool_call", form)))
    assert "force" not in repr([request.messages for request in model.requests]) + told


@settings(planted, max_examples=20)
@given(query=QUERIES, args=ARGUMENTS, result=PLANTED_DATA)
def test_where_no_rule_stands_all_of_it_passes(query, args, result):
    """Else the others would prove nothing."""
    noting = Noting(result)
    model = ScriptedModel([ToolCall("c1", "f", args), "Fine."])
    asyncio.run(Agent(model, tools=[noting]).run([{"role": "user", "content": query}]))
    assert noting.called == [args]
    assert len(model.requests) == 2


async def test_what_contains_itself_ends_no_process(ask):
    def read() -> object:
        loop: list[object] = [NEEDLE]
        loop.append(loop)
        return loop

    model = ScriptedModel([ToolCall("c1", "read", {}), "Fine."])
    agent = Agent(model, tools=[read], hooks=hooks_of("after_tool_call", "block"))
    await ask(agent)
    assert "force" not in repr([request.messages for request in model.requests])
