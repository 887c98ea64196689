"""What the threads client makes, changes, copies and deletes."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from .support import eventually, over

FIELDS = {"thread_id", "created_at", "updated_at", "metadata", "status", "values", "interrupts"}


async def test_a_new_thread_is_idle_and_empty(client):
    thread = await client.threads.create()
    assert thread.keys() >= FIELDS
    uuid.UUID(thread["thread_id"])
    assert thread["status"] == "idle"
    assert thread["metadata"] == {}
    assert not thread["values"]
    assert thread["interrupts"] == {}
    assert datetime.fromisoformat(thread["created_at"]).tzinfo is not None
    assert await client.threads.get(thread["thread_id"]) == thread


async def test_what_is_given_is_kept(client):
    mine = str(uuid.uuid4())
    thread = await client.threads.create(
        thread_id=mine, metadata={"user": "ada", "deep": {"n": [1]}}, graph_id="echo"
    )
    assert thread["thread_id"] == mine
    assert thread["metadata"] == {"user": "ada", "deep": {"n": [1]}, "graph_id": "echo"}


async def test_an_id_that_exists_is_a_conflict(client, thread):
    with pytest.raises(ConflictError) as refused:
        await client.threads.create(thread_id=thread)
    assert thread in refused.value.message
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id=thread, if_exists="raise")


async def test_an_id_that_exists_gives_the_existing_one_if_asked(client):
    first = await client.threads.create(metadata={"n": 1})
    again = await client.threads.create(
        thread_id=first["thread_id"], if_exists="do_nothing", metadata={"n": 2}
    )
    assert again == first


@pytest.mark.parametrize("wrong", ["not-a-uuid", "../etc/passwd"])
async def test_an_id_that_is_no_uuid_is_refused(client, wrong):
    with pytest.raises(UnprocessableEntityError):
        await client.threads.create(thread_id=wrong)
    with pytest.raises((UnprocessableEntityError, NotFoundError)):
        await client.threads.get(wrong)


async def test_a_time_to_live_is_told_if_asked(client):
    thread = await client.threads.create(ttl=30)
    assert "ttl" not in await client.threads.get(thread["thread_id"])

    ttl = (await client.threads.get(thread["thread_id"], include=["ttl"]))["ttl"]
    assert (ttl["strategy"], ttl["ttl_minutes"]) == ("delete", 30)
    left = datetime.fromisoformat(ttl["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=25) < left <= timedelta(minutes=30)


async def test_a_time_to_live_may_name_its_strategy_and_be_changed(client):
    thread = await client.threads.create(ttl={"ttl": 30, "strategy": "keep_latest"})
    ttl = (await client.threads.get(thread["thread_id"], include=["ttl"]))["ttl"]
    assert ttl["strategy"] == "keep_latest"

    await client.threads.update(thread["thread_id"], metadata={}, ttl=90)
    ttl = (await client.threads.get(thread["thread_id"], include=["ttl"]))["ttl"]
    assert (ttl["strategy"], ttl["ttl_minutes"]) == ("delete", 90)


async def test_a_thread_that_has_outlived_its_time_is_gone(client):
    thread = await client.threads.create(ttl={"ttl": 0.001})

    async def gone():
        try:
            await client.threads.get(thread["thread_id"])
        except NotFoundError:
            return True
        return False

    await eventually(gone, "the end of a thread")


async def test_supersteps_give_a_thread_its_past(client):
    thread = await client.threads.create(
        graph_id="steps",
        supersteps=[
            {"updates": [{"values": {"log": ["zero"]}, "as_node": "__input__"}]},
            {"updates": [{"values": {"log": ["zero"]}, "as_node": "__start__"}]},
            {"updates": [{"values": {"log": ["one"]}, "as_node": "one"}]},
        ],
    )
    state = await client.threads.get_state(thread["thread_id"])
    assert state["values"]["log"] == ["zero", "one"]
    assert state["next"] == ["two"]
    assert len(await client.threads.get_history(thread["thread_id"])) == 3

    result = await client.runs.wait(thread["thread_id"], "steps", input=None)
    assert result["log"] == ["zero", "one", "two", "three"]


async def test_an_update_merges_metadata(client):
    thread = await client.threads.create(metadata={"kept": 1, "changed": 1})
    changed = await client.threads.update(
        thread["thread_id"], metadata={"changed": 2, "new": {"deep": True}}
    )
    assert changed["metadata"] == {"kept": 1, "changed": 2, "new": {"deep": True}}
    assert changed["updated_at"] > thread["updated_at"]
    assert await client.threads.get(thread["thread_id"]) == changed


async def test_an_update_can_go_without_an_answer(client, thread):
    answer = await client.threads.update(thread, metadata={"n": 1}, return_minimal=True)
    assert answer is None
    assert (await client.threads.get(thread))["metadata"] == {"n": 1}


async def test_a_run_leaves_its_values_and_its_graph_on_the_thread(client, thread):
    before = await client.threads.get(thread)
    await client.runs.wait(thread, "echo", input={"text": "hi"})
    after = await client.threads.get(thread)
    assert after["values"] == {"text": "hi", "answer": "hi", "log": ["hi"]}
    assert after["status"] == "idle"
    assert after["metadata"]["graph_id"] == "echo"
    assistant = await client.assistants.get("echo")
    assert after["metadata"]["assistant_id"] == assistant["assistant_id"]
    assert after["updated_at"] > before["updated_at"]


async def test_a_thread_is_busy_while_it_runs_and_says_how_it_ended(client, thread):
    run = await client.runs.create(thread, "slow", input={"seconds": 0.5})
    assert (await client.threads.get(thread))["status"] == "busy"
    await over(client, run)
    assert (await client.threads.get(thread))["status"] == "idle"

    await over(client, await client.runs.create(thread, "failing", input={"message": "no"}))
    assert (await client.threads.get(thread))["status"] == "error"

    await over(client, await client.runs.create(thread, "ask", input={"topic": "tea"}))
    assert (await client.threads.get(thread))["status"] == "interrupted"


async def test_a_deleted_thread_is_gone_with_its_runs_and_its_state(client, thread):
    run = await over(client, await client.runs.create(thread, "echo", input={"text": "hi"}))
    await client.threads.delete(thread)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread)
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, run["run_id"])

    again = await client.threads.create(thread_id=thread)
    assert not again["values"]
    assert await client.threads.get_history(thread) == []


async def test_deleting_a_thread_stops_its_run(client, thread):
    await client.runs.create(thread, "slow", input={"seconds": 60})
    await client.threads.delete(thread)
    again = await client.threads.create(thread_id=thread)
    assert again["status"] == "idle"
    result = await client.runs.wait(thread, "echo", input={"text": "hi"})
    assert result["log"] == ["hi"]


@pytest.mark.parametrize("method", ["get", "delete", "copy", "get_state", "get_history"])
async def test_an_unknown_thread_is_not_found(client, method):
    unknown = str(uuid.uuid4())
    with pytest.raises(NotFoundError) as refused:
        await getattr(client.threads, method)(unknown)
    assert unknown in refused.value.message


async def test_an_unknown_thread_cannot_be_changed(client):
    unknown = str(uuid.uuid4())
    with pytest.raises(NotFoundError):
        await client.threads.update(unknown, metadata={"n": 1})
    with pytest.raises(NotFoundError):
        await client.threads.update_state(unknown, {"text": "x"})


async def test_a_copy_has_the_past_and_a_future_of_its_own(client, thread):
    await client.threads.update(thread, metadata={"user": "ada"})
    await client.runs.wait(thread, "echo", input={"text": "one"})
    copy = await client.threads.copy(thread)

    assert copy["thread_id"] != thread
    assert copy["values"] == (await client.threads.get(thread))["values"]
    assert copy["metadata"]["user"] == "ada"
    await client.runs.wait(copy["thread_id"], "echo", input={"text": "two"})
    assert (await client.threads.get_state(copy["thread_id"]))["values"]["log"] == ["one", "two"]
    assert (await client.threads.get_state(thread))["values"]["log"] == ["one"]


async def test_a_copy_has_the_same_history(client, thread):
    await client.runs.wait(thread, "steps", input={})
    copy = (await client.threads.copy(thread))["thread_id"]

    def story(states):
        return [
            (state["values"], state["next"], state["checkpoint"]["checkpoint_id"])
            for state in states
        ]

    history = await client.threads.get_history(copy)
    assert story(history) == story(await client.threads.get_history(thread))
    assert {state["checkpoint"]["thread_id"] for state in history} == {copy}


async def test_a_copy_of_a_paused_thread_can_be_resumed_on_its_own(client, thread):
    await client.runs.wait(thread, "ask", input={"topic": "tea"})
    copy = (await client.threads.copy(thread))["thread_id"]
    assert (await client.threads.get(copy))["status"] == "interrupted"

    result = await client.runs.wait(copy, "ask", command={"resume": "yes"})
    assert result["answers"] == ["yes"]
    assert (await client.threads.get(thread))["status"] == "interrupted"


async def test_pruning_deletes_threads_and_counts_them(client):
    mine = [(await client.threads.create())["thread_id"] for _ in range(3)]
    answer = await client.threads.prune([mine[0], mine[1], str(uuid.uuid4())])
    assert answer["pruned_count"] == 2
    found = await client.threads.search(ids=mine)
    assert [thread["thread_id"] for thread in found] == [mine[2]]


async def test_pruning_may_keep_the_latest_state(client, thread):
    await client.runs.wait(thread, "steps", input={})
    before = await client.threads.get_state(thread)
    answer = await client.threads.prune([thread], strategy="keep_latest")
    assert answer["pruned_count"] == 1
    assert (await client.threads.get_state(thread))["values"] == before["values"]
    assert len(await client.threads.get_history(thread)) == 1
    result = await client.runs.wait(thread, "steps", input={})
    assert len(result["log"]) == 6
