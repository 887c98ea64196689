"""Hooks in runs of the loop: the server's and the agent's own hold, and each is called once."""

import asyncio
from collections import Counter

import pytest

from checkrail import Agent, Block, Fail, HookRegistry, Replace, Retry, ToolCall, tool
from checkrail.agent.blueprint import AgentBuilder
from checkrail.config import load_text
from checkrail.runs.executors.loop import run_loop
from checkrail.testing import ScriptedModel

POINTS = (
    "before_llm_call",
    "after_llm_call",
    "before_tool_call",
    "after_tool_call",
    "on_tool_error",
    "before_final_response",
    "query_end",
)

FILE = """
hooks:
  before_llm_call:
    - name: never
      when: "false"
      block: never
agents:
  helper:
    model:
      provider: scripted
      replies:
        - { tool: inner, args: { query: go } }
        - done
    tools: [{ agent: inner }]
  inner:
    model:
      provider: scripted
      replies: [{ tool: nothing, args: {} }, found]
"""


class Counting:
    """Counts the calls of a hook that stands at every point of the loop."""

    def __init__(self, registry, name):
        self.calls = Counter()
        self.contexts = []
        registry.register(self.see, *POINTS, name=name)

    def see(self, event):
        self.calls[event.agent_name, str(event.point)] += 1
        self.contexts.append(event.context)


def once(agent, *points):
    return {(agent, point): count for point, count in points}


HELPER = once(
    "helper",
    ("before_llm_call", 2),
    ("after_llm_call", 2),
    ("before_tool_call", 1),
    ("after_tool_call", 1),
    ("before_final_response", 1),
    ("query_end", 1),
)
INNER = once(
    "inner",
    ("before_llm_call", 2),
    ("after_llm_call", 2),
    ("before_tool_call", 1),
    ("after_tool_call", 1),
    ("on_tool_error", 1),
    ("before_final_response", 1),
    ("query_end", 1),
)


@pytest.fixture
def served():
    """A server's level of hooks and one for each agent, and the agents made of them."""
    loaded = load_text(FILE)
    server = HookRegistry()
    levels = {name: HookRegistry() for name in loaded.agents}
    builder = AgentBuilder(loaded, hooks=server, levels=levels)
    return server, levels, builder


async def test_each_hook_is_called_once_at_each_point(served, make_work):
    server, levels, builder = served
    everywhere = Counting(server, "server's")
    helpers = Counting(levels["helper"], "helper's")
    inners = Counting(levels["inner"], "inner's")
    work, _ = make_work({"prompt": "?"}, scope=levels["helper"].scope(parent=server.scope()))
    done = await run_loop(work, builder.build("helper"))
    assert (done.output, done.error) == ("done", None)
    assert everywhere.calls == HELPER | INNER
    assert helpers.calls == HELPER | INNER  # what is above an agent holds beneath it
    assert inners.calls == INNER


async def test_a_scope_of_the_server_alone_is_enough(served, make_work):
    server, levels, builder = served
    everywhere = Counting(server, "server's")
    helpers = Counting(levels["helper"], "helper's")
    work, _ = make_work({"prompt": "?"}, scope=server.scope())
    await run_loop(work, builder.build("helper"))
    assert everywhere.calls == helpers.calls == HELPER | INNER


async def test_hooks_that_are_swapped_hold_from_then_on(served, make_work):
    server, levels, builder = served
    agent = builder.build("helper")
    own = HookRegistry()
    own.register(lambda event: Block("closed"), "before_llm_call", name="door", lane="gate")
    levels["helper"].swap(own.list())
    work, _ = make_work({"prompt": "?"}, scope=levels["helper"].scope(parent=server.scope()))
    done = await run_loop(work, agent)
    assert (done.error, done.error_type, done.blocked_by) == ("closed", "Blocked", "door")


async def test_the_file_s_own_hooks_hold_where_no_level_is_given():
    loaded = load_text(FILE + '    hooks: {query_end: {set: {content: "changed"}}}\n')
    agent = AgentBuilder(loaded, hooks=HookRegistry()).build("inner")
    assert (await agent.run("?")).content == "changed"


async def test_events_carry_the_ids_of_the_run(served, make_work):
    server, levels, builder = served
    seen = Counting(server, "server's")
    work, _ = make_work(
        {"prompt": "?"},
        scope=levels["helper"].scope(parent=server.scope()),
        context={"tenant": "acme"},
    )
    await run_loop(work, builder.build("helper"))
    ours = [context for context in seen.contexts if context.agent_name == "helper"]
    for context in ours:
        assert (context.run_id, context.thread_id, context.session_id) == ("r-1", "t-1", "s-1")
        assert (context.user.identity, context.attempt) == ("ann", 2)
        assert (context.model, context.metadata["scope"]) == ("scripted", {"tenant": "acme"})
    beneath = [context for context in seen.contexts if context.agent_name == "inner"]
    assert {context.parent_run_id for context in beneath} == {"r-1"}
    assert {context.session_id for context in beneath} == {"s-1"}


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def agent_of(*replies, **options):
    return Agent(ScriptedModel(replies), [pay], name="helper", **options)


def hooked(*hooks):
    registry = HookRegistry()
    for fn, point, options in hooks:
        registry.register(fn, point, **options)
    return registry.scope()


PAY = ToolCall("c1", "pay", {"amount": 5000})


async def test_a_tool_that_is_blocked_is_told_to_the_model_and_the_run_goes_on(make_work):
    gate = (lambda event: Block("too much"), "before_tool_call", {"name": "limit", "lane": "gate"})
    work, told = make_work({"prompt": "pay"}, scope=hooked(gate))
    done = await run_loop(work, agent_of(PAY, "I could not."))
    assert (done.output, done.error, done.blocked_by) == ("I could not.", None, None)
    assert done.messages[2] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "too much",
        "is_error": True,
    }
    assert told.of("custom", "tool_started") == []
    (finished,) = told.of("custom", "tool_finished")
    assert (finished["is_error"], finished["content"]) == (True, "too much")


SPENT = "hook 'it' at after_llm_call has used up its 1 retries. Its last reason: again"


def raising(event):
    raise ValueError("sk-1")


@pytest.mark.parametrize(
    ("fn", "point", "options", "ended"),
    [
        (lambda e: Block("no"), "before_llm_call", {"lane": "gate"}, ("no", "Blocked")),
        (lambda e: Block("no"), "after_llm_call", {"lane": "gate"}, ("no", "Blocked")),
        (lambda e: Block("no"), "before_final_response", {"lane": "gate"}, ("no", "Blocked")),
        (lambda e: Fail("no"), "before_llm_call", {"lane": "gate"}, ("no", "HookFailed")),
        (lambda e: Fail("no"), "before_tool_call", {"lane": "gate"}, ("no", "HookFailed")),
        (lambda e: Fail("no"), "after_tool_call", {"lane": "transform"}, ("no", "HookFailed")),
        (
            raising,
            "before_llm_call",
            {"lane": "gate", "on_error": "block"},
            ("hook 'it' at before_llm_call failed with ValueError", "Blocked"),
        ),
        (
            lambda e: Retry("again"),
            "after_llm_call",
            {"lane": "gate", "max_retries": 1},
            (SPENT, "HookFailed"),
        ),
    ],
)
async def test_a_hook_that_ends_the_run_is_named(make_work, fn, point, options, ended):
    others = [
        (lambda e: None, point, {"name": "before", "priority": 1}),
        (lambda e: Block("not I"), "before_llm_call", {"name": "shadow", "mode": "shadow"}),
    ]
    work, told = make_work(
        {"prompt": "pay"}, scope=hooked(*others, (fn, point, {"name": "it", **options}))
    )
    done = await run_loop(work, agent_of(PAY, "done", "done"))
    assert (done.error, done.error_type) == ended
    assert (done.blocked_by, done.output) == ("it", None)
    assert told.of("values") == []
    assert "sk-1" not in str(done)


@pytest.mark.parametrize("decision", [Block, Fail])
async def test_the_hook_that_decided_is_named_whatever_others_say(make_work, decision):
    def hook(name, outcome):
        return (lambda e: outcome, "before_llm_call", {"name": name, "lane": "gate"})

    scope = hooked(
        hook("it", decision("hook 'other' says no")),
        hook("same", decision("hook 'other' says no")),
        hook("other", Block("not I")),
    )
    work, _ = make_work({"prompt": "pay"}, scope=scope)
    done = await run_loop(work, agent_of("done"))
    assert (done.error, done.blocked_by) == ("hook 'other' says no", "it")


async def test_a_hook_that_refuses_after_many_calls_of_hooks_is_named(make_work):
    observers = [
        (lambda e: None, "query_end", {"name": f"o{number}", "lane": "observe"})
        for number in range(70)
    ]
    gate = (lambda e: Block("no"), "before_llm_call", {"name": "it", "lane": "gate"})
    work, _ = make_work({"prompt": "pay"}, scope=hooked(gate, *observers))
    done = await run_loop(work, agent_of("done"))
    assert (done.error, done.blocked_by) == ("no", "it")


async def test_a_hook_that_fails_beneath_ends_the_run_and_is_named(make_work):
    inner = Agent(ScriptedModel(["found"]), name="inner")
    inner.registry.register(lambda e: Fail("no"), "before_final_response", name="its", lane="gate")
    agent = Agent(ScriptedModel([ToolCall("c1", "inner", {"query": "go"}), "done"]), [inner])
    work, _ = make_work({"prompt": "?"})
    done = await run_loop(work, agent)
    assert (done.error, done.error_type, done.blocked_by) == ("no", "HookFailed", "its")
    assert done.usage["scripted"]["total_tokens"] > 0


async def test_what_a_hook_failed_is_counted_and_kept(make_work):
    fail = (lambda event: Fail("no"), "after_tool_call", {"name": "it", "lane": "transform"})
    work, _ = make_work({"prompt": "pay"}, scope=hooked(fail))
    done = await run_loop(work, agent_of(PAY, "done"))
    assert [message["role"] for message in done.messages] == ["user", "assistant", "tool"]
    assert done.usage["scripted"]["total_tokens"] > 0
    assert done.usage == work.used


async def test_a_query_that_is_refused_is_not_kept(make_work):
    gate = (lambda event: Block("no"), "before_llm_call", {"name": "it", "lane": "gate"})
    work, _ = make_work(
        {"prompt": "a secret"}, scope=hooked(gate), history=[{"role": "user", "content": "hello"}]
    )
    done = await run_loop(work, agent_of("never"))
    assert done.messages == [{"role": "user", "content": "hello"}]


async def test_what_hooks_redact_is_neither_kept_nor_told(make_work):
    from checkrail import AssistantMessage, Continue

    def redact(event):
        return Continue(AssistantMessage("[redacted]"), redacted=True)

    redactor = (redact, "before_final_response", {"name": "it", "lane": "transform"})
    work, told = make_work({"prompt": "?"}, scope=hooked(redactor))
    done = await run_loop(work, agent_of("my key is sk-1"))
    assert done.output == "[redacted]"
    assert "sk-1" not in f"{done} {told.events}"


async def test_a_result_that_a_hook_brings_is_told_and_no_tool_is_called(make_work):
    bring = (lambda event: Replace("cached"), "before_tool_call", {"name": "it"})
    work, told = make_work({"prompt": "pay"}, scope=hooked(bring))
    done = await run_loop(work, agent_of(PAY, "done"))
    assert done.output == "done"
    assert told.of("custom", "tool_started") == []
    assert told.of("custom", "tool_finished")[0]["content"] == "cached"


async def test_a_hook_is_called_when_the_run_is_cancelled_and_the_run_waits_for_it(make_work):
    began, seen = asyncio.Event(), []

    async def audit(event):
        await asyncio.sleep(0)
        seen.append(event.value.stop_reason)

    async def never(request):
        began.set()
        await asyncio.Event().wait()

    work, _ = make_work(
        {"prompt": "?"}, scope=hooked((audit, "query_end", {"name": "audit", "lane": "transform"}))
    )
    running = asyncio.ensure_future(run_loop(work, Agent(ScriptedModel(never))))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == ["cancelled"]
