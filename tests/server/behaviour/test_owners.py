"""Whose runs are whose, where an auth handler decides: also for commands, keys and hooks."""

import httpx
import pytest

from .support import over

COMMANDS = {
    "state.get": {"namespace": []},
    "state.listCheckpoints": {},
    "agent.getTree": {},
    "input.respond": {"interrupt_id": "x", "response": "yes"},
    "state.fork": {"checkpoint_id": "x"},
    "run.start": {"assistant_id": "echo", "input": {"text": "mine"}},
}


@pytest.fixture
def guarded(hooked_servers):
    return hooked_servers("sqlite", "guarded.yaml")


@pytest.fixture
async def ada(guarded):
    async with httpx.AsyncClient(
        base_url=guarded.url, headers={"x-name": "ada"}, timeout=30
    ) as client:
        yield client


@pytest.fixture
async def bob(guarded):
    async with httpx.AsyncClient(
        base_url=guarded.url, headers={"x-name": "bob"}, timeout=30
    ) as client:
        yield client


@pytest.fixture
async def hers(ada):
    """A thread of Ada's that waits for an answer, and its run."""
    thread = (await ada.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "asking", "input": {"text": "hers"}}
    run = (await ada.post(f"/threads/{thread}/runs", json=body)).json()
    await over(ada, run["run_id"])
    return thread, run["run_id"]


@pytest.mark.parametrize("method", COMMANDS)
async def test_a_command_to_somebody_elses_thread_tells_and_does_nothing(ada, bob, hers, method):
    thread, run = hers
    command = {"id": 1, "method": method, "params": COMMANDS[method]}
    answer = await bob.post(f"/threads/{thread}/commands", json=command)
    assert answer.json()["type"] == "error"
    assert "hers" not in answer.text
    command["params"] = {**COMMANDS[method], "run_id": run}
    answer = await bob.post(f"/threads/{thread}/commands", json=command)
    assert answer.json()["type"] == "error"
    assert len((await ada.get(f"/threads/{thread}/runs")).json()) == 1


async def test_the_same_commands_work_for_who_owns_the_thread(ada, hers):
    thread, _ = hers
    for method in ("state.get", "state.listCheckpoints", "agent.getTree"):
        command = {"id": 1, "method": method, "params": COMMANDS[method]}
        answer = await ada.post(f"/threads/{thread}/commands", json=command)
        assert answer.json()["type"] == "success", answer.text


async def test_nothing_of_somebody_elses_run_is_shown_or_changed(ada, bob, hers):
    thread, run = hers
    at = f"/threads/{thread}/runs/{run}"
    for path in (
        f"/runs/{run}",
        f"/runs/{run}/hooks",
        f"/runs/{run}/events",
        f"/threads/{thread}",
        f"/threads/{thread}/runs",
        f"/threads/{thread}/state",
        f"/threads/{thread}/stream",
        at,
        f"{at}/join",
        f"{at}/stream",
    ):
        assert (await bob.get(path)).status_code == 404, path
    body = {"assistant_id": "echo", "input": {}, "if_not_exists": "create"}
    for way in ("", "/wait", "/stream"):
        assert (await bob.post(f"/threads/{thread}/runs{way}", json=body)).status_code == 404
    assert (await bob.post(f"{at}/cancel")).status_code == 404
    assert (await bob.delete(at)).status_code == 404
    listed = (await bob.get("/runs")).json()
    assert run not in [each["run_id"] for each in listed]
    assert (await ada.get(at)).json()["status"] == "interrupted"


async def test_a_key_belongs_to_who_used_it(ada, bob):
    headers = {"Idempotency-Key": "the same"}
    body = {"assistant_id": "echo", "input": {"text": "x"}}
    runs = [
        (await each.post("/runs", json=body, headers=headers)).json()["run_id"]
        for each in (ada, bob, ada)
    ]
    assert runs[0] == runs[2] != runs[1]


async def test_hooks_are_told_who_asked(guarded, ada, bob):
    for client, name in ((ada, "ada"), (bob, "bob")):
        body = {"assistant_id": "echo", "input": {"text": "x"}}
        run = (await client.post("/runs", json=body)).json()
        await over(client, run["run_id"])
        assert [told["user"] for told in guarded.told(run["run_id"])] == [name]


async def test_nobody_in_particular_is_let_in(guarded):
    async with httpx.AsyncClient(base_url=guarded.url) as client:
        assert (await client.get("/runs")).status_code == 401
        assert (await client.post("/runs", json={"assistant_id": "echo"})).status_code == 401
