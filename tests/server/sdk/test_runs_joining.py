"""Streams that are joined late, left early, and come back."""

import asyncio
import contextlib
import json
import uuid

import httpx
import pytest

from .support import collect, data_of, eventually, names_of, over, running, said


@pytest.fixture
async def told(client, thread):
    """A run that is over, and all the parts it streamed."""
    parts = await collect(
        client.runs.stream(
            thread,
            "chat",
            input=said("hello there"),
            stream_mode=["values", "messages-tuple"],
            stream_resumable=True,
        )
    )
    return parts[0].data["run_id"], parts


async def test_a_run_under_way_can_be_joined(client, thread):
    run = await client.runs.create(
        thread, "slow", input={"seconds": 0.3, "laps": 3}, stream_mode="values"
    )
    parts = await collect(client.runs.join_stream(thread, run["run_id"], stream_mode="values"))
    assert data_of(parts, "values")[-1]["done"] == [1, 2, 3]
    assert names_of(parts)[-1] == "values"
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"


async def test_a_run_that_is_over_is_replayed_from_the_beginning_if_asked(client, thread, told):
    run, parts = told
    again = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert again == parts


async def test_a_stream_goes_on_after_the_last_event_that_was_seen(client, thread, told):
    run, parts = told
    for place in (0, len(parts) // 2, len(parts) - 2):
        rest = await collect(client.runs.join_stream(thread, run, last_event_id=parts[place].id))
        assert rest == parts[place + 1 :]


async def test_nothing_follows_the_end(client, thread, told):
    run, parts = told
    rest = await collect(client.runs.join_stream(thread, run, last_event_id=parts[-1].id))
    assert rest == []


async def test_joining_can_choose_among_the_modes(client, thread, told):
    run, parts = told
    values = await collect(
        client.runs.join_stream(thread, run, stream_mode="values", last_event_id="-1")
    )
    assert {*names_of(values)} == {"values"}
    assert data_of(values, "values") == data_of(parts, "values")
    both = await collect(
        client.runs.join_stream(
            thread, run, stream_mode=["values", "messages-tuple"], last_event_id="-1"
        )
    )
    assert data_of(both, "messages") == data_of(parts, "messages")


async def test_a_background_run_keeps_all_its_modes_for_those_who_join(client, thread):
    asked = {"updates": "updates", "messages-tuple": "messages", "tasks": "tasks"}
    run = await over(
        client,
        await client.runs.create(thread, "chat", input=said("hello"), stream_mode=[*asked]),
    )
    for mode, event in asked.items():
        parts = await collect(
            client.runs.join_stream(thread, run["run_id"], stream_mode=mode, last_event_id="-1")
        )
        assert {*names_of(parts)} == {event}


async def test_a_failed_run_can_be_joined_for_its_error(client, thread):
    run = await over(client, await client.runs.create(thread, "failing", input={"message": "no"}))
    parts = await collect(client.runs.join_stream(thread, run["run_id"], last_event_id="-1"))
    (error,) = data_of(parts, "error")
    assert error["message"] == "no"


async def test_many_can_listen_to_one_run(client, thread):
    run = await client.runs.create(thread, "slow", input={"seconds": 0.3, "laps": 2})
    heard = await asyncio.gather(
        *(
            collect(client.runs.join_stream(thread, run["run_id"], last_event_id="-1"))
            for _ in range(3)
        )
    )
    assert data_of(heard[0], "values")[-1]["done"] == [1, 2]
    assert heard[0] == heard[1] == heard[2]


async def test_an_unknown_run_cannot_be_joined(client, thread):
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await collect(client.runs.join_stream(thread, str(uuid.uuid4())))
    assert refused.value.response.status_code == 404


async def _left_early(stream):
    async with contextlib.aclosing(stream):
        async for part in stream:
            return part
    return None


async def test_a_run_goes_on_when_its_listener_leaves(client, thread):
    part = await _left_early(client.runs.stream(thread, "slow", input={"seconds": 0.3, "laps": 2}))
    run = await over(client, {"thread_id": thread, "run_id": part.data["run_id"]})
    assert run["status"] == "success"


async def test_a_run_ends_when_its_listener_leaves_if_asked(client, thread):
    part = await _left_early(
        client.runs.stream(thread, "slow", input={"seconds": 120}, on_disconnect="cancel")
    )
    run = await over(client, {"thread_id": thread, "run_id": part.data["run_id"]})
    assert run["status"] == "interrupted"


async def test_a_run_goes_on_if_it_was_said(client, thread):
    part = await _left_early(
        client.runs.stream(thread, "slow", input={"seconds": 0.5}, on_disconnect="continue")
    )
    run = await over(client, {"thread_id": thread, "run_id": part.data["run_id"]})
    assert run["status"] == "success"


async def test_a_joined_run_ends_when_the_listener_leaves_if_asked(client, thread):
    run = await client.runs.create(thread, "slow", input={"seconds": 120})
    await running(client, run)
    stream = client.runs.join_stream(
        thread, run["run_id"], cancel_on_disconnect=True, last_event_id="-1"
    )
    assert (await _left_early(stream)).event == "metadata"
    assert (await over(client, run))["status"] == "interrupted"


async def _give_up_waiting(server, thread, *, seconds, on_disconnect):
    body = {"assistant_id": "slow", "input": {"seconds": seconds}, "on_disconnect": on_disconnect}
    async with httpx.AsyncClient(timeout=1) as hasty:
        with pytest.raises(httpx.ReadTimeout):
            await hasty.post(f"{server.url}/threads/{thread}/runs/wait", json=body)


@pytest.mark.filterwarnings("ignore:Request failed, attempting reconnect")
async def test_a_client_whose_wait_was_cut_comes_back_for_the_result(server, thread):
    async with server.client(timeout=2) as hasty:
        result = await hasty.runs.wait(thread, "slow", input={"seconds": 4})
    assert "__error__" not in result


async def test_waiting_begins_with_the_headers(server, thread):
    body = {"assistant_id": "slow", "input": {"seconds": 2}}
    url = f"{server.url}/threads/{thread}/runs/wait"
    async with httpx.AsyncClient() as http, http.stream("POST", url, json=body) as answer:
        (run,) = (await http.get(f"{server.url}/threads/{thread}/runs")).json()
        assert run["status"] in {"pending", "running"}
        assert answer.headers["location"] == f"/threads/{thread}/runs/{run['run_id']}/join"
        assert "__error__" not in json.loads(await answer.aread())


async def test_joining_a_run_that_failed_gives_its_error(server, client, thread):
    with pytest.raises(Exception, match="ValueError"):
        await client.runs.wait(thread, "failing", input={"message": "no luck"})
    (run,) = await client.runs.list(thread)
    path = f"/threads/{thread}/runs/{run['run_id']}"
    async with httpx.AsyncClient(base_url=server.url) as http:
        answer = await http.get(f"{path}/join")
    assert answer.json()["__error__"]["error"] == "ValueError"
    assert answer.headers["location"] == f"{path}/join"
    assert answer.headers["content-location"] == path
    told = (await client.threads.get(thread))["error"]
    assert (told["error"], told["message"]) == ("ValueError", run["error"])


async def test_a_client_that_gives_up_waiting_does_not_end_the_run(server, client, thread):
    await _give_up_waiting(server, thread, seconds=3, on_disconnect="continue")
    (run,) = await client.runs.list(thread)
    assert (await over(client, run))["status"] == "success"


async def test_a_client_that_gives_up_waiting_ends_the_run_if_asked(server, client, thread):
    await _give_up_waiting(server, thread, seconds=120, on_disconnect="cancel")

    async def stopped():
        (run,) = await client.runs.list(thread)
        return run["status"] == "interrupted"

    await eventually(stopped, "the end of a run nobody waits for")


async def test_a_stream_says_where_it_can_be_taken_up_again(server, thread):
    body = {"assistant_id": "echo", "input": {"text": "hi"}}
    url = f"{server.url}/threads/{thread}/runs"
    async with httpx.AsyncClient() as http:
        async with http.stream("POST", f"{url}/stream", json=body) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            place = answer.headers["content-location"]
            assert answer.headers["location"] == f"{place}/stream"
            assert place.startswith(f"/threads/{thread}/runs/")
            await answer.aread()
        rest = await http.get(f"{server.url}{place}/stream", headers={"Last-Event-ID": "-1"})
        assert rest.text.startswith(("id:", "event:", ":"))
        waited = await http.post(f"{url}/wait", json=body)
        assert waited.headers["location"] == f"{waited.headers['content-location']}/join"
        joined = await http.get(f"{server.url}{waited.headers['location']}")
        assert joined.json() == waited.json()
