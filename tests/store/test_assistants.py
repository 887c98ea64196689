"""Assistants and their versions, on each database in turn."""

from dataclasses import replace

import pytest

from checkrail.store import assistants
from checkrail.store.assistants import Assistant, AssistantQuery
from checkrail.store.rows import Page


@pytest.fixture
def add(tx):
    """Keep an assistant; each is a second younger than the one before."""
    made = []

    def add(assistant_id, **more):
        now = float(len(made))
        row = {
            "assistant_id": assistant_id,
            "graph_id": "echo",
            "owner": None,
            "name": assistant_id,
            "description": None,
            "config": {},
            "context": {},
            "metadata": {},
            "version": 1,
            "created_at": now,
            "updated_at": now,
            **more,
        }
        made.append(row)
        return assistants.add(tx, Assistant(**row))

    return add


def ids(rows):
    return [row.assistant_id for row in rows]


def test_an_id_is_taken_once(tx, add):
    assert add("a", name="first")
    assert not add("a", name="second")
    assert assistants.get(tx, "a").name == "first"
    assert [row.name for row in assistants.versions(tx, "a")] == ["first"]
    assert assistants.get(tx, "b") is None


def test_what_is_kept_is_read_as_it_was(tx, add):
    told = {
        "config": {"configurable": {"ü": [1, None, {"a": True}]}},
        "context": {"text": "a\0b"},
        "metadata": {"a": {"b": 2.5}},
        "description": "says ü",
    }
    add("a", **told)
    row = assistants.get(tx, "a")
    assert {name: getattr(row, name) for name in told} == told
    version = assistants.get_version(tx, "a", 1)
    assert {name: getattr(version, name) for name in told} == told
    assert assistants.lock(tx, "a") == row


def test_a_revision_is_the_newest_version_and_numbers_are_never_given_twice(tx, add):
    add("a", metadata={"n": 1})
    row = assistants.get(tx, "a")
    second = assistants.add_version(tx, replace(row, metadata={"n": 2}), 10.0)
    assert (second.version, second.updated_at, second.created_at) == (2, 10.0, 0.0)
    back = assistants.use_version(tx, replace(second, metadata={"n": 1}), 1, 11.0)
    assert assistants.get(tx, "a") == back
    third = assistants.add_version(tx, back, 12.0)
    assert third.version == 3
    assert [row.version for row in assistants.versions(tx, "a")] == [3, 2, 1]
    assert assistants.get_version(tx, "a", 4) is None


def test_versions_are_paged_and_found_by_their_metadata(tx, add):
    add("a", metadata={"n": 1})
    row = assistants.get(tx, "a")
    for n in (2, 3):
        row = assistants.add_version(tx, replace(row, metadata={"n": n}), float(n))

    def numbers(*args, **options):
        return [row.version for row in assistants.versions(tx, "a", *args, **options)]

    assert numbers(limit=2) == [3, 2]
    assert numbers(limit=2, offset=2) == [1]
    assert numbers({"n": 2}) == [2]
    assert numbers({"n": {"$in": [1, 2]}}) == []


def test_a_description_is_changed_where_the_first_version_is(tx, add):
    add("a", description="old")
    assistants.update_description(tx, "a", "new", 5.0)
    row = assistants.get(tx, "a")
    assert (row.description, row.version, row.updated_at) == ("new", 1, 5.0)
    assert assistants.get_version(tx, "a", 1).description == "new"


def test_those_of_the_server_are_everybodys_and_the_rest_their_owners(tx, add):
    add("a")
    add("b", owner="ann")
    add("c", owner="bob")
    page = Page()
    assert ids(assistants.search(tx, AssistantQuery(), page)) == ["c", "b", "a"]
    assert ids(assistants.search(tx, AssistantQuery(owner="ann"), page)) == ["b", "a"]
    assert assistants.count(tx, AssistantQuery(owner="bob")) == 2
    assert assistants.count(tx, AssistantQuery(owner="eve")) == 1


def test_a_search_takes_all_that_is_said_together(tx, add):
    add("a", name="100% Sure", metadata={"team": "red", "n": 1})
    add("b", name="100x sure", metadata={"team": "blue", "n": 1}, graph_id="loud")
    add("c", name="other", metadata={"team": "red", "$or": 1})

    def found(**wanted):
        return ids(assistants.search(tx, AssistantQuery(**wanted), Page("name", "asc")))

    assert found(name="SURE") == ["a", "b"]
    assert found(name="0%") == ["a"]
    assert found(name="_") == []
    assert found(graph_id="loud") == ["b"]
    assert found(metadata={"n": 1}) == ["a", "b"]
    assert found(metadata={"$or": 1}) == ["c"]
    assert found(filters={"team": {"$in": ["red"]}}) == ["a", "c"]
    assert found(metadata={"n": 1}, filters={"$or": [{"team": "blue"}]}) == ["b"]
    assert found(metadata={"n": 1}, graph_id="echo", name="sure") == ["a"]


@pytest.mark.parametrize("field", assistants.SORTS)
def test_a_page_is_in_the_order_that_was_asked_for_whatever_is_equal(tx, add, field):
    for name in "bdac":
        add(name, name="same", graph_id="same")

    def pages(order):
        asked = (Page(field, order, 3, offset) for offset in (0, 3))
        return [
            name for page in asked for name in ids(assistants.search(tx, AssistantQuery(), page))
        ]

    by_age = field in ("created_at", "updated_at")
    assert pages("asc") == (["b", "d", "a", "c"] if by_age else ["a", "b", "c", "d"])
    assert pages("desc") == pages("asc")[::-1]


def test_what_is_removed_is_gone_with_its_versions(tx, add):
    add("a")
    add("b")
    assert assistants.remove(tx, "a")
    assert not assistants.remove(tx, "a")
    assert assistants.versions(tx, "a") == []
    assert ids(assistants.versions(tx, "b")) == ["b"]
