"""Code that cannot await: its hooks run on the run's loop, or beside it where that is blocked."""

import asyncio
import threading

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime

from checkrail.adapters.langchain import RunEnded
from checkrail.adapters.langchain.guard import Bridge
from checkrail.engine.outcomes import Block
from checkrail.engine.registry import HookRegistry

from .support_graphs import ASKED, RAN, called, guard_of, hooks, look, pay, scripted, sync_graph

PAYS = called(("pay", {"amount": 5}, "c1"), ("pay", {"amount": 6}, "c2"))


class Where:
    """A hook that suspends, and notes on which thread it was called."""

    def __init__(self):
        self.threads = []

    async def __call__(self, event):
        await asyncio.sleep(0)
        self.threads.append(threading.current_thread())


async def test_hooks_of_a_sync_node_run_on_the_runs_own_loop():
    where = Where()
    points = ("before_llm_call", "after_llm_call", "before_tool_call", "after_tool_call")
    with guard_of(hooks(*((point, where) for point in points))).activate():
        await sync_graph(scripted(PAYS, "done")).ainvoke(ASKED)
    assert {*where.threads} == {threading.current_thread()}
    assert len(RAN) == 2


async def test_sync_calls_on_the_loops_own_thread_are_held_too():
    where = Where()
    registry = hooks(
        ("before_llm_call", where),
        ("before_tool_call", lambda event: Block("no"), {"tools": "pay"}),
    )

    async def node(state):
        scripted("hello").invoke("hi")
        assert [*scripted("a b").stream("hi")]
        return {"messages": [pay.invoke(PAYS.tool_calls[0])]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    with guard_of(registry).activate():
        result = await builder.compile().ainvoke(ASKED)
    assert result["messages"][-1].content == "no"
    assert len(where.threads) == 2
    assert threading.current_thread() not in where.threads


async def test_threads_that_a_blocked_loop_waits_for_do_not_wait_for_it():
    where = Where()
    node = ToolNode([pay])

    async def blocking(state):
        return node._func({"messages": [PAYS]}, {}, Runtime())

    builder = StateGraph(MessagesState)
    builder.add_node("node", blocking)
    builder.add_edge(START, "node")
    with guard_of(hooks(("before_tool_call", where))).activate():
        result = await builder.compile().ainvoke(ASKED)
    assert [said.content for said in result["messages"][1:]] == ["paid 5 to bob", "paid 6 to bob"]
    assert len(where.threads) == 2


async def test_a_loop_that_was_blocked_is_used_again_when_it_goes_on():
    where, bridge = Where(), Bridge()
    bridge.loop = asyncio.get_running_loop()
    scope = hooks(("on_run_start", where)).scope()

    def fire():
        return bridge.fire(scope, "on_run_start", {}, {})

    stuck = threading.Thread(target=fire)
    stuck.start()
    stuck.join()
    await asyncio.sleep(0)
    await asyncio.to_thread(fire)
    first, second = where.threads
    assert first is not threading.current_thread()
    assert second is threading.current_thread()


async def test_a_loop_that_is_closed_is_not_waited_for():
    bridge = Bridge()
    bridge.loop = asyncio.new_event_loop()
    bridge.loop.close()
    where = Where()
    await asyncio.to_thread(
        bridge.fire, hooks(("on_run_start", where)).scope(), "on_run_start", {}, {}
    )
    assert len(where.threads) == 1


async def test_a_cancelled_dispatch_does_not_leave_its_thread_waiting():
    bridge = Bridge()
    bridge.loop = asyncio.get_running_loop()
    begun = asyncio.Event()

    async def forever(event):
        begun.set()
        await asyncio.Event().wait()

    scope = hooks(("on_run_start", forever, {"timeout": None})).scope()
    waiting = asyncio.ensure_future(asyncio.to_thread(bridge.fire, scope, "on_run_start", {}, {}))
    await begun.wait()
    for task in bridge._tasks:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_graph_that_runs_without_a_loop_is_held():
    registry = hooks(("before_tool_call", lambda event: Block("no"), {"tools": "pay"}))
    guard, model = guard_of(registry), scripted(PAYS, "done")
    with guard.activate():
        result = sync_graph(model).invoke(ASKED)
    assert [said.content for said in result["messages"][2:]] == ["no", "no", "done"]
    assert guard.usage["small"]["total_tokens"] == 30


def test_a_graph_that_runs_without_a_loop_is_ended():
    guard = guard_of(hooks(("after_llm_call", lambda event: Block("no"))))
    with guard.activate(), pytest.raises(RunEnded):
        sync_graph(scripted("hello")).invoke(ASKED)
    with guard.activate(), pytest.raises(RunEnded):
        [*scripted("hello").stream("hi")]


def test_what_a_hook_raises_beside_the_loop_is_its_own_failure():
    registry = HookRegistry()

    async def broken(event):
        raise ValueError("oh")

    registry.register(broken, "before_llm_call", on_error="block")
    guard = guard_of(registry)
    with guard.activate(), pytest.raises(RunEnded, match="failed with ValueError"):
        scripted("hello").invoke("hi")


def test_observers_in_the_background_come_to_their_end_without_a_loop():
    done = threading.Event()

    async def later(event):
        await asyncio.sleep(0.01)
        done.set()

    registry = hooks(("before_llm_call", later, {"background": True}))
    with guard_of(registry).activate():
        scripted("hello").invoke("hi")
    assert done.wait(5)


async def test_an_async_tool_and_a_thread_of_the_users_own_are_held():
    seen = []
    registry = hooks(("before_tool_call", lambda event: seen.append(event.value.name)))
    with guard_of(registry).activate():
        await asyncio.to_thread(pay.invoke, {"amount": 1})
        await asyncio.create_task(look.ainvoke({"where": "here"}))
    assert seen == ["pay", "look"]


async def test_two_runs_at_once_have_each_their_own_guard():
    async def one(name, limit):
        guard = guard_of(hooks(("before_llm_call", lambda event: Block(name) if limit else None)))
        with guard.activate():
            try:
                await scripted("hello", model=name).ainvoke("hi")
            except RunEnded as ended:
                return str(ended), guard.usage
        return "fine", [*guard.usage]

    results = await asyncio.gather(one("a", limit=False), one("b", limit=True))
    assert results == [("fine", ["a"]), ("b", {})]
