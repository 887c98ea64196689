"""`text`: all text in a value, whatever its shape."""

import dataclasses
from collections import UserString, deque, namedtuple
from datetime import date
from pathlib import PurePosixPath

import pytest

from checkrail.engine.registry import HookRegistry
from checkrail.engine.text import is_message, text_of
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
    User,
)

THINKING = {"type": "thinking", "thinking": "let me see", "signature": "c2ln"}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "bash", "arguments": '{"command": "\\u0067it push"}'},
}
PNG = "iVBORw0KGgo="


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (InboundMessage("ann", "web", "hello"), "hello"),
        (InboundMessage("ann", "web", "see", attachments=[{"name": "a.txt"}]), "see\na.txt\nname"),
        (OutboundMessage("ann", "web", "bye", metadata={"trace": "t1"}), "bye"),
        (AssistantMessage("hi"), "hi"),
        (AssistantMessage([THINKING, {"type": "text", "text": "hi"}]), "hi\nlet me see"),
        (AssistantMessage("", [ToolCall("c1", "bash", {"n": 5})]), "bash\n5\nn"),
        (AssistantMessage("", ["no call"]), "no call"),
        (AssistantMessage("hi", metadata={"reasoning": "because"}), "hi\nbecause"),
        (
            ToolCall("c1", "bash", {"command": ["git", "push", "--force"]}),
            "git push --force\ncommand",
        ),
        (ToolCall("c1", "bash", {}), ""),
        (ToolResult("c1", "bash", "done"), "done"),
        (ToolResult("c1", "bash", ["a", "b", None]), "a b\nab"),
        (ToolResult("c1", "bash", is_error=True, error="boom"), "boom"),
        (AgentResponse("bye", output={"n": 1}, error="late"), "bye\n1\nlate\nn"),
        (RunResult(output={"answer": "yes"}), "yes\nanswer"),
        (RunError(error="boom"), "boom"),
    ],
)
def test_all_text_of_each_value(value, text):
    assert value.text == text
    assert text_of(value) == text


def test_a_request_has_the_text_of_its_messages_its_tools_and_its_parameters():
    request = ModelRequest(
        "m",
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "he"}, "llo"]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "pushed"},
        ],
        tools=[{"type": "function", "function": {"name": "bash"}}],
        params={"user": "ann"},
    )
    said, beside, keys = ["be brief", "hello", "pushed"], ["c1", "bash", "git push"], ["command"]
    assert request.text.split("\n")[:3] == said
    assert {*said, *beside, *keys, "ann", "function", "user"} <= {*request.text.split("\n")}


def test_text_is_read_only_and_no_field():
    message = AssistantMessage("hi")
    with pytest.raises((AttributeError, TypeError)):
        message.text = "bye"
    assert "text" not in {field.name for field in dataclasses.fields(message)}
    assert not hasattr(Session("s1"), "text")
    assert not hasattr(User("ann"), "text")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "git "}, {"type": "text", "text": "push"}], "git push"),
        (["he", {"type": "text", "text": "llo"}], "hello\nhe llo"),
        (
            [{"type": "text", "text": "a"}, THINKING, {"type": "text", "text": "b"}],
            "a\nb\nlet me see\nab\na b",
        ),
        ([{"type": "refusal", "refusal": "I cannot"}], "I cannot"),
        ([{"type": "redacted_thinking", "data": "no base 64!"}], "no base 64!"),
        (
            [{"type": "text", "text": "so", "citations": [{"cited_text": "it is", "start": 3}]}],
            "so\nit is\n3\ncited_text\nstart",
        ),
        (
            [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}]}],
            "short",
        ),
        (
            [{"type": "tool_use", "id": "t1", "name": "bash", "input": {"c": "ls"}}],
            "t1\nbash\nls\nc",
        ),
        ([{"type": "custom_tool_call", "input": "rm -rf"}], "rm -rf"),
        ([{"type": "function_call", "arguments": "[1"}], "[1"),
        ([{"type": "function_call", "arguments": "7"}], "7"),
        ([{"type": "tool_result", "content": [{"type": "text", "text": "ok"}]}], "ok"),
        ([{"type": "image", "source": {"type": "base64", "data": PNG}}], ""),
        ([{"type": "image", "data": PNG, "mimeType": "image/png"}], "image/png"),
        ([{"type": "image", "data": "rm -rf /", "mimeType": "image/png"}], "rm -rf /\nimage/png"),
        ([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}], ""),
        (
            [{"type": "image_url", "image_url": {"url": "https://x.test/?q=key"}}],
            "https://x.test/?q=key",
        ),
        (
            [
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "A"},
                }
            ],
            "text/plain\nA",
        ),
        (
            [{"type": "resource", "resource": {"type": "text", "text": "inside", "uri": "u"}}],
            "u\ninside",
        ),
        ([{"type": "text", "text": ["odd", "parts"]}], "odd parts\noddparts"),
        ([{"type": "text", "text": "hi", "SECRET": 7}], "hi\n7\nSECRET"),
        ([{"type": "text", "text": "hi"}, 5, {"plain": "data"}], "hi5\ndata\nplain\nhi 5"),
        (
            [{"type": "row", "id": 7}, {"role": "user", "id": 8}],
            "row\n7\nuser\n8\ntype\nid\nrole\nid",
        ),
        ([{"role": "boss", "type": "text", "text": "x"}], "x\nboss"),
    ],
)
def test_parts_of_the_model_apis_langchain_and_mcp(content, text):
    assert AssistantMessage(content).text == text


def _part(text, kind="text", field="text"):
    return {"type": kind, field: text}


def _call(arguments):
    return _part(arguments, "function_call", "arguments")


@pytest.mark.parametrize(
    "content",
    [
        ["git", "push", "--force", _part("now")],
        [_part("now"), "push", "--force"],
        ["push", None, b"--force", _part("now")],
        ["push --fo", "rce"],
        ["push --fo", None, "rce"],
        {"role": "user", "content": ["push --fo", "rce"]},
        ["push --fo", _part("rce")],
        [_part("push --fo"), _part("rce")],
        [_part("push"), _part("--force")],
        [_part("push", "output_text"), _part("--force", "refusal", "refusal")],
        [_part("push "), THINKING, _part("--force")],
        [_part("push"), _part("https://x.test", "image_url", "image_url"), "--force"],
        [_part("push", "thinking", "thinking"), _part("--force", "thinking", "thinking")],
        [
            {
                "type": "reasoning",
                "summary": [_part("push", "summary_text"), _part("--force", "summary_text")],
            }
        ],
        [{"role": "model", "parts": [{"text": "push "}, {"text": "--force"}]}],
        [{"type": "tool_result", "content": ["push", "--force", _part("now")]}],
        [{"type": "text", "text": "x", "cache_control": {"type": "push --force"}}],
        [
            {
                "type": "text",
                "text": "x",
                "cache_control": {"type": "ephemeral", "k": "push --force"},
            }
        ],
        [{"type": "thinking", "thinking": "x", "signature": "push --force"}],
        [{"type": "reasoning", "encrypted_content": "push --force"}],
        [_call('{"command": "push --force", "command": "ls"}')],
        [_call('"\\u0070ush --force"')],
        [{"type": "file", "file": {"file_data": "data:text/plain;base64,cHVzaCAtLWZvcmNl"}}],
        [{"type": "file", "file": {"file_data": "data:;base64,cHVzaCAtLWZvcmNl"}}],
        [{"type": "resource", "resource": {"mimeType": "text/x", "blob": "cHVzaCAtLWZvcmNl"}}],
        [{"type": "resource", "resource": {"mimeType": "a/json", "blob": "cHVzaCAtLWZvcmNl"}}],
        [{"type": "document", "source": {"type": "base64", "data": "cHVzaCAtLWZvcmNl"}}],
    ],
)
def test_content_is_read_as_anybody_may_read_it(content):
    assert "push --force" in AssistantMessage(content).text
    assert "push --force" in ToolResult(content=content).text
    assert "push --force" in ModelRequest(messages=[{"role": "user", "content": content}]).text


@pytest.mark.parametrize(
    "part",
    [
        {"type": "thinking", "thinking": "", "signature": "cHVzaC0tZm9yY2U="},
        {"type": "redacted_thinking", "data": "iVBORw0KGgo="},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,iVBORw0KGgo="}},
        {"type": "input_audio", "input_audio": {"data": "iVBORw0KGgo", "format": ""}},
    ],
)
def test_what_is_base64_and_no_text_is_left_out(part):
    assert AssistantMessage([part]).text == ""


def test_names_of_unknown_fields_of_an_answer_are_text():
    assert "push --force" in AssistantMessage(metadata={"push --force": 1}).text


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - what users have


@dataclasses.dataclass
class Note:
    body: str


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("x", "x"),
        (None, ""),
        (True, "true"),
        ([1, 2.5, False], "1 2.5 false"),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        (bytearray(b"x"), "x"),
        ({"files": {"/etc/passwd": ["r", ["w"]]}}, "r\nw\nfiles\n/etc/passwd"),
        (("a", {"b"}), "a\nb"),
        (["git", "push", "--force", ["x"]], "git push --force\nx"),
        ({"arguments": '{"a": "b"}'}, '{"a": "b"}\nb\narguments\na'),
        (Pair("a", ["b"]), "a\nb"),
        (Note("inside"), "inside\nbody"),
        (date(2026, 1, 2), "2026-01-02"),
        (object(), "<object>"),
        (range(3), "<range>"),
        (memoryview(b"x"), "x"),
        (deque(["git", "push"]), "git push"),
        ({"a": "b"}.values(), "b"),
        (UserString("x"), "x"),
        (PurePosixPath("/etc"), "/etc"),
        (["git", b"push", 5, ["x"], None, "y"], "git push 5\nx\ny"),
        (
            {"files": [{"text": "git "}, {"text": "push"}]},
            "git \npush\nfiles\ntext\ntext\ngit push",
        ),
        ([ToolResult(content="deep")], "deep"),
        (User("ann"), "ann\nidentity\nemail\norg_id\npermissions\nextras"),
        ({"role": "user", "content": "hi"}, "hi"),
        ({"role": "boss", "content": "hi"}, "hi\nboss"),
    ],
)
def test_any_data_has_a_text(data, text):
    assert text_of(data) == text


def test_a_number_too_long_for_decimal_digits_has_a_text():
    assert text_of(10**5000) == hex(10**5000)


def test_data_of_a_tool_is_never_taken_for_parts():
    data = [{"type": "image", "mimeType": "image/png", "data": PNG, "signature": "key"}]
    text = ToolCall(args={"parts": data}).text
    assert PNG in text
    assert "key" in text


def test_messages_are_told_from_other_data():
    assert is_message({"role": "user", "content": "hi"})
    assert is_message({"type": "human", "content": "hi"})
    assert is_message({"role": "assistant", "tool_calls": []})
    assert is_message({"role": "model", "parts": [{"text": "hi"}]})
    assert not is_message({"role": "user", "id": 1})
    assert not is_message("user")


async def test_a_hook_reads_it():
    seen = []
    registry = HookRegistry()
    registry.register(lambda event, message: seen.append(message.text), "after_llm_call", name="s")
    await registry.fire("after_llm_call", AssistantMessage([{"type": "text", "text": "hi"}]))
    assert seen == ["hi"]


def test_a_list_of_texts_outside_of_a_message_is_a_command_line():
    assert text_of(["git", "push", "--force"]) == "git push --force"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('["git", "push", "--force"]', "git push --force"),
        ('{"command": "push \\u002d-force", "command": "ls"}', "push --force"),
        ('"push \\u002d-force"', "push --force"),
        ("push --force", "push --force"),
    ],
)
def test_arguments_that_are_no_object_are_read_as_what_they_are(written, text):
    message = AssistantMessage("", metadata={"unparsed_arguments": {"c1": written}})
    assert text in message.text


@pytest.mark.parametrize(("deep", "beside"), [(200, ""), (5_000, ""), (5_000, '"no \\x escape", ')])
def test_texts_in_arguments_that_nest_too_deeply_are_read(deep, beside):
    written = "[" * deep + beside + '"push \\u002d-force", "ls"' + "]" * deep
    message = AssistantMessage("", metadata={"unparsed_arguments": {"c1": written}})
    assert "push --force" in message.text
    assert written in message.text


def test_brackets_in_a_text_do_not_make_it_deep():
    written = '{"command": "' + "[" * 500 + ' push \\u002d-force"}'
    message = AssistantMessage("", metadata={"unparsed_arguments": {"c1": written}})
    assert "push --force" in message.text


@pytest.mark.parametrize("odd", [None, "a text", {"c1": None}, {"c1": ["a"]}])
def test_arguments_that_a_hook_left_in_another_form_do_no_harm(odd):
    message = AssistantMessage("hi", metadata={"unparsed_arguments": odd})
    assert message.text.startswith("hi")
