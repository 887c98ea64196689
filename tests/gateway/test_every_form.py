"""Every form of a rule in all three APIs: what it is to keep back does not get past the gateway."""

from __future__ import annotations

import json

import pytest

from checkrail.config import load_text

from .dialects import DIALECTS
from .provider import Provider, Say
from .talking import Talk

NEEDLE = "push --force"
FORMS = {
    "block": {"block": "Not here"},
    "block first": {"block": "Not here", "lane": "transform"},
    "fail": {"fail": "Not here"},
    "ask": {"ask": "Really?"},
    "stop": {"stop": "Closed"},
    "replace": {"replace": {"content": "cached"}},
    "retry": {"retry": "Again"},
    "redact": {"redact": [f"/{NEEDLE}/"]},
}
NAMES = {
    "before_llm_call": "request",
    "after_llm_call": "message",
    "before_tool_call": "tool_call",
    "after_tool_call": "tool_result",
}
ASKING = ["block", "block first", "fail", "ask", "stop", "replace", "redact"]
ANSWERING = ["block", "block first", "fail", "ask", "stop", "redact"]
CALLING = ["block", "block first", "fail", "ask"]
RESULTS = ["block", "block first", "fail", "redact"]


@pytest.fixture(scope="module")
def provider():
    with Provider() as running:
        yield running


@pytest.fixture(params=["at once", "streaming"])
def stream(request):
    return request.param == "streaming"


@pytest.fixture(params=DIALECTS)
async def talk(request, provider, stream):
    provider.anew()
    async with Talk(DIALECTS[request.param], provider, stream=stream) as talking:
        yield talking


def rule(talk: Talk, point: str, form: str) -> None:
    asked = {"when": f"{NAMES[point]}.text.contains('{NEEDLE}')"} if form != "redact" else {}
    hooks = {point: [{"name": "rule", **asked, **FORMS[form]}]}
    talk.hooks.swap(load_text(json.dumps({"hooks": hooks}), "json").specs)


async def answered(talk: Talk, body: object = None) -> bytes:
    reply = await talk.reply(body)
    if isinstance(reply.content, bytes):
        return reply.content
    return b"".join([piece async for piece in reply.content])


def parts(talk: Talk, *texts: str) -> list[dict[str, str]]:
    kind = "input_text" if talk.dialect.name == "responses" else "text"
    return [{"type": kind, "text": text} for text in texts]


def sent(talk: Talk) -> bytes:
    return b"".join(received.body for received in talk.provider.requests)


@pytest.mark.parametrize("form", ASKING)
async def test_no_request_with_the_text_leaves(talk, form):
    rule(talk, "before_llm_call", form)
    for content in (NEEDLE, parts(talk, f"git {NEEDLE}")):
        await answered(talk, talk.dialect.request(content, stream=talk.stream))
        assert b"--force" not in sent(talk)


@pytest.mark.parametrize("form", [form for form in ASKING if form != "redact"])
async def test_no_request_in_pieces_leaves(talk, form):
    rule(talk, "before_llm_call", form)
    for content in (parts(talk, "push --fo", "rce"), parts(talk, "push", "--force")):
        await answered(talk, talk.dialect.request(content, stream=talk.stream))
        assert talk.provider.requests == []


@pytest.mark.parametrize("form", ANSWERING)
async def test_no_answer_with_the_text_comes_back(talk, form):
    rule(talk, "after_llm_call", form)
    thoughts = {} if talk.dialect.name == "chat" else {"thinking": f"I {NEEDLE}"}
    for said in (Say(f"git {NEEDLE} now"), Say("", [("f", {"a": [{"b": NEEDLE}]})])):
        talk.provider.say(said)
        assert NEEDLE.encode() not in await answered(talk)
    if thoughts:
        talk.provider.say(Say("Hm", **thoughts))
        assert b"force" not in (await answered(talk)).replace(NEEDLE.encode() + b"')", b"")


@pytest.mark.parametrize("form", CALLING)
@pytest.mark.parametrize(
    "args",
    [
        {"command": NEEDLE},
        {"command": ["bash", "-lc", f"git {NEEDLE}"]},
        {"command": ["git", "push", "--force"]},
        {"steps": [{"run": {"words": ["push", "--force", ["x"]]}}]},
        {"files": {NEEDLE: 1}},
        {"parts": [{"type": "text", "text": "push "}, {"type": "text", "text": "--force"}]},
    ],
)
async def test_no_call_with_the_text_comes_back(talk, form, args):
    rule(talk, "before_tool_call", form)
    talk.provider.say(Say("", [("bash", args)]))
    assert b"force" not in await answered(talk)


@pytest.mark.parametrize("form", RESULTS)
async def test_no_result_with_the_text_leaves(talk, form):
    rule(talk, "after_tool_call", form)
    for content in (f"done: {NEEDLE}", parts(talk, f"git {NEEDLE}")):
        await answered(talk, talk.dialect.with_result(content, stream=talk.stream))
        assert b"--force" not in sent(talk)
