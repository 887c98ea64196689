"""Rules of a file in graphs: what they are to keep back does not get past them in any shape."""

import json
import logging

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.tools.base import _format_output
from langgraph.graph import START, MessagesState, StateGraph
from tests.shapes import NEEDLE, SHAPES

from checkrail.config import load_text
from checkrail.engine.registry import HookRegistry

from .support_graphs import Scripted, guard_of, scripted

BLOCKS = {"block": {"block": "Not here"}, "fail": {"fail": "Not here"}, "ask": {"ask": "Really?"}}
FORMS = {**BLOCKS, "stop": {"stop": "Closed"}, "replace": {"replace": {"content": "cached"}}}
FORMS |= {"retry": {"retry": "Again"}, "block first": {"block": "No", "lane": "transform"}}
NAMES = {
    "before_llm_call": "request",
    "after_llm_call": "message",
    "before_tool_call": "tool_call",
    "after_tool_call": "tool_result",
}
IN_PARTS = {
    name: make
    for name, make in SHAPES.items()
    if isinstance(made := make("a b"), list) and all(isinstance(part, str | dict) for part in made)
}
PARTS = {"text": SHAPES["text"], **IN_PARTS}


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def _model(*replies):
    class Plain(Scripted):
        def _reply(self, messages, kwargs):
            self.asked.append(messages)
            reply = self.replies.pop(0)
            return AIMessage(reply) if isinstance(reply, str) else reply

    return scripted(*replies, kind=Plain)


def guarded(point, form):
    rule = {"name": "rule", "when": f"{NAMES[point]}.text.contains('{NEEDLE}')", **FORMS[form]}
    registry = HookRegistry()
    registry.swap(load_text(json.dumps({"hooks": {point: [rule]}}), "json").specs)
    return guard_of(registry).activate()


@pytest.fixture(params=["ainvoke", "astream"])
def run(request):
    """Run a graph, and return all that its caller is told."""

    async def told(graph, *messages):
        given = {"messages": [*messages]}
        try:
            if request.param == "ainvoke":
                return repr(await graph.ainvoke(given))
            modes = ["values", "updates", "messages"]
            return repr([piece async for piece in graph.astream(given, stream_mode=modes)])
        except Exception as error:
            return repr(error)

    return told


def node_of(model):
    """Make a graph of one node that asks a model."""

    async def node(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    return StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()


CALL = {"id": "c1", "name": "f", "args": {"a": [{"b": NEEDLE}]}}
ASKED = {
    **{f"human {name}": [HumanMessage(make(NEEDLE))] for name, make in PARTS.items()},
    **{f"ai {name}": [AIMessage(make(NEEDLE)), HumanMessage("x")] for name, make in PARTS.items()},
    "system": [SystemMessage(NEEDLE), HumanMessage("x")],
    "name": [HumanMessage("x", name=NEEDLE)],
    "call": [AIMessage("", tool_calls=[CALL]), ToolMessage("x", tool_call_id="c1")],
    "result": [
        AIMessage("", tool_calls=[{**CALL, "args": {}}]),
        ToolMessage([{"type": "text", "text": NEEDLE}], tool_call_id="c1"),
    ],
    "invalid call": [
        AIMessage("", invalid_tool_calls=[{"id": "c", "name": "f", "args": NEEDLE, "error": None}])
    ],
    "thoughts beside": [
        AIMessage("x", additional_kwargs={"reasoning_content": NEEDLE}),
        HumanMessage("x"),
    ],
    "old call": [
        AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": NEEDLE}})
    ],
    "call in parts alone": [
        AIMessage([{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": NEEDLE}}])
    ],
}


@pytest.mark.parametrize("form", ["block", "block first", "fail", "ask", "stop", "replace"])
@pytest.mark.parametrize("given", ASKED)
async def test_no_request_with_the_text_reaches_the_model(run, form, given):
    model = _model("Hi")
    with guarded("before_llm_call", form):
        await run(node_of(model), *ASKED[given])
    assert model.asked == []


AT_ONCE = ("words", "parts without a space", "words and parts", "parts and words")
"""Texts of an answer that are one text without a space if they come in a stream."""

ANSWERS = {
    **{name: AIMessage(make(NEEDLE)) for name, make in PARTS.items() if name not in AT_ONCE},
    "call": AIMessage("", tool_calls=[CALL]),
    "invalid call": ASKED["invalid call"][0],
    "thoughts beside": ASKED["thoughts beside"][0],
    "old call": ASKED["old call"][0],
    "audio beside": AIMessage("", additional_kwargs={"audio": {"transcript": NEEDLE}}),
    "call in parts alone": ASKED["call in parts alone"][0],
}


@pytest.mark.parametrize("form", ["block", "block first", "fail", "ask", "stop", "retry"])
@pytest.mark.parametrize("answer", ANSWERS)
async def test_no_answer_with_the_text_reaches_the_caller(run, form, answer):
    with guarded("after_llm_call", form):
        told = await run(node_of(_model(ANSWERS[answer], "Fine.")), HumanMessage("x"))
    assert "force" not in told.replace(f"contains('{NEEDLE}')", "")
    assert "cHVzaC" not in told


@pytest.mark.parametrize("form", ["block", "block first", "fail", "ask", "stop", "retry"])
@pytest.mark.parametrize("shape", AT_ONCE)
async def test_no_answer_of_several_texts_reaches_the_caller(form, shape):
    model = _model(AIMessage(PARTS[shape](NEEDLE)), "Fine.")
    with guarded("after_llm_call", form):
        try:
            told = repr(await node_of(model).ainvoke({"messages": [HumanMessage("x")]}))
        except Exception as error:
            told = repr(error)
    assert "force" not in told.replace(f"contains('{NEEDLE}')", "")


def agent_of(model, fn, **options):
    return create_agent(model, [StructuredTool.from_function(fn, **options)])


@pytest.mark.parametrize("form", ["block", "block first", "fail", "ask", "replace"])
async def test_no_tool_is_called_with_the_text(run, form):
    called = []

    def bash(command: object) -> str:
        """Run a command."""
        called.append(command)
        return "done"

    for shape, make in SHAPES.items():
        args = {"command": make(NEEDLE)}
        model = _model(AIMessage("", tool_calls=[{"id": "c1", "name": "bash", "args": args}]), "Hi")
        with guarded("before_tool_call", form):
            await run(agent_of(model, bash), HumanMessage("x"))
        assert called == [], shape


@pytest.mark.parametrize("form", ["block", "block first", "fail"])
async def test_no_result_with_the_text_reaches_the_model(run, form):
    for shape, make in SHAPES.items():
        message = _format_output(make(NEEDLE), None, "c1", "read", "success")
        written = getattr(message, "content", None)
        if isinstance(written, str) and NEEDLE not in written:
            continue  # LangChain writes it as JSON, which has quotes between the words

        def read(make=make) -> object:
            """Read."""
            return make(NEEDLE)

        call = {"id": "c1", "name": "read", "args": {}}
        model = _model(AIMessage("", tool_calls=[call]), "Fine.")
        with guarded("after_tool_call", form):
            told = await run(
                agent_of(model, read, infer_schema=False, args_schema=NOTHING), HumanMessage("x")
            )
        given = repr(model.asked) + told
        assert "force" not in given, shape
        assert "cHVzaC" not in given, shape


NOTHING = {"type": "object", "properties": {}}
