"""The store over HTTP: what is kept where, what is found, and who may."""

import contextlib
import sqlite3
from datetime import datetime

import psycopg
import pytest
from langgraph_sdk import Auth

from .support import named_users

PLACE = ["tests", "tea"]


async def put(client, key="k", value=None, namespace=PLACE, **body):
    asked = {"namespace": namespace, "key": key, "value": value or {"n": 1}, **body}
    answer = await client.put("/store/items", json=asked)
    assert answer.status_code == 204, answer.text
    assert answer.content == b""


async def got(client, key="k", namespace="tests.tea", **params):
    answer = await client.get("/store/items", params={"namespace": namespace, "key": key, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def searched(client, prefix=PLACE, **body):
    answer = await client.post("/store/items/search", json={"namespace_prefix": prefix, **body})
    assert answer.status_code == 200, answer.text
    return [item["key"] for item in answer.json()["items"]]


async def listed(client, **body):
    answer = await client.post("/store/namespaces", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["namespaces"]


async def test_what_was_put_is_got_and_what_is_not_there_is_null(client):
    await put(client, "ü/ö.&", {"deep": [1, {"n": None}], "big": 2**62})
    item = await got(client, "ü/ö.&")
    assert item["value"] == {"deep": [1, {"n": None}], "big": 2**62}
    assert (item["namespace"], item["key"]) == (PLACE, "ü/ö.&")
    assert datetime.fromisoformat(item["created_at"]) <= datetime.fromisoformat(item["updated_at"])
    assert await got(client, "nothing") is None


async def test_putting_again_replaces_and_deleting_twice_is_no_error(client):
    await put(client, value={"n": 1, "gone": True})
    await put(client, value={"n": 2})
    assert (await got(client))["value"] == {"n": 2}
    for _ in range(2):
        body = {"namespace": PLACE, "key": "k"}
        answer = await client.request("DELETE", "/store/items", json=body)
        assert answer.status_code == 204
    assert await got(client) is None


async def test_a_search_finds_what_is_below_its_prefix_and_holds_what_is_wanted(client):
    await put(client, "a", {"kind": "green", "n": 1})
    await put(client, "b", {"kind": "green", "n": 2}, [*PLACE, "deeper"])
    await put(client, "c", {"kind": "black", "n": 3}, ["tests", "teapot"])
    assert {*await searched(client)} == {"a", "b"}
    assert {*await searched(client, [])} == {"a", "b", "c"}
    assert {*await searched(client, ["tests"], filter={"kind": "green"})} == {"a", "b"}
    assert await searched(client, ["tests"], filter={"n": {"$gt": 2}}) == ["c"]
    assert await searched(client, ["tests"], filter={"kind": {"$ne": "green"}}) == ["c"]
    assert len(await searched(client, ["tests"], limit=2)) == 2
    assert len(await searched(client, ["tests"], limit=2, offset=2)) == 1
    assert {*await searched(client, query="tea")} == {"a", "b"}
    answer = await client.post("/store/items/search", json={})
    assert all(item["score"] is None for item in answer.json()["items"])


async def test_items_have_a_time_to_live_and_paths_to_be_indexed_by(client, services):
    await put(client, ttl=60, index=["text", "parts[*].text"])
    await put(client, "plain", index=False)
    assert (await got(client, refresh_ttl=True))["value"] == {"n": 1}
    assert {*await searched(client, refresh_ttl=False)} == {"k", "plain"}


async def test_namespaces_are_listed_by_their_beginning_end_and_depth(client):
    for name in (["a"], ["a", "x"], ["b", "x", "deep"]):
        await put(client, namespace=[*PLACE, *name])
    assert len(await listed(client)) == 3
    assert await listed(client, prefix=[*PLACE, "a"]) == [[*PLACE, "a"], [*PLACE, "a", "x"]]
    assert await listed(client, prefix=["*", "tea"], suffix=["x"]) == [[*PLACE, "a", "x"]]
    assert await listed(client, max_depth=3) == [[*PLACE, "a"], [*PLACE, "b"]]
    assert await listed(client, limit=1, offset=1) == [[*PLACE, "a", "x"]]
    assert await listed(client, prefix=["nothing"]) == []


@pytest.fixture
def wrong():
    """Requests that make no sense, by their method, path and body."""
    item = {"namespace": PLACE, "key": "k", "value": {"n": 1}}
    puts = [
        {"namespace": []},
        {"namespace": [""]},
        {"namespace": ["a.b"]},
        {"namespace": ["a\0b"]},
        {"namespace": ["langgraph"]},
        {"namespace": ["x" * 1001]},
        {"namespace": [1]},
        {"key": "\0"},
        {"key": "x" * 1001},
        {"key": None},
        {"value": ["no", "mapping"]},
        {"value": None},
        {"value": {"a": "\0"}},
        {"value": {"n": 2**70}},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": 1e300},
        {"index": True},
        {"index": [5]},
    ]
    searches = [
        {"filter": {"a'b": 1}},
        {"filter": {"a..b": 1}},
        {"filter": {"a": {"$like": 1}}},
        {"filter": {"a": {"b": 1}}},
        {"filter": {"a": "\0"}},
        {"filter": {"a": 2**70}},
        {"filter": 5},
        {"query": "\0"},
        {"namespace_prefix": [""]},
        {"namespace_prefix": "tests"},
    ]
    names = [{"prefix": ["a.b"]}, {"suffix": [""]}, {"max_depth": 0}]
    deletes = [{"namespace": ["a.b"]}, {"namespace": ["\0"]}, {"key": "\0"}]
    return [
        *(("PUT", "/store/items", {**item, **each}) for each in puts),
        *(("POST", "/store/items/search", each) for each in searches),
        *(("POST", "/store/namespaces", each) for each in names),
        *(("DELETE", "/store/items", {**item, **each}) for each in deletes),
        *(
            ("GET", f"/store/items?{each}", None)
            for each in ("", "key=%00", "namespace=a..b&key=k")
        ),
        ("GET", "/store/items?namespace=%00&key=k", None),
    ]


@pytest.mark.parametrize("limits", [{"limit": 0}, {"limit": -1}, {"limit": 2**40}, {"offset": -1}])
async def test_limits_that_nobody_can_meet_are_the_nearest_that_can_be_met(client, limits):
    await put(client)
    assert await searched(client, **limits) == ["k"]
    assert await listed(client, prefix=PLACE, **limits) == [PLACE]


async def test_what_makes_no_sense_is_refused_and_touches_nothing(client, wrong):
    for method, path, body in wrong:
        answer = await client.request(method, path, json=body)
        assert answer.status_code == 422, (method, path, body, answer.text)
        assert answer.json()["error"] == "invalid"
    assert await listed(client) == []


async def test_long_names_fit_into_both_databases(client):
    key, label = "ü" * 500, "ö" * 500
    await put(client, key, {"n": 1}, [label])
    assert (await got(client, key, label))["key"] == key


async def test_a_handler_gives_every_user_a_place_of_their_own(served):
    auth, told = named_users(), []

    @auth.on.store
    async def at_home(ctx, value):
        told.append((ctx.action, dict(value)))
        value["namespace"] = (ctx.user.identity, *(value["namespace"] or ()))

    ann, bob = await served.as_user("ann", auth), await served.as_user("bob", auth)
    await put(ann, value={"n": 1})
    await put(bob, value={"n": 2})
    assert (await got(ann))["value"] == {"n": 1}
    assert (await got(ann))["namespace"] == ["ann", *PLACE]
    assert await searched(bob, []) == ["k"]
    assert await listed(bob) == [["bob", *PLACE]]
    await bob.request("DELETE", "/store/items", json={"namespace": PLACE, "key": "k"})
    assert await got(bob) is None
    assert await got(ann) is not None
    place = ("tests", "tea")
    assert told[0] == ("put", {"namespace": place, "key": "k", "value": {"n": 1}, "index": None})
    assert told[2] == ("get", {"namespace": place, "key": "k"})
    assert told[4][1] == {"namespace": (), "filter": None, "limit": 10, "offset": 0, "query": None}
    assert told[5][0] == "list_namespaces"
    assert told[5][1]["namespace"] is None


async def test_a_handler_that_refuses_or_answers_with_a_filter_lets_nobody_in(served):
    auth = named_users()

    @auth.on.store.put
    async def never(ctx, value):
        return False

    @auth.on.store.get
    async def filtered(ctx, value):
        return {"owner": ctx.user.identity}

    ann = await served.as_user("ann", auth)
    body = {"namespace": PLACE, "key": "k", "value": {"n": 1}}
    assert (await ann.put("/store/items", json=body)).status_code == 403
    refused = await ann.get("/store/items", params={"namespace": "a", "key": "k"})
    assert refused.status_code == 403
    assert "namespace" in refused.json()["message"]


async def test_a_viewer_does_not_let_items_live_longer(served, places):
    auth = Auth()

    @auth.authenticate
    async def authenticate(headers):
        return {"identity": headers["x-user"], "role": headers["x-user"]}

    viewer, member = [await served.as_user(role, auth) for role in ("viewer", "member")]
    item = {"namespace": ["kept"], "key": "k", "value": {"a": 1}, "ttl": 10}
    assert (await member.put("/store/items", json=item)).is_success
    made = expiry(places[2])

    async def read(client):
        wanted = "/store/items?key=k&namespace=kept&refresh_ttl=true"
        assert (await client.get(wanted)).json()["value"] == {"a": 1}
        search = {"namespace_prefix": ["kept"], "refresh_ttl": True}
        assert len((await client.post("/store/items/search", json=search)).json()["items"]) == 1
        return expiry(places[2])

    assert await read(viewer) == made
    if isinstance(places[2], str):  # SQLite's store forgets to commit what a read changed
        assert await read(member) > made


def expiry(place):
    """When an item is removed, as the store itself has it."""
    connect = psycopg.connect if isinstance(place, str) else sqlite3.connect
    with contextlib.closing(connect(place)) as connection:
        cursor = connection.execute("SELECT expires_at FROM store WHERE prefix = 'kept'")
        return cursor.fetchone()[0]
