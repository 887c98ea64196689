"""How runs are made, read, waited for and deleted."""

import uuid
from datetime import datetime

import httpx
import pytest
from langgraph_sdk.errors import NotFoundError

from .support import collect, names_of, over, said

FIELDS = {
    "run_id",
    "thread_id",
    "assistant_id",
    "created_at",
    "updated_at",
    "status",
    "metadata",
    "kwargs",
    "multitask_strategy",
}


async def test_a_new_run_is_pending_though_it_may_run_already(client, thread):
    run = await client.runs.create(thread, "echo", input={"text": "hi"})
    assert run.keys() >= FIELDS
    uuid.UUID(run["run_id"])
    assert run["thread_id"] == thread
    assert run["assistant_id"] == (await client.assistants.get("echo"))["assistant_id"]
    assert run["status"] == "pending"
    assert run["metadata"]["created_by"] == "system"  # as its assistant is marked
    assert run["multitask_strategy"] == "enqueue"
    assert run["kwargs"]["input"] == {"text": "hi"}
    assert datetime.fromisoformat(run["created_at"]).tzinfo is not None


async def test_a_run_that_is_over_says_so(client, thread):
    made = await client.runs.create(thread, "echo", input={"text": "hi"}, metadata={"n": 1})
    run = await over(client, made)
    assert run["status"] == "success"
    assert run["metadata"]["n"] == 1
    assert run["updated_at"] > made["created_at"]
    assert (await client.threads.get(thread))["values"]["answer"] == "hi"


async def test_a_run_is_told_by_a_callback_when_it_is_made(client, thread):
    told = []
    run = await client.runs.create(thread, "echo", input={"text": "hi"}, on_run_created=told.append)
    assert told == [{"run_id": run["run_id"], "thread_id": thread}]

    await client.runs.wait(thread, "echo", input={"text": "hi"}, on_run_created=told.append)
    await collect(
        client.runs.stream(thread, "echo", input={"text": "hi"}, on_run_created=told.append)
    )
    runs = await client.runs.list(thread)
    assert [call["run_id"] for call in told] == [made["run_id"] for made in reversed(runs)]
    assert {call["thread_id"] for call in told} == {thread}


async def test_waiting_gives_the_last_values(client, thread):
    result = await client.runs.wait(thread, "echo", input={"text": "hi"})
    assert result == {"text": "hi", "answer": "hi", "log": ["hi"]}
    again = await client.runs.wait(thread, "echo", input={"text": "ho"})
    assert again["log"] == ["hi", "ho"]


async def test_waiting_for_a_failed_run_raises_its_error(client, thread):
    with pytest.raises(Exception, match="ValueError: no such luck"):
        await client.runs.wait(thread, "failing", input={"message": "no such luck"})
    (run,) = await client.runs.list(thread)
    assert run["status"] == "error"
    assert (await client.threads.get(thread))["status"] == "error"


async def test_waiting_for_a_failed_run_can_give_its_error(client, thread):
    result = await client.runs.wait(
        thread, "failing", input={"message": "no such luck"}, raise_error=False
    )
    assert result["__error__"]["error"] == "ValueError"
    assert result["__error__"]["message"] == "no such luck"


async def test_messages_are_given_as_the_client_knows_them(client, thread):
    result = await client.runs.wait(thread, "chat", input=said("hello there"))
    human, ai = result["messages"]
    assert (human["type"], human["content"]) == ("human", "hello there")
    assert (ai["type"], ai["content"]) == ("ai", "You said: hello there")
    assert ai["usage_metadata"] == {"input_tokens": 1, "output_tokens": 4, "total_tokens": 5}
    assert ai["id"]


async def test_an_agent_calls_its_tools(client, thread):
    result = await client.runs.wait(thread, "agent", input=said("add 2 3"))
    assert [message["type"] for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    (call,) = result["messages"][1]["tool_calls"]
    assert (call["name"], call["args"]) == ("add", {"a": 2, "b": 3})
    assert result["messages"][-1]["content"] == "The answer is 5"


async def test_joining_gives_the_values_when_the_run_is_over(client, thread):
    run = await client.runs.create(thread, "slow", input={"seconds": 0.2})
    assert (await client.runs.join(thread, run["run_id"]))["done"] == [1]
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"
    assert (await client.runs.join(thread, run["run_id"]))["done"] == [1]


async def test_joining_a_failed_run_does_not_raise(client, thread):
    run = await client.runs.create(thread, "failing", input={"message": "no"})
    await client.runs.join(thread, run["run_id"])
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "error"


async def test_runs_are_listed_the_newest_first(client, thread):
    made = [
        (await over(client, await client.runs.create(thread, "echo", input={"text": str(n)})))
        for n in range(3)
    ]
    listed = await client.runs.list(thread)
    assert [run["run_id"] for run in listed] == [run["run_id"] for run in reversed(made)]
    page = await client.runs.list(thread, limit=1, offset=1)
    assert [run["run_id"] for run in page] == [made[1]["run_id"]]


async def test_runs_are_listed_by_their_status(client, thread):
    good = await over(client, await client.runs.create(thread, "echo", input={"text": "hi"}))
    bad = await over(client, await client.runs.create(thread, "failing", input={"message": "no"}))
    late = await client.runs.create(thread, "echo", input={"text": "hi"}, after_seconds=600)
    for status, run in (("success", good), ("error", bad), ("pending", late)):
        (found,) = await client.runs.list(thread, status=status)
        assert found["run_id"] == run["run_id"]
    assert await client.runs.list(thread, status="timeout") == []
    await client.runs.cancel(thread, late["run_id"])


async def test_only_the_selected_fields_of_runs_are_listed(client, thread):
    run = await over(client, await client.runs.create(thread, "echo", input={"text": "hi"}))
    listed = await client.runs.list(thread, select=["run_id", "status"])
    assert listed == [{"run_id": run["run_id"], "status": "success"}]


async def test_a_deleted_run_is_gone(client, thread):
    run = await over(client, await client.runs.create(thread, "echo", input={"text": "hi"}))
    await client.runs.delete(thread, run["run_id"])
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, run["run_id"])
    assert await client.runs.list(thread) == []
    with pytest.raises(NotFoundError):
        await client.runs.delete(thread, run["run_id"])


async def test_a_run_belongs_to_its_thread_only(client, thread):
    run = await over(client, await client.runs.create(thread, "echo", input={"text": "hi"}))
    other = (await client.threads.create())["thread_id"]
    with pytest.raises(NotFoundError):
        await client.runs.get(other, run["run_id"])
    with pytest.raises(NotFoundError):
        await client.runs.delete(other, run["run_id"])
    with pytest.raises(NotFoundError):
        await collect(client.runs.join_stream(other, run["run_id"]))


@pytest.mark.parametrize("method", ["get", "delete", "join", "cancel"])
async def test_an_unknown_run_is_not_found(client, thread, method):
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await getattr(client.runs, method)(thread, str(uuid.uuid4()))
    assert refused.value.response.status_code == 404


@pytest.mark.parametrize("way", ["create", "wait", "stream"])
async def test_an_unknown_thread_or_assistant_is_not_found(client, thread, way):
    async def tried(*where):
        if way == "stream":
            return await collect(client.runs.stream(*where, input={"text": "hi"}))
        return await getattr(client.runs, way)(*where, input={"text": "hi"})

    for where in ((str(uuid.uuid4()), "echo"), (thread, "no-such-graph")):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await tried(*where)
        assert refused.value.response.status_code == 404
    assert await client.runs.list(thread) == []


async def test_runs_of_an_unknown_thread_are_not_listed(client):
    with pytest.raises(NotFoundError):
        await client.runs.list(str(uuid.uuid4()))


async def test_a_missing_thread_is_made_if_asked(client):
    mine = str(uuid.uuid4())
    with pytest.raises(NotFoundError):
        await client.runs.create(mine, "echo", input={"text": "hi"}, if_not_exists="reject")
    run = await client.runs.create(mine, "echo", input={"text": "hi"}, if_not_exists="create")
    assert run["thread_id"] == mine
    await over(client, run)
    assert (await client.threads.get(mine))["values"]["answer"] == "hi"

    other = str(uuid.uuid4())
    result = await client.runs.wait(other, "echo", input={"text": "a"}, if_not_exists="create")
    assert result["answer"] == "a"
    third = str(uuid.uuid4())
    parts = await collect(
        client.runs.stream(third, "echo", input={"text": "a"}, if_not_exists="create")
    )
    assert "values" in names_of(parts)


async def test_a_scheduled_run_does_not_start_before_its_time(client, thread):
    late = await client.runs.create(thread, "echo", input={"text": "hi"}, after_seconds=600)
    assert (await client.runs.get(thread, late["run_id"]))["status"] == "pending"
    await client.runs.cancel(thread, late["run_id"], wait=True)

    result = await client.runs.wait(thread, "echo", input={"text": "hi"}, after_seconds=1)
    assert result["answer"] == "hi"
    run = (await client.runs.list(thread, limit=1))[0]
    took = datetime.fromisoformat(run["updated_at"]) - datetime.fromisoformat(run["created_at"])
    assert took.total_seconds() >= 1
