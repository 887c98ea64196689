"""`client.threads.stream()`: questions and answers, failures, and coming late."""

import asyncio
import uuid

import httpx
import pytest

from .support import collect, eventually, said


async def test_a_question_is_told_and_answered(aclient, opened):
    async with opened("ask") as thread:
        await thread.run.start(input={"topic": "tea"})

        async def asked():
            return thread.interrupted

        await eventually(asked, "a question")
        (question,) = thread.interrupts
        assert question["value"] == {"question": "first tea?"}
        await thread.run.respond("yes")
        output = await thread.output
    assert output["answers"] == ["yes"]
    runs = await aclient.runs.list(thread.thread_id)
    assert [run["status"] for run in runs] == ["success", "interrupted"]


async def test_questions_at_once_are_answered_by_their_ids(opened):
    async with opened("ask_both") as thread:
        await thread.run.start(input={"topic": "tea"})

        async def asked():
            return len(thread.interrupts) == 2

        await eventually(asked, "two questions")
        by_text = {each["value"]["question"]: each for each in thread.interrupts}
        first = by_text["first tea?"]["interrupt_id"]
        second = by_text["second tea?"]["interrupt_id"]
        await thread.run.respond("one", interrupt_id=first)
        await thread.run.respond("two", interrupt_id=second)
        output = await thread.output
    assert output["answers"] == ["one", "two"]


async def test_a_projection_ends_at_a_question_and_goes_on_after_it(opened):
    async with opened("ask_twice") as thread:
        await thread.run.start(input={"topic": "tea"})
        async for _ in thread.values:
            pass
        assert thread.interrupts[-1]["value"] == {"question": "first tea?"}
        await thread.run.respond(1, interrupt_id=thread.interrupts[-1]["interrupt_id"])

        async def asked_again():
            return thread.interrupts[-1]["value"] == {"question": "second tea?"}

        await eventually(asked_again, "the second question")
        await thread.run.respond(2, interrupt_id=thread.interrupts[-1]["interrupt_id"])
        assert (await thread.output)["answers"] == [1, 2]


async def test_a_failed_run_raises_its_error(aclient, opened):
    async with opened("failing") as thread:
        await thread.run.start(input={"message": "no such luck"})
        with pytest.raises(RuntimeError, match="no such luck"):
            await thread.output
    assert (await aclient.threads.get(thread.thread_id))["status"] == "error"


async def test_a_cancelled_run_raises_too(aclient, opened):
    async with opened("slow") as thread:
        started = await thread.run.start(input={"seconds": 120})
        await aclient.runs.cancel(thread.thread_id, started["run_id"])
        with pytest.raises(RuntimeError):
            await thread.output


async def test_a_thread_that_exists_gives_the_output_of_its_new_run(aclient, opened):
    mine = (await aclient.threads.create())["thread_id"]
    for text in ("one", "two", "three"):
        async with opened("echo", mine) as thread:
            await thread.run.start(input={"text": text})
            assert (await thread.output)["answer"] == text
    assert (await aclient.threads.get(mine))["values"]["log"] == ["one", "two", "three"]


async def test_a_slow_run_on_an_old_thread_is_waited_for(aclient, opened):
    mine = (await aclient.threads.create())["thread_id"]
    await aclient.runs.wait(mine, "slow", input={"seconds": 0, "laps": 1})
    async with opened("slow", mine) as thread:
        await asyncio.sleep(0.5)  # the watcher is open, and the old run has long ended
        await thread.run.start(input={"seconds": 0.5, "laps": 3})
        assert (await thread.output)["done"] == [1, 2, 3]


async def test_whoever_comes_later_finds_the_state(aclient, opened):
    mine = (await aclient.threads.create())["thread_id"]
    await aclient.runs.wait(mine, "echo", input={"text": "hi"})
    async with opened("echo", mine) as thread:
        assert (await thread.output)["answer"] == "hi"


async def test_whoever_comes_in_between_hears_the_rest(aclient, opened):
    mine = (await aclient.threads.create())["thread_id"]
    await aclient.runs.create(mine, "slow", input={"seconds": 0.5, "laps": 3})

    async def begun():
        return (await aclient.threads.get_state(mine))["next"]

    await eventually(begun, "its first step")  # the client takes what has no next step for an end
    async with opened("slow", mine) as thread:
        assert (await thread.output)["done"] == [1, 2, 3]


async def test_a_name_of_its_own_is_as_good_as_a_new_one(aclient, opened):
    mine = str(uuid.uuid4())
    async with opened("echo", mine) as thread:
        await thread.run.start(input={"text": "hi"})
        assert (await thread.output)["answer"] == "hi"
    assert (await aclient.threads.get(mine))["values"]["answer"] == "hi"


async def test_a_run_started_here_can_be_joined_the_older_way(aclient, opened):
    async with opened("chat") as thread:
        started = await thread.run.start(input=said("hello"))
        await thread.output
    parts = await collect(
        aclient.runs.join_stream(
            thread.thread_id,
            started["run_id"],
            stream_mode=["values", "messages-tuple"],
            last_event_id="-1",
        )
    )
    names = [part.event for part in parts]
    assert names[0] == "values"
    assert "error" not in names
    assert {*names} >= {"values", "messages"}


async def test_a_run_started_the_older_way_is_heard_here(aclient, opened):
    mine = (await aclient.threads.create())["thread_id"]

    async def updated(thread):
        return [
            event["params"]["data"]["node"]
            async for event in thread.subscribe(["updates"])
            if event["method"] == "updates"
        ]

    async with opened("echo", mine) as thread:
        await thread.run.start(input={"text": "so that the server knows of the stream"})
        assert await updated(thread) == ["say"]
        await aclient.runs.create(mine, "slow", input={"seconds": 0.3, "laps": 2})
        assert await updated(thread) == ["lap", "lap"]


async def test_a_run_sees_its_config(opened):
    async with opened("configured") as thread:
        await thread.run.start(
            input={},
            config={"configurable": {"lang": "fr"}, "tags": ["mine"]},
            langsmith_tracing={"project_name": "mine"},
        )
        output = await thread.output
    assert output["configured"]["lang"] == "fr"
    assert "mine" in output["tags"]


async def test_the_graph_of_the_assistant_can_be_seen(opened):
    async with opened("nested") as thread:
        tree = await thread.agent.get_tree()
        deep = await thread.agent.get_tree(xray=True)
    assert "child" in {node["id"] for node in tree["nodes"]}
    assert "child:inside" in {node["id"] for node in deep["nodes"]}


async def test_an_unknown_assistant_is_not_found(aclient, opened):
    async with opened("no-such-graph") as thread:
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await thread.run.start(input={})
    assert refused.value.response.status_code == 404


async def test_output_can_be_waited_for_with_a_limit(aclient, opened):
    async with opened("slow") as thread:
        started = await thread.run.start(input={"seconds": 120})
        with pytest.raises(asyncio.TimeoutError):
            await thread.output.with_timeout(0.5)
    await aclient.runs.cancel(thread.thread_id, started["run_id"], wait=True)
