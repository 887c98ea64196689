"""Assistants over HTTP: versions, searches, and who may touch which."""

import asyncio
import uuid

import pytest

from checkrail.engine.values import User
from checkrail.runs.admit.admission import agent_assistant_id
from checkrail.runs.admit.requests import Principal, RunRequest
from checkrail.store import crons, threads

from .support import named_users

ODD = [
    {"metadata": {"a\0b": 1}},
    {"metadata": {"a": "\0"}},
    {"name": "a\0b"},
    {"name": "x" * 1001},
    {"description": "\0"},
    {"metadata": {"n": 2**70}},
    {"config": {"n": 2**70}},
    {"config": {"configurable": 5}},
    {"config": {"metadata": []}},
    {"config": {"recursion_limit": True}},
    {"context": 7},
    {"metadata": [1]},
    {"assistant_id": "no-uuid"},
    {"if_exists": "perhaps"},
]


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"in": value}
    return value


async def made(client, graph_id="echo", **body):
    answer = await client.post("/assistants", json={"graph_id": graph_id, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def searched(client, **body):
    answer = await client.post("/assistants/search", json=body)
    assert answer.status_code == 200, answer.text
    return [each["assistant_id"] for each in answer.json()]


async def on_thread(services, assistant_id, owner="anonymous", **options):
    """A thread with a run of an assistant."""
    request = RunRequest(
        assistant_id=assistant_id, thread_id=str(uuid.uuid4()), if_not_exists="create", **options
    )
    [row] = await services.runs.admit([request], Principal(User(owner)))
    if not options:
        await services.runs.ended(row.run_id)
    return row


async def has_thread(services, row):
    found = await services.database.read(lambda reads: threads.get(reads, row.thread_id))
    return found is not None


async def test_an_agent_has_an_assistant_that_is_found_by_its_name_and_its_id(client):
    by_name = (await client.get("/assistants/echo")).json()
    assert by_name["assistant_id"] == agent_assistant_id("echo")
    assert by_name["metadata"] == {"created_by": "system"}
    assert (by_name["name"], by_name["version"]) == ("echo", 1)
    by_id = await client.get(f"/assistants/{agent_assistant_id('echo').upper()}")
    assert by_id.json() == by_name


async def test_an_assistant_that_is_not_there_is_not_found(client):
    for unknown in (str(uuid.uuid4()), "no-such-graph", "a%00b", "%ff"):
        answer = await client.get(f"/assistants/{unknown}")
        assert answer.status_code == 404
        assert answer.json()["error"] == "not_found"
        assert "/assistants/search lists those that you may see" in answer.json()["message"]


async def test_what_is_given_is_kept_and_the_rest_has_defaults(client):
    plain = await made(client)
    assert (plain["name"], plain["description"]) == ("Untitled", None)
    assert (plain["config"], plain["context"], plain["metadata"]) == ({}, {}, {})
    mine = str(uuid.uuid4())
    full = await made(
        client,
        assistant_id=mine,
        config={"configurable": {"lang": "fr"}},
        context={"tone": "warm"},
        metadata={"team": "red"},
        name="",
        description="Speaks French",
    )
    assert (await client.get(f"/assistants/{mine}")).json() == full
    assert (full["name"], full["metadata"]) == ("", {"team": "red"})


async def test_an_id_that_exists_is_a_conflict_or_gives_the_existing_one(client):
    mine = str(uuid.uuid4())
    first = await made(client, assistant_id=mine, name="first")
    again = {"graph_id": "loud", "assistant_id": mine, "name": "second"}
    refused = await client.post("/assistants", json=again)
    assert refused.status_code == 409
    assert mine in refused.json()["message"]
    kept = await client.post("/assistants", json={**again, "if_exists": "do_nothing"})
    assert kept.json() == first


async def test_of_many_who_take_one_id_at_once_one_gets_it(client):
    body = {"graph_id": "echo", "assistant_id": str(uuid.uuid4())}
    asked = [client.post("/assistants", json=body) for _ in range(8)]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7


async def test_an_agent_that_the_server_does_not_have_is_not_found(client):
    assistant = await made(client)
    path = f"/assistants/{assistant['assistant_id']}"
    for asked in (
        client.post("/assistants", json={"graph_id": "ecko"}),
        client.patch(path, json={"graph_id": "ecko"}),
    ):
        answer = await asked
        assert answer.status_code == 404
        assert "'ecko'" in answer.json()["message"]
    assert (await client.get(path)).json() == assistant


async def test_what_no_database_could_keep_is_refused(client):
    changed = f"/assistants/{(await made(client))['assistant_id']}"
    for body in [*ODD, {"metadata": deep(70)}, {"config": deep(70)}]:
        answer = await client.post("/assistants", json={"graph_id": "echo", **body})
        assert answer.status_code == 422, body
        assert answer.json()["error"] == "invalid"
    for body in ODD[:12]:
        assert (await client.patch(changed, json=body)).status_code == 422, body
    for raw in (b'{"graph_id": "\\ud800"}', b'{"metadata": {"n": NaN}, "graph_id": "echo"}'):
        answer = await client.post(
            "/assistants", content=raw, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 422


async def test_an_update_is_a_version_that_keeps_what_it_does_not_name(client):
    first = await made(
        client, config={"tags": ["a"]}, metadata={"kept": 1, "n": 1}, name="one", description="d"
    )
    path = f"/assistants/{first['assistant_id']}"
    second = (await client.patch(path, json={"metadata": {"n": 2}, "config": {}})).json()
    assert second["metadata"] == {"kept": 1, "n": 2}
    assert (second["config"], second["name"], second["description"]) == ({}, "one", "d")
    assert second["version"] == 2
    assert second["created_at"] == first["created_at"]
    third = (await client.patch(path, json={})).json()
    assert third["version"] == 3
    listed = (await client.post(f"{path}/versions", json={})).json()
    assert [each["version"] for each in listed] == [3, 2, 1]
    assert [each["metadata"]["n"] for each in listed] == [2, 2, 1]
    assert listed[2]["config"] == {"tags": ["a"]}


async def test_updates_at_once_are_a_version_each(client):
    path = f"/assistants/{(await made(client))['assistant_id']}"
    asked = [client.patch(path, json={"metadata": {str(n): n}}) for n in range(8)]
    versions = [answer.json()["version"] for answer in await asyncio.gather(*asked)]
    assert sorted(versions) == [2, 3, 4, 5, 6, 7, 8, 9]
    latest = (await client.get(path)).json()
    assert latest["metadata"] == {str(n): n for n in range(8)}


async def test_versions_are_paged_and_found_by_their_metadata(client):
    path = f"/assistants/{(await made(client, metadata={'n': 1}))['assistant_id']}"
    await client.patch(path, json={"metadata": {"n": 2}})
    await client.patch(path, json={"metadata": {"n": 3}})

    async def numbers(**body):
        return [v["version"] for v in (await client.post(f"{path}/versions", json=body)).json()]

    assert await numbers(limit=1, offset=1) == [2]
    assert await numbers(metadata={"n": 1}) == [1]
    assert await numbers(offset=5) == []


async def test_an_earlier_version_can_be_the_latest_and_numbers_go_on_from_the_highest(client):
    first = await made(client, name="old", metadata={"n": 1})
    path = f"/assistants/{first['assistant_id']}"
    await client.patch(path, json={"name": "new", "metadata": {"n": 2}})
    back = (await client.post(f"{path}/latest", json={"version": 1})).json()
    assert (back["version"], back["name"], back["metadata"]) == (1, "old", {"n": 1})
    assert back["created_at"] == first["created_at"]
    assert (await client.get(path)).json() == back
    assert (await client.patch(path, json={})).json()["version"] == 3
    assert (await client.post(f"{path}/latest", json={"version": 9})).status_code == 404
    for wrong in (0, -1, 2**40, "one", None):
        answer = await client.post(f"{path}/latest", json={"version": wrong})
        assert answer.status_code == 422


async def test_a_search_narrows_by_name_agent_and_metadata(client):
    one = (await made(client, name="100%_Sure", metadata={"a": {"b": [1, 2]}}))["assistant_id"]
    two = (await made(client, "loud", name="100xySure", metadata={"a": 1}))["assistant_id"]
    assert await searched(client, name="sure") == [two, one]
    assert await searched(client, name="0%_s") == [one]
    assert await searched(client, name="SURE", graph_id="loud") == [two]
    assert await searched(client, metadata={"a": {"b": [2]}}) == [one]
    assert await searched(client, metadata={"a": "1"}) == []
    for plain in ({"a": {"$in": [1]}}, {"$or": 5}, {"$or": [{"a": 1}]}):
        assert await searched(client, metadata=plain) == []
    assert len(await searched(client, metadata={"created_by": "system"})) == 3


async def test_a_search_is_sorted_paged_and_says_where_the_next_page_begins(client):
    ids = [(await made(client, name=name, metadata={"t": 1}))["assistant_id"] for name in "bca"]
    assert await searched(client, metadata={"t": 1}) == ids[::-1]
    by_name = {"metadata": {"t": 1}, "sort_by": "name", "sort_order": "asc"}
    assert await searched(client, **by_name) == [ids[2], ids[0], ids[1]]
    page = await client.post("/assistants/search", json={**by_name, "limit": 2})
    assert page.headers["X-Pagination-Next"] == "2"
    rest = await client.post("/assistants/search", json={**by_name, "limit": 2, "offset": 2})
    assert "X-Pagination-Next" not in rest.headers
    assert [each["name"] for each in page.json() + rest.json()] == ["a", "b", "c"]
    some = await client.post("/assistants/search", json={**by_name, "select": ["name"]})
    assert some.json() == [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    counted = await client.post("/assistants/count", json={"metadata": {"t": 1}})
    assert counted.json() == 3


async def test_a_search_that_makes_no_sense_is_refused(client):
    many = {str(n): n for n in range(101)}
    for body in (
        {"limit": 0},
        {"limit": 1001},
        {"offset": -1},
        {"offset": 2**63},
        {"name": "\0"},
        {"graph_id": "\0"},
        {"metadata": {"n": 2**64}},
        {"metadata": many},
        {"metadata": deep(65)},
        {"sort_order": "up"},
    ):
        answer = await client.post("/assistants/search", json=body)
        assert answer.status_code == 422, body
    for body in ({"sort_by": "colour"}, {"select": ["colour"]}):
        answer = await client.post("/assistants/search", json=body)
        assert answer.status_code == 422
        assert "colour" in answer.json()["message"]


async def test_a_deleted_assistant_is_gone_with_its_versions_and_crons(client, services):
    assistant_id = (await made(client))["assistant_id"]
    cron = {"assistant_id": assistant_id, "schedule": "0 0 29 2 *"}
    assert (await client.post("/runs/crons", json=cron)).status_code == 200
    path = f"/assistants/{assistant_id}"
    assert (await client.delete(path)).status_code == 204
    for asked in (
        client.get(path),
        client.delete(path),
        client.post(f"{path}/versions", json={}),
        client.post(f"{path}/latest", json={"version": 1}),
        client.patch(path, json={}),
    ):
        assert (await asked).status_code == 404
    assert await services.database.read(lambda reads: crons.count(reads, {})) == 0


async def test_the_assistant_of_an_agent_cannot_be_deleted_or_given_to_another_agent(client):
    refused = await client.delete("/assistants/echo")
    assert refused.status_code == 409
    assert "config" in refused.json()["message"]
    assert (await client.patch("/assistants/echo", json={"graph_id": "loud"})).status_code == 409
    assert (await client.patch("/assistants/echo", json={"name": "E"})).json()["version"] == 2


async def test_threads_stay_unless_asked_and_others_threads_stay_always(client, services):
    kept = (await made(client))["assistant_id"]
    row = await on_thread(services, kept)
    await client.delete(f"/assistants/{kept}")
    assert await has_thread(services, row)

    gone = (await made(client))["assistant_id"]
    row, other = await on_thread(services, gone), await on_thread(services, "echo")
    await client.delete(f"/assistants/{gone}", params={"delete_threads": True})
    assert not await has_thread(services, row)
    assert await has_thread(services, other)
    config = {"configurable": {"thread_id": row.thread_id}}
    assert await services.checkpointer.aget_tuple(config) is None


async def test_a_run_that_waits_goes_with_its_thread(client, services):
    assistant_id = (await made(client))["assistant_id"]
    row = await on_thread(services, assistant_id)
    waiting = RunRequest(assistant_id=assistant_id, thread_id=row.thread_id, after_seconds=3600)
    await services.runs.admit([waiting], Principal(User("anonymous")))
    answer = await client.delete(f"/assistants/{assistant_id}", params={"delete_threads": True})
    assert answer.status_code == 204
    assert not await has_thread(services, row)


async def test_a_member_reads_all_assistants_and_changes_only_their_own(served):
    ann, bob = await served.as_user("ann"), await served.as_user("bob")
    assistant = await made(ann, metadata={"of": "ann"})
    path = f"/assistants/{assistant['assistant_id']}"
    assert (await bob.get(path)).json() == assistant
    assert assistant["assistant_id"] in await searched(bob, metadata={"of": "ann"})
    assert (await bob.patch(path, json={"name": "mine"})).status_code == 404
    assert (await bob.delete(path)).status_code == 404
    refused = await bob.patch("/assistants/echo", json={"name": "mine"})
    assert refused.status_code == 403
    assert "admins" in refused.json()["message"]
    assert (await ann.patch(path, json={"name": "mine"})).json()["name"] == "mine"
    assert (await (await served.as_user("root")).delete(path)).status_code == 204


async def test_a_member_removes_only_threads_of_their_own_with_an_assistant(served, services):
    ann = await served.as_user("ann")
    assistant_id = (await made(ann))["assistant_id"]
    mine = await on_thread(services, assistant_id, "ann")
    theirs = await on_thread(services, assistant_id, "bob")
    answer = await ann.delete(f"/assistants/{assistant_id}", params={"delete_threads": True})
    assert answer.status_code == 204
    assert not await has_thread(services, mine)
    assert await has_thread(services, theirs)


@pytest.fixture
def owned():
    """Rules as the documentation of LangGraph shows them: everything has an owner."""
    auth = named_users()

    @auth.on.assistants
    async def by_owner(ctx, value):
        value.setdefault("metadata", {})["owner"] = ctx.user.identity
        return {"owner": ctx.user.identity}

    return auth


async def test_what_a_handler_writes_is_kept_and_what_it_filters_is_not_found(served, owned):
    ann, bob = await served.as_user("ann", owned), await served.as_user("bob", owned)
    assistant = await made(ann, metadata={"a": 1})
    assert assistant["metadata"] == {"a": 1, "owner": "ann"}
    path = f"/assistants/{assistant['assistant_id']}"
    assert (await ann.get(path)).status_code == 200
    for asked in (
        bob.get(path),
        bob.get(f"{path}/schemas"),
        bob.patch(path, json={}),
        bob.delete(path),
    ):
        assert (await asked).status_code == 404
    assert await searched(bob) == []
    assert await searched(ann) == [assistant["assistant_id"]]
    again = {"graph_id": "echo", "assistant_id": assistant["assistant_id"]}
    refused = await bob.post("/assistants", json={**again, "if_exists": "do_nothing"})
    assert refused.status_code == 409


async def test_handlers_are_told_what_is_touched(served):
    auth, told = named_users(), []

    @auth.on.assistants
    async def listen(ctx, value):
        told.append((ctx.action, dict(value)))

    ann = await served.as_user("ann", auth)
    mine = (await made(ann, name="n", config={"tags": []}))["assistant_id"]
    await ann.get("/assistants/echo/graph")
    await ann.post("/assistants/search", json={"graph_id": "echo", "limit": 3})
    await ann.patch(f"/assistants/{mine}", json={"name": "m"})
    await ann.post(f"/assistants/{mine}/latest", json={"version": 1})
    await ann.delete(f"/assistants/{mine}")
    create, read, search, update, latest, delete = told
    assert create[0] == "create"
    assert create[1]["assistant_id"] == uuid.UUID(mine)
    assert (create[1]["graph_id"], create[1]["config"]) == ("echo", {"tags": []})
    assert read == ("read", {"assistant_id": uuid.UUID(agent_assistant_id("echo")), "metadata": {}})
    assert search[1] == {"graph_id": "echo", "metadata": {}, "limit": 3, "offset": 0}
    assert update[1]["name"] == "m"
    assert (latest[0], latest[1]["version"]) == ("update", 1)
    assert (delete[0], delete[1]["assistant_id"]) == ("delete", uuid.UUID(mine))


async def test_a_graph_is_drawn_as_deep_as_asked(client):
    async def nodes(**params):
        answer = await client.get("/assistants/nested/graph", params=params)
        assert answer.status_code == 200, answer.text
        return {node["id"] for node in answer.json()["nodes"]}

    flat = {"__start__", "outer", "child", "__end__"}
    for shallow in ({}, {"xray": "false"}, {"xray": 0}):
        assert await nodes(**shallow) == flat
    for inside in ("true", 1):
        assert "child:shout" in await nodes(xray=inside)
    for wrong in ("deep", -1, 10**9):
        answer = await client.get("/assistants/nested/graph", params={"xray": wrong})
        assert answer.status_code == 422


async def test_schemas_and_subgraphs_are_those_of_the_assistants_graph(client):
    mine = (await made(client, "nested"))["assistant_id"]
    schemas = (await client.get(f"/assistants/{mine}/schemas")).json()
    assert schemas["graph_id"] == "nested"
    assert {*schemas["input_schema"]["properties"]} == {"text", "log"}
    for path in ("subgraphs", "subgraphs/child"):
        answer = await client.get(f"/assistants/{mine}/{path}", params={"recurse": True})
        assert {*answer.json()} == {"child"}
    assert (await client.get(f"/assistants/{mine}/subgraphs/other")).json() == {}
