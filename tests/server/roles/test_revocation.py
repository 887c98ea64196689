"""A key that is revoked takes with it what it has open, on every server."""

import asyncio
import json
import uuid

import httpx
import pytest
import websockets
from tests.processes import until

CALL = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
PATIENCE = 60


@pytest.fixture
def two(request, start_keyed, new_database):
    """Two servers on one PostgreSQL."""
    database = new_database("postgres")
    return [start_keyed(database) for _ in range(2)]


def start_run(keyed, caller):
    """Start a run that lasts: its thread's id and its own."""
    with keyed.client(caller) as client:
        thread = client.post("/threads", json={}).json()["thread_id"]
        body = {"assistant_id": "slow", "input": {}}
        run = client.post(f"/threads/{thread}/runs", json=body).json()["run_id"]
        until(lambda: client.get(f"/runs/{run}").json()["status"] == "running", "the run")
    return thread, run


class Opened:
    """Requests of one key that are open, each of which says how it ended."""

    def __init__(self, keyed, caller, thread, run):
        self.keyed = keyed
        self.headers = keyed.headers(caller)
        self.open = set()
        at = f"/threads/{thread}/runs/{run}"
        cancelled = {"assistant_id": "slow", "input": {}, "on_disconnect": "cancel"}
        wanted = {"channels": ["lifecycle"], "since": 0}
        self.requests = {
            "events": ("GET", "/events", None),
            "run's events": ("GET", f"/runs/{run}/events", None),
            "join stream": ("GET", f"{at}/stream", None),
            "thread stream": ("GET", f"/threads/{thread}/stream", None),
            "protocol": ("POST", f"/threads/{thread}/stream/events", wanted),
            "run stream": ("POST", "/runs/stream", cancelled),
            "gateway": ("POST", "/gateway/v1/chat/completions", CALL),
        }
        self.join = f"{at}/join"
        self.socket = f"/threads/{thread}/stream/events"

    async def stream(self, client, name):
        """Read a stream to its end; give its last event."""
        method, path, body = self.requests[name]
        last = ""
        async with client.stream(method, path, json=body) as answer:
            assert answer.status_code == 200, await answer.aread()
            self.open.add(name)
            async for line in answer.aiter_lines():
                last = line or last
        return last

    async def wait(self, client):
        self.open.add("join")
        return (await client.get(self.join)).json()

    async def listen(self):
        url = self.keyed.url.replace("http", "ws") + self.socket
        async with websockets.connect(url, additional_headers=self.headers) as socket:
            params = {"channels": ["lifecycle"]}
            told = {"id": 1, "method": "subscription.subscribe", "params": params}
            await socket.send(json.dumps(told))
            self.open.add("socket")
            await socket.wait_closed()
            return socket.close_code

    async def ends(self, revoke):
        """Open everything, revoke the key, and give how each ended."""
        client = httpx.AsyncClient(
            base_url=self.keyed.url, headers=self.headers, timeout=httpx.Timeout(PATIENCE)
        )
        async with client, asyncio.timeout(2 * PATIENCE):
            tasks = {name: asyncio.create_task(self.stream(client, name)) for name in self.requests}
            tasks["join"] = asyncio.create_task(self.wait(client))
            tasks["socket"] = asyncio.create_task(self.listen())
            while len(self.open) < len(tasks):
                await asyncio.sleep(0.05)
                assert not [task.result() for task in tasks.values() if task.done()]
            await asyncio.sleep(1.2)  # a wait that is over within a second is watched by nobody
            await asyncio.to_thread(revoke)
            return {name: await task for name, task in tasks.items()}


def check(keyed, ends):
    assert ends.pop("socket") == 4401
    assert ends.pop("join")["__error__"]["error"] == "unauthenticated"  # it has begun
    assert "hello" in ends.pop("gateway")  # which ends in the middle of its answer
    for name, last in ends.items():
        error = json.loads(last.removeprefix("data: "))
        assert error["error"] == "unauthenticated", name
        assert "revoked" in error["message"], name
    assert "ASGI" not in keyed.served.output()


def test_requests_of_a_key_end_when_it_is_revoked(keyed):
    keyed.add_key("leaver", "member", "ann")
    thread, run = start_run(keyed, "member")
    ends = asyncio.run(Opened(keyed, "leaver", thread, run).ends(lambda: keyed.revoke("leaver")))
    check(keyed, ends)
    with keyed.client("member") as member:
        assert member.get(f"/runs/{run}").json()["status"] == "running"
        slow = member.get("/runs?agent_name=slow&limit=5").json()
        other = next(each["run_id"] for each in slow if each["run_id"] != run)
        until(lambda: member.get(f"/runs/{other}").json()["status"] == "interrupted", "the cancel")
        member.post(f"/runs/{run}/cancel?wait=true")


def test_requests_end_on_another_server_too_and_those_of_other_keys_go_on(two):
    here, there = two
    for caller, owner in (("leaver", "ann"), ("member", "ann")):
        here.add_key(caller, "member", owner)
    there.tokens |= here.tokens
    thread, run = start_run(here, "member")

    async def both():
        headers = there.headers("member")
        client = httpx.AsyncClient(base_url=there.url, headers=headers, timeout=PATIENCE)
        async with client, client.stream("GET", f"/runs/{run}/events") as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            opened = Opened(there, "leaver", thread, run)
            check(there, await opened.ends(lambda: here.revoke("leaver")))
            await client.post(f"/runs/{run}/cancel")
            return [line async for line in lines]

    assert "event: end" in asyncio.run(both())


def test_a_poll_of_a_runner_ends_with_its_key(keyed):
    keyed.add_key("lost", "runner", "rail")
    with keyed.client("lost") as runner:
        told = {"name": "lost", "kinds": ["graph"], "agents": [], "tags": ["nowhere"]}
        registered = runner.post("/runner/register", json=told)
        assert registered.status_code == 200, registered.text
        runner_id = registered.json()["runner_id"]

        async def poll():
            headers = {**keyed.headers("lost"), "x-runner-id": runner_id}
            async with httpx.AsyncClient(base_url=keyed.url, headers=headers) as client:
                polling = asyncio.create_task(client.get("/runner/runs", timeout=PATIENCE))
                await asyncio.sleep(0.5)
                await asyncio.to_thread(keyed.revoke, "lost")
                return (await polling).status_code

        assert asyncio.run(poll()) == 401
        beat = f"/runner/runs/{uuid.uuid4()}/heartbeat?runner_id={runner_id}"
        assert runner.post(beat, json={"attempt": 1}).status_code == 401
