"""That what a run is told holds on every way in: create, wait and stream."""

import pytest

from .support import collect, data_of, over

pytestmark = pytest.mark.filterwarnings("ignore:`checkpoint_during` is deprecated")
TRACING = {"project_name": "mine", "example_id": "0b8f4cf0-6b0d-4bf3-8b2d-9a1f6f0b2c11"}


async def _created(client, thread, assistant, **options):
    run = await client.runs.create(thread, assistant, **options)
    await over(client, run)
    return (await client.threads.get(thread))["values"]


async def _waited(client, thread, assistant, **options):
    return await client.runs.wait(thread, assistant, **options)


async def _streamed(client, thread, assistant, **options):
    parts = await collect(client.runs.stream(thread, assistant, **options))
    return data_of(parts, "values")[-1]


@pytest.fixture(params=[_created, _waited, _streamed], ids=["create", "wait", "stream"])
def result_of(request, client, thread):
    """Run on the thread, in each of the ways, and give the values at its end."""

    async def ran(assistant, **options):
        return await request.param(client, thread, assistant, **options)

    return ran


async def test_config_context_and_metadata_reach_the_graph(result_of, client, thread):
    result = await result_of(
        "configured",
        input={},
        config={"tags": ["mine"], "configurable": {"lang": "fr"}},
        context={"tone": "warm"},
        metadata={"case": "seven"},
    )
    assert (result["tone"], result["configured"]["lang"]) == ("warm", "fr")
    assert result["metadata"]["case"] == "seven"
    (run,) = await client.runs.list(thread)
    assert run["metadata"]["case"] == "seven"


async def test_a_run_can_begin_at_a_checkpoint(result_of, client, thread):
    await client.runs.wait(thread, "steps", input={})
    earlier = (await client.threads.get_history(thread))[2]["checkpoint"]
    again = await result_of("steps", input=None, checkpoint=earlier)
    assert again["log"] == ["one", "two", "three"]
    by_id = await result_of("steps", input=None, checkpoint_id=earlier["checkpoint_id"])
    assert by_id["log"] == ["one", "two", "three"]


async def test_a_question_can_be_answered(result_of, client, thread):
    asked = await client.runs.wait(thread, "ask", input={"topic": "tea"})
    answer = {asked["__interrupt__"][0]["id"]: "yes"}
    result = await result_of("ask", command={"resume": answer}, strict_resume=True)
    assert result["answers"] == ["yes"]


async def test_a_run_can_be_stopped_at_a_node(result_of, client, thread):
    await result_of("steps", input={}, interrupt_before=["two"])
    assert (await client.threads.get_state(thread))["next"] == ["two"]
    await result_of("steps", input=None, interrupt_after=["two"])
    assert (await client.threads.get_state(thread))["next"] == ["three"]


async def test_how_durable_a_run_is_is_kept_to(result_of, client, thread):
    await result_of("steps", input={}, durability="exit")
    assert len(await client.threads.get_history(thread)) == 1
    await result_of("steps", input={}, checkpoint_during=True)
    assert len(await client.threads.get_history(thread)) == 6


async def test_a_busy_thread_is_respected(result_of, client, thread):
    first = await client.runs.create(thread, "slow", input={"seconds": 0.5})
    result = await result_of("slow", input={"laps": 2}, multitask_strategy="enqueue")
    assert result["done"] == [1, 2]
    assert (await client.runs.get(thread, first["run_id"]))["status"] == "success"


async def test_every_option_can_be_said_to_create(client, thread):
    run = await client.runs.create(
        thread,
        "echo",
        input={"text": "hi"},
        command=None,
        stream_mode=["values", "updates"],
        stream_subgraphs=True,
        stream_resumable=True,
        metadata={"n": 1},
        config={"recursion_limit": 9},
        context={},
        checkpoint=None,
        checkpoint_id=None,
        checkpoint_during=None,
        interrupt_before=[],
        interrupt_after=[],
        webhook=None,
        multitask_strategy="enqueue",
        if_not_exists="reject",
        on_completion="keep",
        after_seconds=0,
        langsmith_tracing=TRACING,
        durability="async",
        strict_resume=False,
    )
    assert (await over(client, run))["status"] == "success"
    assert run["kwargs"]["config"]["recursion_limit"] == 9


async def test_every_option_can_be_said_to_wait(client, thread):
    result = await client.runs.wait(
        thread,
        "echo",
        input={"text": "hi"},
        command=None,
        metadata={"n": 1},
        config={"recursion_limit": 9},
        context={},
        checkpoint=None,
        checkpoint_id=None,
        checkpoint_during=None,
        interrupt_before=[],
        interrupt_after=[],
        webhook=None,
        on_disconnect="continue",
        on_completion="keep",
        multitask_strategy="enqueue",
        if_not_exists="reject",
        after_seconds=0,
        langsmith_tracing=TRACING,
        raise_error=True,
        durability="async",
        strict_resume=False,
    )
    assert result["answer"] == "hi"


async def test_every_option_can_be_said_to_stream(client, thread):
    parts = await collect(
        client.runs.stream(
            thread,
            "echo",
            input={"text": "hi"},
            command=None,
            stream_mode=["values", "updates"],
            stream_subgraphs=True,
            stream_resumable=True,
            metadata={"n": 1},
            config={"recursion_limit": 9},
            context={},
            checkpoint=None,
            checkpoint_id=None,
            checkpoint_during=None,
            interrupt_before=[],
            interrupt_after=[],
            feedback_keys=["good"],
            on_disconnect="continue",
            on_completion="keep",
            webhook=None,
            multitask_strategy="enqueue",
            if_not_exists="reject",
            after_seconds=0,
            langsmith_tracing=TRACING,
            durability="async",
            strict_resume=False,
            version="v1",
        )
    )
    assert data_of(parts, "values")[-1]["answer"] == "hi"
