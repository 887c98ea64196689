"""Texts planted anywhere in LangChain's messages, whole or in pieces: no rule lets one pass."""

import asyncio
import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.types import Command
from tests.planting import ARGUMENTS, AROUND, MARK, PIECES, WRITTEN, parts_of

from checkrail.config import load_text
from checkrail.engine.registry import HookRegistry

from .support_graphs import Scripted, guard_of, scripted

slow = settings(max_examples=30, derandomize=True, deadline=None)
SEARCHES = (
    f".contains('{MARK}')",
    f".matches('{MARK}')",
    f".lowerAscii().contains('{MARK}')",
    f".indexOf('{MARK}') >= 0",
)
IMAGE = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
THOUGHT = {"type": "reasoning", "reasoning": "Hm"}


def says(text):
    return {"type": "text", "text": text}


CONTENT = AROUND | parts_of(says, [IMAGE]) | parts_of(lambda text: text, [IMAGE])
THOUGHTS = parts_of(lambda text: {"type": "reasoning", "reasoning": text}, [])
USE = ARGUMENTS.map(lambda args: [{"type": "tool_use", "id": "c1", "name": "f", "input": args}])
CALLING = ARGUMENTS.map(
    lambda args: AIMessage("", tool_calls=[{"id": "c1", "name": "f", "args": args}])
)
INVALID = AROUND.map(
    lambda args: AIMessage(
        "", invalid_tool_calls=[{"id": "c1", "name": "f", "args": args, "error": None}]
    )
)
BESIDE = st.builds(
    lambda name, text: AIMessage("x", additional_kwargs={name: text}),
    st.sampled_from(["reasoning_content", "refusal", "anything"]),
    AROUND,
) | WRITTEN.map(
    lambda args: AIMessage(
        "", additional_kwargs={"function_call": {"name": "f", "arguments": args}}
    )
)
CALL = AIMessage("", tool_calls=[{"id": "c1", "name": "f", "args": {}}])
ASKED = (
    CONTENT.map(lambda content: [HumanMessage(content)])
    | CONTENT.map(lambda content: [SystemMessage(content), HumanMessage("x")])
    | CONTENT.map(lambda content: [AIMessage(content), HumanMessage("x")])
    | (CALLING | INVALID | BESIDE).map(lambda message: [message, HumanMessage("x")])
    | (THOUGHTS | USE).map(lambda content: [AIMessage(content), HumanMessage("x")])
    | CONTENT.map(lambda content: [CALL, ToolMessage(content, tool_call_id="c1")])
)
ANSWERS = (
    (AROUND | parts_of(says, [IMAGE, THOUGHT], PIECES) | THOUGHTS | USE).map(AIMessage)
    | CALLING
    | INVALID
    | BESIDE
)


@pytest.fixture(autouse=True, scope="module")
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Plain(Scripted):
    """A model whose answers go out as they are."""

    def _reply(self, messages, kwargs):
        self.asked.append(messages)
        return self.replies.pop(0)


def blocked_by(point, texts, messages, answer):
    """Ask a model under gates, and return what came of it, who blocked, and who had to."""
    records = []
    whens = [f"{text}{search}" for text in texts for search in SEARCHES]
    rules = [{"name": when, "when": when, "block": "Not here"} for when in whens]
    registry = HookRegistry(records.append)
    registry.swap(load_text(json.dumps({"hooks": {point: rules}}), "json").specs)
    model = scripted(answer, kind=Plain)

    async def ask():
        with guard_of(registry).activate():
            try:
                return repr(await model.ainvoke(messages))
            except Exception as error:
                return repr(error)

    told = asyncio.run(ask())
    assert not [record.error for record in records if record.failure]
    blocked = {record.hook for record in records if record.kind == "hook_blocked"}
    assert blocked == {*whens}
    return told, model.asked


@slow
@given(messages=ASKED)
def test_no_request_passes(messages):
    texts = ["request.text", "text(request.messages)"]
    _, asked = blocked_by("before_llm_call", texts, messages, AIMessage("Hi"))
    assert asked == []


@slow
@given(answer=ANSWERS)
def test_no_answer_passes(answer):
    texts = ["message.text", "text(message)"]
    told, asked = blocked_by("after_llm_call", texts, [HumanMessage("x")], answer)
    assert len(asked) == 1
    assert "AIMessage" not in told


def call_blocked_by(point, texts, args, result):
    """Call a tool under gates that all have to block, and return what came of it, and its calls."""
    records, called = [], []
    whens = [f"{text}{search}" for text in texts for search in SEARCHES]
    rules = [{"name": when, "when": when, "block": "Not here"} for when in whens]
    registry = HookRegistry(records.append)
    registry.swap(load_text(json.dumps({"hooks": {point: rules}}), "json").specs)

    def call(**given):
        called.append(given)
        return result

    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    tool = StructuredTool.from_function(call, name="f", description="F.", args_schema=schema)

    async def ask():
        with guard_of(registry).activate():
            return await tool.ainvoke({"type": "tool_call", "id": "c1", "name": "f", "args": args})

    told = asyncio.run(ask())
    assert not [record.error for record in records if record.failure]
    assert {record.hook for record in records if record.kind == "hook_blocked"} == {*whens}
    return told, called


@slow
@given(args=ARGUMENTS)
def test_no_tool_call_passes(args):
    texts = ["tool_call.text", "text(tool_call.args)"]
    told, called = call_blocked_by("before_tool_call", texts, args, "done")
    assert called == []
    assert (told.status, told.tool_call_id) == ("error", "c1")


RESULTS = (
    AROUND
    | parts_of(says, [IMAGE])
    | CONTENT.map(lambda content: ToolMessage(content, tool_call_id="c1"))
    | CONTENT.map(
        lambda content: Command(update={"messages": [ToolMessage(content, tool_call_id="c1")]})
    )
)


@slow
@given(result=RESULTS)
def test_no_tool_result_passes(result):
    texts = ["tool_result.text", "text(tool_result.content)"]
    told, called = call_blocked_by("after_tool_call", texts, {}, result)
    assert called == [{}]
    assert "force" not in repr(told)
