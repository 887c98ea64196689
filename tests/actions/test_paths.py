import pytest

from checkrail.actions import ActionError
from checkrail.actions.paths import (
    assign_path,
    is_valid_at,
    parse_path,
    relative_path,
)
from checkrail.engine.frozen import freeze
from checkrail.engine.points import CONTRACTS, HookPoint
from checkrail.engine.values import AssistantMessage, ToolCall


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("amount", ("amount",)),
        ("args.amount", ("args", "amount")),
        ("$.args.items[0].price", ("args", "items", 0, "price")),
        ("messages[-1].content", ("messages", -1, "content")),
        ("$['a key'][\"b.c\"].d", ("a key", "b.c", "d")),
        ("$[0]", (0,)),
        ("a-b.c_d.é", ("a-b", "c_d", "é")),
    ],
)
def test_reading_a_path(text, steps):
    assert parse_path(text).steps == steps
    assert str(parse_path(text)) == text


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("[0]", 1),
        ("a..b", 2),
        ("a.", 2),
        (".a", 1),
        ("a[x]", 2),
        ("a[0", 2),
        ("$a", 2),
        ("a b", 2),
        ("a[*]", 2),
        ("a[0]b", 5),
        ("a.$b", 2),
    ],
)
def test_a_wrong_path_is_told_with_its_place(text, column):
    with pytest.raises(ActionError, match=rf"is wrong at column {column}\. Write it as in"):
        parse_path(text)


@pytest.mark.parametrize("text", ["", "$"])
def test_a_path_that_leads_nowhere(text):
    with pytest.raises(ActionError, match="leads nowhere"):
        parse_path(text)


def test_what_is_no_text_is_no_path():
    with pytest.raises(ActionError, match="a path is a text, not a number"):
        parse_path(1)


def set_in(value, text, new):
    return assign_path(freeze(value), parse_path(text), new)


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ({"a": 1}, "a", {"a": "new"}),
        ({"a": {"b": 1, "c": 2}}, "a.b", {"a": {"b": "new", "c": 2}}),
        ({}, "a.b.c", {"a": {"b": {"c": "new"}}}),
        ({"a": None}, "a.b", {"a": {"b": "new"}}),
        (None, "a.b", {"a": {"b": "new"}}),
        ({"a": [1, 2, 3]}, "a[1]", {"a": [1, "new", 3]}),
        ({"a": [1, 2, 3]}, "a[-1]", {"a": [1, 2, "new"]}),
        ({"a": ({"b": 1},)}, "a[0].b", {"a": [{"b": "new"}]}),
        ([{"a": 1}], "$[0].a", [{"a": "new"}]),
    ],
)
def test_setting_in_plain_data(value, text, expected):
    before = freeze(value)
    assert set_in(value, text, "new") == expected
    assert before == freeze(value)


@pytest.mark.parametrize(
    ("value", "text", "told"),
    [
        ({"a": []}, "a[0]", "there is no item 0 in a list of 0"),
        ({"a": [1]}, "a[-2]", "there is no item -2 in a list of 1"),
        ({"a": [1]}, "a.b", "'b' needs an object, but found a list"),
        ({"a": {}}, "a[0]", "0 needs a list, but found a mapping"),
        ({}, "a[0]", "0 needs a list, but found nothing"),
        ({"a": "text"}, "a.b", "'b' needs an object, but found a text"),
        (5, "a", "'a' needs an object, but found a number"),
    ],
)
def test_what_cannot_be_set(value, text, told):
    with pytest.raises(ActionError, match="cannot be set") as caught:
        set_in(value, text, "new")
    assert told in str(caught.value)


def test_setting_in_values_keeps_their_types():
    message = AssistantMessage("hi", [ToolCall("c1", "pay", {"amount": 5})])
    new = assign_path(message, parse_path("tool_calls[0].args.amount"), 7)
    assert new.tool_calls[0] == ToolCall("c1", "pay", {"amount": 7})
    assert message.tool_calls[0].args == {"amount": 5}
    with pytest.raises(ActionError, match="a ToolCall has no field 'arg'"):
        assign_path(message, parse_path("tool_calls[0].arg"), 7)


def test_setting_inside_of_an_object_of_another_library():
    from pydantic import BaseModel

    class Note(BaseModel):
        text: str
        size: int = 1

    new = assign_path({"note": Note(text="x")}, parse_path("note.text"), "new")
    assert new == {"note": {"text": "new", "size": 1}}


@pytest.mark.parametrize(
    ("point", "text", "steps"),
    [
        ("before_tool_call", "args.amount", ("args", "amount")),
        ("before_tool_call", "tool_call.args.amount", ("args", "amount")),
        ("before_run", "question", ("question",)),
        ("before_run", "parameters.question", ("question",)),
        ("before_run", "$.parameters.question", ("parameters", "question")),
        ("before_run", "parameters", ()),
        ("before_run", "$.parameters", ("parameters",)),
        ("before_tool_call", "tool_call", ()),
        ("before_inbound", "content", ("content",)),
        ("before_inbound", "metadata.lang", ("metadata", "lang")),
    ],
)
def test_a_path_may_begin_with_the_name_of_the_value(point, text, steps):
    assert relative_path(parse_path(text), CONTRACTS[HookPoint(point)]).steps == steps


def test_a_path_that_the_values_of_a_point_cannot_have():
    contract = CONTRACTS[HookPoint.BEFORE_TOOL_CALL]
    for text in ("arg.amount", "tool_call.arg.amount", "$.tool_call.args"):
        assert not is_valid_at(parse_path(text), contract)
    with pytest.raises(ActionError, match=r"has no 'arg' \(did you mean 'args'\?\)\. It has: id,"):
        relative_path(parse_path("arg.amount"), contract)
