"""Runs without a thread of the caller's, one at a time and in batches."""

import pytest
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

from .support import collect, eventually, names_of, over, tag


async def test_a_stateless_run_leaves_no_thread(client):
    told = []
    result = await client.runs.wait(None, "echo", input={"text": "hi"}, on_run_created=told.append)
    assert result["answer"] == "hi"
    (call,) = told
    if call["thread_id"]:
        with pytest.raises(NotFoundError):
            await client.threads.get(call["thread_id"])


async def test_a_stateless_run_may_keep_its_thread(client):
    run = await client.runs.create(
        None, "echo", input={"text": "hi"}, metadata=tag(), on_completion="keep"
    )
    await over(client, run)
    thread = await client.threads.get(run["thread_id"])
    assert thread["values"]["answer"] == "hi"

    kept = await client.runs.create(None, "echo", input={"text": "a"}, on_completion="delete")

    async def gone():
        return await client.threads.search(ids=[kept["thread_id"]]) == []

    await eventually(gone, "the end of a thread")


async def test_a_stateless_run_streams(client):
    parts = await collect(
        client.runs.stream(None, "echo", input={"text": "hi"}, on_completion="delete")
    )
    assert names_of(parts)[0] == "metadata"
    assert [part.data for part in parts if part.event == "values"][-1]["answer"] == "hi"


async def test_a_stateless_run_has_nothing_to_resume(client):
    with pytest.raises(Exception, match="a run without a thread resumes nothing"):
        await client.runs.wait(None, "echo", command={"resume": "yes"})


async def test_a_stateless_run_that_fails_raises_too(client):
    with pytest.raises(Exception, match="ValueError: no"):
        await client.runs.wait(None, "failing", input={"message": "no"})


async def test_a_batch_makes_all_its_runs(client):
    labels = tag()
    runs = await client.runs.create_batch(
        [
            {"assistant_id": "echo", "input": {"text": str(n)}, "metadata": labels}
            | {"on_completion": "keep"}
            for n in range(3)
        ]
    )
    assert [run["kwargs"]["input"]["text"] for run in runs] == ["0", "1", "2"]
    assert len({run["thread_id"] for run in runs}) == 3
    for n, run in enumerate(runs):
        assert (await over(client, run))["status"] == "success"
        values = (await client.threads.get(run["thread_id"]))["values"]
        assert values["answer"] == str(n)


async def test_a_batch_is_all_or_nothing(client):
    labels = tag()
    with pytest.raises(NotFoundError):
        await client.runs.create_batch(
            [
                {"assistant_id": "echo", "input": {"text": "x"}, "metadata": labels},
                {"assistant_id": "no-such-graph", "input": {}},
            ]
        )
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create_batch([])
