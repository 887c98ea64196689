"""The routes of threads: made, changed, found, copied and removed, by whom they belong to."""

import asyncio
import time
import uuid

import pytest
from langgraph_sdk import Auth

from checkrail.config.server import CheckpointerConfig, ServerConfig
from checkrail.store import crons, events, records, runs, threads

from .support import named_users
from .thread_support import Threads, threads_of, unknown


@pytest.fixture
async def api(served):
    return await threads_of(served)


@pytest.fixture
async def users(served, api):
    """Clients of ann, of bob, and of an admin."""
    return [Threads(served, await served.as_user(name)) for name in ("ann", "bob", "root")]


def ids(found):
    return [thread["thread_id"] for thread in found]


async def test_a_new_thread_is_idle_and_empty(api):
    made = await api.create()
    uuid.UUID(made["thread_id"])
    assert (made["status"], made["metadata"], made["interrupts"]) == ("idle", {}, {})
    assert made["values"] is None
    assert await api.get(f"/threads/{made['thread_id']}") == made


async def test_an_id_is_taken_once(api):
    first = await api.create(thread_id=unknown(), metadata={"n": 1})
    refused = await api.create(status=409, thread_id=first["thread_id"])
    assert first["thread_id"] in refused["message"]
    again = await api.create(
        thread_id=first["thread_id"], if_exists="do_nothing", metadata={"n": 2}
    )
    assert again == first


async def test_one_of_many_that_ask_for_an_id_at_once_gets_it(api):
    wanted = {"thread_id": unknown()}
    answers = await asyncio.gather(*(api.client.post("/threads", json=wanted) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]


async def test_an_id_of_somebody_else_is_taken_and_nothing_is_told(users):
    ann, bob, _ = users
    mine = await ann.create(metadata={"secret": "of ann"})
    for if_exists in ("raise", "do_nothing"):
        wanted = {"thread_id": mine["thread_id"], "if_exists": if_exists}
        refused = await bob.create(status=409, **wanted)
        assert "of ann" not in str(refused)
    own = await bob.create(thread_id=unknown())
    same = await bob.create(status=409, thread_id=own["thread_id"])
    hidden = same["message"].replace(own["thread_id"], mine["thread_id"])
    assert refused["message"] == hidden


async def test_threads_of_others_are_not_there(users):
    ann, bob, root = users
    mine = await ann.new()
    for method, below, body in (
        ("GET", "", None),
        ("PATCH", "", {"metadata": {"n": 1}}),
        ("DELETE", "", None),
        ("POST", "/copy", None),
        ("GET", "/state", None),
        ("GET", f"/state/{unknown()}", None),
        ("POST", "/state/checkpoint", {"checkpoint": {}}),
        ("POST", "/state", {"values": None}),
        ("POST", "/history", {"limit": 10}),
    ):
        path = f"/threads/{mine}{below}"
        await bob.call(method, path, body, 404)
        gone = path.replace(mine, unknown())
        assert (await ann.call(method, gone, body, 404))["error"] == "not_found"
    assert await bob.post("/threads/search", {}) == []
    assert await bob.post("/threads/count", {}) == 0
    pruned = await bob.post("/threads/prune", {"thread_ids": [mine]})
    assert pruned == {"pruned_count": 0}
    for who in (ann, root):
        assert ids(await who.post("/threads/search", {"ids": [mine]})) == [mine]


@pytest.fixture
async def teams(served, api):
    """Clients of ann and bob, who see threads by the team that handlers stamp on them."""
    auth = named_users()

    @auth.on.threads
    async def by_team(ctx: Auth.types.AuthContext, value):
        team = {"ann": "red", "bob": "red", "eve": "blue"}[ctx.user.identity]
        value.setdefault("metadata", {})["team"] = team
        return {"team": team}

    return [Threads(served, await served.as_user(name, auth)) for name in ("ann", "bob", "eve")]


async def test_auth_handlers_stamp_threads_and_filter_them(teams):
    ann, bob, eve = teams
    mine = await ann.create(metadata={"n": 1})
    assert mine["metadata"] == {"n": 1, "team": "red"}
    path = f"/threads/{mine['thread_id']}"
    assert (await bob.get(path))["metadata"] == mine["metadata"]
    await eve.get(path, 404)
    await eve.create(status=409, thread_id=mine["thread_id"], if_exists="do_nothing")
    assert ids(await bob.post("/threads/search", {})) == [mine["thread_id"]]
    assert await eve.post("/threads/search", {}) == []
    assert await eve.post("/threads/count", {"metadata": {"team": "red"}}) == 0
    changed = await bob.call("PATCH", path, {"metadata": {"team": "blue"}})
    assert changed["metadata"]["team"] == "red"
    copied = await bob.post(f"{path}/copy")
    assert copied["metadata"] == {"n": 1, "team": "red"}
    assert await eve.post("/threads/prune", {"thread_ids": ids([mine])}) == {"pruned_count": 0}
    await ann.call("DELETE", path, status=204)


async def test_a_time_to_live_is_kept_told_and_ended(api):
    made = await api.new(ttl={"ttl": 30, "strategy": "keep_latest"})
    assert "ttl" not in await api.get(f"/threads/{made}")
    told = (await api.get(f"/threads/{made}?include=ttl"))["ttl"]
    assert (told["strategy"], told["ttl_minutes"]) == ("keep_latest", 30)
    await api.call("PATCH", f"/threads/{made}", {"ttl": 90})
    told = (await api.get(f"/threads/{made}?include=ttl"))["ttl"]
    assert (told["strategy"], told["ttl_minutes"]) == ("delete", 90)
    await api.call("PATCH", f"/threads/{made}", {"metadata": {"n": 1}})
    assert (await api.get(f"/threads/{made}?include=ttl"))["ttl"] == told
    await api.call("PATCH", f"/threads/{made}", {"ttl": None})
    assert (await api.get(f"/threads/{made}?include=ttl"))["ttl"] is None
    await api.get(f"/threads/{made}?include=colour", 422)


async def test_the_config_says_how_long_threads_live_unless_said(api):
    ttl = {"default_ttl": 5, "strategy": "keep_latest"}
    api.served.services.config = ServerConfig(checkpointer=CheckpointerConfig(ttl=ttl))
    for made, minutes in ((await api.new(), 5), (await api.new(ttl=7), 7)):
        row = await read(api, lambda reads, made=made: threads.get(reads, made))
        assert row.ttl_minutes == minutes
        assert row.expires_at == pytest.approx(row.created_at + minutes * 60)


async def read(api, query):
    return await api.served.services.database.read(query)


PAST = [
    {"updates": [{"values": {"log": ["zero"]}, "as_node": "__input__"}]},
    {"updates": [{"values": {"log": ["zero"]}, "as_node": "__start__"}]},
    {"updates": [{"command": {"update": {"log": ["one"]}}, "as_node": "one"}]},
]


async def test_supersteps_give_a_thread_its_past(api):
    made = await api.create(metadata={"graph_id": "steps"}, supersteps=PAST)
    assert made["values"] == {"log": ["zero", "one"]}
    assert made["status"] == "interrupted"
    state = await api.get(f"/threads/{made['thread_id']}/state")
    assert (state["values"], state["next"]) == (made["values"], ["two"])
    ran = await api.run(made["thread_id"], "steps", input=None)
    assert ran.output["log"] == ["zero", "one", "two", "three"]


UNFIT = [
    ({}, PAST, 422),
    ({"graph_id": 1}, PAST, 422),
    ({"graph_id": "nobody"}, PAST, 404),
    ({"graph_id": "steps"}, [{"updates": [{"values": {}, "as_node": "nobody"}]}], 422),
    ({"graph_id": "steps"}, [*PAST, {"updates": [{"values": 5, "as_node": "two"}]}], 422),
    ({"graph_id": "steps"}, [{"updates": []}], 422),
]


async def test_a_past_that_does_not_fit_leaves_no_thread(api):
    wanted = unknown()
    for metadata, past, status in UNFIT:
        await api.create(status, thread_id=wanted, metadata=metadata, supersteps=past)
        await api.get(f"/threads/{wanted}", 404)
    await api.create(thread_id=wanted, metadata={"graph_id": "steps"})
    assert await api.post(f"/threads/{wanted}/history", {"limit": 10}) == []


async def test_an_update_merges_metadata(api):
    made = await api.create(metadata={"kept": 1, "changed": {"a": 1}})
    path = f"/threads/{made['thread_id']}"
    changed = await api.call("PATCH", path, {"metadata": {"changed": {"b": 2}, "new": None}})
    assert changed["metadata"] == {"kept": 1, "changed": {"b": 2}, "new": None}
    assert changed["updated_at"] > made["updated_at"]
    assert await api.get(path) == changed


async def test_an_update_can_go_without_an_answer(api):
    path = f"/threads/{await api.new()}"
    headers = {"prefer": "return=minimal"}
    body = {"metadata": {"n": 1}}
    assert await api.call("PATCH", path, body, 204, headers=headers) is None
    assert (await api.get(path))["metadata"] == {"n": 1}


async def test_updates_at_once_are_all_merged(api):
    path = f"/threads/{await api.new()}"
    await asyncio.gather(*(api.call("PATCH", path, {"metadata": {f"k{n}": n}}) for n in range(20)))
    assert (await api.get(path))["metadata"] == {f"k{n}": n for n in range(20)}


async def test_a_deleted_thread_leaves_nothing_behind(api):
    made = await api.walked()
    await api.run(made, "ask")
    await api.run(made, "ask", input=None, command={"resume": "left"})
    kept = await read(api, lambda reads: runs.of_threads(reads, [made]))
    assert len(kept) == 3
    await add_cron(api, made)
    await api.call("DELETE", f"/threads/{made}", status=204)
    await api.call("DELETE", f"/threads/{made}", status=404)
    for run_id in kept:
        assert await read(api, lambda reads, run=run_id: runs.get(reads, run)) is None
        assert await read(api, lambda reads, run=run_id: events.load_after(reads, run, 0)) == []
        assert await read(api, lambda reads, run=run_id: records.of_run(reads, run)) == []
    assert await read(api, lambda reads: crons.get(reads, made)) is None
    assert await checkpoints(api) == 0
    again = await api.create(thread_id=made, metadata={"graph_id": "steps"})
    assert again["values"] is None
    assert await api.post(f"/threads/{made}/history", {"limit": 10}) == []


async def add_cron(api, thread_id):
    row = {"cron_id": thread_id, "assistant_id": "steps", "thread_id": thread_id, "metadata": {}}
    row |= {"schedule": "0 0 1 1 *", "enabled": False, "payload": {}}
    times = {"created_at": time.time(), "updated_at": time.time()}
    await api.served.services.database.write(lambda tx: crons.add(tx, crons.Cron(**row, **times)))


async def checkpoints(api):
    """Count all rows that LangGraph's saver has, also those that are put aside for a rollback."""
    from checkrail.runs.graphs.thread_rows import _open_transaction

    async with _open_transaction(api.served.services.checkpointer) as (execute, tables):
        return sum([(await execute(f"SELECT count(*) FROM {t}", {}))[0][0] for t in tables.names])


async def test_deleting_a_thread_stops_all_that_runs_on_it(api):
    made, running = await api.underway()
    waiting = [await api.start(made, "steps", input={}) for _ in range(3)]
    scheduled = await api.start(made, "steps", input={}, after_seconds=3600)
    await api.call("DELETE", f"/threads/{made}", status=204)
    for run_id in (running, *waiting, scheduled):
        assert await read(api, lambda reads, run=run_id: runs.get(reads, run)) is None
    assert running not in api.runs.parts.live
    assert await checkpoints(api) == 0
    await api.create(thread_id=made)
    assert (await api.run(made, "steps")).output["log"] == ["one", "two", "three"]


async def test_a_thread_that_is_deleted_twice_at_once_is_gone_once(api):
    made, _ = await api.underway()
    answers = await asyncio.gather(*(api.client.delete(f"/threads/{made}") for _ in range(2)))
    assert {answer.status_code for answer in answers} <= {204, 404}
    assert 204 in {answer.status_code for answer in answers}
    await api.get(f"/threads/{made}", 404)


@pytest.fixture
async def three(api):
    return [await api.new(metadata={"n": n, "deep": {"even": n % 2 == 0}}) for n in (1, 2, 3)]


async def test_threads_are_found_by_what_is_in_their_metadata(api, three):
    for metadata, found in (
        ({}, three[::-1]),
        ({"n": 2}, [three[1]]),
        ({"n": True}, []),
        ({"n": "1"}, []),
        ({"deep": {"even": False}}, [three[2], three[0]]),
        ({"deep": {"even": False}, "n": 3}, [three[2]]),
        ({"n": {"$in": [1, 2]}}, []),
        ({"$or": [{"n": 1}]}, []),
    ):
        assert ids(await api.post("/threads/search", {"metadata": metadata})) == found
        assert await api.post("/threads/count", {"metadata": metadata}) == len(found)


async def test_threads_are_found_by_values_ids_and_status(api, three):
    await api.run(three[0], "steps")
    await api.run(three[1], "ask")
    for body, found in (
        ({"values": {"log": ["two"]}}, [three[0]]),
        ({"values": {"log": ["nowhere"]}}, []),
        ({"status": "interrupted"}, [three[1]]),
        ({"status": "idle"}, [three[0], three[2]]),  # the one that ran comes first
        ({"ids": [three[2], unknown()]}, [three[2]]),
        ({"ids": []}, []),
    ):
        assert ids(await api.post("/threads/search", body)) == found
    assert await api.post("/threads/count", {"status": "interrupted", "values": {}}) == 1


async def test_the_caller_chooses_the_order_and_the_page(api, three):
    await api.run(three[1], "ask")
    for field in threads.SORTS:
        await see_order(api, field)


async def see_order(api, field):
    up = await api.post("/threads/search", {"sort_by": field, "sort_order": "asc"})
    values = [thread[field] for thread in up]
    assert values == sorted(values)
    down = [
        await api.post("/threads/search", {"sort_by": field, "limit": 2, "offset": offset})
        for offset in (0, 2, 4)
    ]
    assert [len(page) for page in down] == [2, 1, 0]
    assert ids([*down[0], *down[1]]) == ids(up)[::-1]


async def test_only_what_is_selected_and_extracted_is_given(api):
    made = await api.walked(metadata={"who": {"name": "ada", "tags": [["x"]]}})
    paths = {
        "last": "values.log[-1]",
        "none": "values.log[3]",
        "far": "values.log[-4]",
        "name": "metadata.who.name",
        "deep": "metadata.who.tags[0][0]",
        "odd": "metadata.who[0]",
        "whole": "config",
        "asked": "interrupts.nobody[0].value",
    }
    body = {"ids": [made], "select": ["thread_id", "status"], "extract": paths}
    (found,) = await api.post("/threads/search", body)
    nothing = dict.fromkeys(("none", "far", "odd", "asked"))
    there = {"last": "three", "name": "ada", "deep": "x", "whole": {"configurable": {}}}
    assert found == {"thread_id": made, "status": "idle", "extracted": there | nothing}
    (found,) = await api.post("/threads/search", {"ids": [made], "select": ["values"]})
    assert found == {"values": {"log": ["one", "two", "three"]}}


WRONG_SEARCHES = [
    {"limit": 0},
    {"limit": 1001},
    {"offset": -1},
    {"offset": 2**70},
    {"status": "asleep"},
    {"sort_by": "colour"},
    {"sort_order": "sideways"},
    {"select": ["colour"]},
    {"ids": ["not-a-uuid"]},
    {"ids": [str(uuid.UUID(int=n)) for n in range(1001)]},
    {"metadata": []},
    {"metadata": {"n": 2**80}},
    {"metadata": {"n": "a\0b"}},
    {"metadata": {f"k{n}": n for n in range(100)}},
    {"values": {"list": [*range(100)]}},
    {"extract": {str(n): "values.log[0]" for n in range(11)}},
    {"extract": {"a": "user_id.name"}},
    {"extract": {"a": "values..a"}},
    {"extract": {"a": "values[a]"}},
]


async def test_what_cannot_be_searched_for_is_refused(api):
    for wrong in WRONG_SEARCHES:
        await api.post("/threads/search", wrong, 422)


WRONG_THREADS = [
    {"thread_id": "not-a-uuid"},
    {"metadata": {"n": 2**64}},
    {"metadata": {"a\0": 1}},
    {"metadata": "text"},
    {"ttl": 0},
    {"ttl": {"ttl": 1e300}},
    {"ttl": {"ttl": 5, "strategy": "burn"}},
    {"if_exists": "perhaps"},
    {"supersteps": [{"updates": [{"as_node": "a\0"}]}]},
]


async def test_what_makes_no_thread_is_refused(api):
    for wrong in WRONG_THREADS:
        refused = await api.create(422, **wrong)
        assert refused["error"] == "invalid"
    assert await api.post("/threads/count", {}) == 0


async def test_text_that_is_no_text_is_refused(api):
    headers = {"content-type": "application/json"}
    for body in (rb'{"metadata": {"n": "\ud800"}}', b'{"metadata": {"n": NaN}}'):
        answer = await api.client.post("/threads", content=body, headers=headers)
        assert answer.status_code == 422, answer.text
        answer = await api.client.post("/threads/search", content=body, headers=headers)
        assert answer.status_code == 422, answer.text


async def test_a_copy_has_the_past_and_a_future_of_its_own(api):
    made = await api.walked(metadata={"user": "ada"})
    copy = await api.post(f"/threads/{made}/copy")
    assert copy["thread_id"] != made
    assert copy["values"] == {"log": ["one", "two", "three"]}
    assert copy["metadata"]["user"] == "ada"
    there, here = [
        [(state["values"], state["next"], state["checkpoint"]["checkpoint_id"]) for state in states]
        for states in [
            await api.post(f"/threads/{each}/history", {"limit": 10})
            for each in (made, copy["thread_id"])
        ]
    ]
    assert here == there
    await api.call("DELETE", f"/threads/{made}", status=204)
    ran = await api.run(copy["thread_id"], "steps")
    assert len(ran.output["log"]) == 6


async def test_a_copy_of_a_paused_thread_waits_as_well(api):
    made = await api.walked("ask")
    copy = await api.post(f"/threads/{made}/copy")
    assert copy["status"] == "interrupted"
    assert copy["interrupts"] == (await api.get(f"/threads/{made}"))["interrupts"] != {}
    ran = await api.run(copy["thread_id"], "ask", input=None, command={"resume": "left"})
    assert ran.output["log"] == ["one", "left"]
    assert (await api.get(f"/threads/{made}"))["status"] == "interrupted"


async def test_a_copy_of_a_busy_thread_has_what_is_there(api):
    made, run_id = await api.underway()
    copy = await api.post(f"/threads/{made}/copy")
    assert copy["values"] == {"log": ["one"]}
    assert copy["status"] == "interrupted"
    assert (await api.get(f"/threads/{made}"))["status"] == "busy"
    await api.runs.cancel(run_id, "interrupt")
    await api.runs.ended(run_id)


async def test_a_copy_belongs_to_who_made_it(users):
    ann, _, root = users
    mine = await ann.new(metadata={"n": 1})
    copy = await root.post(f"/threads/{mine}/copy")
    await ann.get(f"/threads/{copy['thread_id']}", 404)
    assert (await root.get(f"/threads/{copy['thread_id']}"))["metadata"] == {"n": 1}


async def test_pruning_deletes_what_is_there_and_counts_it(api, three):
    running, _ = await api.underway()
    wanted = [three[0], three[0], three[1], running, unknown()]
    assert await api.post("/threads/prune", {"thread_ids": wanted}) == {"pruned_count": 3}
    assert ids(await api.post("/threads/search", {})) == [three[2]]


async def test_pruning_may_keep_the_latest_state(api):
    made = await api.walked()
    before = await api.get(f"/threads/{made}/state")
    body = {"thread_ids": [made], "strategy": "keep_latest"}
    assert await api.post("/threads/prune", body) == {"pruned_count": 1}
    after = await api.get(f"/threads/{made}/state")
    assert (after["values"], after["next"]) == (before["values"], before["next"])
    assert len(await api.post(f"/threads/{made}/history", {"limit": 10})) == 1


async def test_a_busy_thread_is_not_pruned_to_its_latest_state(api):
    made, run_id = await api.underway()
    body = {"thread_ids": [made], "strategy": "keep_latest"}
    assert await api.post("/threads/prune", body) == {"pruned_count": 0}
    assert len(await api.post(f"/threads/{made}/history", {"limit": 10})) == 3
    await api.runs.cancel(run_id, "interrupt")
    await api.runs.ended(run_id)


async def test_pages_of_threads_say_where_the_next_one_begins(api, three):
    for limit, offset, total, following in (
        (2, 0, "3", "2"),
        (2, 1, "3", None),
        (1, 1, "3", "2"),
        (10, 0, "3", None),
    ):
        wanted = {"limit": limit, "offset": offset, "ids": three}
        answer = await api.client.post("/threads/search", json=wanted)
        assert answer.headers["x-pagination-total"] == total
        assert answer.headers.get("x-pagination-next") == following
        assert len(answer.json()) == min(limit, 3 - offset)


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/json"]
)
async def test_a_body_is_json_whatever_it_says_unless_a_page_sent_it(api, kind):
    headers = {} if kind is None else {"content-type": kind}
    body = b'{"metadata": {"of": "curl"}}'
    made = await api.client.post("/threads", content=body, headers=headers)
    assert (made.status_code, made.json()["metadata"]) == (200, {"of": "curl"})
    page = headers | {"origin": "http://localhost:3000"}
    sent = await api.client.post("/threads", content=body, headers=page)
    assert sent.status_code == (200 if kind == "application/json" else 422)
