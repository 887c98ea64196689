"""Runs of agents by name: three modes, each kind of agent, and what is wrong with a request."""

import pytest

from .support import asked, ended, eventually, got, ran

KINDS = [
    ("echo", "graph", {"text": "hi"}, None, {"text": "hi", "log": ["hi"]}),
    ("adder", "procedural", {"a": 1, "b": 2}, None, {"sum": 3}),
    ("relay", "procedural", {"x": [1]}, None, {"x": [1]}),
    ("parrot", "autonomous", {"prompt": "Say something"}, "Hello", None),
]


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case[0])
async def test_a_run_that_is_waited_for_is_given_with_its_result(http, case):
    name, kind, given, text, data = case
    run = await ran(http, name, given)
    assert (run["agent_name"], run["kind"], run["status"]) == (name, kind, "success")
    assert (run["result_text"], run["result_data"]) == (text, data)
    assert (run["parameters"], run["original_parameters"]) == (given, given)
    assert run["session_id"]
    assert run["thread_id"]
    assert (run["depth"], run["parent_run_id"], run["demands"]) == (0, None, [])


async def test_a_run_that_is_polled_answers_at_once_and_is_read_when_it_has_ended(http):
    run = await asked(http, "adder", parameters={"a": 2, "b": 2})
    assert (run["result_data"], run["ended_at"]) == (None, None)
    over = await ended(http, run["run_id"])
    assert (over["status"], over["result_data"]) == ("success", {"sum": 4})
    assert over["output"] == {"sum": 4}


@pytest.mark.parametrize("mode", ["sync", "async_poll"])
async def test_a_run_that_fails_is_a_run_all_the_same(http, mode):
    run = await asked(http, "failing", parameters={"at": 3}, execution_mode=mode)
    over = await ended(http, run["run_id"])
    assert (over["status"], over["error"]) == ("error", "it broke at 3")
    if mode == "sync":
        assert (run["status"], run["error_type"]) == ("error", "ValueError")


async def test_what_a_hook_refuses_at_admission_keeps_its_status(http):
    refused = await asked(
        http, "adder", 402, parameters={"a": 1, "b": 1}, metadata={"today": False}
    )
    assert (refused["error"], refused["message"]) == ("refused", "Not today")
    run = await got(http, f"/runs/{refused['info']['run_id']}")
    assert (run["phase"], run["blocked_by"]) == ("refused", "not-today")


async def test_parameters_that_do_not_fit_are_told_by_place_with_what_the_schema_says(http):
    wrong = await asked(http, "adder", 422, parameters={"a": "one", "c": 3})
    assert wrong["error"] == "invalid"
    assert "adder" in wrong["message"]
    found = {each["path"]: each for each in wrong["errors"]}
    assert found["/a"]["schema"] == {"properties/a/type": "integer"}
    assert all(each["message"] for each in wrong["errors"])
    assert {key for each in wrong["errors"] for key in each["schema"]} >= {
        "required",
        "additionalProperties",
    }


async def test_an_agent_without_a_schema_takes_a_prompt(http):
    wrong = await asked(http, "parrot", 422, parameters={"question": "?"})
    assert wrong["errors"]


WRONG = [
    ({}, "agent_name or assistant_id"),
    ({"agent_name": "echo", "assistant_id": "echo"}, "agent_name or assistant_id"),
    ({"agent_name": "echo", "input": {}}, "input"),
    ({"agent_name": "echo", "execution_mode": "later"}, "execution_mode"),
    ({"agent_name": "echo", "parameters": []}, "parameters"),
    ({"agent_name": "echo", "timeout_seconds": 0}, "timeout_seconds"),
    ({"agent_name": "echo", "demands": ["a b"]}, "demands"),
    ({"agent_name": "echo", "demands": ["x"] * 9}, "demands"),
    ({"agent_name": "echo", "session_id": "mine"}, "session_id"),
    ({"agent_name": "echo", "execution_mode": "async_callback"}, "parent_session_id"),
    ({"agent_name": "echo", "webhook": "http://10.0.0.1/"}, "webhook"),
    ([], "body"),
]


@pytest.mark.parametrize(("body", "told"), WRONG)
async def test_a_request_that_makes_no_sense_is_told_why(http, body, told):
    answer = await http.post("/runs", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"] == "invalid"
    assert told in answer.json()["message"]


async def test_an_agent_or_a_session_that_is_not_there_is_not_found(http):
    nobodys = "00000000-0000-7000-8000-000000000000"
    assert "'nobody'" in (await asked(http, "nobody", 404))["message"]
    for key in ("session_id", "parent_session_id"):
        missing = await asked(http, "echo", 404, **{key: nobodys})
        assert nobodys in missing["message"]


async def test_the_same_request_with_a_key_is_one_run(http):
    body = {"agent_name": "adder", "parameters": {"a": 5, "b": 5}, "execution_mode": "sync"}
    answers = [
        await http.post("/runs", json=body, headers={"Idempotency-Key": "once"}) for _ in range(2)
    ]
    first, second = (answer.json() for answer in answers)
    assert first["run_id"] == second["run_id"]
    assert first["result_data"] == second["result_data"] == {"sum": 10}
    other = body | {"parameters": {"a": 6, "b": 5}}
    answer = await http.post("/runs", json=other, headers={"Idempotency-Key": "once"})
    assert answer.status_code == 422


async def test_a_run_that_demands_what_nobody_has_waits_for_somebody_who_does(http):
    run = await asked(http, "demanding", demands=["nobody.has"], timeout_seconds=5)
    assert (run["demands"], run["timeout_seconds"]) == (["nobody.has"], 5)

    async def ready():
        return (await got(http, f"/runs/{run['run_id']}"))["phase"] == "ready"

    await eventually(ready, "a run that nobody takes")
    assert (await http.post(f"/runs/{run['run_id']}/cancel")).status_code == 202
    assert (await ended(http, run["run_id"]))["phase"] == "cancelled"


async def test_the_scope_of_a_run_reaches_its_agent_and_is_shown_to_nobody(http):
    scope = {"tenant": "t-4711"}
    run = await ran(http, "scoped", {"x": 1}, scope=scope)
    assert run["result_data"] == {"scope": scope, "given": {"x": 1}}
    shown = await got(http, f"/runs/{run['run_id']}")
    assert "t-4711" not in str({**shown, "output": None, "result_data": None})


async def test_what_a_start_hook_made_of_the_parameters_stands_beside_what_was_asked_for(http):
    run = await ran(http, "strict", {"count": 4})
    assert (run["original_parameters"], run["parameters"]) == ({"count": 4}, {"count": 8})
    assert run["result_data"] == {"count": 8}
    beneath = await got(http, "/runs", parent_run_id=run["run_id"])
    [doubler] = [each for each in beneath if each["agent_name"] == "doubler"]
    assert (doubler["origin"], doubler["depth"]) == ("hook", 1)


async def test_parameters_that_a_hook_made_too_large_are_invalid(http):
    run = await ran(http, "strict", {"count": 9})
    assert run["status"] == "error"
    assert "maximum" in run["error"] or "10" in run["error"]


async def test_langgraph_clients_run_agents_of_every_kind(coordinator):
    async with coordinator.client() as client:
        assert await client.runs.wait(None, "adder", input={"a": 1, "b": 1}) == {"sum": 2}
        assert await client.runs.wait(None, "relay", input={"k": "v"}) == {"k": "v"}
        thread = await client.threads.create()
        said = {"messages": [{"role": "user", "content": "Say something"}]}
        run = await client.runs.create(thread["thread_id"], "parrot", input=said)
        await client.runs.join(thread["thread_id"], run["run_id"])
        state = await client.threads.get_state(thread["thread_id"])
        assert state["values"]["messages"][-1]["content"] == "Hello"
        found = await client.assistants.search(graph_id="parrot")
        assert [each["name"] for each in found] == ["parrot"]


async def test_the_end_of_a_child_resumes_the_session_that_asked_for_it(http):
    parent = await ran(http, "parrot", {"prompt": "Begin"})
    session = parent["session_id"]
    for name, given, told in (
        ("adder", {"a": 20, "b": 22}, "42"),
        ("failing", {"at": 7}, "it broke at 7"),
    ):
        more = {"execution_mode": "async_callback", "parent_session_id": session}
        child = await asked(http, name, parameters=given, **more)
        assert child["session_id"] != session

        async def resumed(told=told):
            runs = await got(http, f"/sessions/{session}/runs")
            return [
                run
                for run in runs
                if run["origin"] == "callback"
                and told in str(run["parameters"])
                and run["ended_at"]
            ]

        [run] = await eventually(resumed, "the callback")
        assert name in run["parameters"]["prompt"]
        assert run["status"] == "success"
    [adder, failing] = (await got(http, "/sessions", parent_session_id=session))[::-1]
    assert adder["parent_session_id"] == failing["parent_session_id"] == session
