"""A run that a hook refuses: the client gets its status on every way in, and nothing has run."""

import asyncio
import json
import time

import pytest
from langgraph_sdk import get_client

from .support import eventually, over

REFUSED = {"configurable": {"plan": "none"}}


def body(agent="echo", **more):
    return {"assistant_id": agent, "input": {"text": "x"}, "config": REFUSED, **more}


WAYS = {
    "create": ("/threads/{thread}/runs", body()),
    "create on a new thread": (
        "/threads/5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b77/runs",
        body(if_not_exists="create"),
    ),
    "create for later": ("/threads/{thread}/runs", body(after_seconds=60)),
    "stream": ("/threads/{thread}/runs/stream", body(stream_mode=["values"])),
    "wait": ("/threads/{thread}/runs/wait", body()),
    "stateless create": ("/runs", body()),
    "stateless stream": ("/runs/stream", body()),
    "stateless wait": ("/runs/wait", body()),
    "batch": ("/runs/batch", [body(config={}), body()]),
    "commands": (
        "/threads/{thread}/commands",
        {
            "id": 7,
            "method": "run.start",
            "params": {"assistant_id": "echo", "input": {"text": "x"}, "config": REFUSED},
        },
    ),
}


async def check_audit(http, answer, thread):
    """The refusal names the run, which is kept as refused, and the thread is as it was."""
    detail = answer.json()["info"]
    assert detail["blocked_by"] == "validate_subscription"
    run = (await http.get(f"/runs/{detail['run_id']}")).json()
    assert (run["status"], run["phase"]) == ("error", "refused")
    assert run["block_reason"] == "Active subscription required"
    records = (await http.get(f"/runs/{detail['run_id']}/hooks")).json()
    assert [each["event_type"] for each in records] == ["hook_start", "hook_blocked"]
    now = (await http.get(f"/threads/{thread}")).json()
    assert now["status"] in ("idle", "interrupted")
    return run


@pytest.mark.parametrize("way", WAYS)
async def test_the_client_gets_402_and_a_json_body_and_the_run_is_in_the_audit(
    http, hooked, thread, way
):
    path, asked = WAYS[way]
    answer = await http.post(path.format(thread=thread), json=asked)
    assert answer.status_code == 402
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert told["message"] == "Active subscription required"
    if way == "commands":
        assert (told["type"], told["id"], told["error"]) == ("error", 7, "permission_denied")
    else:
        assert told["error"] == "refused"
    run = await check_audit(http, answer, thread)
    assert hooked.told(run["run_id"]) == []
    assert (await http.get(f"/threads/{thread}/runs?status=success")).json() == []


@pytest.mark.parametrize("way", WAYS)
async def test_the_client_is_told_when_to_ask_again(http, hooked, thread, way):
    path, asked = WAYS[way]
    written = json.dumps(asked).replace('"none"', '"later"')
    answer = await http.post(path.format(thread=thread), json=json.loads(written))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "90")
    assert answer.json()["message"] == "Come back later"


@pytest.mark.parametrize("way", ["wait", "stream", "stateless create", "commands"])
async def test_a_refusal_with_a_status_of_success_is_none(http, hooked, thread, way):
    path, asked = WAYS[way]
    written = json.dumps(asked).replace('"none"', '"odd"')
    answer = await http.post(path.format(thread=thread), json=json.loads(written))
    assert answer.status_code == 500
    assert "from 400 to 599" in answer.json()["message"]
    assert (await http.get(f"/threads/{thread}/runs?status=success")).json() == []


@pytest.fixture
async def waiting(http, thread):
    """A thread that waits for an answer."""
    asked = {"assistant_id": "asking", "input": {"text": "x"}}
    answer = await http.post(f"/threads/{thread}/runs/wait", json=asked)
    return thread, answer.json()["__interrupt__"][0]["id"]


async def test_an_answer_to_an_interrupt_is_refused_too(http, waiting):
    thread, _ = waiting
    asked = {"assistant_id": "asking", "command": {"resume": "yes"}, "config": REFUSED}
    for way in ("", "/wait", "/stream"):
        answer = await http.post(f"/threads/{thread}/runs{way}", json=asked)
        assert answer.status_code == 402
        await check_audit(http, answer, thread)
    assert (await http.get(f"/threads/{thread}")).json()["status"] == "interrupted"


async def test_an_answer_by_command_is_refused_too(http, waiting):
    thread, interrupt = waiting
    params = {"interrupt_id": interrupt, "response": "yes", "config": REFUSED}
    command = {"id": 3, "method": "input.respond", "params": params}
    answer = await http.post(f"/threads/{thread}/commands", json=command)
    assert (answer.status_code, answer.json()["id"]) == (402, 3)
    await check_audit(http, answer, thread)
    params["config"] = {}
    answer = await http.post(f"/threads/{thread}/commands", json=command)
    assert answer.status_code == 200
    run = await over(http, answer.json()["result"]["run_id"])
    assert (run["status"], run["output"]["said"]) == ("success", ["yes"])


async def test_the_official_client_sees_the_status(hooked):
    async with get_client(url=hooked.url, api_key=None) as client:
        thread = (await client.threads.create())["thread_id"]
        with pytest.raises(Exception, match="subscription") as refused:
            await client.runs.create(thread, "echo", input={"text": "x"}, config=REFUSED)
    assert refused.value.response.status_code == 402


async def test_a_cron_can_be_made_though_its_runs_would_be_refused_now(http):
    """What becomes of them then is told by the tests of the clock: it is the cron's last error."""
    asked = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": {}, "config": REFUSED}
    answer = await http.post("/runs/crons", json=asked)
    assert (answer.status_code, answer.json()["last_error"]) == (200, None)
    found = await http.get(f"/runs/crons/{answer.json()['cron_id']}")
    assert found.json()["payload"]["config"] == REFUSED
    await http.delete(f"/runs/crons/{answer.json()['cron_id']}")


async def test_a_gate_that_hangs_answers_504_within_its_timeout(http, thread):
    asked = body(config={"configurable": {"plan": "slow"}})
    began = time.monotonic()
    answers = await asyncio.gather(
        *(http.post(f"/threads/{thread}/runs{way}", json=asked) for way in ("", "/wait", "/stream"))
    )
    assert {answer.status_code for answer in answers} == {504}
    assert time.monotonic() - began < 10
    assert "validate_subscription" in answers[0].json()["message"]
    assert (await http.get(f"/threads/{thread}")).json()["status"] == "idle"


async def test_a_gate_that_crashes_refuses_every_time_and_does_not_show_why(http, thread):
    asked = body(config={"configurable": {"plan": "broken"}})
    for _ in range(3):
        answer = await http.post(f"/threads/{thread}/runs/wait", json=asked)
        assert answer.status_code == 500
        assert answer.json()["error"] == "refused"
    found = (await http.get(f"/threads/{thread}/runs")).json()
    assert [run["phase"] for run in found] == ["refused"] * 3


async def test_nothing_else_is_held_up_while_a_gate_thinks(http, thread):
    slow = asyncio.create_task(
        http.post("/runs", json=body(config={"configurable": {"plan": "slow"}}))
    )
    await asyncio.sleep(0.1)
    answer = await http.post("/runs/wait", json={"assistant_id": "echo", "input": {"text": "x"}})
    assert (answer.json()["said"], slow.done()) == (["x"], False)
    assert (await slow).status_code == 504


async def test_a_refusal_may_be_asked_again_with_the_same_key(http, thread):
    """What was refused was not made: the next try is asked about again, and may pass."""
    headers = {"Idempotency-Key": f"again-{thread}"}
    path = f"/threads/{thread}/runs"
    for _ in range(2):
        assert (await http.post(path, json=body(), headers=headers)).status_code == 402
    allowed = body(config={})
    answer = await http.post(path, json=allowed, headers=headers)
    assert answer.status_code == 200

    async def ended():
        return (await http.get(f"{path}/{answer.json()['run_id']}")).json()["status"] == "success"

    await eventually(ended)
