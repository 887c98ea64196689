"""The values: their fields, what a text stands for, and what a changed value has to be."""

import dataclasses

import pytest

from checkrail.engine.outcomes import Continue, Replace, Stop
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    AssistantResponse,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
    digest,
    plain,
)

FIELDS = {
    Session: "session_id user_id channel parent_session_id thread_ids reason",
    InboundMessage: "user_id channel content thread_id attachments metadata",
    OutboundMessage: "user_id channel content thread_id attachments metadata",
    ModelRequest: "model provider messages tools params stream raw",
    AssistantMessage: "content tool_calls model usage stop_reason metadata",
    ToolCall: "id name args context",
    ToolResult: "id name content is_error error duration_ms",
    AgentResponse: "content output messages usage stop_reason error finish",
    RunResult: "status output input usage duration_ms attempt",
    RunError: "status error error_type input usage duration_ms attempt",
}


async def changed(point, value, answer, **options):
    registry = HookRegistry()
    registry.register(lambda event: answer, point, name="h", **options)
    return await registry.fire(point, value)


@pytest.mark.parametrize(("kind", "names"), FIELDS.items())
def test_a_value_has_these_fields_and_no_hidden_ones(kind, names):
    assert [field.name for field in dataclasses.fields(kind)] == names.split()
    assert not hasattr(kind.__new__(kind), "__dict__")


def test_an_agents_response_has_two_names():
    assert AssistantResponse is AgentResponse


def test_a_tool_call_outside_of_a_run_belongs_to_a_chat():
    assert ToolCall().context == "chat"


TEXTS = [
    "before_inbound",
    "after_llm_call",
    "before_final_response",
    "after_tool_call",
    "on_tool_error",
    "before_outbound",
    "query_end",
]


@pytest.mark.parametrize("point", TEXTS)
async def test_a_text_replaces_the_primary_text_and_nothing_else(point, sample):
    verdict = await changed(point, sample(point), Continue("new"))
    assert verdict.value == dataclasses.replace(sample(point), content="new")


async def test_a_text_for_tool_arguments_is_json(sample):
    call = sample("before_tool_call")
    verdict = await changed("before_tool_call", call, Continue('{"q": ["y", 1]}'))
    assert verdict.value == dataclasses.replace(call, args={"q": ["y", 1]})


@pytest.mark.parametrize("text", ["", "not json", "[1]", '"text"', "null"])
async def test_a_text_that_is_no_json_object_is_a_breach_for_tool_arguments(text, sample):
    verdict = await changed("before_tool_call", sample("before_tool_call"), Continue(text))
    assert verdict.decision == "fail"
    assert verdict.records[1].failure == "invalid"
    assert verdict.value == sample("before_tool_call")


async def test_a_text_is_data_like_any_other_where_the_value_is_json():
    assert (await changed("before_run", {"a": 1}, Continue("text"))).value == "text"


async def test_a_text_at_the_end_of_a_query_without_response_makes_one():
    verdict = await changed("query_end", None, Continue("sorry"))
    assert verdict.value == AgentResponse(content="sorry")


@pytest.mark.parametrize("wrong", [5, ["x"], {"content": "x"}, b"x", True, AssistantMessage("x")])
@pytest.mark.parametrize("given", [AgentResponse(content="bye"), None])
async def test_a_value_of_another_type_at_the_end_of_a_query_is_invalid(wrong, given):
    verdict = await changed("query_end", given, Continue(wrong))
    assert (verdict.decision, verdict.records[1].failure) == ("fail", "invalid")
    assert verdict.value == given
    told = f"a changed value at query_end is an AgentResponse, not {type(wrong).__name__}"
    assert told in verdict.reason


async def test_a_response_can_be_taken_away_at_the_end_of_a_query(sample):
    assert (await changed("query_end", sample("query_end"), Continue(None))).value is None


async def test_a_text_where_there_is_no_primary_text_is_a_breach(sample):
    verdict = await changed("before_llm_call", sample("before_llm_call"), Continue("hi"))
    assert verdict.decision == "fail"
    assert "ModelRequest" in verdict.reason


@pytest.mark.parametrize("point", [*TEXTS, "before_llm_call", "before_tool_call"])
@pytest.mark.parametrize("wrong", [5, ["x"], {"content": "x"}, Session(session_id="s")])
async def test_a_changed_value_of_another_type_is_a_breach(point, wrong, sample):
    verdict = await changed(point, sample(point), Continue(wrong))
    ending = verdict.records[1]
    assert (ending.kind, ending.failure) == ("hook_failed", "invalid")
    assert "'h'" in ending.error
    assert point in ending.error
    assert type(wrong).__name__ in ending.error
    assert verdict.value == sample(point)


@pytest.mark.parametrize(
    ("point", "answer", "stands"),
    [
        ("before_inbound", Stop("reply"), "reply"),
        ("before_llm_call", Stop("t"), AssistantMessage(content="t")),
        ("before_llm_call", Replace("t"), AssistantMessage(content="t")),
        ("after_llm_call", Stop("t"), AssistantMessage(content="t")),
        ("before_final_response", Stop("t"), AssistantMessage(content="t")),
        ("before_tool_call", Replace("t"), ToolResult(id="c1", name="search", content="t")),
        ("on_run_start", Replace("t"), "t"),
        ("on_run_start", Replace(None), None),
    ],
)
async def test_what_a_text_stands_for_in_a_stop_or_a_replacement(point, answer, stands, sample):
    verdict = await changed(point, sample(point), answer)
    assert verdict.decision == answer.decision
    assert verdict.value == stands
    assert type(verdict.value) is type(stands)


@pytest.mark.parametrize(
    ("point", "answer"),
    [
        ("before_inbound", Stop()),
        ("before_inbound", Stop(5)),
        ("before_inbound", Stop(AssistantMessage())),
        ("before_llm_call", Stop()),
        ("before_llm_call", Stop(ToolResult())),
        ("before_llm_call", Replace()),
        ("before_llm_call", Replace({"content": "x"})),
        ("before_tool_call", Replace()),
        ("before_tool_call", Replace(AssistantMessage())),
        ("on_run_start", Replace()),
    ],
)
async def test_a_stop_or_replacement_without_its_value_is_a_breach(point, answer, sample):
    verdict = await changed(point, sample(point), answer)
    assert verdict.decision == "fail"
    assert verdict.records[1].failure == "invalid"
    assert type(answer).__name__.lower() in verdict.reason.lower()


async def test_a_value_that_contains_itself_is_a_breach_of_the_hook_that_gave_it():
    loop = {}
    loop["self"] = loop
    verdict = await changed("before_run", {}, Continue(loop))
    assert verdict.decision == "fail"
    assert verdict.records[1].failure == "invalid"


def test_plain_gives_json_data_of_every_value():
    call = ToolCall(id="1", name="t", args={"a": (1, {"b": None})})
    message = AssistantMessage(content="x", tool_calls=[call])
    assert plain(message)["tool_calls"] == [
        {"id": "1", "name": "t", "args": {"a": [1, {"b": None}]}, "context": "chat"}
    ]


@dataclasses.dataclass
class Own:
    name: str


class Dumped:
    def model_dump(self, mode):
        return {"mode": mode}


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({1: frozenset({2})}, {"1": [2]}),
        (Own("x"), {"name": "x"}),
        (Dumped(), {"mode": "json"}),
        (1j, "<complex>"),
        (True, True),
        (1.5, 1.5),
        ([float("nan"), float("inf")], ["nan", "inf"]),
    ],
)
def test_plain_gives_json_data_of_what_users_bring(value, data):
    assert plain(value) == data


def test_a_digest_names_content_not_identity_or_order():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest("x").startswith("sha256:")


def test_a_digest_can_be_made_of_any_text_that_json_can_carry():
    assert digest({"text": "\ud83d"}) != digest({"text": "\ud83e"})


def test_a_digest_can_be_made_of_a_number_too_long_for_decimal_digits():
    assert plain({"n": 10**5000}) == {"n": hex(10**5000)}
    assert digest({"n": 10**5000}) != digest({"n": 10**5000 + 1})


def test_arguments_that_are_still_a_text_are_refused():
    with pytest.raises(TypeError, match=r"json\.loads"):
        ToolCall(name="t", args='{"a": 1}')
