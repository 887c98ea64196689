"""What hooks are told when a run is over: once, and with all that belongs to it."""

from .support import eventually, over

USED = {"looker-1": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}
ASKED = {"messages": [{"role": "user", "content": "hi"}]}
CONFIG = {"configurable": {"plan": "gold"}, "tags": ["t"]}


async def ended(http, hooked, thread, agent, input, **more):
    """Ask for a run, and give what a hook was told of its end."""
    asked = {"assistant_id": agent, "input": input, "config": CONFIG, **more}
    run = (await http.post(f"/threads/{thread}/runs", json=asked)).json()
    await over(http, run["run_id"])
    [told] = hooked.told(run["run_id"])
    assert (told["thread_id"], told["graph_id"]) == (thread, agent)
    assert (told["input"], told["user"]) == (input, "anonymous")
    assert told["config"]["configurable"]["plan"] == "gold"
    return told


async def test_after_run_is_told_of_a_success(http, hooked, thread):
    told = await ended(http, hooked, thread, "talking", ASKED)
    assert (told["event"], told["status"], told["usage"]) == ("after_run", "success", USED)
    assert told["output"]["messages"][0]["content"] == "hi"


async def test_after_run_is_told_of_an_interrupt_and_of_the_run_that_goes_on(http, hooked, thread):
    told = await ended(http, hooked, thread, "asking", {"text": "x"})
    assert (told["event"], told["status"]) == ("after_run", "interrupted")
    assert told["output"]["__interrupt__"][0]["value"] == {"question": "go on?"}
    asked = {"assistant_id": "asking", "command": {"resume": "yes"}}
    run = (await http.post(f"/threads/{thread}/runs", json=asked)).json()
    await over(http, run["run_id"])
    [told] = hooked.told(run["run_id"])
    assert (told["status"], told["output"]["said"]) == ("success", ["yes"])
    assert told["input"] == {"resume": "yes"}


async def test_on_run_error_is_told_of_an_error(http, hooked, thread):
    told = await ended(http, hooked, thread, "failing", {"text": "no luck"})
    assert (told["event"], told["error"], told["error_type"]) == (
        "on_run_error",
        "no luck",
        "ValueError",
    )


async def test_on_run_error_is_told_what_was_used_before_the_error(http, hooked, thread):
    told = await ended(http, hooked, thread, "talk_and_fail", ASKED)
    assert (told["error_type"], told["usage"]) == ("ValueError", USED)


async def test_on_run_error_is_told_of_a_timeout(http, hooked, thread):
    told = await ended(http, hooked, thread, "hanging", {"text": "x", "seconds": 60})
    assert (told["event"], told["error_type"]) == ("on_run_error", "TimeoutError")
    assert (await http.get(f"/threads/{thread}")).json()["status"] == "error"


async def test_on_run_error_is_told_of_a_cancel_and_what_was_used(http, hooked, thread):
    asked = {"assistant_id": "talk_and_linger", "input": ASKED}
    run = (await http.post(f"/threads/{thread}/runs", json=asked)).json()

    async def talked():
        state = (await http.get(f"/threads/{thread}/state")).json()
        return state["next"] == ["linger"]

    await eventually(talked)
    await http.post(f"/threads/{thread}/runs/{run['run_id']}/cancel")
    await over(http, run["run_id"])
    [told] = hooked.told(run["run_id"])
    assert (told["event"], told["error_type"]) == ("on_run_error", "CancelledError")
    assert told["usage"] == USED


async def test_of_many_runs_each_is_told_exactly_once(http, hooked):
    asked = [{"assistant_id": "echo", "input": {"text": str(n)}} for n in range(50)]
    runs = (await http.post("/runs/batch", json=asked)).json()
    for run in runs:
        await over(http, run["run_id"])
        assert [told["event"] for told in hooked.told(run["run_id"])] == ["after_run"]


async def test_every_hook_of_a_run_is_in_its_records(http, thread):
    asked = {"assistant_id": "echo", "input": {"text": "x"}}
    run = (await http.post(f"/threads/{thread}/runs", json=asked)).json()
    await over(http, run["run_id"])

    async def recorded():
        found = (await http.get(f"/runs/{run['run_id']}/hooks")).json()
        return found if len(found) >= 4 else None

    found = [(each["point"], each["event_type"]) for each in await eventually(recorded)]
    assert found == [
        ("before_run", "hook_start"),
        ("before_run", "hook_complete"),
        ("after_run", "hook_start"),
        ("after_run", "hook_complete"),
    ]
