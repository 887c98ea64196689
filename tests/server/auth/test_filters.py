import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.server.auth import matches_filter
from checkrail.server.auth.filters import FilterError, normalize_filter

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "b"]), st.just(1.0)
)
names = st.sampled_from(["owner", "team", "tags"])
metadata = st.dictionaries(names, st.one_of(scalars, st.lists(scalars, max_size=3)))
conditions = st.one_of(
    scalars,
    st.fixed_dictionaries({"$eq": scalars}),
    st.fixed_dictionaries({"$in": st.lists(scalars, max_size=3)}),
    st.fixed_dictionaries({"$contains": st.one_of(scalars, st.lists(scalars, max_size=2))}),
)
plain = st.dictionaries(names, conditions, max_size=3)
filters = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$and": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"$or": st.lists(inner, max_size=3)}),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("wanted", "found", "holds"),
    [
        ({}, {}, True),
        ({"owner": "ann"}, {"owner": "ann", "more": 1}, True),
        ({"owner": "ann"}, {"owner": "bob"}, False),
        ({"owner": "ann"}, {}, False),
        ({"owner": None}, {}, False),
        ({"owner": None}, {"owner": None}, True),
        ({"owner": {"$eq": "ann"}}, {"owner": "ann"}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": 1}, {"n": 1.0}, True),
        ({"n": "1"}, {"n": 1}, False),
        ({"team": {"$contains": "ann"}}, {"team": ["bob", "ann"]}, True),
        ({"team": {"$contains": "ann"}}, {"team": "ann and bob"}, False),
        ({"team": {"$contains": ["ann", "bob"]}}, {"team": ["bob", "eve", "ann"]}, True),
        ({"team": {"$contains": ["ann", "bob"]}}, {"team": ["ann"]}, False),
        ({"team": {"$contains": 1}}, {"team": [True]}, False),
        ({"owner": {"$in": ["ann", "bob"]}}, {"owner": "bob"}, True),
        ({"owner": {"$in": []}}, {"owner": "bob"}, False),
        ({"owner": "ann", "team": "red"}, {"owner": "ann", "team": "blue"}, False),
        ({"$or": [{"owner": "ann"}, {"team": "red"}]}, {"team": "red"}, True),
        ({"$or": []}, {"team": "red"}, False),
        ({"$and": []}, {"team": "red"}, True),
        (
            {"$and": [{"owner": "ann"}, {"$or": [{"a": 1}, {"b": 2}]}]},
            {"owner": "ann", "b": 2},
            True,
        ),
        ({"owner": "ann", "$or": [{"a": 1}]}, {"owner": "ann"}, False),
        ({"owner": {"$eq": "ann", "$in": ["bob"]}}, {"owner": "ann"}, False),
    ],
)
def test_a_filter_says_what_metadata_has_to_hold(wanted, found, holds):
    assert matches_filter(wanted, found) is holds


def test_no_metadata_holds_nothing():
    assert not matches_filter({"owner": "ann"}, None)
    assert matches_filter({}, None)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (["owner"], "a filter is a dict, not list"),
        ({1: "a"}, "fields are text, not int"),
        ({"$not": []}, r"\$not is no field"),
        ({"$or": {"a": 1}}, r"\$or takes a list of filters"),
        ({"$or": ["a"]}, "a filter is a dict, not str"),
        ({"a": {"$ne": 1}}, r"'\$ne' at 'a' is no operator"),
        ({"a": {"b": 1}}, "'b' at 'a' is no operator"),
        ({"a": {}}, "'a' has no operator"),
        ({"a": {"$in": "abc"}}, r"\$in at 'a' takes a list"),
        ({"a": {"$eq": {"b": 1}}}, "not dict"),
        ({"a": [1]}, "not list"),
        ({"a": {"$contains": [[1]]}}, "not list"),
    ],
)
def test_a_filter_that_cannot_be_followed_is_refused(wrong, problem):
    with pytest.raises(FilterError, match=problem):
        matches_filter(wrong, {})


@given(filters, metadata)
def test_the_normal_form_means_the_same_and_is_its_own_normal_form(wanted, found):
    brought = normalize_filter(wanted)
    assert normalize_filter(brought) == brought
    assert matches_filter(brought, found) is matches_filter(wanted, found)


@given(filters, filters, metadata)
def test_and_or_are_what_python_says(one, other, found):
    both, either = {"$and": [one, other]}, {"$or": [one, other]}
    assert matches_filter(both, found) is (
        matches_filter(one, found) and matches_filter(other, found)
    )
    assert matches_filter(either, found) is (
        matches_filter(one, found) or matches_filter(other, found)
    )


@given(plain, metadata)
def test_fields_beside_each_other_all_have_to_hold(wanted, found):
    each = [matches_filter({name: condition}, found) for name, condition in wanted.items()]
    assert matches_filter(wanted, found) is all(each)


@given(names, scalars, metadata)
def test_equal_is_to_be_in_a_list_of_one(name, value, found):
    assert matches_filter({name: value}, found) is matches_filter({name: {"$in": [value]}}, found)


@given(names, st.lists(scalars, max_size=3), metadata)
def test_to_contain_a_list_is_to_contain_each(name, values, found):
    each = {"$and": [{name: {"$contains": value}} for value in values]}
    together = matches_filter({name: {"$contains": values}}, found)
    assert together is (matches_filter(each, found) and isinstance(found.get(name), list))
