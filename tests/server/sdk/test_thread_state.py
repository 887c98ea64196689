"""A thread's state and its history, read and written."""

import itertools

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

FIELDS = {
    "values",
    "next",
    "tasks",
    "checkpoint",
    "metadata",
    "created_at",
    "parent_checkpoint",
    "interrupts",
    "checkpoint_id",
    "parent_checkpoint_id",
}


@pytest.fixture
async def walked(client, thread):
    """A thread on which three steps were taken."""
    await client.runs.wait(thread, "steps", input={}, metadata={"walk": "first"})
    return thread


async def test_the_state_of_a_new_thread_is_empty(client, thread):
    state = await client.threads.get_state(thread)
    assert not state["values"]
    assert (state["next"], state["tasks"]) == ([], [])
    assert (state["checkpoint"], state["checkpoint_id"], state["created_at"]) == (None, None, None)
    assert await client.threads.get_history(thread) == []


async def test_the_state_of_a_finished_run_has_no_next_step(client, walked):
    state = await client.threads.get_state(walked)
    assert state.keys() >= FIELDS
    assert state["values"] == {"log": ["one", "two", "three"]}
    assert (state["next"], state["tasks"], state["interrupts"]) == ([], [], [])
    assert state["checkpoint"]["thread_id"] == walked
    assert state["checkpoint"]["checkpoint_ns"] == ""
    assert state["parent_checkpoint"]["checkpoint_id"] != state["checkpoint"]["checkpoint_id"]
    assert state["metadata"]["step"] == 3
    assert state["metadata"]["source"] == "loop"
    (run,) = await client.runs.list(walked)
    assert state["metadata"]["run_id"] == run["run_id"]


async def test_history_tells_every_step_and_the_newest_first(client, walked):
    history = await client.threads.get_history(walked)
    assert [state["next"] for state in history] == [
        [],
        ["three"],
        ["two"],
        ["one"],
        ["__start__"],
    ]
    assert [len(state["values"].get("log", [])) for state in history] == [3, 2, 1, 0, 0]
    for newer, older in itertools.pairwise(history):
        assert newer["parent_checkpoint"]["checkpoint_id"] == older["checkpoint"]["checkpoint_id"]
        assert newer["parent_checkpoint_id"] == older["checkpoint_id"]
        assert older["checkpoint"]["checkpoint_id"] == older["checkpoint_id"]
    assert history[-1]["parent_checkpoint"] is None


async def test_history_is_paged_by_the_checkpoint_before(client, walked):
    history = await client.threads.get_history(walked)
    first = await client.threads.get_history(walked, limit=2)
    assert first == history[:2]
    before = first[-1]["checkpoint"]
    assert await client.threads.get_history(walked, before=before) == history[2:]
    by_id = await client.threads.get_history(walked, before=before["checkpoint_id"], limit=1)
    assert by_id == history[2:3]


async def test_history_is_filtered_by_what_the_run_was_marked_with(client, walked):
    await client.runs.wait(walked, "steps", input={}, metadata={"walk": "second"})
    assert len(await client.threads.get_history(walked, limit=100)) == 10
    second = await client.threads.get_history(walked, metadata={"walk": "second"})
    assert len(second) == 5
    assert len(second[0]["values"]["log"]) == 6


async def test_only_the_selected_fields_are_given(client, walked):
    state = await client.threads.get_state(walked, select=["values", "next"])
    assert state == {"values": {"log": ["one", "two", "three"]}, "next": []}
    history = await client.threads.get_history(walked, select=["next"])
    assert history[:2] == [{"next": []}, {"next": ["three"]}]


async def test_one_value_can_be_selected(client, thread):
    await client.runs.wait(thread, "echo", input={"text": "hi"})
    state = await client.threads.get_state(thread, select=["values.answer"])
    assert state == {"values": {"answer": "hi"}}


async def test_an_unknown_field_is_refused(client, walked):
    with pytest.raises(UnprocessableEntityError):
        await client.threads.get_state(walked, select=["colour"])


async def test_an_earlier_state_is_read_by_its_checkpoint(client, walked):
    earlier = (await client.threads.get_history(walked))[2]
    assert await client.threads.get_state(walked, earlier["checkpoint"]) == earlier
    by_id = await client.threads.get_state(
        walked, checkpoint_id=earlier["checkpoint"]["checkpoint_id"]
    )
    assert by_id == earlier
    (task,) = earlier["tasks"]
    assert (task["name"], task["error"]) == ("two", None)


async def test_an_unknown_checkpoint_is_not_found(client, walked):
    with pytest.raises(NotFoundError):
        await client.threads.get_state(walked, checkpoint_id="1ef00000-0000-6000-8000-000000000000")


async def test_a_state_can_be_written_as_if_a_node_had(client, walked):
    answer = await client.threads.update_state(walked, {"log": ["by hand"]}, as_node="one")
    assert answer["checkpoint"]["thread_id"] == walked
    assert answer["configurable"] == answer["checkpoint"]
    assert answer["checkpoint_id"] == answer["checkpoint"]["checkpoint_id"]
    state = await client.threads.get_state(walked)
    assert state["checkpoint"]["checkpoint_id"] == answer["checkpoint"]["checkpoint_id"]
    assert state["values"]["log"] == ["one", "two", "three", "by hand"]
    assert state["next"] == ["two"]
    assert state["metadata"]["source"] == "update"
    assert (await client.threads.get(walked))["values"]["log"][-1] == "by hand"

    result = await client.runs.wait(walked, "steps", input=None)
    assert result["log"] == ["one", "two", "three", "by hand", "two", "three"]


async def test_an_earlier_state_can_be_written_to_and_that_is_a_branch(client, walked):
    earlier = (await client.threads.get_history(walked))[2]
    await client.threads.update_state(
        walked, {"note": "another way"}, checkpoint=earlier["checkpoint"]
    )
    state = await client.threads.get_state(walked)
    assert state["values"] == {"log": ["one"], "note": "another way"}
    parent = state["parent_checkpoint"]["checkpoint_id"]
    assert parent == earlier["checkpoint"]["checkpoint_id"]

    by_id = earlier["checkpoint"]["checkpoint_id"]
    await client.threads.update_state(walked, {"note": "third"}, checkpoint_id=by_id)
    assert (await client.threads.get_state(walked))["values"] == {"log": ["one"], "note": "third"}


async def test_a_state_can_be_forked_without_a_change(client, walked):
    earlier = (await client.threads.get_history(walked))[2]
    await client.threads.update_state(walked, None, checkpoint=earlier["checkpoint"])
    assert (await client.threads.get_state(walked))["values"] == {"log": ["one"]}


async def test_values_that_do_not_fit_the_graph_are_refused(client, walked):
    with pytest.raises(UnprocessableEntityError):
        await client.threads.update_state(walked, [{"log": ["a"]}], as_node="three")
    assert len(await client.threads.get_history(walked)) == 5


async def test_an_unknown_node_is_refused(client, walked):
    with pytest.raises(UnprocessableEntityError) as refused:
        await client.threads.update_state(walked, {"log": ["x"]}, as_node="nobody")
    assert "nobody" in refused.value.message


async def test_a_thread_without_a_graph_cannot_be_written_to(client, thread):
    with pytest.raises(UnprocessableEntityError):
        await client.threads.update_state(thread, {"log": ["x"]})


async def test_a_thread_that_names_its_graph_can_be_written_to_before_it_ran(client):
    thread = (await client.threads.create(graph_id="steps"))["thread_id"]
    await client.threads.update_state(thread, {"log": ["zero"]}, as_node="__start__")
    assert (await client.threads.get_state(thread))["values"] == {"log": ["zero"]}


async def test_a_state_is_not_written_while_a_run_is_under_way(client, walked):
    run = await client.runs.create(walked, "steps", input={}, after_seconds=60)
    with pytest.raises(ConflictError):
        await client.threads.update_state(walked, {"log": ["x"]})
    await client.runs.cancel(walked, run["run_id"], wait=True)
    await client.threads.update_state(walked, {"log": ["x"]})


async def test_a_paused_thread_stays_paused_when_written_to(client, thread):
    await client.runs.wait(thread, "steps", input={}, interrupt_before=["two"])
    await client.threads.update_state(thread, {"note": "seen"})
    assert (await client.threads.get(thread))["status"] == "interrupted"
    state = await client.threads.get_state(thread)
    assert (state["next"], state["values"]["note"]) == (["two"], "seen")


async def test_the_task_of_a_paused_thread_holds_its_interrupt(client, thread):
    await client.runs.wait(thread, "ask", input={"topic": "tea"})
    state = await client.threads.get_state(thread)
    assert state["next"] == ["first"]
    (task,) = state["tasks"]
    (asked,) = task["interrupts"]
    assert (task["name"], asked["value"]) == ("first", {"question": "first tea?"})
    assert state["interrupts"] == [asked]
    assert (await client.threads.get(thread))["interrupts"] == {task["id"]: [asked]}


async def test_the_task_of_a_failed_thread_holds_its_error(client, thread):
    await client.runs.wait(thread, "failing", input={"message": "no"}, raise_error=False)
    state = await client.threads.get_state(thread)
    assert state["values"] == {"message": "no", "prepared": True}
    (task,) = state["tasks"]
    assert task["name"] == "fail"
    assert "ValueError" in task["error"]


@pytest.fixture
async def inside(client, thread):
    """A thread that is paused within a subgraph, and the subgraph's checkpoint."""
    await client.runs.wait(thread, "nested", input={"note": "pause"})
    (task,) = (await client.threads.get_state(thread))["tasks"]
    return thread, task["checkpoint"]


async def test_a_paused_subgraph_is_named_by_its_checkpoint(client, inside):
    thread, checkpoint = inside
    assert checkpoint["checkpoint_ns"].startswith("child:")
    state = await client.threads.get_state(thread, checkpoint)
    assert state["next"] == ["again"]
    assert state["values"]["log"] == ["outside", "inside"]
    assert state["checkpoint"]["checkpoint_ns"] == checkpoint["checkpoint_ns"]


async def test_a_paused_subgraph_is_shown_within_its_task_if_asked(client, inside):
    thread, _ = inside
    (plain,) = (await client.threads.get_state(thread))["tasks"]
    assert plain["state"] is None
    (whole,) = (await client.threads.get_state(thread, subgraphs=True))["tasks"]
    assert whole["state"]["next"] == ["again"]
    assert whole["state"]["values"]["log"] == ["outside", "inside"]


async def test_a_paused_subgraph_can_be_written_to_and_has_its_history(client, inside):
    thread, checkpoint = inside
    await client.threads.update_state(thread, {"note": "from outside"}, checkpoint=checkpoint)
    state = await client.threads.get_state(thread, checkpoint)
    assert state["values"]["note"] == "from outside"
    history = await client.threads.get_history(thread, checkpoint=checkpoint)
    assert history[0]["values"]["note"] == "from outside"
    assert history[-1]["next"] == ["__start__"]

    result = await client.runs.wait(thread, "nested", input=None)
    assert result["note"] == "from outside"
