"""A rule for a text blocks it in whatever field of a request or an answer it stands.

The tests know where they put the text. What a rule does not see is listed by name.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from checkrail.builtin import BUILTINS
from checkrail.config import load_text

from .dialects import DIALECTS, events
from .every_field import ANSWERS, REQUESTS
from .provider import Provider, Raw, Say
from .provider_wire import events as wire_events
from .provider_wire import whole
from .talking import Talk

SAID = Say("Said", [("f", {"a": "b"})], thinking="Thought")
NEEDLE = "git push --force now"
JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}
RULES = """
hooks:
  before_llm_call:
    - name: requests
      when: request.text.contains("push --force")
      block: Not here
  after_llm_call:
    - name: answers
      when: message.text.contains("push --force")
      block: Not here
"""

UNSEEN_IN_REQUESTS = {
    "chat": {"model"},
    "messages": {"model"},
    "gemini": set(),
    "responses": {"model", "input.3.id", "input.5.id", "input.10.id", "input.12.id"},
}
"""The model's name, unless the path has it, and the ids of calls that have another one by which
their results name them."""

PROTOCOL = frozenset(
    {
        *("id", "type", "object", "model", "role", "status", "finish_reason", "stop_reason"),
        *("stop_sequence", "service_tier", "system_fingerprint", "call_id", "item_id"),
        *("instructions", "tool_choice", "reason"),
        *("finishReason", "modelVersion", "responseId"),
    }
)
"""Fields of an answer that say what kind of thing it is, or repeat the request."""

REPEATED = frozenset(
    {"logprobs", "usage", "container", "metadata", "logprobsResult", "usageMetadata"}
)
"""What tells a text a second time, counts it, or repeats the request."""


def leaves(data: Any, *path: Any) -> list[tuple[Any, ...]]:
    """Find the places of all texts."""
    if isinstance(data, str):
        return [path]
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    within = [(key, item) for key, item in pairs if isinstance(item, dict | list | str)]
    return [leaf for key, item in within for leaf in leaves(item, *path, key)]


def planted(data: Any, path: tuple[Any, ...], text: Any = NEEDLE) -> Any:
    """Return data with the text in one place."""
    data = at = copy.deepcopy(data)
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = text
    return data


def objects(data: Any, *path: Any) -> list[tuple[Any, ...]]:
    """Find the places of all objects."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    within = [(key, item) for key, item in pairs if isinstance(item, dict | list)]
    found = [place for key, item in within for place in objects(item, *path, key)]
    return [path, *found] if isinstance(data, dict) else found


STAYS = frozenset(
    {
        *("role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "name", "model"),
        *("previous_response_id", "object", "status", "finish_reason", "stop_reason"),
        *("stop_sequence", "service_tier", "system_fingerprint"),
        *("finishReason", "modelVersion", "responseId"),
    }
)
"""Keys whose texts docs/builtin-hooks.md says that `redact` leaves alone."""

STAYS_WITHIN = frozenset(
    {"usage", "container", "logprobs", "instructions", "metadata", "tool_choice"}
    | {"logprobsResult", "usageMetadata"}
)
"""And what stays in an answer with all that is inside of it."""


def is_protocol(path: tuple[Any, ...]) -> bool:
    return path[-1] in PROTOCOL or bool(REPEATED & {*path})


@pytest.fixture(scope="module")
def provider():
    with Provider() as running:
        yield running


@pytest.fixture(params=DIALECTS)
async def talk(request, provider):
    provider.anew()
    async with Talk(DIALECTS[request.param], provider) as talking:
        talking.hooks.swap(load_text(RULES).specs)
        yield talking


async def test_no_text_of_a_request_passes(talk):
    name, body = talk.dialect.name, REQUESTS[talk.dialect.name]
    assert (await talk.reply(body)).status == 200
    passed = set()
    for path in leaves(body):
        talk.provider.anew()
        await talk.reply(planted(body, path))
        if any(NEEDLE.encode() in received.body for received in talk.provider.requests):
            passed.add(".".join(map(str, path)))
    assert passed == UNSEEN_IN_REQUESTS[name]


@pytest.mark.parametrize("text", [NEEDLE, {"a": ["push", "--force"]}, [{"b": [{"c": NEEDLE}]}]])
async def test_no_field_that_nobody_knows_passes_in_a_request(talk, text):
    body = REQUESTS[talk.dialect.name]
    for path in objects(body):
        talk.provider.anew()
        await talk.reply(planted(body, (*path, "note"), text))
        assert not talk.provider.requests, path


async def test_no_text_of_an_answer_passes(talk):
    body = ANSWERS[talk.dialect.name]
    talk.provider.say(Raw([json.dumps(body).encode()], headers=JSON))
    assert (await talk.reply()).status == 200
    for path in leaves(body):
        talk.provider.say(Raw([json.dumps(planted(body, path)).encode()], headers=JSON))
        reply = await talk.reply()
        assert is_protocol(path) or NEEDLE.encode() not in reply.content, path


@pytest.mark.parametrize("text", [NEEDLE, {"a": ["push", "--force"]}])
async def test_no_field_that_nobody_knows_passes_in_an_answer(talk, text):
    body = ANSWERS[talk.dialect.name]
    for path in objects(body):
        if {*path} & {"audio", *REPEATED}:
            continue
        tainted = planted(body, (*path, "note"), text)
        talk.provider.say(Raw([json.dumps(tainted).encode()], headers=JSON))
        reply = await talk.reply()
        assert b"--force" not in reply.content, path


def stream_of(talk: Talk) -> list[tuple[str, Any]]:
    pieces = wire_events(talk.format.path, SAID, talk.dialect.request(stream=True))
    return [told for piece in pieces for told in events(piece)]


def written(told: list[tuple[str, Any]]) -> Raw:
    lines = (
        f"event: {kind}\ndata: {json.dumps(data)}\n\n" if kind else f"data: {json.dumps(data)}\n\n"
        for kind, data in told
        if data != "[DONE]"
    )
    done = ["data: [DONE]\n\n"] if told[-1][1] == "[DONE]" else []
    return Raw([line.encode() for line in [*lines, *done]], headers=STREAM)


async def test_no_text_of_a_stream_passes(talk):
    talk.stream = True
    told = stream_of(talk)
    talk.provider.say(written(told))
    assert (await talk.ask()).heard.calls == [("f", {"a": "b"})]
    for place, (kind, data) in enumerate(told):
        for path in leaves(data) if isinstance(data, dict) else ():
            tainted = [*told[:place], (kind, planted(data, path)), *told[place + 1 :]]
            raw = await raw_answer(talk, written(tainted))
            assert is_protocol(path) or NEEDLE.encode() not in raw, (kind, path)


async def raw_answer(talk: Talk, said: Raw) -> bytes:
    talk.provider.say(said)
    reply = await talk.reply()
    if isinstance(reply.content, bytes):
        return reply.content
    return b"".join([piece async for piece in reply.content])


async def test_what_redact_leaves_alone_is_in_its_documentation(talk):
    mail = "ann@example.com"
    redact = BUILTINS["redact"].make({"kinds": ["email"]})
    talk.hooks.swap([])
    for point in ("before_llm_call", "after_llm_call"):
        talk.hooks.register(redact, point, name=point)
    request, answer = REQUESTS[talk.dialect.name], ANSWERS[talk.dialect.name]
    for path in leaves(request):
        talk.provider.anew()
        assert (await talk.reply(planted(request, path, mail))).status == 200
        assert path[-1] in STAYS or mail.encode() not in talk.provider.last.body, path
    for path in leaves(answer):
        talk.provider.say(Raw([json.dumps(planted(answer, path, mail)).encode()], headers=JSON))
        reply = await talk.reply()
        stays = path[-1] in STAYS or STAYS_WITHIN & {*path}
        assert stays or mail.encode() not in reply.content, path


@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_beside_a_tool_call_is_redacted(talk, stream):
    redact = BUILTINS["redact"].make({"kinds": ["email"]})
    talk.hooks.swap([])
    talk.hooks.register(redact, "after_llm_call", name="redact")
    talk.stream = stream
    note = {"note": "ann@example.com", "more": {"deep": ["ann@example.com"]}}
    told = stream_of(talk) if stream else [("", whole(talk.format.path, SAID))]
    tainted = [(kind, beside_calls(data, note)) for kind, data in told]
    at_once = Raw([json.dumps(tainted[0][1]).encode()], headers=JSON)
    talk.provider.say(written(tainted) if stream else at_once)
    got = await talk.ask()
    assert (got.status, b"ann@example.com" in got.raw) == (200, False)
    assert b"[redacted:email]" in got.raw
    assert (got.heard.text, got.heard.calls) == ("Said", SAID.calls)


def beside_calls(data: Any, note: Any) -> Any:
    """Put a note into each object that calls a tool, and into messages of the Responses API."""
    if isinstance(data, list):
        return [beside_calls(item, note) for item in data]
    if not isinstance(data, dict):
        return data
    within = {key: beside_calls(item, note) for key, item in data.items()}
    kinds = ("function", "custom", "tool_use", "function_call", "custom_tool_call")
    is_message = data.get("type") == "message" and "status" in data
    is_call = data.get("type") in kinds or "functionCall" in data
    return within | (note if is_call or is_message else {})
