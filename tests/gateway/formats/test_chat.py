"""Requests and answers of the chat API: what hooks see of them, and what is written back."""

import copy
from dataclasses import replace

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.engine.frozen import thaw
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, ToolResult
from checkrail.llm.chat.api import Chat
from checkrail.llm.conversation import assistant_message, tool_message
from checkrail.llm.formats import FORMATS
from checkrail.llm.json_bytes import write_json
from checkrail.llm.walk import rewrite_texts
from checkrail.llm.wire_format import Refusal, UnreadableError

API = Chat()
PATH = "/v1/chat/completions"

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "transfer", "arguments": '{"amount": 5}'},
}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "exec", "input": 'rm "x"'}}
TOOL = {
    "type": "function",
    "function": {"name": "transfer", "parameters": {"type": "object"}, "strict": True},
}
REQUEST = {
    "model": "grand-1",
    "temperature": 0.5,
    "metadata": {"team": "blue"},
    "stream": False,
    "messages": [
        {"role": "developer", "content": "Be kind."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Pay a@example.com", "cache_control": {"type": "x"}},
                {"type": "image_url", "image_url": {"url": "https://x.example/y.png"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL, CUSTOM], "odd": 1},
        {"role": "tool", "tool_call_id": "call_1", "content": "paid"},
        {"role": "tool", "tool_call_id": "call_2", "content": "done"},
    ],
    "tools": [TOOL, {"type": "custom", "custom": {"name": "exec"}}],
    "tool_choice": "auto",
}
LEGACY = {
    "model": "grand-1",
    "messages": [
        {"role": "user", "content": "Pay"},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "transfer", "arguments": '{"amount": 5}'},
        },
        {"role": "function", "name": "transfer", "content": "paid"},
    ],
    "functions": [{"name": "transfer", "parameters": {"type": "object"}}],
    "function_call": "auto",
}


def answer(message, finish="stop", **more):
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1741476542,
        "model": "grand-1-0613",
        "choices": [choice],
        "usage": {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19},
        "service_tier": "default",
        **more,
    }


def said(content, **more):
    return {"role": "assistant", "content": content, "refusal": None, "annotations": [], **more}


def written(body, change):
    """Write a request of which a hook made another."""
    before = API.read_request(copy.deepcopy(body))
    return API.write_request(copy.deepcopy(body), before, change(before))


def rewritten_answer(body, **changes):
    before = API.read_answer(copy.deepcopy(body))
    return API.write_answer(copy.deepcopy(body), before, replace(before, **changes))


def message_in(body, place=0):
    return body["choices"][place]["message"]


def test_formats_are_found_by_their_paths():
    assert FORMATS[PATH].name == "chat"
    assert FORMATS["/v1/messages"].name == "messages"
    assert all(FORMATS[path].path == path for path in FORMATS)


def test_a_request_is_seen_as_it_is():
    request = API.read_request(REQUEST)
    assert request.model == "grand-1"
    assert request.params == {
        "temperature": 0.5,
        "metadata": {"team": "blue"},
        "tool_choice": "auto",
    }
    assert request.tools == REQUEST["tools"]
    assert request.messages[:2] == REQUEST["messages"][:2]
    assert request.raw == REQUEST
    assert not request.stream


def test_calls_of_custom_tools_in_a_request_are_seen_as_calls():
    call = API.read_request(REQUEST).messages[2]["tool_calls"][1]
    arguments = '{"input":"rm \\"x\\""}'
    assert call["function"] == {"name": "exec", "arguments": arguments}
    assert call["type"] == "custom"


def test_functions_as_they_once_were_are_seen_as_tools_and_calls():
    request = API.read_request(LEGACY)
    asked, result = request.messages[1:]
    assert request.tools == [{"type": "function", "function": LEGACY["functions"][0]}]
    assert asked["tool_calls"][0]["function"]["name"] == "transfer"
    assert "function_call" not in asked
    assert result["role"] == "tool"
    assert result["tool_call_id"] == asked["tool_calls"][0]["id"]


@pytest.mark.parametrize("body", [REQUEST, LEGACY])
def test_a_request_that_was_left_alone_is_written_as_it_came(body):
    assert written(body, lambda request: request) == body
    assert written(body, lambda request: replace(request, messages=[*request.messages])) == body


@pytest.mark.parametrize("body", [REQUEST, LEGACY])
def test_only_what_was_changed_is_written_anew(body):
    def add(request):
        return replace(request, messages=[*request.messages, {"role": "user", "content": "More"}])

    expected = copy.deepcopy(body)
    expected["messages"].append({"role": "user", "content": "More"})
    assert written(body, add) == expected


def test_a_redacted_text_leaves_the_rest_of_its_message():
    def redact(request):
        return rewrite_texts(request, lambda _, text: text.replace("a@example.com", "***"))

    expected = copy.deepcopy(REQUEST)
    expected["messages"][1]["content"][0]["text"] = "Pay ***"
    assert written(REQUEST, redact) == expected


def test_changed_arguments_of_old_and_custom_calls_are_written_where_they_stood():
    def change(request):
        return rewrite_texts(request, lambda _, text: text.replace("5", "6").replace("rm", "ls"))

    assert written(REQUEST, change)["messages"][2]["tool_calls"][1]["custom"]["input"] == 'ls "x"'
    call = written(LEGACY, change)["messages"][1]["function_call"]
    assert call == {"name": "transfer", "arguments": '{"amount": 6}'}


def test_model_params_and_tools_are_written():
    def change(request):
        params = {"temperature": 0, "metadata": {"team": "blue"}, "seed": 1}
        return replace(request, model="small-1", params=params, tools=[TOOL])

    body = written(REQUEST, change)
    assert body["model"] == "small-1"
    assert body["temperature"] == 0
    assert body["seed"] == 1
    assert "tool_choice" not in body
    assert body["tools"] == [TOOL]
    assert body["messages"] == REQUEST["messages"]


def test_without_tools_there_is_nothing_to_choose():
    body = written(REQUEST, lambda request: replace(request, tools=[]))
    assert "tools" not in body
    assert "tool_choice" not in body


def test_functions_stay_functions():
    def change(request):
        return replace(request, tools=[*request.tools, TOOL])

    body = written(LEGACY, change)
    assert [function["name"] for function in body["functions"]] == ["transfer", "transfer"]
    assert "tools" not in body
    assert "functions" not in written(LEGACY, lambda request: replace(request, tools=[]))


def go_on(call):
    """Add an answer with a blocked call, and its result."""
    answered = assistant_message(AssistantMessage("", [call]))
    told = tool_message(ToolResult(call.id, call.name, is_error=True, error="blocked"))
    return lambda request: replace(request, messages=[*request.messages, answered, told])


def test_results_are_not_marked_as_errors_in_a_way_that_the_api_refuses():
    call = ToolCall("call_9", "transfer", {"amount": 5})
    asked, told = written(REQUEST, go_on(call))["messages"][-2:]
    assert asked["tool_calls"][0]["type"] == "function"
    assert told == {"role": "tool", "tool_call_id": "call_9", "content": "blocked"}


def test_calls_are_added_in_the_form_of_their_tool():
    asked, _ = written(REQUEST, go_on(ToolCall("call_9", "exec", {"input": "ls"})))["messages"][-2:]
    custom = {"name": "exec", "input": "ls"}
    assert asked["tool_calls"] == [{"id": "call_9", "type": "custom", "custom": custom}]


def test_calls_of_functions_are_added_as_such():
    legacy = answer(said(None, function_call=CALL["function"]), "function_call")
    (call,) = API.read_answer(legacy).tool_calls
    asked, told = written(LEGACY, go_on(call))["messages"][-2:]
    assert asked["function_call"] == {"name": "transfer", "arguments": '{"amount": 5}'}
    assert "tool_calls" not in asked
    assert told == {"role": "function", "name": "transfer", "content": "blocked"}


def test_usage_is_asked_for_where_it_was_not():
    body = REQUEST | {"stream": True, "stream_options": {"odd": 1}}
    assert API.request_usage(REQUEST) is REQUEST
    assert API.request_usage(body)["stream_options"] == {"odd": 1, "include_usage": True}
    asked = API.request_usage(body)
    assert API.request_usage(asked) is asked


@pytest.mark.parametrize(
    "body",
    [
        {"messages": "hello"},
        {"messages": ["hello"]},
        {"messages": [], "tools": {}},
        {"messages": [{"role": "assistant", "tool_calls": "x"}]},
        {"messages": [{"role": "assistant", "function_call": "x"}]},
        {"messages": [], "model": 5},
    ],
)
def test_what_is_no_request_is_unreadable(body):
    with pytest.raises(UnreadableError):
        API.read_request(body)


def test_an_answer_is_read():
    message = API.read_answer(answer(said("Hello", reasoning_content="Hm")))
    assert message.content == "Hello"
    assert message.model == "grand-1-0613"
    assert message.stop_reason == "stop"
    assert message.usage["total_tokens"] == 19
    assert message.metadata == {"reasoning": "Hm"}


def test_all_kinds_of_calls_are_read():
    called = said(None, tool_calls=[CALL, CUSTOM])
    calls = API.read_answer(answer(called, "tool_calls")).tool_calls
    assert [(call.name, call.args) for call in calls] == [
        ("transfer", {"amount": 5}),
        ("exec", {"input": 'rm "x"'}),
    ]
    legacy = said(None, function_call={"name": "transfer", "arguments": '{"amount": 5}'})
    (call,) = API.read_answer(answer(legacy, "function_call")).tool_calls
    assert (call.name, call.args) == ("transfer", {"amount": 5})


def test_arguments_that_are_no_json_are_kept():
    broken = CALL | {"function": {"name": "transfer", "arguments": '{"amount": '}}
    message = API.read_answer(answer(said(None, tool_calls=[broken]), "tool_calls"))
    assert message.metadata[UNPARSED] == {"call_1": '{"amount": '}
    calls = [broken, {**broken, "id": "call_2"}]
    body = rewritten_answer(answer(said("a", tool_calls=calls), "tool_calls"), content="b")
    assert message_in(body)["tool_calls"] == calls


def test_refusals_and_the_words_of_an_audio_are_text():
    assert API.read_answer(answer(said(None) | {"refusal": "No."})).content == "No."
    assert API.read_answer(answer(said(None) | {"refusal": "No."})).stop_reason == "refusal"
    audio = {"id": "audio_1", "data": "AAAA", "transcript": "Hello", "expires_at": 1}
    body = answer(said(None, audio=audio))
    assert API.read_answer(body).content == "Hello"
    changed = message_in(rewritten_answer(body, content="***"))
    assert changed["content"] == "***"
    assert changed["audio"] is None


def test_an_answer_that_was_left_alone_is_written_as_it_came():
    body = answer(said("Hello", tool_calls=[CALL, CUSTOM], odd={"a": 1}), "tool_calls")
    assert rewritten_answer(body) == body


def test_a_changed_text_takes_along_what_tells_the_old_one():
    body = answer(said("a secret", annotations=[{"type": "url_citation"}], odd=1))
    body["choices"][0]["logprobs"] = {"content": [{"token": "secret"}]}
    changed = rewritten_answer(body, content="a ***")
    assert message_in(changed) == said("a ***", odd=1)
    assert changed["choices"][0]["logprobs"] is None
    assert changed["usage"] == body["usage"]


def test_a_changed_refusal_stays_one():
    body = answer(said(None) | {"refusal": "No, secret."})
    assert message_in(rewritten_answer(body, content="No."))["refusal"] == "No."


def test_thoughts_and_unknown_fields_are_written_where_they_stood():
    body = answer(said("Hello", reasoning_content="a secret", details=[{"text": "a secret"}]))
    before = API.read_answer(body)
    after = rewrite_texts(before, lambda _, text: text.replace("secret", "***"))
    changed = message_in(API.write_answer(body, before, after))
    assert changed["reasoning_content"] == "a ***"
    assert changed["details"] == [{"text": "a ***"}]
    assert changed["content"] == "Hello"


def test_a_blocked_call_is_left_out_and_the_answer_is_a_plain_one():
    body = answer(said(None, tool_calls=[CALL]), "tool_calls")
    changed = rewritten_answer(body, content="blocked", tool_calls=[])
    assert message_in(changed) == said("blocked")
    assert changed["choices"][0]["finish_reason"] == "stop"
    legacy = answer(said(None, function_call=CALL["function"]), "function_call")
    changed = rewritten_answer(legacy, tool_calls=[])
    assert "function_call" not in message_in(changed)
    assert changed["choices"][0]["finish_reason"] == "stop"


def test_changed_arguments_are_written_and_other_calls_stay():
    body = answer(said(None, tool_calls=[CALL | {"odd": 1}, CUSTOM]), "tool_calls")
    calls = [
        ToolCall("call_1", "transfer", {"amount": 6}),
        ToolCall("call_2", "exec", {"input": 1}),
    ]
    first, second = message_in(rewritten_answer(body, tool_calls=calls))["tool_calls"]
    assert first["function"] == {"name": "transfer", "arguments": '{"amount":6}'}
    assert first["odd"] == 1
    assert second["custom"] == {"name": "exec", "input": '{"input":1}'}
    legacy = answer(said(None, function_call=CALL["function"]), "function_call")
    (call,) = API.read_answer(legacy).tool_calls
    changed = rewritten_answer(legacy, tool_calls=[replace(call, args={"amount": 6})])
    assert message_in(changed)["function_call"]["arguments"] == '{"amount":6}'
    assert changed["choices"][0]["finish_reason"] == "function_call"


def two_choices():
    body = answer(said("one secret"))
    other = said("two secret", tool_calls=[CALL], reasoning_content="secret")
    choice = {"index": 1, "message": other, "logprobs": None, "finish_reason": "tool_calls"}
    return body | {"choices": [*body["choices"], choice]}


def test_every_choice_is_seen_and_changed():
    before = API.read_answer(two_choices())
    assert [part["text"] for part in before.content] == ["one secret", "two secret"]
    assert [part["choice"] for part in before.content] == [0, 1]
    assert [call.name for call in before.tool_calls] == ["transfer"]
    assert API.write_answer(two_choices(), before, before) == two_choices()
    after = rewrite_texts(before, lambda _, text: text.replace("secret", "***"))
    body = API.write_answer(two_choices(), before, replace(after, tool_calls=[]))
    assert message_in(body)["content"] == "one ***"
    assert message_in(body, 1) == said("two ***", reasoning_content="***")
    assert body["choices"][1]["finish_reason"] == "stop"


def test_one_text_for_all_choices_leaves_the_others_out():
    body = rewritten_answer(two_choices(), content="No.", tool_calls=[])
    assert len(body["choices"]) == 1
    assert message_in(body)["content"] == "No."


def test_what_an_answer_costs_is_not_told_to_the_caller():
    body = answer(said("Hello"))
    priced = API.read_answer(body).usage | {"cost": 0.5}
    assert rewritten_answer(body, usage=priced) == body
    counted = {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29}
    assert rewritten_answer(body, usage=counted)["usage"]["total_tokens"] == 29


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": [5]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]},
        {"error": {"message": "no"}},
    ],
)
def test_what_is_no_answer_is_unreadable(body):
    with pytest.raises(UnreadableError):
        API.read_answer(body)


SYNTHETIC = AssistantMessage(
    "Hello", [ToolCall("call_1", "transfer", {"amount": 5})], stop_reason="tool_use"
)
ASKED = ModelRequest(model="grand-1", params={"stream_options": {"include_usage": True}})


def test_the_sdk_takes_an_answer_that_no_model_gave(endpoint):
    url = endpoint.gives(write_json(API.build_answer(SYNTHETIC, ASKED)))
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        found = client.chat.completions.create(model="grand-1", messages=[])
    choice = found.choices[0]
    assert (found.model, found.object) == ("grand-1", "chat.completion")
    assert (choice.message.content, choice.finish_reason) == ("Hello", "tool_calls")
    assert choice.message.tool_calls[0].function.arguments == '{"amount": 5}'
    assert found.usage.total_tokens == 0


def test_who_asks_with_functions_is_answered_with_one():
    body = API.build_answer(SYNTHETIC, API.read_request(LEGACY))
    assert message_in(body)["function_call"]["name"] == "transfer"
    assert body["choices"][0]["finish_reason"] == "function_call"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_the_sdk_takes_an_error(endpoint, status, kind):
    body = write_json(API.write_error(Refusal(status, "not today", "closed")))
    url = endpoint.gives(body, status=status)
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    with client, pytest.raises(kind) as caught:
        client.chat.completions.create(model="grand-1", messages=[])
    assert caught.value.body["message"] == "not today"
    assert caught.value.code == "closed"
    assert caught.value.body["param"] is None


NAMES = (
    "role content type text tool_calls function_call function custom name arguments input id index "
    "message choices audio usage refusal tools functions messages transcript reasoning error"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["messages", "tools", "functions", "model"]), JSON))
def test_any_request_is_read_or_unreadable(body):
    try:
        before = API.read_request(copy.deepcopy(body))
    except UnreadableError:
        return
    changed = replace(before, messages=[*before.messages, {"role": "user", "content": "x"}])
    assert API.write_request(copy.deepcopy(body), before, before) == body
    again = API.read_request(API.write_request(copy.deepcopy(body), before, changed))
    assert again.messages[-1] == {"role": "user", "content": "x"}
    assert thaw(again.messages[:-1]) == thaw(before.messages)


@given(
    st.fixed_dictionaries(
        {"choices": st.lists(st.fixed_dictionaries({"message": JSON}) | JSON, max_size=2)}
    )
)
def test_any_answer_is_read_or_unreadable(body):
    try:
        before = API.read_answer(copy.deepcopy(body))
    except UnreadableError:
        return
    assert API.write_answer(copy.deepcopy(body), before, before)["choices"] == [
        choice or {"message": {}}
        if choice is None
        else choice | {"message": choice.get("message") or {}}
        for choice in body["choices"]
    ]
    after = replace(before, content="changed", tool_calls=[])
    assert API.read_answer(API.write_answer(body, before, after)).content == "changed"
