"""Requests and answers that nest deeply: refused, or looked through, and never a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkrail.config import load_text

from .dialects import DIALECTS
from .every_field import REQUESTS
from .provider import Provider, Raw
from .talking import Talk
from .test_every_field import planted

SECRET = "ann@example.com"
HIDDEN = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)

HOOKS = {
    "a rule": "hooks: {before_llm_call: {name: clean, redact: {kinds: [email]}}}",
    "a built-in": (
        "hooks: {before_llm_call: {name: c, builtin: redact, config: {kinds: [email]}}}"
    ),
    "one that puts back": (
        "hooks: {before_llm_call: "
        "{name: c, builtin: redact, config: {kinds: [email], restore: [tools]}}}"
    ),
    "a condition": (
        "hooks: {before_llm_call: {name: no, when: \"request.text.contains('@')\", block: no}}"
    ),
}
GATES = {
    "of calls": "before_tool_call: {name: no, when: \"tool_call.text.contains('@')\", block: no}",
    "of answers": "after_llm_call: {name: no, when: \"message.text.contains('@')\", block: no}",
}
ARGUMENTS = {
    "chat": ("messages", 0, "tool_calls", 0, "function", "arguments"),
    "responses": ("input", 0, "arguments"),
}
CALLS: dict[str, Any] = {
    "chat": {
        "model": "m",
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": ""}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "done"},
        ],
    },
    "responses": {
        "model": "m",
        "input": [
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": ""},
            {"type": "function_call_output", "call_id": "1", "output": "done"},
        ],
    },
}


def nested(depth: int, written: str = HIDDEN) -> str:
    return '{"a":' * depth + f'["{written}"]' + "}" * depth


@pytest.fixture(scope="module")
def provider():
    with Provider() as running:
        yield running


async def reply_to(provider: Provider, name: str, hooks: str, body: bytes):
    async with Talk(DIALECTS[name], provider) as talk:
        talk.hooks.swap(load_text(hooks).specs)
        return await talk.reply(body)


@pytest.mark.parametrize("depth", [130, 250, 900, 5000])
@pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_that_nests_too_deeply_is_refused(provider, name, hooks, depth):
    provider.anew()
    body = json.dumps(REQUESTS[name] | {"extra": "HERE"}).replace('"HERE"', nested(depth))
    reply = await reply_to(provider, name, hooks, body.encode())
    assert 400 <= reply.status < 500
    assert provider.requests == []


@pytest.mark.parametrize("depth", [130, 250, 900, 5000])
@pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("name", CALLS)
async def test_arguments_that_nest_deeply_hide_nothing(provider, name, hooks, depth):
    provider.anew()
    body = planted(CALLS[name], ARGUMENTS[name], nested(depth))
    reply = await reply_to(provider, name, hooks, json.dumps(body).encode())
    assert reply.status < 500
    if reply.status < 400:
        assert HIDDEN.encode() not in provider.last.body.replace(b"\\\\u", b"\\u")
    else:
        assert provider.requests == []


@pytest.mark.parametrize("depth", [130, 250, 900, 5000])
@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
async def test_no_call_of_an_answer_gets_past_a_gate_by_nesting(provider, gate, depth):
    provider.anew()
    function = {"name": "f", "arguments": nested(depth)}
    call = {"id": "1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = json.dumps({"id": "1", "model": "m", "choices": [choice]}).encode()
    provider.say(Raw([answer], headers={"content-type": "application/json"}))
    body = json.dumps(REQUESTS["chat"]).encode()
    reply = await reply_to(provider, "chat", f"hooks: {{{gate}}}", body)
    assert len(provider.requests) == 1
    assert b"u0061" not in reply.content
    assert reply.status < 500
