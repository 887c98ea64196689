import logging

import pytest

from checkrail import AssistantMessage, ModelRequest
from checkrail.builtin import BUILTINS, log_request, log_response
from checkrail.testing import RecordingRegistry, event, sample


def lines(caplog):
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog):
    caplog.set_level(logging.DEBUG, logger="checkrail.hooks")


def call(name, config, value, point, **context):
    hook = BUILTINS[name].make(config)
    made = event(point, value, **context)
    assert hook(made, made.value) is None


def request(*contents, model="gpt-5"):
    messages = [{"role": "user", "content": content} for content in contents]
    return ModelRequest(model=model, messages=messages)


def test_a_request_is_one_line(caplog):
    call("log_request", {}, request("hi", "ho"), "before_llm_call", request_id="0123456789")
    assert lines(caplog) == [("INFO", "request to gpt-5: 2 messages, id 0123456789")]
    assert caplog.records[0].name == "checkrail.hooks"


def test_what_a_request_does_not_say_is_marked(caplog):
    call("log_request", {}, request("hi", model=None), "before_llm_call")
    assert lines(caplog) == [("INFO", "request to ?: 1 message, id -")]


def test_the_model_of_the_context_is_used_where_the_request_names_none(caplog):
    call("log_request", {}, request(model=None), "before_llm_call", model="from-context")
    assert lines(caplog) == [("INFO", "request to from-context: 0 messages, id -")]


def test_a_request_at_another_level(caplog):
    call("log_request", {"level": "warning"}, request("hi"), "before_llm_call")
    assert lines(caplog)[0][0] == "WARNING"


def test_a_level_that_nobody_listens_to_costs_nothing(caplog):
    caplog.set_level(logging.ERROR, logger="checkrail.hooks")
    call("log_request", {"verbose": True}, request("hi"), "before_llm_call")
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("hi", "'hi'"),
        ("two\nlines", r"'two\nlines'"),
        ("x" * 100, repr("x" * 100)),
        ("x" * 101, repr("x" * 100) + "..."),
        ([{"type": "text", "text": "see"}, {"type": "image_url"}, "this"], "'see this'"),
        (None, "''"),
        (7, "'7'"),
    ],
)
def test_verbose_adds_the_last_message_on_the_same_line(caplog, content, told):
    call("log_request", {"verbose": True}, request("first", content), "before_llm_call")
    assert lines(caplog) == [
        ("INFO", f"request to gpt-5: 2 messages, id -, last from user: {told}"),
    ]


def test_verbose_without_messages_is_still_one_line(caplog):
    call("log_request", {"verbose": True}, request(), "before_llm_call")
    assert lines(caplog) == [("INFO", "request to gpt-5: 0 messages, id -")]


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"total_tokens": 30}, "30"),
        ({"total_tokens": 0}, "0"),
        ({"input_tokens": 20, "output_tokens": 5}, "25"),
        ({"prompt_tokens": 1, "completion_tokens": 2}, "3"),
        ({"prompt_tokens": 1}, "?"),
        ({}, "?"),
        (None, "?"),
    ],
)
def test_an_answer_is_one_line_with_its_tokens(caplog, usage, told):
    message = AssistantMessage("hello", model="gpt-5", usage=usage)
    call("log_response", {}, message, "after_llm_call")
    assert lines(caplog) == [("INFO", f"answer from gpt-5: {told} tokens")]


def test_an_answer_without_its_tokens(caplog):
    config = {"include_tokens": False, "level": "debug"}
    call("log_response", config, AssistantMessage("hello"), "after_llm_call", model="m")
    assert lines(caplog) == [("DEBUG", "answer from m")]


async def test_they_observe_what_the_other_hooks_left(caplog):
    registry = RecordingRegistry()
    for name in ("log_request", "redact"):
        builtin = BUILTINS[name]
        config = {"verbose": True} if name == "log_request" else {}
        registry.register(builtin.make(config), "before_llm_call", lane=builtin.lane)
    await registry.fire("before_llm_call", request("I am ann@example.com"))
    assert "last from user: 'I am [redacted:email]'" in lines(caplog)[0][1]
    assert "ann@example.com" not in caplog.text


async def test_as_plain_functions_under_the_names_that_proxies_use(caplog):
    registry = RecordingRegistry()
    registry.register(log_request, "pre_request", name="requests", config={"verbose": True})
    registry.register(log_response, "post_response", name="responses")
    await registry.fire("before_llm_call", sample("before_llm_call"), request_id="abcdefghijk")
    await registry.fire("after_llm_call", sample("after_llm_call"), request_id="abcdefghijk")
    last = ", last from user: 'What is the weather in Paris?'"
    assert lines(caplog) == [
        ("INFO", f"request to openai/gpt-5: 1 message, id abcdefghijk{last}"),
        ("INFO", "answer from openai/gpt-5: 30 tokens, id abcdefghijk"),
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gpt\n2026-01-01 ERROR all is lost", r"gpt\n2026-01-01 ERROR all is lost"),
        ("gpt\x1b[2J", r"gpt\x1b[2J"),
        ("g" * 101, "g" * 100 + "..."),
        ("modèle-é", "modèle-é"),
    ],
)
def test_names_that_others_chose_stay_names_on_one_line(caplog, name, shown):
    ids = {"request_id": "a\nb"}
    message = {"role": "user\nroot", "content": "hi"}
    asked = ModelRequest(model=name, messages=[message])
    call("log_request", {"verbose": True}, asked, "before_llm_call", **ids)
    call("log_response", {}, AssistantMessage("hi", model=name), "after_llm_call")
    last = r"last from user\nroot: 'hi'"
    assert lines(caplog) == [
        ("INFO", rf"request to {shown}: 1 message, id a\nb, {last}"),
        ("INFO", f"answer from {shown}: ? tokens"),
    ]


def test_without_verbose_nothing_that_was_said_is_logged(caplog):
    secret = "a secret that nobody asked to log"
    fields = {
        "messages": [{"role": "user", "content": secret, "name": secret}],
        "tools": [{"type": "function", "function": {"name": "f", "description": secret}}],
        "params": {"metadata": {"note": secret}},
        "raw": {"input": secret},
    }
    asked = ModelRequest(model="gpt-5", **fields)
    context = {"user": secret, "metadata": {"api_key": secret}, "session_id": secret}
    call("log_request", {}, asked, "before_llm_call", **context)
    answer = AssistantMessage(secret, model="gpt-5", metadata={"reasoning": secret})
    call("log_response", {}, answer, "after_llm_call", **context)
    assert secret not in caplog.text
