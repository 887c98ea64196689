"""All text of requests and answers of the three APIs is in their `text`, wherever it stands."""

import json

import pytest

from checkrail.llm.chat.api import Chat
from checkrail.llm.messages.api import Messages
from checkrail.llm.responses.api import Responses

WORD = "needle"
ARGUMENTS = json.dumps({"command": ["git", WORD]})
ESCAPED = '{"command": "\\u006eeedle"}'
SAID = {"role": "user", "content": "hi"}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "AA=="}


def chat(*messages, **others):
    return {"model": "m", "messages": [*messages] or [SAID], **others}


def user(*parts):
    return {"role": "user", "content": [*parts]}


def assistant(*parts):
    return {"role": "assistant", "content": [*parts]}


def responses(*items, **others):
    return {"model": "m", "input": [*items] or "hi", **others}


TEXT = {"type": "text", "text": WORD}
REQUESTS = {
    "chat": (
        Chat(),
        [
            chat({"role": "system", "content": WORD}),
            chat({"role": "user", "name": WORD, "content": "hi"}),
            chat(user({"type": "text", "text": "nee"}, {"type": "text", "text": "dle"})),
            chat(user({"type": "file", "file": {"filename": WORD}})),
            chat({"role": "assistant", "content": None, "tool_calls": [CALL]}),
            chat({"role": "assistant", "function_call": {"name": "f", "arguments": ESCAPED}}),
            chat({"role": "assistant", "content": None, "refusal": WORD}),
            chat(tools=[{"type": "function", "function": {"name": "f", "description": WORD}}]),
            chat(functions=[{"name": "f", "description": WORD}]),
            chat(metadata={"a": WORD}),
            chat(prediction={"type": "content", "content": WORD}),
            chat(unknown={"a": [WORD]}),
        ],
    ),
    "messages": (
        Messages(),
        [
            chat(system=[TEXT]),
            chat(user({"type": "document", "context": WORD, "source": PDF})),
            chat(user({"type": "document", "source": {"type": "content", "content": [TEXT]}})),
            chat(user({"type": "tool_result", "tool_use_id": "1", "content": [TEXT]})),
            chat(user({"type": "search_result", "source": "u", "title": "t", "content": [TEXT]})),
            chat(assistant({"type": "tool_use", "id": "1", "name": "f", "input": {"a": [WORD]}})),
            chat(assistant({"type": "thinking", "thinking": WORD, "signature": "s"})),
            chat(assistant({"type": "web_search_tool_result", "content": [{"title": WORD}]})),
            chat(tools=[{"name": "f", "input_schema": {}, "input_examples": [{"a": WORD}]}]),
            chat(unknown=WORD),
        ],
    ),
    "responses": (
        Responses(),
        [
            {"model": "m", "input": WORD},
            responses(instructions=WORD),
            responses(prompt={"id": "p", "variables": {"name": WORD}}),
            responses(user({"type": "input_text", "text": WORD})),
            responses({"type": "function_call_output", "call_id": "1", "output": WORD}),
            responses({"type": "function_call", "call_id": "1", "name": "f", "arguments": ESCAPED}),
            responses({"type": "custom_tool_call", "call_id": "1", "name": "f", "input": WORD}),
            responses({"type": "reasoning", "id": "r", "summary": [{"type": "x", "text": WORD}]}),
            responses(
                {
                    "type": "local_shell_call",
                    "id": "i",
                    "call_id": "1",
                    "action": {"type": "exec", "command": ["git", WORD], "env": {}},
                }
            ),
            responses({"type": "unknown", "a": {"b": WORD}}),
            responses(unknown={"a": WORD}),
        ],
    ),
}


def bodies(cases):
    return [
        pytest.param(form, body, id=f"{name}-{number}")
        for name, (form, given) in cases.items()
        for number, body in enumerate(given)
    ]


@pytest.mark.parametrize(("form", "body"), bodies(REQUESTS))
def test_all_text_of_a_request(form, body):
    assert WORD in form.read_request(body).text


def choice(**message):
    return {"model": "m", "choices": [{"message": {"role": "assistant", **message}}]}


def blocks(*content, **others):
    return {"type": "message", "role": "assistant", "model": "m", "content": [*content], **others}


def output(*items):
    return {"object": "response", "status": "completed", "model": "m", "output": [*items]}


ANSWERS = {
    "chat": (
        Chat(),
        [
            choice(content=WORD),
            choice(content=None, refusal=WORD),
            choice(content="hi", reasoning_content=WORD),
            choice(content=None, tool_calls=[CALL]),
            choice(
                content=None,
                tool_calls=[{**CALL, "function": {"name": "f", "arguments": f"no JSON {WORD}"}}],
            ),
            choice(content="hi", unknown={"a": WORD}),
            {"choices": [*choice(content="hi")["choices"], *choice(content=WORD)["choices"]]},
        ],
    ),
    "messages": (
        Messages(),
        [
            blocks({"type": "thinking", "thinking": "hm", "signature": "s"}, TEXT),
            blocks({"type": "thinking", "thinking": WORD, "signature": "s"}),
            blocks({"type": "tool_use", "id": "1", "name": "f", "input": {"a": {"b": WORD}}}),
            blocks({"type": "text", "text": "hi", "citations": [{"cited_text": WORD}]}),
            blocks({"type": "unknown", "a": WORD}),
        ],
    ),
    "responses": (
        Responses(),
        [
            output(
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": WORD, "annotations": []}],
                }
            ),
            output({"type": "reasoning", "summary": [{"type": "summary_text", "text": WORD}]}),
            output({"type": "function_call", "call_id": "1", "name": "f", "arguments": ESCAPED}),
            output({"type": "unknown", "a": WORD}),
        ],
    ),
}


@pytest.mark.parametrize(("form", "body"), bodies(ANSWERS))
def test_all_text_of_an_answer(form, body):
    assert WORD in form.read_answer(body).text
