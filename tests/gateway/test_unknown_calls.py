"""Tool calls where an API has none: judged as those that it has, and written back."""

from __future__ import annotations

import json

import pytest

from checkrail import Block, Continue
from checkrail.builtin import BUILTINS
from checkrail.config import load_text
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.llm.unknown_calls import find_unknown_calls, rewrite_call, without_calls

from .dialects import DIALECTS
from .provider import CHAT, GEMINI, MESSAGES, RESPONSES, Provider, Raw, Say
from .talking import Talk
from .test_walking_around import BLOCKED, JSON, STREAM, got
from .ways_around import (
    CREATED,
    DONE,
    END,
    HI,
    LAST,
    SAID,
    START,
    STOP,
    UNKNOWN,
    added,
    answered,
    candidate,
    chunk,
    completed,
    completion,
    events,
    generated,
    grown,
    message,
    opened,
    unfinished,
    unknown_in,
)

APIS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES, "gemini": GEMINI}
CALL = UNKNOWN["a call"]
SEARCH = {**CALL, "name": "search"}
EVERYWHERE = [
    (name, where, data)
    for name, api in APIS.items()
    for where, whole, stream in unknown_in(api, SEARCH)
    for data in (json.dumps(whole).encode(), stream + (DONE if name == "chat" else b""))
    if data not in (b"", DONE)
]


MAIL = {"note": "a@b.example"}
TEXT = opened({"type": "text", "text": ""})
MORE = grown({"type": "text_delta", "text": "Hi"})
SHUT = {"type": "content_block_stop", "index": 0}
SPOKEN = {
    "type": "response.output_text.delta",
    "output_index": 0,
    "content_index": 0,
    "delta": "Hi",
}
PIECE = {"index": 0, "id": "c", "type": "function", "function": {"name": "x", "arguments": "{}"}}
FINISHED = candidate({"text": ""})
BESIDE = [
    ("gemini", events({**unfinished(HI), **MAIL}, {**LAST, "note": "a"})),
    ("gemini", events(unfinished({**HI, **MAIL}), LAST)),
    ("gemini", events(unfinished(HI, **MAIL), LAST)),
    ("gemini", events(unfinished(HI, content=MAIL), LAST)),
    ("gemini", events(unfinished({"functionCall": {"name": "x", "args": {}, **MAIL}}), LAST)),
    ("gemini", events(unfinished({"odd": MAIL}), LAST)),
    ("gemini", events(unfinished(HI), generated({**FINISHED, "groundingMetadata": MAIL}))),
    ("messages", events({**START, **MAIL}, TEXT, MORE, SHUT, STOP, END)),
    ("messages", events(START, {**TEXT, **MAIL}, MORE, SHUT, STOP, END)),
    ("messages", events(START, TEXT, {**MORE, **MAIL}, SHUT, STOP, END)),
    ("messages", events(START, TEXT, grown({**MORE["delta"], **MAIL}), SHUT, STOP, END)),
    ("messages", events(START, TEXT, MORE, {**SHUT, **MAIL}, STOP, END)),
    ("messages", events(START, TEXT, MORE, SHUT, STOP, {**END, **MAIL})),
    ("responses", events({**CREATED, **MAIL}, completed(SAID))),
    ("responses", events(CREATED, {**SPOKEN, **MAIL}, completed(SAID))),
    ("responses", events(CREATED, SPOKEN, {**completed(SAID), **MAIL})),
    ("responses", events(CREATED, {**added(SAID), **MAIL}, completed(SAID))),
    (
        "chat",
        events(
            chunk({"tool_calls": [PIECE | {"note": "a"}]}),
            chunk({"tool_calls": [PIECE | MAIL]}),
            chunk(None, "stop"),
        ),
    ),
    ("chat", events({**chunk({"content": "Hi"}), **MAIL}, {**chunk(None, "stop"), "note": "a"})),
]


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


async def told(name, data, rules, provider, **settings):
    """Return what a caller gets of an answer under these rules."""
    stream = not data.startswith(b"{")
    async with Talk(DIALECTS[name], provider, stream=stream, ask_usage=False, **settings) as talk:
        if isinstance(rules, str):
            talk.hooks.swap(load_text(rules).specs)
        else:
            talk.hooks.register(rules, "before_tool_call", name="rule")
        provider.say(Raw([data], headers=STREAM if stream else JSON))
        return await got(talk)


@pytest.mark.parametrize(("name", "where", "data"), EVERYWHERE)
async def test_one_that_is_allowed_passes_byte_for_byte(name, where, data, provider):
    assert await told(name, data, BLOCKED, provider) == data


@pytest.mark.parametrize("how", UNKNOWN)
async def test_hooks_see_its_name_and_its_arguments(how, provider):
    seen = []
    data = json.dumps(message(UNKNOWN[how])).encode()
    came = await told("messages", data, seen.append, provider)
    unreadable = how in ("two inputs", "no JSON", "a name twice")
    assert [(event.value.name, event.value.args) for event in seen] == (
        [] if unreadable else [("transfer", {"note": "PAYLOAD-4711"})]
    )
    assert (came == data) is not unreadable


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("chat", completion({"odd": [CALL, {"x": 1}], "kept": "yes"}, finish="tool_calls")),
        ("messages", message(CALL, stop_reason="tool_use")),
        ("responses", answered(SAID, CALL)),
        ("gemini", generated(candidate(HI, {"odd": CALL}, {"kept": "yes"}))),
    ],
)
async def test_a_text_says_what_was_not_called_and_the_rest_stays(name, whole, provider):
    data = json.dumps(whole).encode()
    came = json.loads(await told(name, data, BLOCKED, provider))
    heard = DIALECTS[name].heard(came)
    assert "transfer was not called: never" in heard.text
    assert heard.text.startswith("Hi")
    assert heard.stop in ("stop", "end_turn", "completed", "STOP")
    if name == "chat":
        assert came["choices"][0]["message"]["kept"] == "yes"
    dropped = json.loads(await told(name, data, BLOCKED, provider, blocked_tool="drop"))
    assert DIALECTS[name].heard(dropped).text == "Hi"


@pytest.mark.parametrize("name", APIS)
async def test_the_model_is_asked_again_where_the_file_says_so(name, provider):
    whole = {
        "chat": completion({"odd": CALL}),
        "messages": message(CALL),
        "responses": answered(SAID, CALL),
        "gemini": generated(candidate(HI, {"odd": CALL})),
    }[name]
    provider.always(Say("Then not."))
    data = json.dumps(whole).encode()
    came = await told(name, data, BLOCKED, provider, blocked_tool="continue")
    assert DIALECTS[name].heard(json.loads(came)).text == "Then not."
    assert len(provider.requests) == 2
    assert b"never" in provider.last.body


@pytest.mark.parametrize("field", ["input", "arguments", "args"])
@pytest.mark.parametrize("as_text", [True, False])
async def test_changed_arguments_are_written_where_they_stood(field, as_text, provider):
    args = {"note": "a"}
    given = {"type": "odd", "name": "x", field: json.dumps(args) if as_text else args, "more": 1}

    def rule(event):
        return Continue(ToolCall(event.value.id, "y", {"note": "b"}))

    for name, whole in (
        ("messages", message(given)),
        ("responses", answered(SAID, given)),
        ("chat", completion({"odd": [given]})),
        ("gemini", generated(candidate(HI, {"odd": [given]}))),
        ("gemini", generated(candidate(HI, odd=[given]))),
    ):
        came = await told(name, json.dumps(whole).encode(), rule, provider)
        now = json.dumps({"note": "b"}, separators=(",", ":")) if as_text else {"note": "b"}
        wanted = json.dumps({**given, "name": "y", field: now}, separators=(",", ":"))
        assert wanted.encode() in came


async def test_text_before_one_flows_and_a_note_follows(provider):
    text = {"type": "text", "text": ""}
    data = events(START, opened(text), grown({"type": "text_delta", "text": "Hi"}))
    data += events({"type": "content_block_stop", "index": 0}, opened(CALL, 1), STOP, END)
    async with Talk(DIALECTS["messages"], provider, stream=True) as talk:
        talk.hooks.swap(load_text(BLOCKED).specs)
        provider.say(Raw([data], headers=STREAM))
        heard = (await talk.ask()).heard
    assert heard.text.startswith("Hi")
    assert "transfer was not called: never" in heard.text
    assert (heard.calls, heard.stop, heard.ended) == ([], "end_turn", True)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *BESIDE,
        ("messages", json.dumps(message({"type": "text", "text": "a", "note": "a@b.example"}))),
        (
            "messages",
            events(START, opened({"type": "text", "text": "", "note": "a@b.example"}), STOP, END),
        ),
        (
            "responses",
            events(
                {"type": "response.created", "response": answered(odd="a@b.example")}, completed()
            ),
        ),
        ("chat", events(chunk({"content": "Hi"}, x="a@b.example"), chunk(None, "stop", x=None))),
        (
            "messages",
            events(
                {"type": "message_start", "message": {**START["message"], "odd": "a@b.example"}},
                {**STOP, "delta": {"stop_reason": "end_turn", "odd": None}},
                END,
            ),
        ),
    ],
    ids=[
        *(f"beside {number}" for number in range(len(BESIDE))),
        "beside a text",
        "streamed",
        "told once",
        "taken back",
        "replaced",
    ],
)
async def test_what_stands_there_is_redacted_too(name, data, provider):
    data = data.encode() if isinstance(data, str) else data + (DONE if name == "chat" else b"")
    rules = "hooks: {after_llm_call: [{name: clean, builtin: redact}]}"
    assert b"b.example" not in await told(name, data, rules, provider)


async def test_tools_of_the_provider_are_none_of_them(provider):
    ran = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "mcp_call", "id": "m", "name": "x", "arguments": "{}", "server_label": "s"}
    at_google = generated(
        candidate(
            {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["q"]}, "id": "1"}},
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            HI,
        )
    )
    for name, whole in (
        ("messages", message(ran)),
        ("responses", answered(SAID, found)),
        ("gemini", at_google),
    ):
        data = json.dumps(whole).encode()
        assert await told(name, data, lambda _event: Block("never"), provider) == data


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("on_denied", ["block", "strip"])
async def test_but_they_are_the_affair_of_a_hook_of_their_own(stream, on_denied, provider):
    ran = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    whole, streamed = message(ran), events(START, opened(ran), STOP, END)
    offered = [{"type": "web_search_20250305", "name": "web_search"}]
    async with Talk(DIALECTS["messages"], provider, stream=stream) as talk:
        hook = BUILTINS["provider_tools"].make({"deny": ["web_search"], "on_denied": on_denied})
        talk.hooks.register(hook, "before_llm_call", "after_llm_call", on_error="block")
        provider.say(
            Raw(
                [streamed if stream else json.dumps(whole).encode()],
                headers=STREAM if stream else JSON,
            )
        )
        answer = await talk.ask()
        refused = await talk.ask(talk.dialect.request(stream=stream, tools=offered))
    if on_denied == "block":
        assert (answer.status, refused.status) == (400, 400)
        assert answer.heard.error["code"] == refused.heard.error["code"] == "tool_not_allowed"
        assert len(provider.requests) == 1
    else:
        assert b"server_tool_use" not in answer.raw
        assert "tools" not in provider.last.json


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("on_denied", ["block", "strip"])
async def test_and_so_are_those_of_google(stream, on_denied, provider):
    ran = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    whole, streamed = generated(candidate(ran, HI)), events(unfinished(ran), unfinished(HI), LAST)
    async with Talk(DIALECTS["gemini"], provider, stream=stream) as talk:
        hook = BUILTINS["provider_tools"].make({"deny": ["code_execution"], "on_denied": on_denied})
        talk.hooks.register(hook, "before_llm_call", "after_llm_call", on_error="block")
        data = streamed if stream else json.dumps(whole).encode()
        provider.say(Raw([data], headers=STREAM if stream else JSON))
        answer = await talk.ask()
        tools = [{"codeExecution": {}}, {"functionDeclarations": [{"name": "look"}]}]
        refused = await talk.ask(talk.dialect.request(stream=stream, tools=tools))
    if on_denied == "block":
        assert (answer.status, refused.status) == (400, 400)
        assert len(provider.requests) == 1
    else:
        assert (answer.heard.text, b"print" in answer.raw) == ("Hi", False)
        assert provider.last.json["tools"] == tools[1:]


class TestFinding:
    def test_ids_are_their_own(self):
        call = ToolCall("a", "x")
        parts = [{"type": "t", "id": "a", "name": "y", "input": {}}, {"name": "z", "args": {}}]
        found = find_unknown_calls(AssistantMessage([*parts, *parts], [call]))
        assert [each.call.name for each in found] == ["y", "z", "y", "z"]
        assert len({"a", *(each.call.id for each in found)}) == 5

    def test_several_in_one_place_go_together(self):
        inner = [{"name": "x", "input": {}}, {"name": "y", "input": {}}]
        given = AssistantMessage(
            ["Hi", {"type": "t", "do": inner}, "Ho", {"type": "t", "do": inner}]
        )
        found = find_unknown_calls(given)
        assert without_calls(given, [found[0], found[1]]).content == ["Hi", "Ho", given.content[3]]
        assert without_calls(given, found).content == ["Hi", "Ho"]

    def test_one_is_written_into_its_place(self):
        given = AssistantMessage([{"type": "t", "do": [{"name": "x", "input": {"a": 1}}]}])
        (found,) = find_unknown_calls(given)
        after = rewrite_call(given, found, ToolCall(found.call.id, "x", {"a": 2}))
        assert after.content == [{"type": "t", "do": [{"name": "x", "input": {"a": 2}}]}]

    def test_depth_is_no_matter(self):
        deep: object = {"name": "x", "input": {}}
        for _ in range(50):
            deep = [deep]
        (found,) = find_unknown_calls(AssistantMessage([{"type": "t", "do": deep}]))
        assert found.call.name == "x"

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "t", "name": "x"},
            {"type": "t", "input": {}},
            {"type": "t", "name": "", "input": {}},
            {"type": "t", "name": 5, "input": {}},
            {"type": "t", "name": "x", "input": None},
            {"type": "t", "do": {"name": "x"}, "input": {}},
        ],
    )
    def test_what_lacks_one_of_the_two_is_none(self, part):
        assert find_unknown_calls(AssistantMessage([part])) == []
