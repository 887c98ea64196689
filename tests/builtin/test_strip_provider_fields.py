import copy

import pytest

from checkrail import Continue, ModelRequest
from checkrail.builtin import BUILTINS, strip_provider_fields
from checkrail.testing import RecordingRegistry, assert_allowed, assert_changed, event

MARK = {"type": "ephemeral"}
MESSAGES = [
    {"role": "system", "content": "plain", "cache_control": MARK},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "hi", "cache_control": MARK},
            {"type": "text", "text": "ho", "provider_specific_fields": {"a": 1}},
            "bare",
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "provider_specific_fields": {"citations": []},
        "tool_calls": [
            {
                "id": "1",
                "provider_specific_fields": {},
                "function": {"name": "f", "arguments": "{}", "cache_control": MARK},
            },
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "1",
                "content": [{"type": "text", "text": "x", "cache_control": MARK}],
            },
        ],
    },
]
TOOLS = [
    {
        "type": "function",
        "cache_control": MARK,
        "function": {
            "name": "f",
            "provider_specific_fields": {},
            "cache_control": MARK,
            "parameters": {"properties": {"cache_control": {"type": "string"}}},
        },
    },
]


def strip(config=None, **fields):
    context = fields.pop("context", {})
    made = event("before_llm_call", ModelRequest(**fields), **context)
    return BUILTINS["strip_provider_fields"].make(config or {})(made, made.value)


def test_a_strict_provider_gets_nothing_foreign():
    outcome = strip(model="llama", provider="groq", messages=MESSAGES, tools=TOOLS)
    assert isinstance(outcome, Continue)
    assert not outcome.redacted
    request = outcome.value
    assert request.messages == [
        {"role": "system", "content": "plain"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "ho"}, "bare"],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "content": [{"type": "text", "text": "x"}],
                },
            ],
        },
    ]
    assert (request.model, request.provider) == ("llama", "groq")


def test_a_parameter_of_a_tool_may_have_any_name():
    outcome = strip(provider="groq", tools=TOOLS)
    assert outcome.value.tools == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {"properties": {"cache_control": {"type": "string"}}},
            },
        },
    ]


@pytest.mark.parametrize("provider", ["groq", "cerebras", "together", "anyscale", "Groq"])
def test_the_strict_providers(provider):
    assert strip(provider=provider, messages=MESSAGES) is not None


@pytest.mark.parametrize(
    ("fields", "is_strict"),
    [
        ({"model": "groq/llama"}, True),
        ({"model": "together_ai/llama"}, True),
        ({"model": "groq/llama", "provider": "anthropic"}, False),
        ({"model": "llama", "context": {"provider": "cerebras"}}, True),
        ({"provider": "anthropic", "context": {"provider": "cerebras"}}, False),
        ({"context": {"model": "groq/llama"}}, True),
        ({"model": "groq"}, False),
        ({"model": "anthropic/claude"}, False),
        ({}, False),
    ],
)
def test_the_provider_is_the_requests_or_the_events_or_the_models_prefix(fields, is_strict):
    assert (strip(messages=MESSAGES, **fields) is not None) is is_strict


def test_the_providers_can_be_named():
    config = {"providers": ["Mine"]}
    assert strip(config, provider="mine", messages=MESSAGES) is not None
    assert strip(config, provider="groq", messages=MESSAGES) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}]},
    ],
)
def test_a_request_without_foreign_fields_is_left_as_it_is(fields):
    assert strip(provider="groq", **fields) is None


async def test_the_callers_own_data_is_not_touched():
    registry = RecordingRegistry()
    registry.register(strip_provider_fields, "pre_request", name="provider_compat")
    messages = copy.deepcopy(MESSAGES)
    verdict = await registry.fire("pre_request", ModelRequest("groq/x", messages=messages))
    assert_allowed(verdict)
    assert_changed(verdict, by="provider_compat")
    assert messages == MESSAGES
    assert registry.records[-1].before.messages == MESSAGES
