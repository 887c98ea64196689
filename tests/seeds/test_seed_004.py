"""A hook trait and its registry, for messages, sessions and tools.

The trait is the class `Hook`; its `Continue { modified }` is `Continue(text)`, its
`Reject { reason }` is `Block(reason)`, or `raise Reject(reason)`.
"""

import asyncio
import enum
from datetime import timedelta

import pytest

from checkrail import (
    AssistantMessage,
    Block,
    Continue,
    Hook,
    HookPoint,
    HookRegistry,
    InboundMessage,
    OutboundMessage,
    Reject,
    Session,
    ToolCall,
)
from checkrail.agent import Agent
from checkrail.hooks import Context, HookRefusedError
from checkrail.testing import ScriptedModel

INBOUND = InboundMessage(user_id="ann", channel="web", content="hello", thread_id="t1")
OUTBOUND = OutboundMessage(user_id="ann", channel="web", content="bye", thread_id=None)
CALL = ToolCall(id="1", name="shell", args={"command": "ls"}, context="chat")
OPENED = Session(session_id="s1", user_id="ann")
CLOSED = Session(session_id="s1", user_id="ann", thread_ids=["t1", "t2"], reason="pruned")

EVENTS = {
    "before_inbound": INBOUND,
    "before_tool_call": CALL,
    "before_outbound": OUTBOUND,
    "on_session_start": OPENED,
    "on_session_end": CLOSED,
    "transform_response": AssistantMessage("It is 420."),
}
"""The six points of the trait, each with its event."""


class HookFailureMode(enum.Enum):
    FAIL_OPEN = "fail_open"
    FAIL_CLOSED = "fail_closed"


class Everywhere(Hook):
    """A hook that says all of itself by methods, as the trait does."""

    def __init__(self):
        self.seen = []

    def name(self):
        return "everywhere"

    def hook_points(self):
        return [*EVENTS]

    async def execute(self, event, ctx: Context):
        self.seen.append((event.value, ctx.user and ctx.user.identity, ctx.thread_id))


class Strict(Everywhere):
    def name(self):
        return "strict"

    def hook_points(self):
        return (HookPoint.BEFORE_INBOUND,)

    def failure_mode(self):
        return HookFailureMode.FAIL_CLOSED

    def timeout(self):
        return timedelta(seconds=2)

    def priority(self):
        return 7


class Said(Hook):
    """The same by attributes."""

    name = "strict"
    hook_points = (HookPoint.BEFORE_INBOUND,)
    failure_mode = HookFailureMode.FAIL_CLOSED
    timeout = timedelta(seconds=2)
    priority = 7

    async def execute(self, event, ctx: Context): ...


@pytest.fixture
def registry():
    return HookRegistry()


@pytest.mark.parametrize("hook", [Strict, Said])
def test_what_the_trait_asks_for_is_said_by_methods_or_attributes(registry, hook):
    spec = registry.register(hook())
    assert (spec.name, spec.timeout, spec.priority) == ("strict", 2.0, 7)
    assert [place.point for place in spec.places] == [HookPoint.BEFORE_INBOUND]
    (bound,) = registry.bound_hooks("before_inbound")
    assert bound.policy == dict.fromkeys(("error", "timeout", "unreachable", "invalid"), "block")


def test_by_default_a_hook_fails_open_and_has_five_seconds(registry):
    class Plain(Everywhere):
        def hook_points(self):
            return ["before_inbound", "before_tool_call", "before_outbound", "transform_response"]

    spec = registry.register(Plain())
    assert spec.timeout == 5.0
    bounds = [bound for place in spec.places for bound in registry.bound_hooks(place.point)]
    assert [bound.policy["error"] for bound in bounds] == ["continue"] * 4


def test_at_the_start_of_a_session_a_hook_is_a_gate_and_fails_closed(registry):
    """What differs on purpose: nothing can be changed there, so a hook can only refuse."""
    registry.register(Everywhere())
    (bound,) = registry.bound_hooks("on_session_start")
    assert (bound.lane, bound.policy["error"]) == ("gate", "block")


@pytest.mark.parametrize("point", [*EVENTS])
async def test_execute_is_given_the_event_and_the_context(registry, point):
    hook = Everywhere()
    registry.register(hook)
    await registry.fire(point, EVENTS[point], user="ann", session_id="s1", thread_id="t1")
    assert hook.seen == [(EVENTS[point], "ann", "t1")]


def test_a_name_is_unique(registry):
    registry.register(Strict())
    with pytest.raises(HookRefusedError, match="there is a hook of that name"):
        registry.register(Said())


def test_the_events_have_the_fields_of_the_trait():
    for message in (INBOUND, OUTBOUND):
        assert message.user_id == "ann"
        assert message.channel == "web"
        assert message.content in ("hello", "bye")
        assert message.thread_id in ("t1", None)
    assert (CALL.name, CALL.args, CALL.context) == ("shell", {"command": "ls"}, "chat")
    assert (OPENED.user_id, OPENED.session_id, OPENED.thread_ids) == ("ann", "s1", [])
    assert CLOSED.thread_ids == ["t1", "t2"]


async def test_hooks_run_in_the_order_of_their_priority_lower_first(registry):
    seen = []

    class Numbered(Everywhere):
        def __init__(self, number):
            self.number = number

        def name(self):
            return f"number {self.number}"

        def hook_points(self):
            return ["before_inbound"]

        async def execute(self, event, ctx: Context):
            seen.append(self.number)

    for number in (30, 10, 20):
        registry.register(Numbered(number), priority=number)
    await registry.fire("before_inbound", INBOUND)
    assert seen == [10, 20, 30]


async def test_modified_content_chains_through_the_hooks_that_follow(registry):
    class Shout(Everywhere):
        def name(self):
            return "shout"

        async def execute(self, event, ctx: Context):
            return Continue(event.value.content.upper())

    class Greet(Everywhere):
        def name(self):
            return "greet"

        def priority(self):
            return 200

        async def execute(self, event, ctx: Context):
            return Continue(f"{event.value.content}!")

    for hook in (Greet(), Shout()):
        registry.register(hook, "before_inbound", "before_outbound", "transform_response")
    for point, text in (("before_inbound", "HELLO!"), ("before_outbound", "BYE!")):
        assert (await registry.fire(point, EVENTS[point])).value.content == text
    verdict = await registry.fire("transform_response", EVENTS["transform_response"])
    assert verdict.value.content == "IT IS 420.!"


async def test_modified_content_of_a_tool_call_is_its_parameters_as_json(registry):
    class Safe(Strict):
        async def execute(self, event, ctx: Context):
            return Continue('{"command": "ls -l"}')

    registry.register(Safe(), "before_tool_call")
    assert (await registry.fire("before_tool_call", CALL)).value.args == {"command": "ls -l"}


async def test_nothing_modified_leaves_the_content(registry):
    class Pass(Strict):
        async def execute(self, event, ctx: Context):
            return Continue()

    registry.register(Pass())
    assert (await registry.fire("before_inbound", INBOUND)).value is INBOUND


@pytest.mark.parametrize("way", ["return", "raise"])
async def test_a_rejection_stops_the_chain_at_once(registry, way):
    class Bouncer(Strict):
        async def execute(self, event, ctx: Context):
            if way == "return":
                return Block("not today")
            raise Reject("not today")

    later = Everywhere()
    registry.register(later, priority=50)
    registry.register(Bouncer())
    verdict = await registry.fire("before_inbound", INBOUND)
    assert (verdict.decision, verdict.reason, verdict.hook) == ("block", "not today", "strict")
    assert later.seen == []


@pytest.mark.parametrize(
    ("mode", "decision"),
    [(HookFailureMode.FAIL_OPEN, "continue"), (HookFailureMode.FAIL_CLOSED, "block")],
)
@pytest.mark.parametrize("failing", ["error", "timeout"])
async def test_the_failure_mode_decides_what_a_failure_or_a_timeout_does(
    registry, mode, decision, failing
):
    class Weak(Strict):
        def failure_mode(self):
            return mode

        def timeout(self):
            return timedelta(milliseconds=20)

        async def execute(self, event, ctx: Context):
            if failing == "error":
                raise RuntimeError("broken")
            await asyncio.sleep(60)

    registry.register(Weak())
    assert (await registry.fire("before_inbound", INBOUND)).decision == decision


async def test_the_end_of_a_session_tells_all_its_threads(registry):
    seen = []

    class Summaries(Hook):
        def name(self):
            return "session_summary"

        def hook_points(self):
            return ["on_session_end"]

        async def execute(self, event, ctx: Context):
            seen.extend(event.value.thread_ids)

    registry.register(Summaries())
    await registry.fire("on_session_end", CLOSED)
    assert seen == ["t1", "t2"]


@pytest.mark.parametrize("way", ["a scope", "an id"])
@pytest.mark.parametrize(("run_id", "context"), [(None, "chat"), ("job-7", "job-7")])
async def test_a_tool_call_is_of_a_chat_or_of_a_job(registry, way, run_id, context):
    def look() -> str:
        """Look."""
        return "fine"

    hook = Everywhere()
    registry.register(hook, "before_tool_call")
    call = ToolCall("1", "look", {})
    agent = Agent(ScriptedModel([call, "done"]), tools=[look])
    if way == "a scope":
        await agent.run("go", scope=registry.scope(run_id=run_id))
    else:
        await agent.run("go", scope=registry.scope(), **({"run_id": run_id} if run_id else {}))
    ((seen, *_),) = hook.seen
    assert (seen.name, seen.context) == ("look", context)
