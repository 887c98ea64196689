"""Filters over JSON mean the same in SQLite, in PostgreSQL and in Python."""

import math
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from checkrail.server.auth import matches_filter
from checkrail.store import threads
from checkrail.store.rows import MOST_TERMS, contains_json, json_matches, searchable_filter
from checkrail.store.tables import threads as table

NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.sampled_from([0, 1, 1.0, -1, -0.0, 2**63 - 1, 2**63 - 2, 0.1, 0.1 + 0.2, 1e-300]),
    st.floats(-1e15, 1e15),
)
TEXT = st.one_of(
    st.sampled_from(["", "a", "b", "1", "true", "[1]", '{"a": 1}', 'q"uote', "back\\slash"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
KEYS = st.one_of(st.sampled_from(["a", "b"]), TEXT.filter(lambda key: not key.startswith("$")))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)
CONDITIONS = st.one_of(
    SCALARS,
    st.fixed_dictionaries({"$eq": SCALARS}),
    st.fixed_dictionaries({"$in": st.lists(SCALARS, max_size=4)}),
    st.fixed_dictionaries({"$contains": SCALARS | st.lists(SCALARS, max_size=3)}),
    st.fixed_dictionaries({"$in": st.lists(SCALARS, max_size=4), "$eq": SCALARS}),
)
FIELDS = st.dictionaries(KEYS, CONDITIONS, max_size=3)
FILTERS = st.one_of(
    FIELDS,
    st.fixed_dictionaries({"$or": st.lists(FIELDS, max_size=3)}),
    st.fixed_dictionaries({"$and": st.lists(FIELDS, max_size=3)}),
)
MANY = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def row_of(**more):
    told = {"status": "idle", "metadata": {}, "last_seq": 0, "temporary": False}
    times = {"created_at": 1.0, "updated_at": 1.0}
    return threads.Thread(**{"thread_id": str(uuid.uuid4()), **told, **times, **more})


def found_in(engine, condition, column="metadata", **kept):
    """Say whether a database finds a thread by a condition, and give what it has of it."""
    with engine.connect() as connection, connection.begin() as begun:
        row = row_of(**kept)
        threads.add(connection, row)
        query = select(table).where(condition(connection, table.c[column]))
        met = connection.execute(query.where(table.c.thread_id == row.thread_id)).first()
        begun.rollback()
    return met is not None


def has(whole, part):
    """What one JSON value contains of another."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and has(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(
            any(has(member, item) for member in whole) for item in part
        )
    if isinstance(whole, (dict, list)):
        return False
    return isinstance(whole, bool) == isinstance(part, bool) and whole == part


@st.composite
def objects_with_filters(draw):
    """Metadata, and a filter that often asks for what is there."""
    metadata = draw(OBJECTS)
    wanted = draw(FILTERS)
    if metadata and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(metadata)))
        value = metadata[key]
        if isinstance(value, list):
            members = [item for item in value if not isinstance(item, (dict, list))]
            wanted = {key: {"$contains": members}}
        elif not isinstance(value, dict):
            wanted = {key: draw(st.sampled_from([value, {"$in": [value, "x"]}]))}
    return metadata, wanted


@st.composite
def objects_with_parts(draw):
    """JSON, and other JSON that is often a part of it."""
    whole = draw(OBJECTS)
    return whole, draw(st.one_of(OBJECTS, parts_of(whole)))


@st.composite
def parts_of(draw, whole):
    if isinstance(whole, dict):
        kept = [key for key in whole if draw(st.booleans())]
        return {key: draw(parts_of(whole[key])) for key in kept}
    if isinstance(whole, list):
        return [draw(parts_of(item)) for item in whole if draw(st.booleans())]
    return whole


@MANY
@given(objects_with_filters())
def test_both_databases_filter_as_python_does(engines, case):
    metadata, wanted = case
    expected = matches_filter(wanted, metadata)
    for engine in engines:
        found = found_in(
            engine, lambda tx, column: json_matches(tx, column, wanted), metadata=metadata
        )
        assert found == expected, engine.dialect.name


@MANY
@given(objects_with_parts())
def test_both_databases_agree_on_what_json_contains(engines, case):
    whole, wanted = case
    expected = has(whole, wanted)
    for engine in engines:
        for column in ("metadata", "values"):
            found = found_in(
                engine,
                lambda tx, each: contains_json(tx, each, wanted),
                column,
                metadata=whole,
                values=whole,
            )
            assert found == expected, (engine.dialect.name, column)


@pytest.fixture(params=["sqlite", "postgres"])
def met(request):
    """Ask one database whether metadata meets a filter."""
    engine = request.getfixturevalue(f"{request.param}_engine")

    def met(metadata, wanted, say=json_matches):
        return found_in(engine, lambda tx, column: say(tx, column, wanted), metadata=metadata)

    return met


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (1, True), (False, 0), ("1", 1), (None, False), (2**64 - 1, 2**64 - 2)],
)
def test_values_of_other_kinds_are_never_the_same(met, one, other):
    assert met({"k": one}, {"k": one})
    assert not met({"k": one}, {"k": other})
    assert met({"k": [one]}, {"k": {"$contains": one}})
    assert not met({"k": [one]}, {"k": {"$contains": other}})
    assert not met({"k": one}, {"k": {"$in": [other]}})
    assert met({"k": {"deep": [one]}}, {"k": {"deep": [one]}}, contains_json)
    assert not met({"k": {"deep": [one]}}, {"k": {"deep": [other]}}, contains_json)


def test_a_list_is_needed_even_where_it_has_to_contain_nothing(met):
    assert met({"k": []}, {"k": {"$contains": []}})
    assert not met({"k": "text"}, {"k": {"$contains": []}})
    assert not met({}, {"k": {"$contains": []}})


def test_members_of_a_list_are_not_the_list(met):
    assert not met({"k": ["a"]}, {"k": "a"})
    assert not met({"k": "a"}, {"k": {"$contains": "a"}})


def test_all_that_is_wanted_of_one_member_is_in_the_same_member(met):
    kept = {"k": [{"a": 1, "b": 2}, {"a": 2, "b": 1}]}
    assert met(kept, {"k": [{"a": 1, "b": 2}]}, contains_json)
    assert not met(kept, {"k": [{"a": 1, "b": 1}]}, contains_json)
    assert met(kept, {"k": [{"a": 1}, {"b": 1}]}, contains_json)


@pytest.mark.parametrize(
    "wanted",
    [
        {"k": {"$gt": 1}},
        {"k": {"$in": 1}},
        {"k": {"$in": [[1]]}},
        {"k": {"$contains": [[1]]}},
        {"$or": "k"},
        {"$or": [1]},
        {"$not": [{"k": 2}]},
    ],
)
def test_what_a_filter_cannot_say_lets_nothing_through(met, wanted):
    assert not met({"k": 1}, wanted)


def test_words_of_filters_are_plain_keys_where_json_is_searched(met):
    assert met({"k": {"$eq": 1}, "$or": 2}, {"k": {"$eq": 1}, "$or": 2}, contains_json)
    assert not met({"k": 1}, {"k": {"$eq": 1}}, contains_json)


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", math.nan, math.inf, 2**64, -(2**80)])
def test_what_no_database_can_hold_is_found_nowhere(met, odd):
    for wanted in ({"k": odd}, {"k": [odd]}, {"k": {"$in": [odd]}}, {"k": {"$contains": odd}}):
        assert not met({"k": None, "n": "a"}, wanted)
    assert met({"k": "a"}, {"k": {"$in": [odd, "a"]}})


def test_a_long_list_of_choices_is_no_trouble(met):
    choices = [f"user {n}" for n in range(3000)] + list(range(3000)) + [None, True]
    assert met({"k": "user 2999"}, {"k": {"$in": choices}})
    assert met({"k": 2999}, {"k": {"$in": choices}})
    assert not met({"k": "user 3000"}, {"k": {"$in": choices}})


def test_values_that_hold_a_nul_do_not_spoil_a_search(engines):
    for engine in engines:
        for wanted, expected in (({"n": 1}, True), ({"n": 2}, False)):
            found = found_in(
                engine,
                lambda tx, column, wanted=wanted: contains_json(tx, column, wanted),
                "values",
                values={"n": 1, "odd": "a\0b", "odder": "\\u0000"},
            )
            assert found is expected


def test_a_thread_without_values_contains_none(engines):
    for engine in engines:
        assert not found_in(
            engine, lambda tx, column: contains_json(tx, column, {"n": 1}), "values"
        )
        assert found_in(engine, lambda tx, column: contains_json(tx, column, {}), "values")


def test_as_much_can_be_searched_for_as_is_said(met):
    wide = {f"k{n}": n for n in range(MOST_TERMS)}
    deep = value = {}
    for _ in range(MOST_TERMS - 1):
        value["k"] = value = {}
    for wanted in (wide, {"list": [*range(MOST_TERMS - 1)]}, deep):
        assert searchable_filter(wanted) is wanted
        assert met(wanted, wanted, contains_json)


@pytest.mark.parametrize(
    "wanted",
    [
        {f"k{n}": n for n in range(MOST_TERMS + 1)},
        {"list": [*range(MOST_TERMS)]},
        {"a": {"b": [{"c": [*range(MOST_TERMS)]}]}},
    ],
)
def test_more_than_that_is_refused(wanted):
    with pytest.raises(ValueError, match="at most 50 values"):
        searchable_filter(wanted)
