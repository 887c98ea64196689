"""Events: a run's own with its hooks among them, and everything that one may see, in one stream."""

import asyncio

from .support import Sent, asked, ended, eventually, got, ran

SEED = {"event_type", "hook_type", "target_type", "target_name", "session_id", "run_id", "time"}


async def events_of(http, run_id, after=None):
    headers = {} if after is None else {"last-event-id": str(after)}
    async with http.stream("GET", f"/runs/{run_id}/events", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        return await Sent(answer).until(lambda _id, name, _data: name == "end")


def hooks_in(events):
    return [(name, data["data"]["hook"]) for _, name, data in events if name.startswith("hook_")]


async def test_hooks_are_events_of_their_run_in_order(http):
    run = await ran(http, "strict", {"count": 2})
    events = await events_of(http, run["run_id"])
    names = [name for _, name, _ in events]
    assert names.index("hook_start") > names.index("metadata")
    assert hooks_in(events) == [("hook_start", "doubled"), ("hook_complete", "doubled")]
    start, ending = (data["data"] for _, name, data in events if name.startswith("hook_"))
    assert start.keys() >= SEED
    assert (start["hook_type"], start["target_type"]) == ("on_run_start", "agent")
    assert (start["target_name"], start["run_id"]) == ("doubler", run["run_id"])
    assert ending["action"] == "continue"
    assert ending["duration_ms"] > 0
    assert (ending["before"], ending["after"]) == ({"count": 2}, {"count": 4})
    recorded = await got(http, f"/runs/{run['run_id']}/hooks")
    assert {each["record_id"] for each in recorded} >= {start["record_id"], ending["record_id"]}


async def test_a_hook_that_blocks_is_an_event_with_its_reason(http):
    run = await ran(http, "strict", {"count": -1})
    assert (run["status"], run["phase"]) == ("error", "blocked")
    events = await events_of(http, run["run_id"])
    [blocked] = [data["data"] for _, name, data in events if name == "hook_blocked"]
    assert (blocked["block_reason"], blocked["hook"]) == ("less than nothing", "doubled")


async def test_what_hooks_said_at_admission_comes_first(http):
    refused = await asked(http, "adder", 402, parameters={"a": 1, "b": 1}, metadata={"today": 1})
    run_id = refused["info"]["run_id"]
    answer = await http.get(f"/runs/{run_id}/events")
    assert [line for line in answer.text.splitlines() if line.startswith("event")] == [
        "event: hook_start",
        "event: hook_blocked",
    ]


async def test_a_run_s_events_go_on_after_the_last_one_with_hooks_among_them(http):
    run = await ran(http, "strict", {"count": 3})
    whole = await events_of(http, run["run_id"])
    numbers = [int(number) for number, _, _ in whole]
    assert numbers == [*range(1, len(whole) + 1)]
    at = numbers[2]
    assert await events_of(http, run["run_id"], at) == whole[at:]


async def test_langgraph_streams_show_no_hooks(coordinator):
    async with coordinator.client() as client:
        parts = [part async for part in client.runs.stream(None, "strict", input={"count": 1})]
    assert {part.event for part in parts} <= {"metadata", "values"}


async def test_everything_is_one_stream_from_now_on(http):
    before = await ran(http, "adder", {"a": 1, "b": 1})
    async with http.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        sent = Sent(answer)
        run = await asked(http, "strict", parameters={"count": 5})

        def audited(_id, name, data):
            return name == "hook_complete" and data["hook"] == "audited"

        events = await sent.until(audited)
    mine = [(name, data) for _, name, data in events if data["run_id"] == run["run_id"]]
    assert [name for name, _ in mine] == [
        "run_created",
        "run_started",
        "hook_start",
        "hook_complete",
        "run_ended",
        "hook_start",
        "hook_complete",
    ]
    created, over = mine[0][1], mine[4][1]
    assert (created["agent_name"], created["session_id"]) == ("strict", run["session_id"])
    assert (over["status"], over["phase"]) == ("success", "success")
    assert before["run_id"] not in {data["run_id"] for _, _, data in events}
    agents = {data.get("agent_name") for _, name, data in events if name == "run_created"}
    assert agents >= {"strict", "doubler", "auditor"}


async def test_everything_is_told_again_from_a_number_on(http):
    async with http.stream("GET", "/events") as answer:
        run = await ran(http, "adder", {"a": 3, "b": 4})
        first = await Sent(answer).until(
            lambda _id, name, data: name == "run_ended" and data["run_id"] == run["run_id"]
        )
    number = first[0][0]
    headers = {"last-event-id": number}
    async with http.stream("GET", "/events", headers=headers) as answer:
        again = await Sent(answer).until(lambda _id, name, _data: name == "run_ended")
    assert [data["seq"] for _, _, data in again] == [
        data["seq"] for _, _, data in first if data["seq"] > int(number)
    ]
    async with http.stream("GET", "/events?after=0") as answer:
        sent = Sent(answer)
        _, name, data = await sent.next()
        assert (name, data["seq"]) == ("run_created", 1)


async def test_a_last_event_that_is_no_number_is_refused(http):
    for params, headers in (({}, {"last-event-id": "x"}), ({"after": "-1"}, {})):
        answer = await http.get("/events", params=params, headers=headers)
        assert answer.status_code == 422


async def test_numbers_go_on_after_a_restart(database, serve, coordinators):
    from .conftest import PROJECT

    served = serve(database, config=PROJECT).start()
    import httpx

    async with httpx.AsyncClient(base_url=served.url, timeout=60) as http:
        first = await ran(http, "adder", {"a": 1, "b": 1})
        async with http.stream("GET", "/events?after=0") as answer:
            seen = await Sent(answer).until(lambda _id, name, _data: name == "run_ended")
    served.restart()
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as http:
        second = await ran(http, "adder", {"a": 2, "b": 2})
        headers = {"last-event-id": seen[-1][0]}
        async with http.stream("GET", "/events", headers=headers) as answer:
            more = await Sent(answer).until(lambda _id, name, _data: name == "run_ended")
    assert {data["run_id"] for _, _, data in seen} == {first["run_id"]}
    assert {data["run_id"] for _, _, data in more} == {second["run_id"]}
    assert more[0][2]["seq"] > seen[-1][2]["seq"]


async def test_two_servers_on_one_database_are_one_coordinator(new_database, serve):
    import httpx

    from .conftest import PROJECT

    database = new_database("postgres")
    one, two = (serve(database, config=PROJECT) for _ in range(2))
    one.start()
    two.start()
    model = {"provider": "scripted", "replies": ["Here I am"]}
    async with (
        httpx.AsyncClient(base_url=one.url, timeout=60) as first,
        httpx.AsyncClient(base_url=two.url, timeout=60) as second,
    ):
        made = await first.post("/agents", json={"name": "newcomer", "model": model})
        assert made.status_code == 201, made.text
        async with second.stream("GET", "/events") as answer:
            sent = Sent(answer)
            run = await ran(second, "newcomer", {"prompt": "Where are you?"})
            assert run["result_text"] == "Here I am"
            other = await asked(first, "adder", parameters={"a": 1, "b": 1})
            await sent.until(
                lambda _id, name, data: name == "run_ended" and data["run_id"] == other["run_id"]
            )

        async def known():
            return "newcomer" in (await got(second, "/info"))["agents"]

        await eventually(known)
        over = await ended(second, other["run_id"])
        assert over["result_data"] == {"sum": 2}
        await first.delete("/agents/newcomer")

        async def gone():
            return "newcomer" not in (await got(second, "/info"))["agents"]

        await eventually(gone)
        await asyncio.gather(*(ran(each, "adder", {"a": 1, "b": 2}) for each in (first, second)))
