"""Clients that come and go: each thing they can do is defined, and nothing is done twice."""

import asyncio

import httpx
import pytest

from .support import eventually, frames, over, streamed


def asked(agent="slow", **more):
    return {"assistant_id": agent, "input": {"text": "x", "seconds": 60}, **more}


def quick(agent="echo", **more):
    return {"assistant_id": agent, "input": {"text": "x"}, **more}


async def first_of(http, path, body):
    """Open a stream, read until its run is under way, and leave; the run's path."""
    async with http.stream("POST", path, json=body) as answer:
        async for _, name, _data in frames(answer):
            if name == "values":
                return answer.headers["content-location"]
    raise AssertionError("the stream ended")


async def status(http, path):
    return (await http.get(path)).json()["status"]


async def test_one_who_waits_gets_a_new_line_before_connections_are_cut(http, thread):
    body = asked(on_disconnect="cancel")
    async with (
        asyncio.timeout(8),
        http.stream("POST", f"/threads/{thread}/runs/wait", json=body, timeout=8) as answer,
    ):
        assert await anext(answer.aiter_raw()) == b"\n"


async def test_a_run_goes_on_when_its_client_goes_away(http, thread):
    body = quick("slow")
    body["input"]["seconds"] = 0.5
    path = await first_of(http, f"/threads/{thread}/runs/stream", body)

    async def ended():
        return await status(http, path) == "success"

    await eventually(ended)


@pytest.mark.parametrize("way", ["/threads/{thread}/runs/stream", "/runs/stream"])
async def test_a_run_ends_with_its_client_if_that_was_asked_for(http, hooked, thread, way):
    body = asked(on_disconnect="cancel")
    path = await first_of(http, way.format(thread=thread), body)
    run = await over(http, path.rpartition("/")[2])
    assert (run["status"], run["phase"]) == ("interrupted", "cancelled")
    assert run["cancel_reason"] == "the client disconnected"
    [told] = hooked.told(run["run_id"])
    assert told["error_type"] == "CancelledError"


@pytest.mark.parametrize("choice", ["cancel", "continue"])
async def test_one_who_waits_and_goes_away_does_the_same(http, thread, choice):
    body = asked(on_disconnect=choice)
    with pytest.raises(httpx.ReadTimeout):
        await http.post(f"/threads/{thread}/runs/wait", json=body, timeout=0.5)
    [run] = (await http.get(f"/threads/{thread}/runs")).json()
    if choice == "continue":
        await asyncio.sleep(0.3)
        assert await status(http, f"/threads/{thread}/runs/{run['run_id']}") == "running"
        await http.post(f"/threads/{thread}/runs/{run['run_id']}/cancel?wait=1")
    ended = await over(http, run["run_id"])
    assert ended["phase"] == "cancelled"


async def test_one_who_joins_and_leaves_ends_the_run_only_if_that_was_asked_for(http, thread):
    run = (await http.post(f"/threads/{thread}/runs", json=asked())).json()
    path = f"/threads/{thread}/runs/{run['run_id']}"
    for way in ("join", "stream"):
        with pytest.raises(httpx.ReadTimeout):
            async with http.stream("GET", f"{path}/{way}", timeout=0.4) as answer:
                await answer.aread()
    assert await status(http, path) == "running"
    with pytest.raises(httpx.ReadTimeout):
        await http.get(f"{path}/join?cancel_on_disconnect=true", timeout=0.4)
    assert (await over(http, run["run_id"]))["phase"] == "cancelled"


async def test_one_who_comes_back_gets_exactly_what_it_has_not_seen(http, thread):
    body = {"assistant_id": "flood", "input": {"events": 30}, "stream_mode": ["custom", "values"]}
    whole = await streamed(http, f"/threads/{thread}/runs/stream", body)
    [run] = (await http.get(f"/threads/{thread}/runs")).json()
    path = f"/threads/{thread}/runs/{run['run_id']}/stream"
    assert whole[-1][1] == "values"
    for place, (number, _, _) in enumerate(whole):
        rest = await streamed(http, path, headers={"Last-Event-ID": number})
        assert rest == whole[place + 1 :]


async def test_one_who_comes_back_while_the_run_goes_on_misses_nothing(http, thread):
    body = quick("slow", stream_mode=["values", "updates"])
    body["input"]["seconds"] = 0.6
    seen = []
    async with http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as answer:
        path = answer.headers["location"]
        async for each in frames(answer):
            seen.append(each)
            if each[1] == "updates":
                break
    seen += await streamed(http, path, headers={"Last-Event-ID": seen[-1][0]})
    again = await streamed(http, path, headers={"Last-Event-ID": "-1"})
    assert seen == again
    names = [name for _, name, _ in seen]
    assert names == ["metadata", "values", "updates", "values", "updates", "values"]


async def test_the_event_number_of_another_server_is_none(http, thread):
    run = (await http.post(f"/threads/{thread}/runs", json=quick())).json()
    await over(http, run["run_id"])
    path = f"/threads/{thread}/runs/{run['run_id']}/stream"
    whole = await streamed(http, path)
    for number in ("x", "1.5", "-7", "1789-0", "9" * 40):
        assert await streamed(http, path, headers={"Last-Event-ID": number}) == whole
    rest = await streamed(http, path, headers={"Last-Event-ID": "999999"})
    assert rest == []


async def test_cancelling_is_answered_at_once_and_cancelling_again_changes_nothing(
    http, hooked, thread
):
    run = (await http.post(f"/threads/{thread}/runs", json=asked())).json()
    path = f"/threads/{thread}/runs/{run['run_id']}"
    answers = await asyncio.gather(*(http.post(f"{path}/cancel") for _ in range(5)))
    assert {answer.status_code for answer in answers} == {202}
    assert (await over(http, run["run_id"]))["phase"] == "cancelled"
    assert (await http.post(f"{path}/cancel")).status_code == 202
    assert [told["error_type"] for told in hooked.told(run["run_id"])] == ["CancelledError"]
    assert await status(http, f"/threads/{thread}") in ("idle", "interrupted")


@pytest.mark.parametrize(
    ("cleanup", "shown"), [(0.3, "interrupted"), (5, "running")], ids=["quick", "slow"]
)
async def test_a_cancelled_run_is_over_when_that_is_answered_unless_it_takes_long(
    http, thread, cleanup, shown
):
    body = asked()
    body["input"]["cleanup_seconds"] = cleanup
    path = await first_of(http, f"/threads/{thread}/runs/stream", body)

    async def rests():
        return (await http.get(f"/threads/{thread}/state")).json()["next"] == ["rest"]

    await eventually(rests)
    async with asyncio.timeout(4):
        assert (await http.post(f"{path}/cancel")).status_code == 202
        assert await status(http, path) == shown
    await over(http, path.rpartition("/")[2])


async def test_a_run_that_is_over_cannot_be_cancelled(http, thread):
    run = (await http.post(f"/threads/{thread}/runs", json=quick())).json()
    await over(http, run["run_id"])
    answer = await http.post(f"/threads/{thread}/runs/{run['run_id']}/cancel")
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")


async def test_a_stream_of_a_run_that_is_cancelled_ends(http, thread):
    async with http.stream("POST", f"/threads/{thread}/runs/stream", json=asked()) as answer:
        names = []
        async for _, name, _data in frames(answer):
            if not names:
                await http.post(f"{answer.headers['content-location']}/cancel")
            names.append(name)
    assert "error" not in names


async def test_one_who_waits_for_a_queued_run_that_is_rolled_back_is_told(http, thread):
    await http.post(f"/threads/{thread}/runs", json=asked())
    waiter = asyncio.create_task(http.post(f"/threads/{thread}/runs/wait", json=quick()))

    async def queued():
        found = (await http.get(f"/threads/{thread}/runs")).json()
        return found[0]["run_id"] if len(found) == 2 else None

    run_id = await eventually(queued)
    await http.post(f"/threads/{thread}/runs/{run_id}/cancel?action=rollback&wait=1")
    answer = await waiter
    assert answer.status_code == 200
    assert answer.json()["__error__"]["error"] == "CancelledError"
    await http.post("/runs/cancel", json={"status": "all"})


async def test_an_answer_that_is_given_twice_runs_once(http, thread):
    first = await http.post(f"/threads/{thread}/runs/wait", json=quick("asking"))
    assert first.json()["__interrupt__"]
    body = {"assistant_id": "asking", "command": {"resume": "yes"}}
    answers = await asyncio.gather(
        *(http.post(f"/threads/{thread}/runs/wait", json=body) for _ in range(2))
    )
    assert {answer.status_code for answer in answers} == {200}
    state = (await http.get(f"/threads/{thread}/state")).json()
    assert (state["values"]["said"], state["next"]) == (["yes"], [])


async def test_an_answer_that_is_sent_again_with_its_key_is_one_run(http, thread):
    await http.post(f"/threads/{thread}/runs/wait", json=quick("asking"))
    body = {"assistant_id": "asking", "command": {"resume": "yes"}}
    headers = {"Idempotency-Key": f"answer-{thread}"}
    answers = await asyncio.gather(
        *(http.post(f"/threads/{thread}/runs/wait", json=body, headers=headers) for _ in range(4))
    )
    assert [answer.json()["said"] for answer in answers] == [["yes"]] * 4
    assert len((await http.get(f"/threads/{thread}/runs")).json()) == 2


@pytest.mark.parametrize("way", ["", "/wait", "/stream"])
async def test_the_same_request_with_a_key_joins_the_same_run(http, thread, way):
    headers = {"Idempotency-Key": f"same-{thread}"}
    path = f"/threads/{thread}/runs{way}"
    answers = [await http.post(path, json=quick(), headers=headers) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}
    if way == "":
        assert len({answer.json()["run_id"] for answer in answers}) == 1
    else:
        assert len({answer.text for answer in answers}) == 1
    assert len((await http.get(f"/threads/{thread}/runs")).json()) == 1
    other = await http.post(path, json=quick("failing"), headers=headers)
    assert other.status_code == 422


async def test_a_key_whose_run_was_deleted_says_so(http, thread):
    headers = {"Idempotency-Key": f"gone-{thread}"}
    path = f"/threads/{thread}/runs"
    run = (await http.post(path, json=quick(), headers=headers)).json()
    await over(http, run["run_id"])
    assert (await http.delete(f"{path}/{run['run_id']}")).status_code == 204
    answer = await http.post(path, json=quick(), headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
