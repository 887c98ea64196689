import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from checkrail.agent.models.langchain_messages import (
    langchain_messages,
    read_answer,
    read_text,
    usage_of,
)
from checkrail.engine.frozen import freeze
from checkrail.llm.conversation import assistant_message, text_of

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
}


def written(*messages):
    return langchain_messages(freeze([*messages]))


def test_each_role_has_its_message():
    found = written(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "And Paris?", "name": "ann"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    )
    assert found == [
        SystemMessage("Be brief."),
        HumanMessage("And Paris?", name="ann"),
        AIMessage("", tool_calls=[{"id": "c1", "name": "weather", "args": {"city": "Paris"}}]),
        ToolMessage("sunny", tool_call_id="c1"),
    ]


def test_an_error_of_a_tool_has_the_status_of_one():
    (found,) = written({"role": "tool", "tool_call_id": "c1", "content": "?", "is_error": True})
    assert found == ToolMessage("?", tool_call_id="c1", status="error")
    assert found.additional_kwargs == {}


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_parts_are_passed_on_whoever_made_them(role):
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    ]
    (found,) = written({"role": role, "content": parts, "tool_call_id": "c1"})
    assert found.content == parts
    assert type(found.content) is list


def test_an_answer_is_read_with_its_calls_tokens_and_stop_reason():
    answer = AIMessage(
        "Let me look.",
        tool_calls=[{"id": "c1", "name": "weather", "args": {"city": "Paris"}}],
        usage_metadata={
            "input_tokens": 7,
            "output_tokens": 5,
            "total_tokens": 12,
            "input_token_details": {"cache_read": 4, "cache_creation": 1},
            "output_token_details": {"reasoning": 3},
        },
        response_metadata={"model_name": "small-2", "finish_reason": "tool_calls"},
    )
    found = read_answer([answer], "small")
    assert found.content == "Let me look."
    assert [(call.id, call.name, call.args) for call in found.tool_calls] == [
        ("c1", "weather", {"city": "Paris"}),
    ]
    assert found.usage == {
        "input_tokens": 7,
        "output_tokens": 5,
        "total_tokens": 12,
        "input_tokens_details": {"cached_tokens": 4, "cache_creation_tokens": 1},
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    assert (found.model, found.stop_reason, found.metadata) == ("small-2", "tool_calls", {})


@pytest.mark.parametrize("name", ["finish_reason", "stop_reason", "stopReason", "done_reason"])
def test_the_stop_reason_is_found_by_whatever_name_a_provider_gives_it(name):
    found = read_answer([AIMessage("", response_metadata={name: "MAX_TOKENS"})], "m")
    assert found.stop_reason == "length"


@pytest.mark.parametrize(
    ("details", "ours"),
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "content_filter"),
        ({"reason": 7}, "incomplete"),
        (None, "incomplete"),
    ],
)
def test_an_incomplete_answer_says_why(details, ours):
    told = {"status": "incomplete", "incomplete_details": details}
    assert read_answer([AIMessage("So lo", response_metadata=told)], "m").stop_reason == ours


def test_without_metadata_the_model_is_the_one_that_was_asked():
    found = read_answer([AIMessage("Yes.")], "small")
    assert (found.model, found.usage, found.stop_reason) == ("small", None, None)


def test_arguments_that_are_no_json_are_kept_as_they_were_written():
    wrong = {"id": "c2", "name": "weather", "args": '{"city": ', "error": "no JSON"}
    right = {"id": "c1", "name": "weather", "args": {}}
    found = read_answer([AIMessage("", tool_calls=[right], invalid_tool_calls=[wrong])], "m")
    assert [(call.id, call.args) for call in found.tool_calls] == [("c1", {}), ("c2", {})]
    assert found.metadata == {"unparsed_arguments": {"c2": '{"city": '}}


def test_a_call_without_an_id_is_given_one():
    call = {"id": None, "name": "weather", "args": {}}
    found = read_answer([AIMessage("", tool_calls=[call, call])], "m")
    first, second = (call.id for call in found.tool_calls)
    assert first
    assert second not in ("", first)


def chunk(content="", calls=(), **fields):
    calls = [{"index": 0, "id": None, "name": None, "args": ""} | call for call in calls]
    return AIMessageChunk(content, tool_call_chunks=calls, **fields)


def test_chunks_are_added_up():
    found = read_answer(
        [
            chunk("Let me "),
            chunk("look."),
            chunk(calls=[{"id": "c1", "name": "weather"}]),
            chunk(calls=[{"args": '{"city": '}]),
            chunk(calls=[{"id": "c2", "name": "time", "args": "{}", "index": 1}]),
            chunk(calls=[{"args": '"Paris"}'}]),
            chunk(response_metadata={"finish_reason": "tool_calls", "model_name": "small-2"}),
        ],
        "small",
    )
    assert found.content == "Let me look."
    assert [(call.id, call.args) for call in found.tool_calls] == [
        ("c1", {"city": "Paris"}),
        ("c2", {}),
    ]
    assert (found.model, found.stop_reason, found.metadata) == ("small-2", "tool_calls", {})


@pytest.mark.parametrize("cut", ['{"amount": 10', '{"all": true, "only": ["a", "b"', "[1]"])
def test_arguments_that_a_stream_cut_off_are_not_completed(cut):
    pieces = [chunk(calls=[{"id": "c1", "name": "pay"}]), chunk(calls=[{"args": cut}])]
    found = read_answer(pieces, "m")
    assert found.tool_calls[0].args == {}
    assert found.metadata == {"unparsed_arguments": {"c1": cut}}


def test_metadata_that_comes_with_several_chunks_is_told_once():
    told = {"model_name": "small-2", "finish_reason": "stop"}
    found = read_answer([chunk("a", response_metadata=told)] * 2, "m")
    assert (found.model, found.stop_reason) == ("small-2", "stop")


def test_tokens_are_added_up_over_the_chunks():
    first = {"input_tokens": 7, "output_tokens": 0, "total_tokens": 7}
    last = {"input_tokens": 0, "output_tokens": 5, "total_tokens": 5}
    pieces = [chunk("a", usage_metadata=first), chunk("b"), chunk("c", usage_metadata=last)]
    assert usage_of(pieces) == {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    assert usage_of(pieces[1:2]) is None
    assert usage_of([]) is None


def test_a_refusal_is_what_the_answer_says():
    found = read_answer([AIMessage("", additional_kwargs={"refusal": "I will not."})], "m")
    assert (found.content, found.stop_reason) == ("I will not.", "refusal")


@pytest.mark.parametrize(
    "refusal",
    [
        {"type": "refusal", "refusal": "I will not."},
        {"type": "non_standard", "value": {"type": "refusal", "refusal": "I will not."}},
    ],
)
def test_a_refusal_in_a_part_is_text(refusal):
    said = {"type": "text", "text": "No. "}
    found = read_answer([AIMessage([refusal])], "m")
    assert (found.content, found.stop_reason) == ("I will not.", "refusal")
    found = read_answer([AIMessage([said, refusal])], "m")
    assert (found.content, found.stop_reason) == ("No. I will not.", "refusal")
    assert read_text(AIMessageChunk([refusal])) == "I will not."


def test_a_refusal_beside_thoughts_is_a_part_of_its_own():
    thought = {"type": "thinking", "thinking": "Hm."}
    found = read_answer([AIMessage([thought], additional_kwargs={"refusal": "No."})], "m")
    assert found.content == [thought, {"type": "text", "text": "No."}]


@pytest.mark.parametrize("refusal", [None, "", 7, ["no"]])
def test_what_is_no_text_is_no_refusal(refusal):
    found = read_answer([AIMessage("Yes.", additional_kwargs={"refusal": refusal})], "m")
    assert (found.content, found.stop_reason) == ("Yes.", None)
    found = read_answer([AIMessage([{"type": "refusal", "refusal": refusal}])], "m")
    assert found.stop_reason is None


def test_parts_that_are_mere_text_are_a_text():
    parts = [{"type": "text", "text": "Let me ", "index": 0, "annotations": []}, "look."]
    assert read_answer([AIMessage(parts)], "m").content == "Let me look."


def test_other_parts_are_kept_so_that_they_can_be_sent_back():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    pieces = [
        AIMessageChunk([{"type": "thinking", "thinking": "Hm.", "index": 0}]),
        AIMessageChunk([{"type": "thinking", "signature": "s", "index": 0}]),
        AIMessageChunk([{"type": "text", "text": "Su", "index": 1}]),
        AIMessageChunk([{"type": "text", "text": "nny.", "index": 1}]),
    ]
    found = read_answer(pieces, "m")
    assert found.content == [thinking, {"type": "text", "text": "Sunny."}]
    assert text_of(found.content) == "".join(text_of(piece.content) for piece in pieces)
    assert written(assistant_message(found))[0].content == found.content


@pytest.mark.parametrize("kind", ["tool_use", "tool_call", "function_call"])
def test_a_part_that_repeats_a_call_is_left_to_the_calls(kind):
    call = {"id": "c1", "name": "weather", "args": {"city": "Paris"}}
    parts = [{"type": "text", "text": "Let me look."}, {"type": kind, "id": "c1", "input": {}}]
    found = read_answer([AIMessage(parts, tool_calls=[call])], "m")
    assert found.content == "Let me look."
    assert len(found.tool_calls) == 1
