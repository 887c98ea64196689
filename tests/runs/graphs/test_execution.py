"""Runs of real graphs with real checkpointers: what they tell, and what they come to."""

import asyncio
import uuid
from typing import TypedDict

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.errors import GraphRecursionError
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from checkrail.engine.values import User
from checkrail.runs.graphs.execution import GraphOutcome, GraphRequest, execute_graph

from .support_graphs import ask, at, chain, greet, part

USER = User("ada", permissions=["read"], extras={"plan": "pro"})


async def test_a_run_comes_to_its_last_values(saver, run):
    ran = await run(chain(greet, part, checkpointer=saver), {"said": ["me"]})
    assert ran.outcome == GraphOutcome({"said": ["me", "hello", "bye"], "count": 1})
    assert ran.events == [
        ("values", (), {"said": ["me"]}),
        ("values", (), {"said": ["me", "hello"], "count": 1}),
        ("values", (), {"said": ["me", "hello", "bye"], "count": 1}),
    ]


async def test_a_run_without_a_checkpointer_comes_to_its_values_too(run):
    ran = await run(chain(greet), {"said": ["me"]}, durability="sync")
    assert ran.outcome.values == {"said": ["me", "hello"], "count": 1}


@pytest.fixture
def billing():
    """Make a graph that returns a part of its state."""

    class Order(TypedDict, total=False):
        pieces: int
        price: int
        total: int

    class Bill(TypedDict, total=False):
        total: int

    async def set_price(state):
        return {"price": 5}

    async def add_up(state):
        return {"total": state["pieces"] * state["price"]}

    def make(**compiled):
        builder = StateGraph(Order, output_schema=Bill).add_sequence([set_price, add_up])
        return builder.add_edge(START, "set_price").compile(**compiled)

    return make


async def test_a_run_streams_what_its_graph_returns_and_comes_to_all_its_values(
    billing, saver, run
):
    ran = await run(billing(checkpointer=saver), {"pieces": 2}, modes=["values", "updates"])
    assert ran.events == [
        ("updates", (), {"set_price": None}),
        ("updates", (), {"add_up": {"total": 10}}),
        ("values", (), {"total": 10}),
    ]
    assert ran.outcome.values == {"pieces": 2, "price": 5, "total": 10}
    assert ran.outcome.output == {"total": 10}


async def test_a_run_that_waits_returns_what_its_graph_returns(billing, saver, run):
    graph = billing(checkpointer=saver)
    left = (await run(graph, {"pieces": 2}, interrupt_after=["set_price"])).outcome
    assert (left.is_interrupted, left.values, left.output) == (True, {"pieces": 2, "price": 5}, {})


async def test_the_whole_state_is_streamed_on_request(billing, saver, run):
    ran = await run(billing(checkpointer=saver), {"pieces": 2}, whole_state=True)
    assert ran.of("values")[-1] == {"pieces": 2, "price": 5, "total": 10}
    assert ran.outcome.output == {"total": 10}


async def test_a_graph_without_a_checkpointer_returns_a_part_of_its_state_too(billing, run):
    assert (await run(billing(), {"pieces": 2})).outcome.output == {"total": 10}


async def test_what_nobody_asked_for_is_not_told_and_the_values_are_known_anyway(saver, run):
    ran = await run(chain(greet, checkpointer=saver), {"said": ["me"]}, modes=["custom"])
    assert ran.events == []
    assert ran.outcome.values == {"said": ["me", "hello"], "count": 1}


async def test_every_mode_is_told_in_the_order_of_the_graph(saver, run):
    async def talk(state):
        get_stream_writer()({"progress": 1})
        return {"messages": [await FakeListChatModel(responses=["hi"]).ainvoke("x")]}

    modes = ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"]
    graph = chain(talk, state=MessagesState, checkpointer=saver)
    ran = await run(graph, {"messages": [{"role": "user", "content": "hello"}]}, modes=modes)
    assert {name for name, _, _ in ran.events} == {*modes}
    assert ran.of("custom") == [{"progress": 1}]
    chunks = ran.of("messages")
    assert "".join(message["content"] for message, _ in chunks) == "hi"
    assert {metadata["langgraph_node"] for _, metadata in chunks} == {"talk"}
    assert ran.of("updates")[0]["talk"]["messages"][0]["type"] == "ai"
    assert [message["type"] for message in ran.outcome.values["messages"]] == ["human", "ai"]
    assert ran.of("values")[-1] == ran.outcome.values
    names = [name for name, _, _ in ran.events]
    assert names.index("custom") < names.index("updates")


async def test_events_of_everything_inside_are_told_beside_other_modes(saver, run):
    graph = chain(greet, checkpointer=saver)
    ran = await run(graph, {"said": ["me"]}, modes=["events", "values"])
    told = ran.of("events")
    assert told[0]["event"] == "on_chain_start"
    assert told[-1]["event"] == "on_chain_end"
    assert {event["name"] for event in told} >= {"LangGraph", "greet"}
    assert ran.of("values")[-1] == ran.outcome.values == {"said": ["me", "hello"], "count": 1}


async def test_a_checkpoint_is_told_without_what_the_config_holds(saver, run, thread_id):
    graph = chain(greet, checkpointer=saver)
    config = {"configurable": {"api_key": "sesame"}}
    ran = await run(graph, {"said": []}, modes=["checkpoints", "debug"], config=config)
    first, last = ran.of("checkpoints")[0], ran.of("checkpoints")[-1]
    assert last["checkpoint"] == ran.outcome.checkpoint
    assert last["config"]["configurable"] == last["checkpoint"] | {"run_id": ran.run_id}
    assert [(task["state"], task["checkpoint"]) for task in first["tasks"]] == [(None, None)]
    assert last["checkpoint"]["thread_id"] == thread_id
    assert last["parent_checkpoint"]["checkpoint_id"] != last["checkpoint"]["checkpoint_id"]
    shown = [event["payload"] for event in ran.of("debug") if event["type"] == "checkpoint"]
    assert shown[-1]["checkpoint"] == last["checkpoint"]
    assert "sesame" not in str([told["config"] for told in (last, *shown)])


async def test_subgraphs_are_told_under_their_namespace_if_they_are_wanted(saver, run):
    graph = chain(greet, ("child", chain(part)), checkpointer=saver)
    alone = await run(graph, {"said": ["me"]}, modes=["updates"])
    assert [ns for _, ns, _ in alone.events] == [(), ()]
    with_child = await run(graph, {"said": ["me"]}, modes=["updates"], subgraphs=True)
    ((inner,),) = [ns for _, ns, _ in with_child.events if ns]
    assert inner.startswith("child:")
    assert ("updates", (inner,), {"part": {"said": ["bye"]}}) in with_child.events


async def test_lives_of_subgraphs_are_told_even_if_nothing_else_of_them_is(saver, run):
    graph = chain(greet, ("child", chain(part)), checkpointer=saver)
    ran = await run(graph, {"said": ["me"]}, modes=["lifecycle", "values"])
    assert ran.of("lifecycle") == [
        {"event": "started", "graph_name": "child"},
        {"event": "completed"},
    ]
    assert {ns for name, ns, _ in ran.events if name == "values"} == {()}
    assert not ran.of("tasks")


async def test_a_run_that_asks_comes_to_its_question_and_its_next_node(saver, run, thread_id):
    graph = chain(greet, ask, checkpointer=saver)
    ran = await run(graph, {"said": ["me"]}, modes=["values", "updates"])
    (asked,) = ran.outcome.interrupts
    assert asked == {"value": "first?", "id": asked["id"], "response_schema": None}
    assert ran.outcome.is_interrupted
    assert ran.outcome.next == ["ask"]
    assert ran.outcome.values == {"said": ["me", "hello"], "count": 1}
    (task,) = (await graph.aget_state(at(thread_id))).tasks
    kept = {"value": "first?", "id": asked["id"]}  # as threads show it
    assert ran.outcome.waiting == {task.id: [kept]}
    assert ran.of("values")[-1]["__interrupt__"] == [asked]
    assert {"__interrupt__": [asked]} in ran.of("updates")


async def test_answers_continue_a_run_by_value_or_by_the_question_s_id(saver, run):
    graph = chain(greet, ask, checkpointer=saver)
    first = await run(graph, {"said": []})
    second = await run(graph, command={"resume": "one"})
    assert second.outcome.interrupts[0]["value"] == "second?"
    assert second.outcome.interrupts != first.outcome.interrupts
    answer = {second.outcome.interrupts[0]["id"]: "two"}
    third = await run(graph, command={"resume": answer})
    assert third.outcome == GraphOutcome({"said": ["hello", "one", "two"], "count": 1})


async def test_an_answer_to_nobody_s_question_is_refused_if_resuming_is_strict(saver, run):
    graph = chain(ask, checkpointer=saver)
    await run(graph, {"said": []})
    with pytest.raises(Exception, match="Unknown or already-consumed interrupt"):
        await run(graph, command={"resume": {"0" * 32: "x"}}, strict_resume=True)


async def test_a_breakpoint_is_a_wait_without_a_question(saver, run):
    graph = chain(greet, part, checkpointer=saver)
    before = await run(graph, {"said": []}, interrupt_before=["part"])
    assert before.outcome.is_interrupted
    assert (before.outcome.next, before.outcome.interrupts) == (["part"], [])
    rest = await run(graph)
    assert rest.outcome == GraphOutcome({"said": ["hello", "bye"], "count": 1})
    everywhere = await run(graph, {"said": []}, interrupt_after="*")
    assert everywhere.outcome.next == ["part"]


async def test_a_breakpoint_inside_a_subgraph_is_seen_from_outside(saver, run):
    child = chain(greet, part, interrupt_before=["part"])
    ran = await run(chain(("child", child), checkpointer=saver), {"said": []})
    assert ran.outcome.next == ["child"]
    assert ran.outcome.is_interrupted


async def test_a_command_updates_the_state_and_goes_to_nodes(saver, run):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": []})
    jump = {"update": [["said", ["updated"]]], "goto": {"node": "part", "input": {"said": []}}}
    ran = await run(graph, command=jump)
    assert ran.outcome.values["said"] == ["hello", "bye", "updated", "bye"]
    again = await run(graph, command={"goto": ["greet"], "update": {"count": 9}})
    assert again.outcome.values["count"] == 10


async def test_a_run_from_an_earlier_checkpoint_leaves_what_came_after_it(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    states = [state async for state in graph.aget_state_history(at(thread_id))]
    early = next(state for state in states if state.next == ("part",)).config["configurable"]
    ran = await run(graph, checkpoint={"checkpoint_id": early["checkpoint_id"]})
    assert ran.outcome.values["said"] == ["me", "hello", "bye"]


async def test_a_thread_that_is_done_tells_its_values_when_nothing_is_asked(saver, run):
    graph = chain(greet, checkpointer=saver)
    first = await run(graph, {"said": ["me"]})
    again = await run(graph)
    assert again.outcome.values == first.outcome.values
    assert not again.outcome.is_interrupted


async def test_nodes_find_the_server_s_ids_and_user_in_their_config(saver, run, thread_id):
    seen = {}

    async def look(state, config, runtime=None):
        seen.update(config["configurable"], metadata=config["metadata"])

    config = {"configurable": {"tone": "warm"}, "metadata": {"team": "x"}, "tags": ["t"]}
    options = {"assistant_id": "a-1", "graph_id": "g", "user": USER, "attempt": 2}
    ran = await run(chain(look, checkpointer=saver), {"count": 1}, config=config, **options)
    assert seen["thread_id"] == thread_id
    assert (seen["run_id"], seen["tone"], seen["graph_id"]) == (ran.run_id, "warm", "g")
    user = seen["langgraph_auth_user"]
    assert (user.identity, user["identity"], user["plan"], user.plan) == (
        "ada",
        "ada",
        "pro",
        "pro",
    )
    assert seen["langgraph_auth_user_id"] == "ada"
    assert seen["user_id"] == "ada"
    assert seen["langgraph_auth_permissions"] == ["read"]
    assert (seen["metadata"]["team"], seen["metadata"]["run_attempt"]) == ("x", 2)


@pytest.mark.parametrize(
    ("said", "user", "expected"),
    [({}, User("anonymous"), ""), ({"user_id": "of the app"}, USER, "of the app")],
)
async def test_the_user_s_id_is_empty_for_nobody_and_what_a_client_says(
    saver, run, said, user, expected
):
    seen = {}

    async def look(state, config):
        seen.update(config["configurable"])

    await run(chain(look, checkpointer=saver), {}, config={"configurable": said}, user=user)
    assert seen["user_id"] == expected


async def test_an_error_of_the_graph_passes_through_as_it_is(saver, run):
    class Odd(Exception):
        pass

    raised = Odd("no")

    async def fail(state):
        raise raised

    with pytest.raises(Odd) as caught:
        await run(chain(greet, fail, checkpointer=saver), {"said": []})
    assert caught.value is raised


async def test_a_failed_run_ends_the_lives_of_its_subgraphs(saver, thread_id):
    async def fail(state):
        raise ValueError("no")

    told = []
    request = GraphRequest(
        thread_id=thread_id, run_id="r", input={"said": []}, modes=frozenset({"lifecycle"})
    )
    graph = chain(("child", chain(fail)), checkpointer=saver)
    with pytest.raises(ValueError, match="no"):
        await execute_graph(graph, request, lambda *event: told.append(event[2]))
    assert [event["event"] for event in told] == ["started", "failed"]
    assert "no" in told[-1]["error"]


async def test_a_graph_that_never_stops_meets_its_recursion_limit(saver, run):
    graph = chain(greet, part, checkpointer=saver)
    with pytest.raises(GraphRecursionError):
        await run(graph, {"said": []}, config={"recursion_limit": 1})


async def test_a_cancelled_run_unwinds_its_graph_before_it_ends(saver, run):
    reached, unwound = asyncio.Event(), []

    async def hang(state):
        try:
            reached.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            unwound.append(True)

    task = asyncio.create_task(run(chain(hang, checkpointer=saver), {"said": []}))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert unwound == [True]


async def test_a_listener_that_refuses_an_event_ends_the_run(saver, thread_id):
    def emit(*event):
        raise OverflowError("too many events")

    request = GraphRequest(thread_id=thread_id, run_id="r", input={"said": []})
    with pytest.raises(OverflowError):
        await execute_graph(chain(greet, part, checkpointer=saver), request, emit)


async def test_a_run_that_crashed_goes_on_from_its_own_checkpoint(saver, run):
    broken = [True]

    async def frail(state):
        if broken:
            raise ConnectionError
        return {"said": ["mended"]}

    graph, run_id = chain(greet, frail, checkpointer=saver), str(uuid.uuid4())
    with pytest.raises(ConnectionError):
        await run(graph, {"said": ["me"]}, run_id=run_id)
    broken.clear()
    taken = {"run_id": run_id, "resume_from_checkpoint": True, "attempt": 2}
    ran = await run(graph, {"said": ["me"]}, **taken)
    assert ran.outcome.values == {"said": ["me", "hello", "mended"], "count": 1}


async def test_a_run_that_crashed_before_its_first_checkpoint_begins_again(saver, run):
    graph, run_id = chain(greet, checkpointer=saver), str(uuid.uuid4())
    ran = await run(graph, {"said": ["me"]}, run_id=run_id, resume_from_checkpoint=True)
    assert ran.outcome.values == {"said": ["me", "hello"], "count": 1}


async def test_an_answer_that_crashed_half_way_is_given_once(saver, run):
    """The first attempt has left its answer at the question, where the second finds it."""
    broken, run_id = [True], str(uuid.uuid4())

    async def frail(state):
        first = interrupt("first?")
        if broken:
            raise ConnectionError
        return {"said": [first, interrupt("second?")]}

    graph = chain(greet, frail, checkpointer=saver)
    await run(graph, {"said": []})
    with pytest.raises(ConnectionError):
        await run(graph, command={"resume": "one"}, run_id=run_id)
    broken.clear()
    taken = {"run_id": run_id, "resume_from_checkpoint": True}
    again = await run(graph, command={"resume": "one"}, **taken)
    assert again.outcome.interrupts[0]["value"] == "second?"
    ended = await run(graph, command={"resume": "two"})
    assert ended.outcome.values["said"] == ["hello", "one", "two"]


async def test_a_function_that_is_a_graph_runs_asks_and_ends(saver, run):
    @entrypoint(checkpointer=saver)
    async def flow(given):
        return {"given": given, "answer": interrupt("sure?")}

    asked = await run(flow, "x")
    assert asked.outcome.interrupts[0]["value"] == "sure?"
    ended = await run(flow, command={"resume": "yes"})
    assert ended.outcome == GraphOutcome({"given": "x", "answer": "yes"})


async def test_what_was_told_stays_as_it_was_when_the_graph_changes_its_state(run):
    async def change(state):
        state["said"].append("sneaked in")

    ran = await run(chain(greet, change, part), {"said": ["me"]})
    assert ran.of("values")[1] == {"said": ["me", "hello"], "count": 1}


async def test_an_id_that_is_no_uuid_is_kept_as_it_is(saver, run):
    ran = await run(chain(greet, checkpointer=saver), {"said": []}, run_id="mine")
    assert ran.outcome.values["count"] == 1


async def test_tools_are_told_with_their_start_and_their_end(saver, run):
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async def call(state):
        asked = {"name": "add", "args": {"a": 1, "b": 2}, "id": "call-1", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[asked])]}

    graph = chain(call, ("tools", ToolNode([add])), state=MessagesState, checkpointer=saver)
    ran = await run(graph, {"messages": []}, modes=["tools"])
    started, finished = ran.of("tools")
    assert started == {
        "event": "tool-started",
        "tool_call_id": "call-1",
        "tool_name": "add",
        "input": {"a": 1, "b": 2},
    }
    assert (finished["event"], finished["tool_call_id"]) == ("tool-finished", "call-1")
    assert finished["output"]["content"] == "3"
