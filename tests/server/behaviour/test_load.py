"""Much at once: clear behaviour, and nothing lost."""

import asyncio
import json
import uuid

import httpx
import pytest

from .support import eventually, frames, over, streamed


def wide(hooked):
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=hooked.url, timeout=60, limits=limits)


async def test_two_hundred_streams_at_once_all_come_to_their_end(hooked):
    body = {"assistant_id": "slow", "input": {"text": "x", "seconds": 1}, "stream_mode": "values"}

    async def one(http):
        found = await streamed(http, "/runs/stream", body)
        return found[-1][2]["said"]

    async with wide(hooked) as http:
        ends = await asyncio.gather(*(one(http) for _ in range(200)))
    assert ends == [["x", "rested"]] * 200


async def test_two_hundred_streams_of_one_run_all_see_the_same(hooked):
    body = {"assistant_id": "slow", "input": {"text": "x", "seconds": 1}, "if_not_exists": "create"}
    async with wide(hooked) as http:
        run = (await http.post(f"/threads/{uuid.uuid4()}/runs", json=body)).json()
        path = f"/threads/{run['thread_id']}/runs/{run['run_id']}/stream"
        seen = await asyncio.gather(*(streamed(http, path) for _ in range(200)))
    assert all(each == seen[0] for each in seen)
    assert seen[0][-1][1] == "values"


async def test_two_hundred_runs_queue_on_one_thread_and_run_in_order(hooked, thread):
    path = f"/threads/{thread}/runs"
    body = {"assistant_id": "slow", "input": {"text": "first", "seconds": 0.5}}
    async with wide(hooked) as http:
        await http.post(path, json=body)
        bodies = [{"assistant_id": "echo", "input": {"text": str(n)}} for n in range(200)]
        answers = await asyncio.gather(*(http.post(path, json=each) for each in bodies))
        assert {answer.status_code for answer in answers} == {200}

        async def ended():
            return (await http.get(f"/threads/{thread}")).json()["status"] == "idle"

        await eventually(ended, "the last of 200", seconds=60)
        runs = (await http.get(f"{path}?limit=1000")).json()
        said = (await http.get(f"/threads/{thread}")).json()["values"]["said"]
    order = [run["kwargs"]["input"]["text"] for run in reversed(runs)]
    assert len(order) == 201
    assert said == ["first", "rested", *order[1:]]


async def test_five_megabytes_go_in_and_come_out_again(http, thread):
    text = "x" * 5_000_000
    body = {"assistant_id": "echo", "input": {"text": text}}
    answer = await http.post(f"/threads/{thread}/runs/wait", json=body)
    assert answer.json()["said"] == [text]
    assert len((await http.get(f"/threads/{thread}/state")).json()["values"]["text"]) == 5_000_000


async def test_a_body_above_the_limit_is_refused_and_the_server_goes_on(http, thread):
    path = f"/threads/{thread}/runs"
    text = "x" * 9_000_000
    answer = await http.post(path, json={"assistant_id": "echo", "input": {"text": text}})
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
    assert "limits.body_bytes" in answer.json()["message"]
    assert (await http.get(path)).json() == []


async def test_a_body_of_unknown_length_above_the_limit_is_refused_too(http, thread):
    async def pieces():
        yield b'{"assistant_id": "echo", "input": {"text": "'
        for _ in range(100):
            yield b"x" * 100_000
        yield b'"}}'

    headers = {"content-type": "application/json"}
    path = f"/threads/{thread}/runs"
    answer = await http.post(path, content=pieces(), headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")


async def test_fifty_thousand_events_arrive_in_order_and_once(http):
    body = {"assistant_id": "flood", "input": {"events": 50_000}, "stream_mode": ["custom"]}
    seen = []
    async with http.stream("POST", "/runs/stream", json=body) as answer:
        async for _, name, data in frames(answer):
            if name == "custom":
                seen.append(data["n"])
    assert seen == [*range(50_000)]


async def test_a_client_that_reads_slowly_still_gets_all(http):
    body = {"assistant_id": "flood", "input": {"events": 20_000}, "stream_mode": ["custom"]}
    seen = []
    async with http.stream("POST", "/runs/stream", json=body) as answer:
        await asyncio.sleep(2)
        async for _, name, data in frames(answer):
            if name == "custom":
                seen.append(data["n"])
    assert seen == [*range(20_000)]


async def test_a_graph_that_raises_is_an_error_to_every_kind_of_client(http, thread):
    body = {"assistant_id": "failing", "input": {"text": "no luck"}}
    path = f"/threads/{thread}/runs"
    waited = (await http.post(f"{path}/wait", json=body)).json()
    assert waited == {"__error__": {"error": "ValueError", "message": "no luck"}}
    told = await streamed(http, f"{path}/stream", body)
    assert ("error", {"error": "ValueError", "message": "no luck"}) in [each[1:] for each in told]
    run = (await http.post(path, json=body)).json()
    ended = await over(http, run["run_id"])
    assert (ended["status"], ended["error"]) == ("error", "no luck")


async def test_a_graph_that_hangs_ends_as_a_timeout(http, thread):
    body = {"assistant_id": "hanging", "input": {"text": "x", "seconds": 60}}
    waited = (await http.post(f"/threads/{thread}/runs/wait", json=body)).json()
    assert waited["__error__"]["error"] == "TimeoutError"
    [run] = (await http.get(f"/threads/{thread}/runs")).json()
    assert (run["status"], run["phase"]) == ("timeout", "timeout")


@pytest.fixture
def narrow(hooked_servers):
    """A server that lets few streams be open."""
    return hooked_servers("sqlite", "narrow.yaml")


async def test_too_many_streams_are_refused_before_anything_is_started(narrow):
    body = {"assistant_id": "slow", "input": {"text": "x", "seconds": 1.5}}
    async with wide(narrow) as http:
        held = [asyncio.create_task(streamed(http, "/runs/stream", body)) for _ in range(3)]

        async def full():
            return len((await http.get("/runs?live=true")).json()) == 3

        await eventually(full)
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        for way in ("stream", "wait"):
            answer = await http.post(f"/threads/{thread}/runs/{way}", json=body)
            assert (answer.status_code, answer.json()["error"]) == (429, "too_many")
            answer = await http.post(f"/runs/{way}", json=body)
            assert answer.status_code == 429
        assert len((await http.get("/runs?live=true")).json()) == 3
        assert (await http.post("/runs", json=body)).status_code == 200
        for each in held:
            assert (await each)[-1][1] == "values"
        done = await http.post("/runs/wait", json=body | {"input": {"text": "x"}})
        assert json.loads(done.text)["said"] == ["x", "rested"]
