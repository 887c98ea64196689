"""Results that hooks changed, and runs that hooks stopped, in the state of real threads."""

from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from checkrail.runs.graphs.state import end_with_update, load_history, load_state, rewrite_values
from checkrail.runs.graphs.thread_rows import delete_run

from .support_graphs import State, ask, at, chain, greet, part


class Address(BaseModel):
    street: str


class Letter(MessagesState):
    to: Address


async def reply(state):
    return {
        "messages": [AIMessage("your card is 4111", id="reply")],
        "to": Address(street="High St"),
    }


async def test_a_changed_result_is_the_thread_s_last_state(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    await rewrite_values(graph, thread_id, {"said": ["only this"], "count": 7})
    state = await load_state(graph, thread_id)
    assert state["values"] == {"said": ["only this"], "count": 7}
    assert (state["next"], state["tasks"]) == ([], [])
    assert len(await load_history(graph, thread_id)) == 5
    after = await run(graph, {"said": ["more"]})
    assert after.outcome.values == {"said": ["only this", "more", "hello", "bye"], "count": 8}


async def test_what_was_not_changed_stays_what_it_was(saver, run, thread_id):
    graph = chain(reply, state=Letter, checkpointer=saver)
    saver.serde.allow_state(graph)  # as a server does with its graphs
    ran = await run(graph, {"messages": [{"role": "user", "content": "hi"}]})
    values = ran.outcome.values
    values["messages"][1]["content"] = "your card is ****"
    values["to"]["street"] = "Low St"
    await rewrite_values(graph, thread_id, values)
    kept = (await graph.aget_state(at(thread_id))).values
    assert [type(message) for message in kept["messages"]] == [HumanMessage, AIMessage]
    assert kept["messages"][1] == AIMessage("your card is ****", id="reply")
    assert kept["to"] == Address(street="Low St")
    assert (await load_state(graph, thread_id))["values"] == values


async def test_a_result_that_was_written_back_is_taken_back_with_its_run(saver, run, thread_id):
    graph = chain(greet, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    before = await load_state(graph, thread_id)
    ran = await run(graph, {"said": ["again"]})
    await rewrite_values(graph, thread_id, {"said": [], "count": 0})
    await delete_run(saver, thread_id, ran.run_id)
    assert await load_state(graph, thread_id) == before


async def test_a_stopped_run_leaves_its_message_and_nothing_to_do(saver, run, thread_id):
    graph = chain(reply, ask, state=Letter, checkpointer=saver)
    await run(graph, {"messages": [{"role": "user", "content": "hi"}]})
    assert (await load_state(graph, thread_id))["next"] == ["ask"]
    values = await end_with_update(graph, thread_id, {"messages": [AIMessage("enough", id="end")]})
    state = await load_state(graph, thread_id)
    assert (state["next"], state["interrupts"]) == ([], [])
    assert [message["content"] for message in values["messages"]][-1] == "enough"
    assert state["values"] == values
    again = await run(graph)
    assert not again.outcome.is_interrupted


async def test_a_run_stopped_before_it_wrote_anything_has_the_update_only(saver, thread_id):
    graph = chain(greet, checkpointer=saver)
    assert await end_with_update(graph, thread_id, {"said": ["stop"]}) == {"said": ["stop"]}
    assert await end_with_update(graph, thread_id, None) == {}
    await rewrite_values(graph, thread_id, {"said": ["x"]})
    assert (await load_state(graph, thread_id))["values"] == {}


class Deltas(TypedDict):
    said: Annotated[list, DeltaChannel(lambda said, more: [*said, *(w for x in more for w in x)])]


async def test_a_state_that_is_kept_as_changes_is_written_whole(saver, run, thread_id):
    graph = chain(part, state=Deltas, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    await rewrite_values(graph, thread_id, {"said": ["only this"]})
    assert (await load_state(graph, thread_id))["values"] == {"said": ["only this"]}
    assert await end_with_update(graph, thread_id, {"said": ["stop"]}) == {
        "said": ["only this", "stop"]
    }
    after = await run(graph, {"said": ["more"]})
    assert after.outcome.values["said"] == ["only this", "stop", "more", "bye"]


async def test_a_stop_keeps_what_was_done_beside_it(saver, run, thread_id):
    builder = StateGraph(State)
    builder.add_node(ask).add_node(part).add_edge(START, "ask").add_edge(START, "part")
    graph = builder.compile(checkpointer=saver)
    await run(graph, {"said": ["me"]})
    values = await end_with_update(graph, thread_id, {"said": ["stop"]})
    assert values["said"] == ["me", "bye", "stop"]
    assert (await load_state(graph, thread_id))["next"] == []


async def test_the_result_of_a_function_that_is_a_graph_is_written_back(saver, run, thread_id):
    @entrypoint(checkpointer=saver)
    async def flow(given):
        return {"given": given}

    await run(flow, "x")
    await rewrite_values(flow, thread_id, {"given": "y"})
    assert (await load_state(flow, thread_id))["values"] == {"given": "y"}
