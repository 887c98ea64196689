"""Requests and answers of the messages API: what hooks see of them, and what is written back."""

import copy
import json
from dataclasses import replace

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, ToolResult
from checkrail.llm.conversation import assistant_message, tool_message
from checkrail.llm.json_bytes import write_json
from checkrail.llm.messages.api import Messages
from checkrail.llm.walk import rewrite_texts
from checkrail.llm.wire_format import Refusal, UnreadableError

API = Messages()
CACHE = {"cache_control": {"type": "ephemeral"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
THINKING = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "transfer", "input": {"amount": 5}, **CACHE}
OTHER_USE = {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": "a"}}
SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "x"},
}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "paid secret", **CACHE}
FAILED = {
    "type": "tool_result",
    "tool_use_id": "toolu_2",
    "is_error": True,
    "content": [{"type": "text", "text": "no such file"}, IMAGE],
}
TOOL = {"name": "transfer", "description": "Pays", "input_schema": {"type": "object"}, **CACHE}
SERVER_TOOL = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
REQUEST = {
    "model": "claude-grand-1",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be kind.", **CACHE}],
    "messages": [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": [
                THINKING,
                {"type": "text", "text": "Let me."},
                USE,
                SEARCH,
                FOUND,
                OTHER_USE,
            ],
        },
        {
            "role": "user",
            "content": [RESULT, FAILED, {"type": "text", "text": "And secret?", **CACHE}, IMAGE],
        },
    ],
    "tools": [TOOL, SERVER_TOOL, {"type": "custom", "name": "read", "input_schema": {}}],
    "thinking": {"type": "enabled", "budget_tokens": 50},
    "metadata": {"user_id": "u1"},
}


def read():
    return API.read_request(copy.deepcopy(REQUEST))


def written(change, body=REQUEST):
    before = API.read_request(copy.deepcopy(body))
    return API.write_request(copy.deepcopy(body), before, change(before))


def with_messages(*messages):
    return lambda request: replace(request, messages=messages)


def test_a_conversation_is_seen_as_the_chat_api_has_it():
    system, hello, asked, paid, failed, more = read().messages
    assert system == {"role": "system", "content": REQUEST["system"]}
    assert hello == {"role": "user", "content": "Hello"}
    assert asked["content"] == [THINKING, {"type": "text", "text": "Let me."}, SEARCH, FOUND]
    assert asked["tool_calls"] == [
        {
            "id": "toolu_1",
            "type": "function",
            "function": {"name": "transfer", "arguments": '{"amount":5}'},
            **CACHE,
        },
        {
            "id": "toolu_2",
            "type": "function",
            "function": {"name": "read", "arguments": '{"path":"a"}'},
        },
    ]
    assert paid == {
        "role": "tool",
        "tool_call_id": "toolu_1",
        "content": "paid secret",
        **CACHE,
    }
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert failed == {
        "role": "tool",
        "tool_call_id": "toolu_2",
        "content": [{"type": "text", "text": "no such file"}, image],
        "is_error": True,
    }
    assert more["content"] == [{"type": "text", "text": "And secret?", **CACHE}, image]


def test_tools_are_seen_as_the_chat_api_has_them():
    tool, server, _ = read().tools
    function = {"name": "transfer", "description": "Pays", "parameters": {"type": "object"}}
    assert tool == {"type": "function", "function": function, **CACHE}
    assert server == SERVER_TOOL


def test_the_rest_are_params():
    request = read()
    assert set(request.params) == {"max_tokens", "thinking", "metadata"}
    assert request.model == "claude-grand-1"
    assert request.raw == REQUEST


def test_a_request_that_was_left_alone_is_written_as_it_came():
    assert written(lambda request: request) == REQUEST
    copied = with_messages(*read().messages)
    assert written(copied) == REQUEST


def test_a_changed_text_leaves_the_rest_of_its_turn():
    body = written(
        lambda request: rewrite_texts(request, lambda _, text: text.replace("secret", "***"))
    )
    expected = copy.deepcopy(REQUEST)
    expected["messages"][2]["content"][0]["content"] = "paid ***"
    expected["messages"][2]["content"][2]["text"] = "And ***?"
    assert body == expected


def test_changed_arguments_stay_where_they_stood():
    body = written(
        lambda request: rewrite_texts(
            request, lambda _, text: text.replace('"amount":5', '"amount":4')
        )
    )
    expected = copy.deepcopy(REQUEST)
    expected["messages"][1]["content"][2]["input"] = {"amount": 4}
    assert body == expected


def test_a_result_that_was_refused_is_an_error():
    messages = [*read().messages]
    messages[3] = {**messages[3], "content": "refused", "is_error": True}
    block = written(with_messages(*messages))["messages"][2]["content"][0]
    assert block == RESULT | {"content": "refused", "is_error": True}


def test_a_call_that_was_left_out_leaves_the_others():
    messages = [*read().messages]
    messages[2] = {**messages[2], "tool_calls": messages[2]["tool_calls"][1:]}
    blocks = written(with_messages(*messages))["messages"][1]["content"]
    assert blocks == [THINKING, {"type": "text", "text": "Let me."}, SEARCH, FOUND, OTHER_USE]


def test_the_system_prompt_is_a_text_or_blocks():
    text = REQUEST | {"system": "Be kind."}
    first = {"role": "system", "content": "Be brief."}
    assert API.read_request(text).messages[0] == {"role": "system", "content": "Be kind."}
    told = written(lambda one: replace(one, messages=[first, *one.messages[1:]]), text)
    assert told == text | {"system": "Be brief."}
    both = written(lambda one: replace(one, messages=[first, *one.messages]), text)
    blocks = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    assert both == text | {"system": blocks}
    marked = written(
        lambda one: replace(one, messages=[*one.messages[:1], first, *one.messages[1:]])
    )
    assert marked == REQUEST | {"system": [*REQUEST["system"], blocks[0]]}
    without = written(lambda one: replace(one, messages=one.messages[1:]))
    assert without == {name: REQUEST[name] for name in REQUEST if name != "system"}


def test_a_new_message_is_a_turn():
    body = written(
        lambda one: replace(one, messages=[*one.messages, {"role": "user", "content": "More"}])
    )
    assert body["messages"][:3] == REQUEST["messages"]
    assert body["messages"][3:] == [{"role": "user", "content": [{"type": "text", "text": "More"}]}]


def test_nothing_new_stands_between_a_call_and_its_results():
    new = {"role": "system", "content": "Careful"}
    messages = [*read().messages]
    for place in (3, 4, 5):
        body = written(with_messages(*messages[:place], new, *messages[place:]))
        told = {"role": "user", "content": [{"type": "text", "text": "Careful"}]}
        assert body["messages"] == [*REQUEST["messages"], told]


def test_an_answer_and_error_results_can_be_added():
    answer = AssistantMessage([THINKING], [ToolCall("toolu_9", "transfer", {"amount": 9})])
    result = ToolResult("toolu_9", "transfer", is_error=True, error="blocked")

    def go_on(one):
        added = [assistant_message(answer), tool_message(result)]
        return replace(one, messages=[*one.messages, *added])

    asked, told = written(go_on)["messages"][3:]
    use = {"type": "tool_use", "id": "toolu_9", "name": "transfer", "input": {"amount": 9}}
    assert asked == {"role": "assistant", "content": [THINKING, use]}
    assert told["content"][0]["tool_use_id"] == "toolu_9"
    assert told["content"][0]["is_error"] is True


def test_a_text_for_parts_keeps_the_mark_of_the_only_one():
    body = REQUEST | {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a", **CACHE}]}]
    }
    changed = written(
        lambda one: replace(one, messages=[one.messages[0], {"role": "user", "content": "b"}]), body
    )
    assert changed["messages"][0]["content"] == [{"type": "text", "text": "b", **CACHE}]


def test_new_images_are_written_as_blocks():
    image = {"type": "image_url", "image_url": {"url": "data:image/gif;base64,BBBB"}, **CACHE}
    messages = [*read().messages]
    messages[1] = {"role": "user", "content": [image]}
    source = {"type": "base64", "media_type": "image/gif", "data": "BBBB"}
    block = written(with_messages(*messages))["messages"][0]["content"][0]
    assert block == {"type": "image", "source": source, **CACHE}


def test_tools_are_written_back():
    function = {"name": "new", "description": "Is new", "parameters": {"type": "object"}}

    def change(request):
        tool = request.tools[0]
        told = {**tool, "function": {**tool["function"], "description": "Pays well"}}
        return replace(request, tools=[told, *request.tools[1:], {"function": function}])

    body = written(change)
    new = {"name": "new", "description": "Is new", "input_schema": {"type": "object"}}
    assert body["tools"] == [TOOL | {"description": "Pays well"}, *REQUEST["tools"][1:], new]
    assert body["messages"] == REQUEST["messages"]
    none = written(lambda one: replace(one, tools=[]), REQUEST | {"tool_choice": {"type": "any"}})
    assert "tools" not in none
    assert "tool_choice" not in none


@pytest.mark.parametrize(
    "body",
    [
        {"messages": "hello"},
        {"messages": [{"role": "user", "content": {"type": "text"}}]},
        {"messages": [{"role": "user", "content": ["hello"]}]},
        {"messages": [], "system": 5},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": 5}]}]},
    ],
)
def test_what_is_no_request_is_unreadable(body):
    with pytest.raises(UnreadableError):
        API.read_request(body)


def answer(*content, stop="end_turn", **more):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-grand-1-2026",
        "content": [*content],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 7, "service_tier": "standard"},
        **more,
    }


def text(said, **more):
    return {"type": "text", "text": said, "citations": None, **more}


def rewritten_answer(body, **changes):
    before = API.read_answer(copy.deepcopy(body))
    return API.write_answer(copy.deepcopy(body), before, replace(before, **changes))


def test_an_answer_is_read():
    message = API.read_answer(answer(text("Let me."), USE, OTHER_USE, stop="tool_use"))
    assert message.content == "Let me."
    assert [(call.name, call.args) for call in message.tool_calls] == [
        ("transfer", {"amount": 5}),
        ("read", {"path": "a"}),
    ]
    assert message.stop_reason == "tool_calls"
    assert message.usage["total_tokens"] == 19


def test_tools_of_the_provider_are_no_calls():
    message = API.read_answer(answer(SEARCH, FOUND, text("x")))
    assert message.tool_calls == []
    assert message.content[:2] == [SEARCH, FOUND]


def test_an_answer_that_was_left_alone_is_written_as_it_came():
    body = answer(THINKING, text(""), text("a"), USE, SEARCH, FOUND, OTHER_USE, odd=1)
    assert rewritten_answer(body) == body


def test_a_blocked_call_leaves_the_rest_and_a_plain_answer():
    body = answer(THINKING, text("Let me."), USE, stop="tool_use")
    note = {"type": "text", "text": "It may not."}
    content = [*API.read_answer(body).content, note]
    changed = rewritten_answer(body, content=content, tool_calls=[])
    assert changed == answer(THINKING, text("Let me."), note)
    plain = answer(USE, OTHER_USE, stop="tool_use")
    (call, _) = API.read_answer(plain).tool_calls
    assert rewritten_answer(plain, content="No.", tool_calls=[call]) == answer(
        {"type": "text", "text": "No."}, USE, stop="tool_use"
    )


def test_changed_arguments_are_written_where_they_stood():
    body = answer(text("a"), USE, text("b"), OTHER_USE, stop="tool_use")
    first, second = API.read_answer(body).tool_calls
    changed = rewritten_answer(body, tool_calls=[replace(first, args={"amount": 4}), second])
    assert changed == answer(
        text("a"), USE | {"input": {"amount": 4}}, text("b"), OTHER_USE, stop="tool_use"
    )


def test_a_text_of_several_blocks_is_changed_where_it_changed():
    body = answer(text("a secret"), USE, text(" b "), OTHER_USE, text("c"))
    assert API.read_answer(body).content == "a secret b c"
    changed = rewritten_answer(body, content="a *** b c")
    assert changed == answer(text("a ***"), USE, text(" b "), OTHER_USE, text("c"))
    longer = rewritten_answer(body, content="a secret b c, and d")
    assert longer == answer(text("a secret"), USE, text(" b "), OTHER_USE, text("c, and d"))
    other = rewritten_answer(body, content="No.", tool_calls=[])
    assert other["content"] == [text("No.")]


@pytest.mark.parametrize("stop", ["stop_sequence", "pause_turn", "model_context_window_exceeded"])
def test_the_wire_keeps_its_own_stop_reason(stop):
    body = answer(text("a"), stop=stop)
    assert rewritten_answer(body, content="b") == answer(text("b"), stop=stop)
    more = rewritten_answer(body, tool_calls=[ToolCall("c1", "look", {})])
    assert more["stop_reason"] == ("tool_use" if stop == "stop_sequence" else stop)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("pause", "pause_turn"),
        ("refusal", "refusal"),
        ("content_filter", "refusal"),
        ("end_turn", "end_turn"),
    ],
)
def test_a_stop_reason_of_hooks_is_written_in_the_words_of_the_api(ours, theirs):
    body = answer(text("a"), stop="stop_sequence" if ours != "stop" else "max_tokens")
    assert rewritten_answer(body, stop_reason=ours)["stop_reason"] == theirs


def test_thinking_and_citations_can_be_changed():
    cited = {"type": "text", "text": "x", "citations": [{"cited_text": "a secret"}]}
    unsigned = {"type": "thinking", "thinking": "a secret", "signature": ""}
    body = answer(unsigned, cited)
    before = API.read_answer(body)
    after = rewrite_texts(before, lambda _, text: text.replace("secret", "***"))
    blocks = API.write_answer(body, before, after)["content"]
    assert blocks == [
        unsigned | {"thinking": "a ***"},
        {"type": "text", "text": "x", "citations": [{"cited_text": "a ***"}]},
    ]


def test_a_signed_thought_that_was_changed_is_left_out_for_nobody_would_take_it():
    signed = THINKING | {"thinking": "a secret"}
    body = answer(THINKING, signed, text("x"))
    before = API.read_answer(body)
    after = rewrite_texts(before, lambda _, text: text.replace("secret", "***"))
    assert API.write_answer(body, before, after)["content"] == [THINKING, text("x")]
    said = {"role": "assistant", "content": [signed, USE]}
    asked = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}, said]}
    given = API.read_request(asked)
    changed = rewrite_texts(given, lambda _, text: text.replace("secret", "***"))
    assert API.write_request(asked, given, changed)["messages"][1]["content"] == [USE]


def test_usage_is_written_only_if_it_was_counted_anew():
    body = answer(text("a"))
    priced = API.read_answer(body).usage | {"cost": 0.5}
    assert rewritten_answer(body, usage=priced) == body
    more = {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29}
    assert rewritten_answer(body, usage=more)["usage"]["output_tokens"] == 9
    assert rewritten_answer(body, usage=None) == body


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": "x"},
        {"content": [5]},
        {"content": [{"type": "tool_use", "id": "a"}]},
        {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    ],
)
def test_what_is_no_answer_is_unreadable(body):
    with pytest.raises(UnreadableError):
        API.read_answer(body)


SYNTHETIC = AssistantMessage(
    "Hello",
    [ToolCall("call_1", "transfer", {"amount": 5})],
    usage={"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
    stop_reason="tool_calls",
)
ASKED = ModelRequest(model="claude-grand-1")


def client_at(url):
    return anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)


def test_the_sdk_takes_an_answer_that_no_model_gave(endpoint):
    url = endpoint.gives(write_json(API.build_answer(SYNTHETIC, ASKED)))
    with client_at(url) as client:
        found = client.messages.create(model="x", max_tokens=5, messages=[])
    said, use = found.content
    assert (said.text, use.name, use.input) == ("Hello", "transfer", {"amount": 5})
    assert (found.model, found.stop_reason) == ("claude-grand-1", "tool_use")
    assert (found.usage.input_tokens, found.usage.cache_read_input_tokens) == (5, 4)


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (502, anthropic.InternalServerError, "api_error"),
        (529, anthropic.InternalServerError, "overloaded_error"),
    ],
)
def test_the_sdk_takes_an_error(endpoint, status, kind, told):
    url = endpoint.gives(write_json(API.write_error(Refusal(status, "not today"))), status=status)
    with client_at(url) as client, pytest.raises(kind) as caught:
        client.messages.create(model="x", max_tokens=5, messages=[])
    assert caught.value.body == {"type": "error", "error": {"type": told, "message": "not today"}}


BLOCKS = st.sampled_from(
    [RESULT, FAILED, IMAGE, {"type": "text", "text": "a"}, {"type": "text", "text": "b", **CACHE}]
)
SAID = st.sampled_from([THINKING, USE, OTHER_USE, SEARCH, FOUND, {"type": "text", "text": "c"}])
TURNS = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "content": st.lists(BLOCKS, max_size=5)})
    | st.fixed_dictionaries({"role": st.just("assistant"), "content": st.lists(SAID, max_size=5)})
    | st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": st.just("text")}
    ),
    max_size=5,
)


@given(TURNS, st.data())
def test_one_changed_text_changes_nothing_else(turns, data):
    body = REQUEST | {"messages": turns}
    before = API.read_request(copy.deepcopy(body))
    assert API.write_request(copy.deepcopy(body), before, before) == body
    texts = [
        block
        for turn in turns
        for block in (turn["content"] if isinstance(turn["content"], list) else ())
        if block.get("text") in {"a", "b", "c"}
    ]
    if not texts:
        return
    was = data.draw(st.sampled_from(texts))["text"]
    after = rewrite_texts(before, lambda _, text: "changed" if text == was else text)
    expected = json.loads(json.dumps(body).replace(f'"text": "{was}"', '"text": "changed"'))
    assert API.write_request(copy.deepcopy(body), before, after) == expected


NAMES = (
    "role content type text tool_use_id source name input id citations thinking is_error "
    "input_schema data url"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["text", "tool_use", "image"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.fixed_dictionaries({"messages": st.lists(JSON, max_size=3)}, optional={"tools": JSON}))
def test_any_request_is_read_or_unreadable(body):
    try:
        before = API.read_request(copy.deepcopy(body))
    except UnreadableError:
        return
    assert API.write_request(copy.deepcopy(body), before, before) == body
    after = replace(before, messages=[*before.messages, {"role": "user", "content": "x"}])
    assert API.read_request(API.write_request(body, before, after)).messages[-1]["content"]


@given(st.fixed_dictionaries({"content": st.lists(JSON, max_size=3)}, optional={"usage": JSON}))
def test_any_answer_is_read_or_unreadable(body):
    try:
        before = API.read_answer(copy.deepcopy(body))
    except UnreadableError:
        return
    assert API.write_answer(copy.deepcopy(body), before, before) == body
    after = replace(before, content="changed", tool_calls=[])
    assert API.read_answer(API.write_answer(body, before, after)).content == "changed"
