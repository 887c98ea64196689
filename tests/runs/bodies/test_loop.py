"""Autonomous agents as the bodies of runs: what they are asked, and what comes of it."""

import asyncio
import json

import pytest

from checkrail import Agent, AssistantMessage, Hooks, Stop, ToolCall, tool
from checkrail.agent import ModelError, ToolContext
from checkrail.runs.execute.live_run import EventLimitError
from checkrail.runs.executors.loop import run_loop
from checkrail.testing import ScriptedModel

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


def call(name, id="c1", **args):
    return ToolCall(id, name, args)


@tool
async def double(n: int) -> int:
    """Double it."""
    return 2 * n


def agent_of(*replies, **options):
    return Agent(ScriptedModel(replies), **{"name": "helper", **options})


def asked(agent):
    return [dict(message) for message in agent.model.requests[0].messages]


async def test_a_prompt_is_answered_with_text(make_work):
    work, told = make_work({"prompt": "Hello?"})
    agent = agent_of("Hello, Ann.")
    done = await run_loop(work, agent)
    assert (done.output, done.error) == ("Hello, Ann.", None)
    assert done.messages == [user("Hello?"), assistant("Hello, Ann.")]
    assert asked(agent) == [user("Hello?")]
    assert told.text() == "Hello, Ann."
    assert told.events[-1] == ("values", {"messages": done.messages})


async def test_the_thread_is_remembered(make_work):
    history = [user("I am Ann."), assistant("Hello.")]
    work, _ = make_work({"prompt": "Who am I?"}, history=history)
    agent = agent_of("Ann.")
    done = await run_loop(work, agent)
    assert asked(agent) == [*history, user("Who am I?")]
    assert done.messages == [*history, user("Who am I?"), assistant("Ann.")]
    assert len(history) == 2


async def test_what_a_graph_left_on_the_thread_is_understood(make_work):
    history = [{"type": "human", "content": "a", "id": "1"}, {"type": "ai", "content": "b"}]
    work, _ = make_work({"prompt": "c"}, history=history)
    agent = agent_of("d")
    done = await run_loop(work, agent)
    assert asked(agent) == [user("a"), assistant("b"), user("c")]
    assert done.messages == [user("a"), assistant("b"), user("c"), assistant("d")]


async def test_a_thread_that_cannot_be_read_is_said(make_work):
    work, _ = make_work({"prompt": "c"}, history=[user("a"), {"odd": "sk-1"}])
    done = await run_loop(work, agent_of("never"))
    remedy = "a message is {role: …, content: …}"
    assert done.error == f"the thread's messages[1] cannot be read: {remedy}"


@pytest.mark.parametrize(
    "sent",
    [
        [user("a"), assistant("b"), user("c")],
        [
            {"type": "human", "content": "a"},
            {"type": "ai", "content": "b", "id": "x"},
            {"type": "human", "content": "c"},
        ],
        [["user", "a"], ["ai", "b"], "c"],
        [{"role": "human", "content": "a"}, assistant("b"), user("c")],
    ],
)
async def test_of_messages_the_last_is_the_query_in_whichever_form(make_work, sent):
    history = [user("earlier"), assistant("then")]
    work, _ = make_work({"messages": sent}, history=history)
    agent = agent_of("d")
    await run_loop(work, agent)
    assert asked(agent) == [*history, user("a"), assistant("b"), user("c")]


async def test_tool_calls_of_langchain_are_understood(make_work):
    sent = [
        {"type": "human", "content": "a"},
        {
            "type": "ai",
            "content": "",
            "tool_calls": [{"name": "double", "args": {"n": 1}, "id": "x"}],
        },
        {"type": "tool", "content": "2", "tool_call_id": "x"},
        {"type": "human", "content": "c"},
    ]
    work, _ = make_work({"messages": sent})
    agent = agent_of("d")
    await run_loop(work, agent)
    function = {"name": "double", "arguments": '{"n": 1}'}
    assert asked(agent)[1]["tool_calls"] == [{"id": "x", "type": "function", "function": function}]
    assert asked(agent)[2] == {"role": "tool", "content": "2", "tool_call_id": "x"}


async def test_a_prompt_beside_messages_comes_after_them(make_work):
    work, _ = make_work({"prompt": "c", "messages": [user("a"), assistant("b")]})
    agent = agent_of("d")
    await run_loop(work, agent)
    assert asked(agent) == [user("a"), assistant("b"), user("c")]


async def test_a_query_may_have_parts(make_work):
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {}}]
    work, _ = make_work({"messages": [user(parts)]})
    agent = agent_of("d")
    await run_loop(work, agent)
    assert asked(agent) == [user(parts)]


async def test_with_a_schema_the_parameters_are_told_as_json(make_work):
    given = {"prompt": "é", "n": 1}
    work, _ = make_work(given, agent={"parameters_schema": {"type": "object"}})
    agent = agent_of("d")
    await run_loop(work, agent)
    assert json.loads(asked(agent)[0]["content"]) == given
    assert "é" in asked(agent)[0]["content"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "takes {prompt: text} or {messages"),
        ({}, "takes {prompt: text} or {messages"),
        ("hello", "takes {prompt: text} or {messages"),
        ({"prompt": 5}, "the prompt is int"),
        ({"messages": "hello"}, "`messages` is str"),
        ({"messages": []}, "the last of `messages` has to be the user's"),
        ({"messages": [user("a"), assistant("b")]}, "the last of `messages` has to be"),
        ({"messages": [user(None)]}, "the content of the last message is NoneType"),
        ({"messages": [user("a"), {"type": "odd", "content": "sk-1"}]}, "messages[1] cannot be"),
        ({"messages": [5]}, "messages[0] cannot be read"),
        ({"messages": [{"type": "human"}]}, "messages[0] cannot be read"),
    ],
)
async def test_what_cannot_be_asked_is_said_and_no_model_is_called(make_work, given, told):
    work, heard = make_work(given)
    agent = agent_of("never")
    done = await run_loop(work, agent)
    assert done.error_type == "InvalidParameters"
    assert told in done.error
    assert "sk-1" not in done.error
    assert (agent.model.requests, heard.events) == ([], [])


async def test_with_an_output_schema_the_output_is_data(make_work):
    work, _ = make_work({"prompt": "?"})
    done = await run_loop(work, agent_of('{"n": 3}', output_schema=SCHEMA))
    assert done.output == {"n": 3}
    assert type(done.output) is dict


async def test_null_is_data_too(make_work):
    work, _ = make_work({"prompt": "?"})
    done = await run_loop(work, agent_of("null", output_schema={"type": ["null", "string"]}))
    assert (done.output, done.error) == (None, None)


async def test_what_a_hook_stops_with_is_the_output_whatever_the_schema(make_work):
    hooks = Hooks()
    hooks.hook("before_llm_call")(lambda event: Stop(AssistantMessage("Closed today.")))
    work, _ = make_work({"prompt": "?"})
    done = await run_loop(work, agent_of("never", output_schema=SCHEMA, hooks=hooks))
    assert (done.output, done.error) == ("Closed today.", None)


async def test_an_answer_that_never_fits_its_schema_is_an_error(make_work):
    work, _ = make_work({"prompt": "?"})
    done = await run_loop(work, agent_of(*["no"] * 9, output_schema=SCHEMA))
    assert done.error_type == "OutputMismatch"
    assert "does not fit the output schema" in done.error


async def test_a_model_that_fails_ends_the_run_with_what_there_was(make_work):
    work, told = make_work({"prompt": "?"})
    agent = agent_of(call("double", n=2), ModelError("it is down"), tools=[double])
    done = await run_loop(work, agent)
    assert (done.output, done.error, done.error_type) == (None, "it is down", "ModelError")
    assert [message["role"] for message in done.messages] == ["user", "assistant", "tool"]
    assert done.usage["scripted"]["total_tokens"] > 0
    assert (done.blocked_by, told.of("values")) == (None, [])


async def test_too_many_iterations_are_an_error(make_work):
    work, _ = make_work({"prompt": "?"})
    again = [call("double", f"c{n}", n=n) for n in range(3)]
    done = await run_loop(work, agent_of(*again, tools=[double], max_iterations=2))
    assert done.error_type == "MaxIterations"
    assert "the limit of 2 iterations" in done.error


async def test_usage_is_counted_for_each_model_of_agents_beneath_too(make_work):
    def reply(content, **usage):
        calls = [content] if isinstance(content, ToolCall) else []
        return AssistantMessage("" if calls else content, calls, usage=usage)

    inner = Agent(
        ScriptedModel([reply("42", input_tokens=5, output_tokens=1)], name="small"), name="inner"
    )
    outer = Agent(
        ScriptedModel(
            [
                reply(
                    call("inner", query="?"),
                    input_tokens=10,
                    output_tokens=2,
                    total_tokens=12,
                    input_tokens_details={"cached_tokens": 4, "cache_creation_tokens": 1},
                    output_tokens_details={"reasoning_tokens": 1},
                ),
                reply("It is 42.", input_tokens=20, input_tokens_details={"cached_tokens": 8}),
            ],
            name="large",
        ),
        [inner],
    )
    work, _ = make_work({"prompt": "?"})
    done = await run_loop(work, outer)
    assert done.usage == {
        "small": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6},
        "large": {
            "input_tokens": 30,
            "output_tokens": 2,
            "total_tokens": 32,
            "input_token_details": {"cache_read": 12, "cache_creation": 1},
            "output_token_details": {"reasoning": 1},
        },
    }
    assert work.used == done.usage


async def test_usage_goes_by_the_model_that_answered(make_work):
    answers = AssistantMessage("hi", model="scripted-2026", usage={"total_tokens": 3})
    work, _ = make_work({"prompt": "?"})
    done = await run_loop(work, agent_of(answers))
    counted = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 3}
    assert done.usage == {"scripted-2026": counted}


async def test_what_the_run_carries_reaches_tools_and_no_model(make_work):
    seen = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.run)
        return "looked"

    inner = Agent(ScriptedModel([call("look"), "done"]), [look], name="inner")
    agent = agent_of(call("look"), call("inner", query="go"), "done", tools=[look, inner])
    work, told = make_work({"prompt": "?"}, context={"tenant": "acme-7"})
    done = await run_loop(work, agent)
    assert seen == [{"tenant": "acme-7"}, {"tenant": "acme-7"}]
    sent = [str(request) for model in (agent.model, inner.model) for request in model.requests]
    assert "acme-7" not in f"{sent} {done} {told.events}"


async def test_a_tool_outside_of_runs_is_given_nothing():
    seen = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.run)
        return "looked"

    await agent_of(call("look"), "done", tools=[look]).run("?")
    assert seen == [{}]


async def test_cancelled_it_ends_its_model_and_fires_query_end(make_work):
    asked_now, hooks, ends = asyncio.Event(), Hooks(), []

    async def never(request):
        if len(agent.model.requests) == 2:
            asked_now.set()
            await asyncio.Event().wait()
        return call("double", n=2)

    hooks.hook("query_end")(lambda event: ends.append(event.value.stop_reason))
    agent = Agent(ScriptedModel(never), [double], hooks=hooks)
    work, told = make_work({"prompt": "?"})
    running = asyncio.ensure_future(run_loop(work, agent))
    await asked_now.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (ends, told.of("values")) == (["cancelled"], [])
    assert work.used["scripted"]["total_tokens"] > 0


async def test_cancelled_it_ends_its_tools(make_work):
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    work, _ = make_work({"prompt": "?"})
    running = asyncio.ensure_future(run_loop(work, agent_of(call("wait"), tools=[wait])))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_a_run_that_tells_too_much_is_ended(make_work):
    hooks, ends = Hooks(), []
    hooks.hook("query_end")(lambda event: ends.append(event.value.stop_reason))
    work, told = make_work({"prompt": "?"}, most=3)
    long = " ".join(["word"] * 50)
    with pytest.raises(EventLimitError):
        await run_loop(work, agent_of(long, hooks=hooks))
    assert len(told.events) == 3
    assert len(ends) == 1


async def test_one_agent_answers_many_runs_at_once(make_work):
    agent = Agent(ScriptedModel(lambda request: f"re: {request.messages[-1]['content']}"))
    works = [make_work({"prompt": str(n)}, run_id=f"r-{n}")[0] for n in range(20)]
    found = await asyncio.gather(*(run_loop(work, agent) for work in works))
    assert [done.output for done in found] == [f"re: {n}" for n in range(20)]
    assert all(len(done.messages) == 2 for done in found)
