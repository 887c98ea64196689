"""Texts planted anywhere in the four APIs, whole or in pieces: no rule lets one pass."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planting import ARGUMENTS, AROUND, MARK, PIECES, WRITTEN, parts_of

from checkrail.config import load_text

from .dialects import DIALECTS
from .provider import Provider, Raw, Say
from .provider_wire import whole
from .talking import Talk

slow = settings(max_examples=20, derandomize=True, deadline=None)
JSON = {"content-type": "application/json"}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
SEARCHES = (
    f".contains('{MARK}')",
    f".matches('{MARK}')",
    f".lowerAscii().contains('{MARK}')",
    f".indexOf('{MARK}') >= 0",
)
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def says(kind: str, field: str = "text", **more: Any) -> Any:
    return lambda text: {"type": kind, field: text, **more}


# Parts of an answer are one text to SDKs, without a space between them.
CHAT_PARTS = parts_of(
    says("text"),
    [
        {"type": "image_url", "image_url": {"url": "https://x"}},
        {"type": "input_audio", "input_audio": {"data": "iVBORw0KGgo=", "format": "wav"}},
    ],
)
MESSAGES_PARTS = parts_of(
    says("text"),
    [
        {"type": "image", "source": PNG},
        {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}},
    ],
)
ANSWER_PARTS = parts_of(
    says("text"), [THOUGHT, {"type": "redacted_thinking", "data": "ZGF0YQ=="}], PIECES
)
THOUGHTS = parts_of(says("thinking", "thinking", signature="c2ln"), [])
INPUT_PARTS = parts_of(
    says("input_text"),
    [
        {"type": "input_image", "image_url": "https://x"},
        {"type": "input_file", "file_id": "file_1"},
    ],
)
OUTPUT_PARTS = parts_of(says("output_text", annotations=[]), [], PIECES)
GEMINI_IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
GEMINI_SIGNED = {"text": "", "thoughtSignature": "c2ln"}
GEMINI_PARTS = parts_of(
    lambda text: {"text": text},
    [GEMINI_IMAGE, GEMINI_SIGNED, {"fileData": {"fileUri": "https://x"}}],
)
GEMINI_ANSWER_PARTS = parts_of(
    lambda text: {"text": text},
    [GEMINI_IMAGE, GEMINI_SIGNED, {"text": "Hm", "thought": True}],
    PIECES,
)
GEMINI_THOUGHTS = parts_of(lambda text: {"text": text, "thought": True}, [GEMINI_SIGNED], PIECES)
SUMMARIES = parts_of(says("summary_text"), [])


def _chat(*messages: Any, **more: Any) -> Any:
    return {"model": "m", "messages": [*messages, {"role": "user", "content": "u"}], **more}


def _messages(*messages: Any, **more: Any) -> Any:
    said = [*messages, {"role": "user", "content": "u"}]
    return {"model": "m", "max_tokens": 5, "messages": said, **more}


def _responses(*items: Any, **more: Any) -> Any:
    return {"model": "m", "input": [*items, {"role": "user", "content": "u"}], **more}


def _gemini(*contents: Any, **more: Any) -> Any:
    said = [*contents, {"role": "user", "parts": [{"text": "u"}]}]
    return {"model": "m", "contents": said, **more}


def turn(role: str) -> Any:
    return lambda parts: {"role": role, "parts": parts}


def _gemini_call(args: Any) -> Any:
    return {"functionCall": {"name": "f", "args": args}}


def role(name: str, **more: Any) -> Any:
    return lambda content: {"role": name, "content": content, **more}


def _chat_call(arguments: str) -> Any:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _use(args: Any) -> Any:
    return {"type": "tool_use", "id": "t1", "name": "f", "input": args}


def _result(content: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content}


def _function(arguments: str) -> Any:
    return {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments}


CHAT_TEXT, MESSAGES_TEXT = AROUND | CHAT_PARTS, AROUND | MESSAGES_PARTS
IN_MESSAGES = {
    "chat": CHAT_TEXT.map(role("system"))
    | CHAT_TEXT.map(role("user"))
    | CHAT_TEXT.map(role("assistant"))
    | AROUND.map(lambda text: {**role("assistant")("x"), "reasoning_content": text})
    | WRITTEN.map(_chat_call),
    "messages": MESSAGES_TEXT.map(role("user"))
    | (ANSWER_PARTS | THOUGHTS).map(role("assistant"))
    | ARGUMENTS.map(lambda args: role("assistant")([_use(args)]))
    | MESSAGES_PARTS.map(
        lambda parts: role("user")(
            [{"type": "document", "source": {"type": "content", "content": parts}}]
        )
    ),
    "responses": (AROUND | INPUT_PARTS).map(role("user"))
    | OUTPUT_PARTS.map(role("assistant", type="message", id="m1", status="completed"))
    | SUMMARIES.map(lambda parts: {"type": "reasoning", "id": "r1", "summary": parts})
    | WRITTEN.map(_function),
    "gemini": GEMINI_PARTS.map(turn("user"))
    | (GEMINI_ANSWER_PARTS | GEMINI_THOUGHTS).map(turn("model"))
    | ARGUMENTS.map(lambda args: turn("model")([_gemini_call(args)])),
}
"""A message of each API that has the mark somewhere."""

BODIES = {
    "chat": IN_MESSAGES["chat"].map(_chat)
    | st.builds(lambda args: _chat(metadata=args), ARGUMENTS)
    | st.builds(
        lambda args: _chat(
            tools=[{"type": "function", "function": {"name": "f", "parameters": {"default": args}}}]
        ),
        ARGUMENTS,
    ),
    "messages": IN_MESSAGES["messages"].map(_messages)
    | MESSAGES_TEXT.map(lambda system: _messages(system=system)),
    "responses": IN_MESSAGES["responses"].map(_responses)
    | AROUND.map(lambda text: _responses(instructions=text)),
    "gemini": IN_MESSAGES["gemini"].map(_gemini)
    | GEMINI_PARTS.map(lambda parts: _gemini(systemInstruction={"parts": parts}))
    | GEMINI_PARTS.map(lambda parts: _gemini(system_instruction={"parts": parts}))
    | ARGUMENTS.map(
        lambda args: _gemini(
            tools={"function_declarations": {"name": "f", "parameters": {"default": args}}}
        )
    ),
}
RESULTS = {
    "chat": CHAT_TEXT.map(
        lambda content: _chat(_chat_call("{}"), role("tool", tool_call_id="c1")(content))
    ),
    "messages": MESSAGES_TEXT.map(
        lambda content: _messages(role("assistant")([_use({})]), role("user")([_result(content)]))
    ),
    "responses": (AROUND | INPUT_PARTS).map(
        lambda output: _responses(
            _function("{}"), {"type": "function_call_output", "call_id": "c1", "output": output}
        )
    ),
    "gemini": (ARGUMENTS | AROUND.map(lambda text: {"result": text})).map(
        lambda response: _gemini(
            turn("model")([_gemini_call({})]),
            turn("user")([{"functionResponse": {"name": "f", "response": response}}]),
        )
    ),
}


def _chat_answer(**message: Any) -> Any:
    told = {"role": "assistant", "content": "x", **message}
    return whole(DIALECT_PATHS["chat"], Say("x")) | {
        "choices": [{"index": 0, "message": told, "finish_reason": "stop"}]
    }


DIALECT_PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models",
}


def _gemini_answer(parts: Any) -> Any:
    candidate = {"content": turn("model")(parts), "finishReason": "STOP", "index": 0}
    return whole(DIALECT_PATHS["gemini"], Say("x")) | {"candidates": [candidate]}


def _messages_answer(content: Any) -> Any:
    return whole(DIALECT_PATHS["messages"], Say("x")) | {"content": content}


def _responses_answer(*output: Any) -> Any:
    return whole(DIALECT_PATHS["responses"], Say("x")) | {"output": [*output]}


def _item(content: Any) -> Any:
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    return {**item, "content": content}


ANSWERS = {
    "chat": CHAT_TEXT.map(lambda content: _chat_answer(content=content))
    | AROUND.map(lambda text: _chat_answer(content=None, refusal=text))
    | AROUND.map(lambda text: _chat_answer(reasoning_content=text))
    | WRITTEN.map(lambda args: _chat_answer(**_chat_call(args))),
    "messages": (ANSWER_PARTS | THOUGHTS).map(_messages_answer)
    | ARGUMENTS.map(lambda args: _messages_answer([_use(args)]))
    | ARGUMENTS.map(lambda args: _messages_answer([{**_use(args), "type": "server_tool_use"}])),
    "responses": OUTPUT_PARTS.map(lambda parts: _responses_answer(_item(parts)))
    | OUTPUT_PARTS.map(lambda parts: _responses_answer(*[_item([part]) for part in parts]))
    | AROUND.map(lambda text: _responses_answer(_item([says("refusal", "refusal")(text)])))
    | SUMMARIES.map(
        lambda parts: _responses_answer({"type": "reasoning", "id": "r1", "summary": parts})
    )
    | WRITTEN.map(lambda args: _responses_answer(_function(args))),
    "gemini": (GEMINI_ANSWER_PARTS | GEMINI_THOUGHTS).map(_gemini_answer)
    | ARGUMENTS.map(lambda args: _gemini_answer([_gemini_call(args)]))
    | AROUND.map(lambda text: _gemini_answer([{"executableCode": {"code": text}}])),
}
CALLS = {
    "chat": WRITTEN.map(lambda args: _chat_answer(**_chat_call(args))),
    "messages": ARGUMENTS.map(lambda args: _messages_answer([_use(args)])),
    "responses": WRITTEN.map(lambda args: _responses_answer(_function(args))),
    "gemini": ARGUMENTS.map(lambda args: _gemini_answer([_gemini_call(args)])),
}
SAID = st.builds(
    Say, AROUND, st.just([]), st.sampled_from(["", "Hm"]), cut=st.sampled_from([None, 1, 13])
) | st.builds(
    lambda args, text, cut: Say(text, [("f", args)], cut=cut),
    ARGUMENTS,
    st.sampled_from(["", "x"]),
    st.sampled_from([None, 1, 13]),
)


def rules(point: str, *texts: str) -> Any:
    """Make a gate of each search in each of the texts of a point."""
    whens = [f"{text}{search}" for text in texts for search in SEARCHES]
    entries = [{"name": when, "when": when, "block": "Not here"} for when in whens]
    return load_text(json.dumps({"hooks": {point: entries}}), "json").specs


@pytest.fixture(scope="module")
def provider():
    logging.disable()
    with Provider() as running:
        yield running
    logging.disable(logging.NOTSET)


def told_by(provider, name, specs, body=None, answer=None) -> tuple[bytes, set[str], list[str]]:
    """Call the gateway, and return what came back, who blocked, and who let it pass."""

    async def call():
        provider.anew()
        if answer is not None:
            is_said = isinstance(answer, Say)
            provider.say(answer if is_said else Raw([json.dumps(answer).encode()], headers=JSON))
        async with Talk(DIALECTS[name], provider, stream=isinstance(answer, Say)) as talk:
            talk.hooks.swap(specs)
            content = (await talk.reply(body)).content
            if not isinstance(content, bytes):
                content = b"".join([piece async for piece in content])
            ended = [record for record in talk.records if record.kind != "hook_start"]
            blocked = {record.hook for record in ended if record.kind == "hook_blocked"}
            return content, blocked, [str(record.error) for record in ended if record.failure]

    return asyncio.run(call())


def check_blocked(told, specs) -> bytes:
    """Check that every rule blocked, and none failed; return what came back."""
    content, blocked, failures = told
    assert not failures
    assert blocked == {spec.name for spec in specs}
    return content


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(data=st.data())
def test_no_request_passes(provider, name, data):
    specs = rules("before_llm_call", "request.text")
    check_blocked(told_by(provider, name, specs, data.draw(BODIES[name])), specs)
    assert provider.requests == []


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(data=st.data())
def test_no_message_passes(provider, name, data):
    each = [f"request.messages.exists(m, {m}{s})" for m in ("m.text", "text(m)") for s in SEARCHES]
    entries = [{"name": when, "when": when, "block": "Not here"} for when in each]
    specs = load_text(json.dumps({"hooks": {"before_llm_call": entries}}), "json").specs
    wraps = {"chat": _chat, "messages": _messages, "responses": _responses, "gemini": _gemini}
    body = wraps[name](data.draw(IN_MESSAGES[name]))
    check_blocked(told_by(provider, name, specs, body), specs)
    assert provider.requests == []


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(data=st.data())
def test_no_result_passes(provider, name, data):
    specs = rules("after_tool_call", "tool_result.text", "text(tool_result.content)")
    body = data.draw(RESULTS[name])
    check_blocked(told_by(provider, name, specs, body), specs)
    assert not any(b"force" in request.body for request in provider.requests)


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(data=st.data())
def test_no_answer_passes(provider, name, data):
    specs = rules("after_llm_call", "message.text", "text(message)")
    answer = data.draw(ANSWERS[name])
    content = check_blocked(told_by(provider, name, specs, answer=answer), specs)
    assert json.loads(content)["error"]


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(data=st.data())
def test_no_tool_call_passes(provider, name, data):
    specs = rules("before_tool_call", "tool_call.text", "text(tool_call.args)")
    answer = data.draw(CALLS[name])
    content = check_blocked(told_by(provider, name, specs, answer=answer), specs)
    assert b"force" not in content
    assert b"\\u0066" not in content


@pytest.mark.parametrize("name", DIALECTS)
@slow
@given(said=SAID)
def test_no_stream_passes(provider, name, said):
    specs = rules("after_llm_call", "message.text")
    content = check_blocked(told_by(provider, name, specs, answer=said), specs)
    assert b"--force" not in content


@pytest.mark.parametrize("name", DIALECTS)
@settings(slow, max_examples=10)
@given(data=st.data())
def test_where_no_rule_stands_all_of_them_pass(provider, name, data):
    """Else the others would prove nothing: what is refused in any case gets past no rule."""
    told_by(provider, name, [], data.draw(BODIES[name] | RESULTS[name]))
    assert len(provider.requests) == 1
    answer = data.draw(ANSWERS[name])
    content, _, _ = told_by(provider, name, [], answer=answer)
    assert json.loads(content) == answer
