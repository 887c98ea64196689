"""The names of a model in a graph: matchers go by them at its answers, and at its tools."""

import dataclasses

import pytest

from checkrail.engine.outcomes import Block, Continue

from .support_graphs import (
    ASKED,
    GRAPHS,
    RAN,
    WAYS,
    Scripted,
    async_graph,
    called,
    guard_of,
    hooks,
    scripted,
)


class Renamed(Scripted):
    """A model that answers under a longer name than it is asked by."""

    def _reply(self, messages, kwargs):
        message = super()._reply(messages, kwargs)
        message.response_metadata = {"model_name": f"{self.model}-2025-08-07"}
        return message


def model_of(*replies):
    return scripted(*replies, kind=Renamed)


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def choose(event, request):
    return Continue(dataclasses.replace(request, model="large"))


def other(event, call):
    return Continue(dataclasses.replace(call, args={"amount": 2}))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("pattern", ["small", "small-2025-*", "/^small$/"])
async def test_a_tool_is_gated_by_either_name_of_the_model_that_called_it(graph, way, pattern):
    guard = guard_of(
        hooks(("before_tool_call", lambda event: Block("not with it"), {"models": [pattern]}))
    )
    made = GRAPHS[graph](model_of(called(("pay", {"amount": 1}, "c1")), "done"))
    with guard.activate():
        _, ended = await WAYS[way](made)
    assert RAN == []
    assert "not with it" in ended["messages"][-2].content


@pytest.mark.parametrize("more", [[], [("after_llm_call", lambda event: None)]])
@pytest.mark.parametrize("pattern", ["small", "large", "large-2025-08-07"])
@pytest.mark.parametrize("point", ["before_tool_call", "after_tool_call", "after_llm_call"])
async def test_so_is_what_another_model_did_that_hooks_chose(point, pattern, more):
    seen = []
    see = {"models": [pattern], "lane": "observe", "name": "see"}
    guard = guard_of(hooks(("before_llm_call", choose), (point, seen.append, see), *more))
    with guard.activate():
        await async_graph(model_of(called(("pay", {"amount": 1}, "c1")), "done")).ainvoke(ASKED)
    assert (seen[0].model, seen[0].provider) == ("large", "acme")
    assert RAN == [("pay", 1, "bob")]


async def test_a_hook_that_changes_calls_goes_by_the_answer_too():
    guard = guard_of(hooks(("before_tool_call", other, {"models": ["small-2025-*"]})))
    with guard.activate():
        await async_graph(model_of(called(("pay", {"amount": 1}, "c1")), "done")).ainvoke(ASKED)
    assert RAN == [("pay", 2, "bob")]


async def test_a_run_that_was_left_knows_whose_its_calls_are():
    gate = ("before_tool_call", lambda event: Block("not with it"), {"models": ["small-2025-*"]})
    left, again = guard_of(hooks(gate)), guard_of(hooks(gate))
    with left.activate():
        await model_of(called(("pay", {"amount": 1}, "c1"))).ainvoke("hi")
    again.restore(left.take_snapshot([]))
    assert again.tool_ids("c1")["model"] == "small"
    assert again.tool_ids("c1")["metadata"]["answered_model"] == "small-2025-08-07"
    assert again.tool_ids("c2") == {"tool_call_id": "c2"}
