"""The store: what is put, found, listed and deleted."""

from datetime import datetime

import pytest
from langgraph_sdk.errors import UnprocessableEntityError

from .support import eventually, tag


@pytest.fixture
def place():
    """A namespace that nothing else has."""
    return ["tests", tag()["tag"]]


def keys(answer):
    return [item["key"] for item in answer["items"]]


async def test_what_was_put_is_got(client, place):
    assert (
        await client.store.put_item(place, "tea", {"kind": "green", "deep": [1, {"n": 2}]}) is None
    )
    item = await client.store.get_item(place, "tea")
    assert item["namespace"] == place
    assert item["key"] == "tea"
    assert item["value"] == {"kind": "green", "deep": [1, {"n": 2}]}
    assert datetime.fromisoformat(item["created_at"]) <= datetime.fromisoformat(item["updated_at"])


async def test_putting_again_replaces_the_value_and_keeps_the_birth(client, place):
    await client.store.put_item(place, "tea", {"n": 1, "gone": True})
    before = await client.store.get_item(place, "tea")
    await client.store.put_item(place, "tea", {"n": 2})
    after = await client.store.get_item(place, "tea")
    assert after["value"] == {"n": 2}
    assert after["updated_at"] >= before["updated_at"]


async def test_what_is_not_there_is_none(client, place):
    assert await client.store.get_item(place, "nothing") is None


async def test_what_was_deleted_is_gone(client, place):
    await client.store.put_item(place, "tea", {"n": 1})
    assert await client.store.delete_item(place, "tea") is None
    assert await client.store.get_item(place, "tea") is None
    await client.store.delete_item(place, "tea")


async def test_keys_may_be_any_text(client, place):
    for key in ("a b", "ü/ö", "x.y", "?&=#"):
        await client.store.put_item(place, key, {"key": key})
        assert (await client.store.get_item(place, key))["value"] == {"key": key}
        await client.store.delete_item(place, key)
        assert await client.store.get_item(place, key) is None


async def test_a_search_finds_everything_below_its_prefix(client, place):
    await client.store.put_item(place, "here", {"n": 1})
    await client.store.put_item([*place, "deeper"], "below", {"n": 2})
    await client.store.put_item([place[0], place[1] + "x"], "beside", {"n": 3})
    assert {*keys(await client.store.search_items(place))} == {"here", "below"}
    assert keys(await client.store.search_items([*place, "deeper"])) == ["below"]
    found = await client.store.search_items([*place, "deeper"])
    assert found["items"][0]["value"] == {"n": 2}
    assert found["items"][0]["namespace"] == [*place, "deeper"]


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"kind": "green"}, {"a", "b"}),
        ({"kind": "green", "n": 1}, {"a"}),
        ({"n": {"$gt": 1}}, {"b", "c"}),
        ({"n": {"$gte": 2, "$lt": 3}}, {"b"}),
        ({"kind": {"$ne": "green"}}, {"c"}),
        ({"kind": {"$eq": "black"}}, {"c"}),
        ({"kind": "white"}, set()),
    ],
)
async def test_a_search_is_filtered_by_values(client, place, chosen, found):
    for key, kind, n in (("a", "green", 1), ("b", "green", 2), ("c", "black", 3)):
        await client.store.put_item(place, key, {"kind": kind, "n": n})
    assert {*keys(await client.store.search_items(place, filter=chosen))} == found


async def test_a_search_is_paged(client, place):
    for n in range(12):
        await client.store.put_item(place, f"{n:02}", {"n": n})
    assert len(keys(await client.store.search_items(place))) == 10
    pages = [
        keys(await client.store.search_items(place, limit=5, offset=offset))
        for offset in (0, 5, 10)
    ]
    assert [len(page) for page in pages] == [5, 5, 2]
    assert len({key for page in pages for key in page}) == 12


async def test_a_question_is_accepted_where_nothing_is_indexed(client, place):
    await client.store.put_item(place, "tea", {"text": "green tea"}, index=["text"])
    await client.store.put_item(place, "no", {"text": "not indexed"}, index=False)
    found = await client.store.search_items(place, query="tea", limit=1)
    assert "tea" in keys(found) or len(keys(found)) == 1


async def test_an_item_lives_as_long_as_it_was_given(client, place):
    await client.store.put_item(place, "long", {"n": 1}, ttl=60)
    assert (await client.store.get_item(place, "long", refresh_ttl=True))["value"] == {"n": 1}
    assert keys(await client.store.search_items(place, refresh_ttl=False)) == ["long"]


async def test_an_item_that_has_outlived_its_time_is_gone(client, place):
    await client.store.put_item(place, "short", {"n": 1}, ttl=0.001)

    async def gone():
        return await client.store.get_item(place, "short", refresh_ttl=False) is None

    await eventually(gone, "the end of an item")
    assert keys(await client.store.search_items(place, refresh_ttl=False)) == []


async def test_namespaces_are_listed(client, place):
    for name in (["a"], ["a", "x"], ["b", "x"]):
        await client.store.put_item([*place, *name], "k", {"n": 1})
    listed = await client.store.list_namespaces(prefix=place)
    assert {tuple(name[2:]) for name in listed["namespaces"]} == {("a",), ("a", "x"), ("b", "x")}


async def test_namespaces_are_narrowed_by_their_end_and_depth(client, place):
    for name in (["a"], ["a", "x"], ["b", "x"]):
        await client.store.put_item([*place, *name], "k", {"n": 1})
    ends = await client.store.list_namespaces(prefix=place, suffix=["x"])
    assert {tuple(name[2:]) for name in ends["namespaces"]} == {("a", "x"), ("b", "x")}
    flat = await client.store.list_namespaces(prefix=place, max_depth=3)
    assert {tuple(name[2:]) for name in flat["namespaces"]} == {("a",), ("b",)}


async def test_namespaces_are_paged(client, place):
    for n in range(3):
        await client.store.put_item([*place, str(n)], "k", {"n": 1})
    first = await client.store.list_namespaces(prefix=place, limit=2)
    rest = await client.store.list_namespaces(prefix=place, limit=2, offset=2)
    names = [name[2] for name in first["namespaces"] + rest["namespaces"]]
    assert sorted(names) == ["0", "1", "2"]
    assert len(first["namespaces"]) == 2


@pytest.mark.parametrize("wrong", [[], [""]])
async def test_a_namespace_must_have_labels(client, wrong):
    with pytest.raises(UnprocessableEntityError):
        await client.store.put_item(wrong, "k", {"n": 1})


async def test_a_value_must_be_a_mapping(client, place):
    with pytest.raises(UnprocessableEntityError):
        await client.store.put_item(place, "k", ["no", "mapping"])
