"""A thread that is somebody else's by the time it has a run tells nothing to who waited for it."""

import asyncio
import contextlib
import json
import uuid

import httpx
import websockets

WANTED = {"channels": ["lifecycle", "values"], "since": 0}


async def squat(keyed, caller, thread, ready):
    """Listen to a thread that is not there yet; give what is told until the stream ends."""
    path = f"/threads/{thread}/stream/events"
    client = httpx.AsyncClient(base_url=keyed.url, headers=keyed.headers(caller), timeout=60)
    async with client, client.stream("POST", path, json=WANTED) as answer:
        assert answer.status_code == 200
        ready.set()
        return [line async for line in answer.aiter_lines() if line.startswith("data")]


async def squat_by_socket(keyed, caller, thread, ready):
    url = f"{keyed.url.replace('http', 'ws')}/threads/{thread}/stream/events"
    told = {"id": 1, "method": "subscription.subscribe", "params": WANTED}
    async with websockets.connect(url, additional_headers=keyed.headers(caller)) as socket:
        await socket.send(json.dumps(told))
        assert json.loads(await socket.recv())["type"] == "success"
        ready.set()
        told = []
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                told.append(await socket.recv())
        assert socket.close_code == 4404
        return told


def test_who_listened_to_a_thread_before_it_was_made_hears_nothing_of_its_owner(keyed):
    thread = str(uuid.uuid4())

    async def listen():
        ready = [asyncio.Event() for _ in range(2)]
        ways = (squat, squat_by_socket)
        tasks = [
            asyncio.create_task(way(keyed, "other", thread, event))
            for way, event in zip(ways, ready, strict=True)
        ]
        await asyncio.gather(*(event.wait() for event in ready))
        headers = keyed.headers("member")
        async with httpx.AsyncClient(base_url=keyed.url, headers=headers, timeout=60) as member:
            await member.post("/threads", json={"thread_id": thread})
            body = {"assistant_id": "echo", "input": {"text": "for ann alone"}}
            assert (await member.post(f"/threads/{thread}/runs/wait", json=body)).is_success
        async with asyncio.timeout(60):
            return await asyncio.gather(*tasks)

    assert asyncio.run(listen()) == [[], []]
