"""Requests and answers of the Responses API: what hooks see of them, and what is written back."""

import json
from dataclasses import replace

import pytest

from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, ToolResult
from checkrail.llm.conversation import assistant_message, tool_message
from checkrail.llm.responses.api import Responses
from checkrail.llm.wire_format import Refusal, UnreadableError

from .responses_wire import SEARCH, answer, call_item, custom_item, text_item, thought_item

API = Responses()

FUNCTION = {
    "type": "function",
    "name": "transfer",
    "description": "Moves money",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
    "defer_loading": False,
}
OTHERS = [
    {"type": "web_search", "search_context_size": "low"},
    {"type": "mcp", "server_label": "bank", "server_url": "https://bank.example"},
]

SHELL = {"id": "lsh_1", "type": "local_shell_call", "call_id": "c1", "status": "completed"}
LOCAL_SHELL = SHELL | {"action": {"type": "exec", "command": ["rm", "-rf", "/"], "env": {}}}
PATCH = {
    "id": "apc_1",
    "type": "apply_patch_call",
    "call_id": "c2",
    "status": "completed",
    "operation": {"type": "delete_file", "path": "/etc/passwd"},
}
CLICK = {
    "id": "cu_1",
    "type": "computer_call",
    "call_id": "c3",
    "status": "completed",
    "action": {"type": "click", "x": 3, "y": 4, "button": "left"},
    "pending_safety_checks": [],
}
APPROVAL = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "bank",
    "name": "transfer",
    "arguments": '{"amount": 5000}',
}
COMMANDS = {
    "id": "sh_1",
    "type": "shell_call",
    "call_id": "c4",
    "status": "completed",
    "action": {"commands": ["rm -rf /"], "timeout_ms": None},
}


def read_messages(*items, **body):
    return [*API.read_request({"model": "m", "input": [*items], **body}).messages]


def rewrite(body, **changes):
    before = API.read_request(body)
    return API.write_request(body, before, replace(before, raw=None, **changes))


def test_a_text_is_what_the_user_says_and_instructions_are_said_by_the_system():
    body = {"model": "m", "input": "Hi", "instructions": "Be brief", "temperature": 0.2}
    request = API.read_request(body)
    assert request.messages == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "Hi"},
    ]
    assert (request.model, request.stream, request.raw) == ("m", False, body)
    assert request.params == {"temperature": 0.2}


def test_parts_are_shown_in_the_words_of_the_chat_api_with_all_their_fields():
    text = {"type": "input_text", "text": "Look", "prompt_cache_breakpoint": {"mode": "explicit"}}
    image = {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "low"}
    file = {"type": "input_file", "file_id": "file_1"}
    odd = {"type": "input_smell", "smell": "smoke"}
    item = {"type": "message", "role": "user", "content": [text, image, file, odd]}
    [message] = read_messages(item)
    assert message == {
        "type": "message",
        "role": "user",
        "content": [
            text | {"type": "text"},
            {"type": "image_url", "image_url": {"url": image["image_url"], "detail": "low"}},
            file,
            odd,
        ],
    }
    body = {"model": "m", "input": [item]}
    changed = [*message["content"]]
    changed[0] = {**changed[0], "text": "Do not look"}
    written = rewrite(body, messages=[{**message, "content": changed}])
    assert written["input"] == [
        item | {"content": [text | {"text": "Do not look"}, image, file, odd]}
    ]


def test_calls_and_their_results_are_those_of_the_chat_api():
    call = call_item() | {"namespace": "bank"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "done", "id": "fco_1"}
    messages = read_messages(call, result)
    function = {"name": "transfer", "arguments": '{"amount": 5}'}
    [shown] = messages[0]["tool_calls"]
    assert messages[0]["role"] == "assistant"
    assert shown["id"] == "call_1"
    assert shown["function"] == function
    assert shown["namespace"] == "bank"
    assert messages[1] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "done",
        "id": "fco_1",
    }


def test_a_changed_result_and_changed_arguments_keep_everything_else():
    call = call_item() | {"namespace": "bank"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "done", "id": "fco_1"}
    body = {"model": "m", "input": [call, result]}
    said, returned = API.read_request(body).messages
    [shown] = said["tool_calls"]
    less = {**shown, "function": {"name": "transfer", "arguments": '{"amount": 1}'}}
    messages = [{**said, "tool_calls": [less]}, {**returned, "content": "[hidden]"}]
    assert rewrite(body, messages=messages)["input"] == [
        call | {"arguments": '{"amount": 1}'},
        result | {"output": "[hidden]"},
    ]


def test_what_a_hook_takes_from_a_call_is_gone():
    body = {"model": "m", "input": [call_item() | {"namespace": "bank"}]}
    [said] = API.read_request(body).messages
    [shown] = said["tool_calls"]
    less = {key: value for key, value in shown.items() if key != "namespace"}
    written = rewrite(body, messages=[{**said, "tool_calls": [less]}])
    assert written["input"] == [call_item()]


@pytest.mark.parametrize(
    ("item", "name", "args"),
    [
        (custom_item(), "exec", {"input": "ls -l"}),
        (LOCAL_SHELL, "local_shell", LOCAL_SHELL["action"]),
        (COMMANDS, "shell", COMMANDS["action"]),
        (PATCH, "apply_patch", PATCH["operation"]),
        (CLICK, "computer", {"action": CLICK["action"], "pending_safety_checks": []}),
        (APPROVAL, "transfer", {"amount": 5000}),
        (
            {"type": "tool_search_call", "id": "t", "execution": "client", "arguments": {"q": "x"}},
            "tool_search",
            {"q": "x"},
        ),
        ({"type": "laser_call", "id": "l", "call_id": "c", "power": 9}, "laser", {"power": 9}),
        (
            {"type": "odd_call", "id": "l", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
            "f",
            {"a": 1},
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) and "id" in value else "",
)
def test_every_type_of_call_that_the_caller_is_to_run_is_seen(item, name, args):
    message = API.read_answer(answer(item))
    [call] = message.tool_calls
    assert (call.name, call.args) == (name, args)
    assert message.content == ""
    [shown] = read_messages(item)[0]["tool_calls"]
    assert shown["function"]["name"] == name
    assert json.loads(shown["function"]["arguments"]) == args
    without = API.write_answer(answer(item), message, replace(message, tool_calls=[]))
    assert without["output"] == []


@pytest.mark.parametrize(
    "item",
    [
        SEARCH,
        {"type": "mcp_call", "id": "mcp_1", "name": "transfer", "arguments": "{}", "output": "ok"},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
        COMMANDS | {"environment": {"type": "container_reference", "container_id": "cntr_1"}},
        {"type": "tool_search_call", "id": "t", "execution": "server", "arguments": {}},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
        {"type": "something_new", "id": "x_1", "text": "?"},
    ],
    ids=lambda item: item["type"],
)
def test_what_the_provider_runs_is_left_as_it_is(item):
    message = API.read_answer(answer(item, text_item()))
    assert message.tool_calls == []
    assert message.content == [item, {"type": "text", "text": "Hello"}]
    assert read_messages(item) == [{"role": "assistant", "content": [item]}]
    changed = [*message.content[:1], {"type": "text", "text": "Bye"}]
    written = API.write_answer(
        answer(item, text_item()), message, replace(message, content=changed)
    )
    assert written["output"] == [item, text_item("Bye")]


@pytest.mark.parametrize(
    ("item", "args", "field", "value"),
    [
        (custom_item(), {"input": "pwd"}, "input", "pwd"),
        (custom_item(), {"path": "/"}, "input", '{"path":"/"}'),
        (PATCH, {"type": "delete_file", "path": "notes.txt"}, "operation", None),
        (LOCAL_SHELL, {"type": "exec", "command": ["ls"], "env": {}}, "action", None),
        (CLICK, {"action": {"type": "wait"}}, "action", {"type": "wait"}),
        (APPROVAL, {"amount": 1}, "arguments", '{"amount":1}'),
        (call_item(), {"amount": 1}, "arguments", '{"amount":1}'),
    ],
)
def test_changed_arguments_are_written_where_the_item_has_them(item, args, field, value):
    message = API.read_answer(answer(item))
    [call] = message.tool_calls
    after = replace(message, tool_calls=[replace(call, args=args)])
    [written] = API.write_answer(answer(item), message, after)["output"]
    assert written[field] == (args if value is None else value)
    assert {**item, field: written[field]}.items() >= written.items()


def test_a_call_of_another_tool_is_no_call_of_the_shell_any_more():
    message = API.read_answer(answer(LOCAL_SHELL))
    [call] = message.tool_calls
    after = replace(message, tool_calls=[replace(call, name="list_files", args={"path": "/"})])
    [written] = API.write_answer(answer(LOCAL_SHELL), message, after)["output"]
    assert (written["type"], written["name"]) == ("function_call", "list_files")
    assert (written["call_id"], written["arguments"]) == ("c1", '{"path":"/"}')


@pytest.mark.parametrize(
    ("item", "content", "is_error"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": "ok"}, "ok", False),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}, "ok", False),
        ({"type": "local_shell_call_output", "id": "c", "output": "ok"}, "ok", False),
        (
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"},
            "no",
            True,
        ),
        ({"type": "apply_patch_call_output", "call_id": "c", "status": "completed"}, "", False),
        (
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "ok"}],
            },
            [{"type": "text", "text": "ok"}],
            False,
        ),
        (
            {
                "type": "shell_call_output",
                "call_id": "c",
                "output": [
                    {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
                ],
            },
            '[{"stdout":"","stderr":"","outcome":{"type":"exit","exit_code":1}}]',
            True,
        ),
        (
            {
                "type": "tool_search_output",
                "call_id": "c",
                "execution": "client",
                "tools": [{"type": "function", "name": "pay"}],
            },
            [{"type": "function", "name": "pay"}],
            False,
        ),
        (
            {
                "type": "computer_call_output",
                "call_id": "c",
                "output": {"type": "computer_screenshot", "image_url": "data:,"},
            },
            [{"type": "computer_screenshot", "image_url": "data:,"}],
            False,
        ),
    ],
)
def test_every_type_of_result_is_seen_and_can_be_taken_away(item, content, is_error):
    [message] = read_messages(item)
    assert (message["role"], message["tool_call_id"]) == ("tool", "c")
    assert message["content"] == content
    assert message.get("is_error", False) is is_error
    body = {"model": "m", "input": [item]}
    hidden = {**message, "content": "It is not for you", "is_error": True}
    written = rewrite(body, messages=[hidden])["input"]
    assert written[0]["type"] == item["type"]
    assert "It is not for you" in json.dumps(written)
    assert "ok" not in json.dumps(written)
    assert "data:," not in json.dumps(written).replace("data:image", "")


def test_items_that_are_no_messages_survive_and_can_be_redacted():
    body = {
        "model": "m",
        "input": [
            thought_item("My key is sk-1"),
            {"type": "item_reference", "id": "msg_9"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
            text_item("Hi"),
        ],
    }
    request = API.read_request(body)
    roles = [message["role"] for message in request.messages]
    assert roles == ["assistant", "assistant", "user", "assistant"]
    messages = [{"role": "assistant", "content": [thought_item("[hidden]")]}, *request.messages[1:]]
    assert rewrite(body, messages=messages)["input"] == [
        thought_item("[hidden]"),
        *body["input"][1:],
    ]


def test_a_conversation_that_no_hook_changed_is_left_as_it_came():
    body = {"model": "m", "input": [{"role": "user", "content": "Hi"}], "instructions": None}
    assert rewrite(body, model="other") == body | {"model": "other"}
    assert rewrite(body, params={}) == body


def test_a_system_message_at_the_beginning_becomes_instructions():
    body = {"model": "m", "input": "Hi", "instructions": "Be brief"}
    system = {"role": "system", "content": "Be kind"}
    messages = [system, *API.read_request(body).messages]
    written = rewrite(body, messages=messages)
    assert written == body | {"instructions": "Be kind\n\nBe brief"}
    alone = rewrite(
        {"model": "m", "input": "Hi"}, messages=[system, {"role": "user", "content": "Ho"}]
    )
    assert alone == {"model": "m", "input": "Ho", "instructions": "Be kind"}


def test_a_system_message_that_is_an_item_stays_one():
    body = {
        "model": "m",
        "input": [{"role": "system", "content": "A"}, {"role": "user", "content": "B"}],
    }
    messages = [*API.read_request(body).messages, {"role": "user", "content": "C"}]
    written = rewrite(body, messages=messages)
    assert written["input"] == [*body["input"], {"role": "user", "content": "C"}]
    assert "instructions" not in written


def test_instructions_that_a_hook_removed_are_gone():
    body = {"model": "m", "input": "Hi", "instructions": "Tell the secret"}
    written = rewrite(body, messages=[{"role": "user", "content": "Hi"}])
    assert written == {"model": "m", "input": "Hi"}


def test_an_answer_and_the_results_of_its_calls_can_be_added_to_a_conversation():
    tools = [FUNCTION, {"type": "custom", "name": "exec"}, {"type": "local_shell"}, OTHERS[1]]
    items = [thought_item("Hm"), text_item(), call_item(), custom_item(), LOCAL_SHELL, APPROVAL]
    body = {"model": "m", "input": "Hi", "tools": tools}
    message = API.read_answer(answer(*items))
    results = [ToolResult(call.id, call.name, "No", is_error=True) for call in message.tool_calls]
    more = [assistant_message(message), *map(tool_message, results)]
    written = rewrite(body, messages=[*API.read_request(body).messages, *more])["input"]
    assert [item.get("type", "message") for item in written] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "mcp_approval_request",
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "mcp_approval_response",
    ]
    assert written[2] == {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello"}],
    }
    assert written[4] == {
        "type": "custom_tool_call",
        "call_id": "call_c",
        "name": "exec",
        "input": "ls -l",
    }
    assert written[6]["server_label"] == "bank"
    refused = {"approval_request_id": "mcpr_1", "approve": False, "reason": "No"}
    assert written[-1] == {"type": "mcp_approval_response", **refused}


def test_tools_are_shown_as_the_chat_api_has_them_and_written_as_this_one_does():
    custom = {"type": "custom", "name": "exec", "format": {"type": "text"}}
    body = {"model": "m", "input": "Hi", "tools": [FUNCTION, custom, *OTHERS]}
    shown = API.read_request(body).tools
    inner = {key: FUNCTION[key] for key in ("name", "description", "parameters", "strict")}
    assert shown[0] == {"type": "function", "function": inner, "defer_loading": False}
    assert shown[1] == {"type": "custom", "custom": {"name": "exec", "format": {"type": "text"}}}
    assert shown[2:] == OTHERS
    changed = {**shown[0], "function": {**inner, "description": "Moves little money"}}
    written = rewrite(body, tools=[changed, *shown[2:]])
    assert written["tools"] == [FUNCTION | {"description": "Moves little money"}, *OTHERS]


@pytest.mark.parametrize(
    "body",
    [
        {"input": 5},
        {"input": ["Hi"]},
        {"input": "Hi", "instructions": ["Be brief"]},
        {"input": "Hi", "tools": "all"},
    ],
)
def test_a_request_that_is_none_is_refused(body):
    with pytest.raises(UnreadableError):
        API.read_request({"model": "m", **body})


def test_an_answer_is_its_text_its_calls_and_its_usage():
    message = API.read_answer(answer(thought_item(), text_item(), call_item()))
    assert message.content == "Hello"
    assert message.tool_calls == [ToolCall("call_1", "transfer", {"amount": 5})]
    assert (message.model, message.stop_reason) == ("gpt-grand-1", "tool_calls")
    assert message.usage == {
        "input_tokens": 36,
        "output_tokens": 87,
        "total_tokens": 123,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 5},
    }


def test_thoughts_that_can_be_read_are_parts():
    message = API.read_answer(answer(thought_item("Hm"), text_item()))
    assert message.content == [thought_item("Hm"), {"type": "text", "text": "Hello"}]


def test_a_refusal_and_an_answer_cut_short_say_so():
    part = {"type": "refusal", "refusal": "I will not"}
    refused = API.read_answer(answer(text_item() | {"content": [part]}))
    assert (refused.content, refused.stop_reason) == ("I will not", "refusal")
    details = {"reason": "max_output_tokens"}
    cut = API.read_answer(answer(text_item(), status="incomplete", incomplete_details=details))
    assert cut.stop_reason == "length"


def test_arguments_that_are_no_json_are_kept_apart():
    message = API.read_answer(answer(call_item(arguments='{"amount": ')))
    assert message.tool_calls == [ToolCall("call_1", "transfer", {})]
    assert message.metadata == {UNPARSED: {"call_1": '{"amount": '}}


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "The server is tired", "code": "server_error"}},
        answer(status="failed", error={"message": "The server is tired", "code": "server_error"}),
    ],
)
def test_an_error_in_place_of_an_answer_is_told(body):
    with pytest.raises(UnreadableError, match="The server is tired"):
        API.read_answer(body)


@pytest.mark.parametrize(
    "body", [{"output": "Hi"}, {"output": [5]}, {"output": [{"type": "function_call"}]}]
)
def test_an_answer_that_is_none_is_told(body):
    with pytest.raises(UnreadableError):
        API.read_answer(body)


def test_a_blocked_call_leaves_a_text_in_its_place():
    body = answer(thought_item(), text_item(), call_item(), call_item("pay", id="call_2"))
    before = API.read_answer(body)
    after = replace(before, content="Hello\n\nNo", tool_calls=before.tool_calls[1:])
    written = API.write_answer(body, before, after)
    thought, text, note, call = written["output"]
    assert (thought, text, call) == (body["output"][0], body["output"][1], body["output"][3])
    assert note["content"][0]["text"] == "\n\nNo"
    assert note["type"] == "message"
    assert {**written, "output": None} == {**body, "output": None}
    assert API.read_answer(written) == after


def test_changed_text_takes_with_it_what_was_known_of_the_old_one():
    logprobs = [{"token": "sk-1", "logprob": -0.1, "bytes": [], "top_logprobs": []}]
    body = answer(text_item("The key is sk-1", logprobs=logprobs)) | {
        "output_text": "The key is sk-1"
    }
    before = API.read_answer(body)
    written = API.write_answer(body, before, replace(before, content="The key is ***"))
    assert "sk-1" not in json.dumps(written)
    assert written["output"][0] == text_item("The key is ***")
    assert written["output_text"] == "The key is ***"


def test_citations_are_seen_and_kept_where_the_hook_left_them():
    citation = {"type": "url_citation", "url": "https://x.example", "title": "X"}
    body = answer(SEARCH, text_item("Rain", annotations=[citation]), text_item("!", id="msg_2"))
    before = API.read_answer(body)
    cited = {"type": "text", "text": "Rain", "annotations": [citation]}
    assert before.content == [SEARCH, cited, {"type": "text", "text": "!"}]
    after = replace(
        before, content=[SEARCH, cited | {"text": "Sun"}, {"type": "text", "text": "!"}]
    )
    written = API.write_answer(body, before, after)
    texts = [text_item("Sun", annotations=[citation]), text_item("!", id="msg_2")]
    assert written["output"] == [SEARCH, *texts]


def test_a_text_in_place_of_everything_is_all_that_is_left():
    body = answer(
        thought_item("Hm"), thought_item(id="rs_2"), text_item("A"), text_item("B", id="b")
    )
    before = API.read_answer(body)
    written = API.write_answer(body, before, AssistantMessage("C", model=before.model))
    assert written["output"] == [thought_item(id="rs_2"), text_item("C")]
    assert API.read_answer(written).content == "C"


def test_a_new_call_and_another_end_are_written():
    body = answer(text_item(), status="incomplete", incomplete_details={"reason": "content_filter"})
    before = API.read_answer(body)
    call = ToolCall("call_9", "look", {"at": "it"})
    after = replace(before, tool_calls=[call], stop_reason="tool_calls", model="other")
    written = API.write_answer(body, before, after)
    assert (written["status"], written["incomplete_details"]) == ("completed", None)
    assert written["model"] == "other"
    assert API.read_answer(written) == after


def test_two_calls_with_one_id_are_told_apart():
    body = answer(call_item(arguments='{"amount": 1}'), call_item(arguments='{"amount": 2}'))
    before = API.read_answer(body)
    assert len({call.id for call in before.tool_calls}) == 2
    written = API.write_answer(body, before, replace(before, tool_calls=before.tool_calls[:1]))
    assert written["output"] == body["output"][:1]


def test_an_answer_that_no_model_gave_says_what_it_answers():
    request = API.read_request(
        {"model": "m", "input": "Hi", "tools": [FUNCTION], "metadata": {"a": "b"}}
    )
    given = API.build_answer(
        AssistantMessage("Hello", [ToolCall("call_1", "transfer", {})]), request
    )
    assert given["tools"] == [FUNCTION]
    assert (given["model"], given["metadata"], given["status"]) == ("m", {"a": "b"}, "completed")
    read = API.read_answer(given)
    assert (read.content, read.tool_calls) == ("Hello", [ToolCall("call_1", "transfer", {})])


def test_an_answer_that_no_model_gave_may_be_cut_short():
    given = API.build_answer(AssistantMessage("Hel", stop_reason="length"), ModelRequest(model="m"))
    assert given["incomplete_details"] == {"reason": "max_output_tokens"}


def test_errors_are_those_of_openai():
    error = API.write_error(Refusal(403, "Not today", "not_today"))["error"]
    assert (error["message"], error["code"]) == ("Not today", "not_today")
