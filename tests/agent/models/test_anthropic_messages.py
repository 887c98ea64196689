"""Conversations in OpenAI's shape, as Anthropic's API demands them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.engine.frozen import freeze
from checkrail.llm.messages.conversation import OPENING, anthropic_messages

PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "sig"}
HI = {"role": "user", "content": "Hi"}


def text(said):
    return {"type": "text", "text": said}


def calling(*ids, content="", arguments='{"n": 1}'):
    function = {"name": "look", "arguments": arguments}
    calls = [{"id": own, "type": "function", "function": function} for own in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(id, content="ok", **more):
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def turns(*messages):
    """The turns of a conversation, each as its role and its blocks."""
    _, written = anthropic_messages(freeze([*messages]))
    return [(turn["role"], turn["content"]) for turn in written]


def only(message):
    """The blocks of a message that follows the user's."""
    return turns(HI, message)[1][1]


def test_later_system_messages_are_said_by_the_user():
    system, written = anthropic_messages(
        [{"role": "system", "content": "A"}, HI, {"role": "system", "content": "B"}]
    )
    assert system == [text("A")]
    assert written == [{"role": "user", "content": [text("Hi"), text("B")]}]


def test_results_are_one_turn_and_come_before_what_is_said_after_them():
    found = turns(
        HI,
        calling("a", "b"),
        result("a"),
        result("b", "broken", is_error=True),
        {"role": "system", "content": "Mind the gap."},
        {"role": "user", "content": "And?"},
    )
    assert [role for role, _ in found] == ["user", "assistant", "user"]
    assert found[2][1] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [text("ok")]},
        {"type": "tool_result", "tool_use_id": "b", "content": [text("broken")], "is_error": True},
        text("Mind the gap."),
        text("And?"),
    ]


def test_an_error_has_text_and_nothing_but_text():
    shown = result("a", [PNG, text("broken")], is_error=True)
    silent = result("b", "", is_error=True)
    broken, failed = turns(HI, calling("a", "b"), shown, silent)[2][1]
    assert broken["content"] == [text("broken")]
    assert failed["content"] == [text("(It failed without a message.)")]


def test_what_was_said_between_results_follows_them():
    found = turns(HI, calling("a", "b"), result("a"), HI, result("b"))
    assert [block["type"] for block in found[2][1]] == ["tool_result", "tool_result", "text"]


def test_tool_calls_are_blocks_after_the_text():
    assert only(calling("a", content="Let me look.")) == [
        text("Let me look."),
        {"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}},
    ]


@pytest.mark.parametrize("arguments", ["", "{oops", "[1]"])
def test_arguments_that_are_no_object_are_empty(arguments):
    assert only(calling("a", arguments=arguments))[0]["input"] == {}


def test_ids_of_other_providers_are_written_in_letters_that_are_allowed():
    found = turns(HI, calling("functions.look:0"), result("functions.look:0"))
    assert found[1][1][0]["id"] == found[2][1][0]["tool_use_id"] == "functions_look_0"


def test_thinking_comes_first_unchanged():
    hidden = {"type": "redacted_thinking", "data": "x"}
    message = calling("a", content=[text("Changed."), THOUGHT, hidden, text("")])
    kinds = [block["type"] for block in only(message)]
    assert kinds == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert only(message)[:2] == [THOUGHT, hidden]


def test_thinking_between_other_blocks_stays_there():
    parts = [THOUGHT, text("One."), THOUGHT, text("Two.")]
    assert only({"role": "assistant", "content": parts}) == parts


@pytest.mark.parametrize(
    ("given", "source"),
    [
        (PNG["image_url"], {"type": "base64", "media_type": "image/png", "data": "aGk="}),
        (
            {"url": "data:image/jpeg;charset=x;base64,aGk=", "detail": "low"},
            {"type": "base64", "media_type": "image/jpeg", "data": "aGk="},
        ),
        ({"url": "https://a.example/b.png"}, {"type": "url", "url": "https://a.example/b.png"}),
        ("https://a.example/b.png", {"type": "url", "url": "https://a.example/b.png"}),
    ],
)
def test_images_are_given_by_their_data_or_their_url(given, source):
    parts = [{"type": "image_url", "image_url": given}]
    image = {"type": "image", "source": source}
    assert turns({"role": "user", "content": parts}) == [("user", [image])]
    shown = turns(HI, calling("a"), result("a", parts))
    assert shown[2][1][0]["content"] == [image]


def test_other_parts_are_passed_on_and_texts_keep_what_belongs_to_them():
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    cached = text("Long.") | {"cache_control": {"type": "ephemeral"}}
    cited = text("Sun.") | {"citations": [{"type": "char_location"}]}
    refused = {"type": "refusal", "refusal": "No."}
    parts = [document, cached, cited, refused, {"type": "output_text", "text": "Yes."}, "Bare."]
    expected = [document, cached, cited, text("No."), text("Yes."), text("Bare.")]
    assert turns({"role": "user", "content": parts}) == [("user", expected)]


@pytest.mark.parametrize("nothing", ["", " \n", None, [], [text("")], [text(" ")]])
def test_nothing_empty_is_sent(nothing):
    assert turns(HI, {"role": "assistant", "content": nothing}, HI) == [
        ("user", [text("Hi"), text("Hi")])
    ]
    assert "content" not in turns(HI, calling("a"), result("a", nothing))[2][1][0]
    system, _ = anthropic_messages([{"role": "system", "content": nothing}, HI])
    assert system == []


@pytest.mark.parametrize("messages", [[], [{"role": "system", "content": "Be brief."}]])
def test_a_conversation_has_at_least_one_turn(messages):
    assert turns(*messages) == [("user", [text(OPENING)])]


def test_a_conversation_begins_with_the_user():
    greeting = {"role": "assistant", "content": "Welcome!"}
    assert turns(greeting, HI)[:2] == [
        ("user", [text(OPENING)]),
        ("assistant", [text("Welcome!")]),
    ]


contents = st.one_of(
    st.text(max_size=4),
    st.none(),
    st.lists(st.one_of(st.builds(text, st.text(max_size=3)), st.just(PNG)), max_size=3),
)
said = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "developer"]), "content": contents}
)


@st.composite
def exchanges(draw):
    """An assistant's turn with calls, and their results, with or without thinking."""
    ids = draw(
        st.lists(st.text("ab.:-_", min_size=1, max_size=9), min_size=1, max_size=3, unique=True)
    )
    thoughts = [THOUGHT] * draw(st.integers(0, 2))
    content = draw(contents) if not thoughts else [*thoughts, text(draw(st.text(max_size=3)))]
    return [calling(*ids, content=content), *(result(own, draw(contents)) for own in ids)]


conversations = st.lists(st.one_of(said.map(lambda one: [one]), exchanges()), max_size=6).map(
    lambda parts: [message for part in parts for message in part]
)


@given(conversations)
def test_every_conversation_becomes_one_that_the_api_takes(messages):
    system, written = anthropic_messages(freeze(messages))
    assert all(block["text"].strip() for block in system if block["type"] == "text")
    roles = [turn["role"] for turn in written]
    assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
    asked: list[str] = []
    for turn in written:
        kinds = [block["type"] for block in turn["content"]]
        assert kinds
        results = [b["tool_use_id"] for b in turn["content"] if b["type"] == "tool_result"]
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        assert results == asked
        asked = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        assert "thinking" not in kinds or kinds[0] == "thinking"
        for block in turn["content"]:
            if block["type"] == "text":
                assert block["text"].strip()
            elif block["type"] == "tool_result":
                assert block.get("content") != []
    assert json.dumps(written)
