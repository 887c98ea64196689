"""Rules of every documented form over data of any shape in LangChain: none lets it pass."""

import asyncio
import logging

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from tests.planting import ARGUMENTS
from tests.rule_forms import check_rule, forms, redactions

from checkrail import CheckrailError
from checkrail.adapters.langchain.run_endings import RunEnded
from checkrail.engine.registry import HookRegistry

from .support_graphs import guard_of, scripted
from .test_planted import ANSWERS, ASKED, RESULTS, Plain

any_form = settings(max_examples=50, derandomize=True, deadline=None)
ANYTHING = {"type": "object", "properties": {}, "additionalProperties": True}
FINE = AIMessage("Fine.")


@pytest.fixture(autouse=True, scope="module")
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def told_by(specs, work):
    """Do work under the rules, and return what came of it, which no exception is but theirs."""
    records = []
    registry = HookRegistry(records.append)
    registry.swap(specs)

    async def run():
        with guard_of(registry).activate():
            try:
                return repr(await work())
            except (CheckrailError, RunEnded) as error:
                return repr(error)

    told = asyncio.run(run())
    if specs[0].name != "redaction":
        check_rule(records, specs[-1])
    return told


def model_told_by(specs, messages, *answers):
    model = scripted(*answers, FINE, FINE, FINE, FINE, kind=Plain)
    return told_by(specs, lambda: model.ainvoke(messages)), model.asked


def tool_told_by(specs, args, result):
    called = []

    def call(**given):
        called.append(given)
        return result

    tool = StructuredTool.from_function(call, name="f", description="F.", args_schema=ANYTHING)
    given = {"type": "tool_call", "id": "c1", "name": "f", "args": args}
    return told_by(specs, lambda: tool.ainvoke(given)), called


@any_form
@given(specs=forms("before_llm_call"), messages=ASKED)
def test_no_request_passes(specs, messages):
    _, asked = model_told_by(specs, messages)
    assert asked == []


@any_form
@given(specs=forms("after_llm_call"), answer=ANSWERS)
def test_no_answer_passes(specs, answer):
    told, _ = model_told_by(specs, [HumanMessage("x")], answer)
    assert "force" not in told.replace("contains('push --force')", "")


@any_form
@given(specs=forms("before_tool_call"), args=ARGUMENTS)
def test_no_tool_call_passes(specs, args):
    _, called = tool_told_by(specs, args, "done")
    assert called == []


@any_form
@given(specs=forms("after_tool_call"), result=RESULTS)
def test_no_tool_result_passes(specs, result):
    told, called = tool_told_by(specs, {}, result)
    assert called == [{}]
    assert "force" not in told


few = settings(any_form, max_examples=20)


@few
@given(specs=redactions("before_llm_call"), messages=ASKED)
def test_no_redacted_request_has_it(specs, messages):
    _, asked = model_told_by(specs, messages)
    assert "force" not in repr(asked)


@few
@given(specs=redactions("after_llm_call"), answer=ANSWERS)
def test_no_redacted_answer_has_it(specs, answer):
    told, _ = model_told_by(specs, [HumanMessage("x")], answer)
    assert "force" not in told


@few
@given(specs=redactions("before_tool_call"), args=ARGUMENTS)
def test_no_redacted_tool_call_has_it(specs, args):
    _, called = tool_told_by(specs, args, "done")
    assert "force" not in repr(called)


@few
@given(specs=redactions("after_tool_call"), result=RESULTS)
def test_no_redacted_tool_result_has_it(specs, result):
    told, _ = tool_told_by(specs, {}, result)
    assert "force" not in told
