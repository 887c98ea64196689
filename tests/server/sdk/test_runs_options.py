"""What a run is given besides its input: config, context, durability, checkpoints."""

import pytest

from .support import collect, names_of, over, running, tag


async def test_a_run_takes_no_more_steps_than_allowed(client, thread):
    with pytest.raises(Exception, match="GraphRecursionError"):
        await client.runs.wait(
            thread, "counter", input={"upto": 100}, config={"recursion_limit": 5}
        )
    result = await client.runs.wait(
        thread, "counter", input={"upto": 60, "count": 0}, config={"recursion_limit": 100}
    )
    assert result["count"] == 60


async def test_a_graph_sees_the_config_and_context_of_the_run(client, thread):
    result = await client.runs.wait(
        thread,
        "configured",
        input={},
        config={"tags": ["mine"], "configurable": {"lang": "fr"}},
        context={"tone": "warm", "volume": 3},
        metadata={"case": "seven"},
    )
    assert (result["tone"], result["volume"]) == ("warm", 3)
    assert result["configured"]["lang"] == "fr"
    assert result["configured"]["thread_id"] == thread
    assert "mine" in result["tags"]
    assert result["metadata"]["case"] == "seven"
    (run,) = await client.runs.list(thread)
    assert result["configured"]["run_id"] == result["metadata"]["run_id"] == run["run_id"]
    assert result["configured"]["graph_id"] == "configured"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, ("plain", 1, "")),
        ({"context": {"tone": "warm", "unknown": "x"}}, ("warm", 1, "")),
        ({"config": {"configurable": {"volume": 3, "unknown": "x"}}}, ("plain", 3, "x")),
    ],
)
async def test_a_graph_has_a_context_whatever_the_run_says(client, thread, given, seen):
    result = await client.runs.wait(thread, "configured", input={}, **given)
    assert (result["tone"], result["volume"], result["configured"].get("unknown", "")) == seen


async def test_the_run_says_more_than_its_assistant(client, thread):
    assistant = await client.assistants.create(
        "configured",
        config={"tags": ["his"], "configurable": {"lang": "fr", "land": "be"}},
        context={"tone": "warm", "volume": 3},
    )
    mine = assistant["assistant_id"]
    plain = await client.runs.wait(thread, mine, input={})
    assert (plain["tone"], plain["configured"]["lang"]) == ("warm", "fr")
    assert "his" in plain["tags"]

    said_more = await client.runs.wait(
        thread, mine, input={}, config={"configurable": {"lang": "nl"}}, context={"tone": "cold"}
    )
    assert (said_more["tone"], said_more["configured"]["lang"]) == ("cold", "nl")
    assert said_more["configured"]["land"] == "be"
    assert said_more["configured"]["assistant_id"] == mine


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_how_durable_a_run_is_decides_what_history_keeps(client, thread, durability):
    result = await client.runs.wait(thread, "steps", input={}, durability=durability)
    assert result["log"] == ["one", "two", "three"]
    history = await client.threads.get_history(thread)
    assert history[0]["values"]["log"] == ["one", "two", "three"]
    assert len(history) == (1 if durability == "exit" else 5)


@pytest.mark.filterwarnings("ignore:`checkpoint_during` is deprecated")
@pytest.mark.parametrize(("during", "kept"), [(True, 5), (False, 1)])
async def test_the_older_word_for_durability_still_counts(client, thread, during, kept):
    await client.runs.wait(thread, "steps", input={}, checkpoint_during=during)
    assert len(await client.threads.get_history(thread)) == kept


async def test_a_run_can_begin_at_an_earlier_checkpoint(client, thread):
    await client.runs.wait(thread, "steps", input={})
    earlier = (await client.threads.get_history(thread))[2]
    assert earlier["next"] == ["two"]
    again = await client.runs.wait(thread, "steps", input=None, checkpoint=earlier["checkpoint"])
    assert again["log"] == ["one", "two", "three"]
    by_id = await client.runs.wait(
        thread, "steps", input=None, checkpoint_id=earlier["checkpoint"]["checkpoint_id"]
    )
    assert by_id["log"] == ["one", "two", "three"]
    assert len(await client.threads.get_history(thread, limit=100)) == 5 + 3 + 3


async def test_what_langsmith_would_want_is_accepted(client, thread):
    result = await client.runs.wait(
        thread, "echo", input={"text": "hi"}, langsmith_tracing={"project_name": "mine"}
    )
    assert result["answer"] == "hi"
    parts = await collect(
        client.runs.stream(thread, "echo", input={"text": "hi"}, feedback_keys=["good"])
    )
    assert "values" in names_of(parts)


async def test_a_graph_reaches_the_store(client, thread):
    user = tag()["tag"]
    await client.store.put_item(["facts", user], "tea", {"fact": "tea"})
    result = await client.runs.wait(thread, "memory", input={"user": user, "fact": "rain"})
    assert result["remembered"] == ["rain", "tea"]
    item = await client.store.get_item(["facts", user], "rain")
    assert item["value"] == {"fact": "rain"}


async def test_different_graphs_can_run_on_one_thread(client, thread):
    await client.runs.wait(thread, "steps", input={})
    result = await client.runs.wait(thread, "nested", input={})
    assert result["log"][:3] == ["one", "two", "three"]
    assert (await client.threads.get(thread))["metadata"]["graph_id"] == "nested"


async def test_threads_run_side_by_side(client):
    threads = [(await client.threads.create())["thread_id"] for _ in range(3)]
    runs = [await client.runs.create(mine, "slow", input={"seconds": 60}) for mine in threads]
    for run in runs:
        await running(client, run)
    await client.runs.cancel_many(status="running")
    for run in runs:
        assert (await over(client, run))["status"] == "interrupted"
