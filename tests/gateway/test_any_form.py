"""Rules of every documented form over data of any shape at the gateway: none lets it pass."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rule_forms import check_rule, forms, redactions

from .dialects import DIALECTS
from .provider import Raw, Say
from .talking import Talk
from .test_planted import ANSWERS, BODIES, CALLS, JSON, RESULTS, SAID, provider

__all__ = ["provider"]

any_form = settings(max_examples=20, derandomize=True, deadline=None)
ELSEWHERE = ("retry", "retry with a message", "replace")
"""What is for agents: at the gateway answers and calls know no such decision."""


def told_by(provider: Any, name: str, specs: Any, body: Any = None, answer: Any = None) -> bytes:
    """Call the gateway under the rules, and return what came back."""

    async def call() -> bytes:
        provider.anew()
        is_said = isinstance(answer, Say)
        if answer is not None:
            provider.say(answer if is_said else Raw([json.dumps(answer).encode()], headers=JSON))
        async with Talk(DIALECTS[name], provider, stream=is_said) as talk:
            talk.hooks.swap(specs)
            content = (await talk.reply(body)).content
            if not isinstance(content, bytes):
                content = b"".join([piece async for piece in content])
            if specs[0].name != "redaction":
                check_rule(talk.records, specs[-1])
            return content

    return asyncio.run(call())


@pytest.mark.parametrize("name", DIALECTS)
@any_form
@given(specs=forms("before_llm_call"), data=st.data())
def test_no_request_passes(provider, name, specs, data):
    told_by(provider, name, specs, data.draw(BODIES[name]))
    assert provider.requests == []


@pytest.mark.parametrize("name", DIALECTS)
@any_form
@given(specs=forms("after_llm_call", *ELSEWHERE), data=st.data())
def test_no_answer_passes(provider, name, specs, data):
    content = told_by(provider, name, specs, answer=data.draw(ANSWERS[name] | SAID))
    assert b"--force" not in content
    assert b"\\u0066" not in content


@pytest.mark.parametrize("name", DIALECTS)
@any_form
@given(specs=forms("before_tool_call", *ELSEWHERE), data=st.data())
def test_no_call_passes(provider, name, specs, data):
    content = told_by(provider, name, specs, answer=data.draw(CALLS[name]))
    assert b"force" not in content
    assert b"\\u0066" not in content


@pytest.mark.parametrize("name", DIALECTS)
@any_form
@given(specs=forms("after_tool_call"), data=st.data())
def test_no_result_passes(provider, name, specs, data):
    told_by(provider, name, specs, data.draw(RESULTS[name]))
    assert not any(b"force" in request.body for request in provider.requests)


@pytest.mark.parametrize("name", DIALECTS)
@settings(any_form, max_examples=10)
@given(data=st.data())
def test_no_redaction_lets_it_pass(provider, name, data):
    specs = data.draw(redactions("before_llm_call"))
    told_by(provider, name, specs, data.draw(BODIES[name]))
    assert not any(b"force" in request.body for request in provider.requests)
    specs = data.draw(redactions("after_tool_call"))
    told_by(provider, name, specs, data.draw(RESULTS[name]))
    assert not any(b"force" in request.body for request in provider.requests)
    specs = data.draw(redactions("after_llm_call"))
    content = told_by(provider, name, specs, answer=data.draw(ANSWERS[name] | SAID))
    assert b"--force" not in content
    specs = data.draw(redactions("before_tool_call"))
    assert b"force" not in told_by(provider, name, specs, answer=data.draw(CALLS[name]))
