"""Runs that stop for a person, and how they go on."""

import httpx
import pytest

from .support import collect, data_of, over


@pytest.fixture
async def asked(client, thread):
    """A thread that waits for an answer, and what it was asked."""
    result = await client.runs.wait(thread, "ask", input={"topic": "tea"})
    (question,) = result["__interrupt__"]
    return thread, question


async def test_waiting_gives_the_values_and_the_question(client, asked):
    thread, question = asked
    assert question["value"] == {"question": "first tea?"}
    assert question["id"]
    (run,) = await client.runs.list(thread)
    assert run["status"] == "interrupted"
    assert (await client.threads.get(thread))["status"] == "interrupted"


async def test_joining_gives_the_question_too(client, asked):
    thread, question = asked
    (run,) = await client.runs.list(thread)
    joined = await client.runs.join(thread, run["run_id"])
    assert joined["topic"] == "tea"
    assert joined.get("__interrupt__", [question]) == [question]


@pytest.mark.parametrize("answer", ["yes", 7, False, None, {"deep": [1]}, ["a", "b"]])
async def test_any_answer_reaches_the_node(client, asked, answer):
    thread, _ = asked
    result = await client.runs.wait(thread, "ask", command={"resume": {"said": answer}})
    assert result == {"topic": "tea", "answers": [{"said": answer}]}
    assert (await client.threads.get(thread))["status"] == "idle"
    assert (await client.threads.get(thread))["interrupts"] == {}


@pytest.mark.parametrize("answer", ["yes", "", 0, False, ["a"]])
async def test_a_plain_answer_is_an_answer(client, asked, answer):
    thread, _ = asked
    result = await client.runs.wait(thread, "ask", command={"resume": answer})
    assert result["answers"] == [answer]


@pytest.mark.parametrize("given", [{}, {"topic": "coffee"}])
async def test_an_answer_wins_over_an_input_beside_it(client, asked, given):
    thread, _ = asked
    result = await client.runs.wait(thread, "ask", input=given, command={"resume": "yes"})
    assert result == {"topic": "tea", "answers": ["yes"]}


async def test_a_run_that_stops_before_a_node_asks_nothing(client, thread):
    result = await client.runs.wait(thread, "steps", input={}, interrupt_before=["two"])
    assert result == {"log": ["one"]}


async def test_an_answer_can_name_its_question(client, asked):
    thread, question = asked
    result = await client.runs.wait(thread, "ask", command={"resume": {question["id"]: "yes"}})
    assert result["answers"] == ["yes"]


async def test_a_resume_is_a_run_of_its_own(client, asked):
    thread, _ = asked
    parts = await collect(client.runs.stream(thread, "ask", command={"resume": "yes"}))
    assert data_of(parts, "values")[-1]["answers"] == ["yes"]
    runs = await client.runs.list(thread)
    assert [run["status"] for run in runs] == ["success", "interrupted"]
    assert runs[0]["kwargs"]["command"] == {"resume": "yes"}


async def test_questions_can_come_one_after_the_other(client, thread):
    first = await client.runs.wait(thread, "ask_twice", input={"topic": "tea"})
    assert first["__interrupt__"][0]["value"] == {"question": "first tea?"}
    second = await client.runs.wait(thread, "ask_twice", command={"resume": 1})
    assert second["__interrupt__"][0]["value"] == {"question": "second tea?"}
    last = await client.runs.wait(thread, "ask_twice", command={"resume": 2})
    assert last["answers"] == [1, 2]


async def test_two_questions_at_once_are_answered_by_their_ids(client, thread):
    result = await client.runs.wait(thread, "ask_both", input={"topic": "tea"})
    ids = {asked["value"]["question"]: asked["id"] for asked in result["__interrupt__"]}
    assert {*ids} == {"first tea?", "second tea?"}
    now = await client.threads.get(thread)
    assert sum(len(waiting) for waiting in now["interrupts"].values()) == 2

    half = await client.runs.wait(
        thread, "ask_both", command={"resume": {ids["second tea?"]: "two"}}
    )
    (left,) = half["__interrupt__"]
    assert left["id"] == ids["first tea?"]
    done = await client.runs.wait(thread, "ask_both", command={"resume": {left["id"]: "one"}})
    assert done["answers"] == ["one", "two"]


async def test_a_resume_can_change_the_state_too(client, asked):
    thread, _ = asked
    result = await client.runs.wait(
        thread, "ask", command={"resume": "yes", "update": {"topic": "rain"}}
    )
    assert result == {"topic": "rain", "answers": ["yes"]}


async def test_new_input_instead_of_an_answer_begins_again(client, asked):
    thread, _ = asked
    result = await client.runs.wait(thread, "ask", input={"topic": "rain"})
    assert result["__interrupt__"][0]["value"] == {"question": "first rain?"}


async def test_a_strict_resume_refuses_an_answer_to_nothing(client, asked):
    thread, question = asked
    result = await client.runs.wait(
        thread,
        "ask",
        command={"resume": {"0" * 32: "yes"}},
        strict_resume=True,
        raise_error=False,
    )
    assert result["__error__"]["error"] == "UnknownInterruptError"
    now = await client.threads.get(thread)
    assert now["status"] == "interrupted"
    assert [asked["id"] for waiting in now["interrupts"].values() for asked in waiting] == [
        question["id"]
    ]


async def test_a_strict_resume_takes_an_answer_to_what_waits(client, asked):
    thread, question = asked
    result = await client.runs.wait(
        thread, "ask", command={"resume": {question["id"]: "yes"}}, strict_resume=True
    )
    assert result["answers"] == ["yes"]


@pytest.mark.parametrize(("nodes", "done"), [(["two"], ["one"]), ("*", [])])
async def test_a_run_stops_before_a_node_if_asked(client, thread, nodes, done):
    result = await client.runs.wait(thread, "steps", input={}, interrupt_before=nodes)
    assert (result or {}).get("log", []) == done
    state = await client.threads.get_state(thread)
    assert state["next"] == (["two"] if done else ["one"])
    assert (await client.threads.get(thread))["status"] == "interrupted"
    rest = await client.runs.wait(thread, "steps", input=None)
    assert rest["log"] == ["one", "two", "three"]
    assert (await client.threads.get(thread))["status"] == "idle"


@pytest.mark.parametrize(("nodes", "done"), [(["two"], ["one", "two"]), ("*", ["one"])])
async def test_a_run_stops_after_a_node_if_asked(client, thread, nodes, done):
    result = await client.runs.wait(thread, "steps", input={}, interrupt_after=nodes)
    assert result["log"] == done
    (run,) = await client.runs.list(thread)
    assert run["status"] == "interrupted"
    rest = await client.runs.wait(thread, "steps", input=None)
    assert rest["log"] == ["one", "two", "three"]


async def test_background_and_streamed_runs_stop_too(client, thread):
    run = await client.runs.create(thread, "steps", input={}, interrupt_before=["two"])
    assert (await over(client, run))["status"] == "interrupted"
    parts = await collect(client.runs.stream(thread, "steps", input=None, interrupt_after=["two"]))
    assert data_of(parts, "values")[-1].get("log", ["one", "two"]) == ["one", "two"]
    assert (await client.threads.get_state(thread))["next"] == ["three"]


async def test_a_command_can_update_the_state(client, thread):
    await client.runs.wait(thread, "steps", input={})
    result = await client.runs.wait(thread, "steps", command={"update": {"note": "seen"}})
    assert result == {"log": ["one", "two", "three"], "note": "seen"}


async def test_a_command_can_update_in_pairs(client, thread):
    await client.runs.wait(thread, "steps", input={})
    result = await client.runs.wait(
        thread, "steps", command={"update": [["note", "seen"], ["log", ["four"]]]}
    )
    assert result == {"log": ["one", "two", "three", "four"], "note": "seen"}


async def test_a_command_can_go_to_a_node(client, thread):
    await client.runs.wait(thread, "steps", input={})
    result = await client.runs.wait(
        thread, "steps", command={"goto": "three", "update": {"note": "again"}}
    )
    assert result == {"log": ["one", "two", "three", "three"], "note": "again"}


async def test_a_command_can_send_input_to_a_node(client, thread):
    await client.runs.wait(thread, "steps", input={})
    result = await client.runs.wait(
        thread, "steps", command={"goto": [{"node": "two", "input": {"note": "sent"}}]}
    )
    assert result["log"] == ["one", "two", "three", "two", "three"]


@pytest.mark.parametrize("command", [{}, {"explode": True}, None])
async def test_a_command_that_says_nothing_is_none(server, thread, command):
    body = {"assistant_id": "steps", "input": {}, "command": command}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{server.url}/threads/{thread}/runs/wait", json=body)
    assert answer.json() == {"log": ["one", "two", "three"]}


async def test_a_question_within_a_subgraph_is_answered_from_outside(client, thread):
    result = await client.runs.wait(thread, "nested", input={"note": "pause"})
    assert result["__interrupt__"][0]["value"] == {"question": "go on?"}
    done = await client.runs.wait(thread, "nested", command={"resume": "yes"})
    assert done["log"] == ["outside", "outside", "inside", "again"]


async def test_a_double_resume_runs_once(client, asked):
    thread, question = asked
    runs = [
        await client.runs.create(thread, "ask", command={"resume": {question["id"]: answer}})
        for answer in ("first", "second")
    ]
    for run in runs:
        await over(client, run)
    values = (await client.threads.get(thread))["values"]
    assert values["answers"] == ["first"]
