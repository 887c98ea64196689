"""What is different between two values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.dashboard.diff import compare, compare_words


def rows(before, after, **options):
    return [
        (row.path, row.kind, row.before, row.after)
        for row in compare(before, after, **options).rows
    ]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "changed", "1", "2")]),
        ({"a": 1}, {"a": True}, [("a", "changed", "1", "true")]),
        ({}, {"a": None}, [("a", "added", None, "null")]),
        ({"a": {"b": 1}}, {"a": {}}, [("a.b", "removed", "1", None)]),
        ([1, 2, 3], [1, 3], [("[1]", "removed", "2", None)]),
        ([1, 3], [1, 2, 3], [("[1]", "added", None, "2")]),
        ({"a": [1]}, {"a": {"b": 1}}, [("a", "changed", "[1]", '{"b": 1}')]),
        (None, {"a": 1}, [("", "changed", "null", '{"a": 1}')]),
    ],
)
def test_only_what_is_different_is_a_row(before, after, wanted):
    assert rows(before, after) == wanted


def test_items_with_a_name_are_compared_with_their_like():
    before = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    after = [{"id": "b", "n": 3}, {"id": "c", "n": 4}]
    found = rows(before, after)
    assert ("[0].n", "changed", "2", "3") in found
    assert ("[1]", "added", None, '{"id": "c", "n": 4}') in found
    assert ("[0]", "removed", '{"id": "a", "n": 1}', None) in found


def test_long_texts_are_compared_by_words():
    before, after = (
        "the customer wants twenty euros back at once",
        "the customer wants ten euros back at once",
    )
    [row] = compare(before, after).rows
    assert [(word.kind, word.text) for word in row.words if word.kind != "same"] == [
        ("removed", "twenty"),
        ("added", "ten"),
    ]


def test_much_is_cut_and_counted():
    found = compare({}, {str(n): n for n in range(500)})
    assert (len(found.rows), found.more) == (200, 300)


def test_large_lists_and_texts_take_no_time():
    many = [{"n": n} for n in range(20_000)]
    assert compare(many, many[::-1]).more > 1000
    assert len([*compare_words("a " * 50_000, "b " * 50_000)]) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_nothing_is_different_from_itself(value):
    assert compare(value, value).rows == []
    assert compare(value, value).is_empty


@given(JSON, JSON)
def test_whatever_is_different_has_a_row(before, after):
    is_same = repr(before) == repr(after) or before == after
    found = compare(before, after).rows
    assert is_same or found
