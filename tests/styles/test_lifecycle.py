"""The lifecycle style at its six points: its events, its failure mode, and a registry in use."""

import asyncio
import enum
import inspect
from datetime import timedelta

import pytest

from checkrail import (
    AssistantMessage,
    Block,
    Continue,
    HookRegistry,
    InboundMessage,
    OutboundMessage,
    Reject,
    Session,
    ToolCall,
)
from checkrail.engine.errors import HookRefusedError
from checkrail.hooks import Context
from checkrail.styles import (
    InboundEvent,
    LifecycleHook,
    OutboundEvent,
    ResponseTransformEvent,
    SessionEndEvent,
    SessionStartEvent,
    ToolCallEvent,
)
from checkrail.testing import RecordingRegistry

CALL = ToolCall(id="1", name="shell", args={"command": "ls"}, context="job-7")
PARTS = AssistantMessage([{"type": "text", "text": "It is "}, {"type": "text", "text": "420."}])

VALUES = {
    "on_session_start": Session("s1", "ann", "web"),
    "before_inbound": InboundMessage("ann", "web", "hello", "t1"),
    "before_tool_call": CALL,
    "transform_response": AssistantMessage("It is 420."),
    "before_outbound": OutboundMessage("ann", "web", "bye"),
    "on_session_end": Session("s1", "ann", "web", thread_ids=["t1", "t2"], reason="pruned"),
}
EVENTS = {
    "on_session_start": SessionStartEvent("ann", "s1"),
    "before_inbound": InboundEvent("ann", "web", "hello", "t1"),
    "before_tool_call": ToolCallEvent("shell", {"command": "ls"}, "ann", "job-7"),
    "transform_response": ResponseTransformEvent("ann", "t1", "It is 420."),
    "before_outbound": OutboundEvent("ann", "web", "bye", None),
    "on_session_end": SessionEndEvent("ann", "s1", ["t1", "t2"]),
}
DECIDING = [point for point in EVENTS if point != "on_session_end"]
CHANGING = [point for point in DECIDING if point != "on_session_start"]
IDS = {"user": "ann", "thread_id": "t1"}


class HookFailureMode(enum.Enum):
    FAIL_OPEN = 1
    FAIL_CLOSED = 2


class Written(LifecycleHook):
    """A hook that is made of what its test gives it."""

    def __init__(self, answer, *points, name="written", mode=None, seconds=5.0):
        self.answer, self.at, self.said, self.behaviour = answer, points, name, mode
        self.seconds = seconds

    def name(self):
        return self.said

    def hook_points(self):
        return self.at

    def failure_mode(self):
        return self.behaviour or HookFailureMode.FAIL_OPEN

    def timeout(self):
        return timedelta(seconds=self.seconds)

    async def execute(self, event, ctx):
        answer = self.answer(event, ctx)
        return await answer if inspect.isawaitable(answer) else answer


async def fire(registry, point):
    return await registry.fire(point, VALUES[point], **IDS)


def broken(_event, _ctx):
    raise RuntimeError("broken")


async def endless(_event, _ctx):
    await asyncio.Event().wait()


def text_of(value):
    return value.args["command"] if isinstance(value, ToolCall) else value.content


def appended(event, word):
    """What a hook of the trait gives back: the primary content of its event, as a text."""
    match event:
        case InboundEvent(content=text) | OutboundEvent(content=text):
            return f"{text}{word}"
        case ResponseTransformEvent(response=text):
            return f"{text}{word}"
        case ToolCallEvent(parameters={"command": command}):
            return f'{{"command": "{command}{word}"}}'


@pytest.mark.parametrize("point", EVENTS)
async def test_each_point_has_an_event_with_the_names_of_its_fields(point):
    seen = []
    registry = HookRegistry()
    registry.register(Written(lambda event, ctx: seen.append((event, ctx)), point))
    await fire(registry, point)
    ((event, ctx),) = seen
    assert event == EVENTS[point]
    assert isinstance(ctx, Context)
    assert (ctx.user.identity, ctx.thread_id) == ("ann", "t1")


async def test_the_response_is_a_text_whatever_its_shape():
    seen = []
    registry = HookRegistry()
    registry.register(Written(lambda event, _ctx: seen.append(event), "transform_response"))
    await registry.fire("transform_response", PARTS)
    assert seen == [ResponseTransformEvent(None, None, "It is 420.")]


async def test_events_cannot_be_changed():
    def change(event, _ctx):
        event.content = "other"

    registry = RecordingRegistry()
    registry.register(Written(change, "before_inbound", mode="fail_closed"))
    verdict = await fire(registry, "before_inbound")
    assert (verdict.decision, verdict.value) == ("block", VALUES["before_inbound"])


@pytest.mark.parametrize("point", CHANGING)
async def test_changes_are_chained_in_the_order_of_priority(point):
    registry = HookRegistry()
    for number in (3, 1, 2):

        def add(event, _ctx, number=number):
            return Continue(appended(event, f" {number}"))

        registry.register(Written(add, point, name=f"hook {number}"), priority=number)
    registry.register(Written(lambda _event, _ctx: Continue(), point, name="last"))
    verdict = await fire(registry, point)
    assert text_of(verdict.value) == f"{text_of(VALUES[point])} 1 2 3"
    assert verdict.decision == "continue"


@pytest.mark.parametrize("way", ["return a block", "return a rejection", "raise"])
@pytest.mark.parametrize("point", DECIDING)
async def test_a_rejection_ends_the_chain(point, way):
    """At the start of a session all are gates, of which each is asked."""

    def reject(_event, _ctx):
        if way == "raise":
            raise Reject("not today")
        return Block("not today") if way == "return a block" else Reject("not today")

    seen = []
    registry = HookRegistry()
    registry.register(Written(reject, point, name="bouncer", mode="fail_open"))
    later = Written(lambda event, _ctx: seen.append(event), point, name="later")
    registry.register(later, priority=200)
    verdict = await fire(registry, point)
    assert (verdict.decision, verdict.reason, verdict.hook) == ("block", "not today", "bouncer")
    assert len(seen) == (1 if point == "on_session_start" else 0)


async def test_a_rejection_at_the_end_of_a_session_is_the_hooks_mistake():
    registry = RecordingRegistry()
    registry.register(Written(lambda _event, _ctx: Reject("stay"), "on_session_end"))
    assert (await fire(registry, "on_session_end")).decision == "continue"
    assert registry.records[-1].failure == "invalid"


@pytest.mark.parametrize("mode", [None, *HookFailureMode, "fail_open", "FailClosed"])
@pytest.mark.parametrize("failing", [broken, endless], ids=["error", "timeout"])
@pytest.mark.parametrize("point", EVENTS)
async def test_the_failure_mode_holds_for_errors_and_timeouts(point, failing, mode):
    seconds = 0.02 if failing is endless else 5.0
    registry = RecordingRegistry()
    registry.register(Written(failing, point, mode=mode, seconds=seconds))
    verdict = await fire(registry, point)
    closed = "closed" in str(getattr(mode, "name", mode)).lower() and point != "on_session_end"
    assert verdict.decision == ("block" if closed else "continue")
    assert registry.records[-1].failure == ("timeout" if failing is endless else "error")
    assert verdict.value == VALUES[point]


@pytest.mark.parametrize("point", EVENTS)
async def test_it_fails_open_unless_said(point):
    class Plain(LifecycleHook):
        hook_points = (point,)

        async def execute(self, event, ctx):
            raise RuntimeError("broken")

    registry = HookRegistry()
    assert registry.register(Plain()).timeout == 5.0
    assert (await fire(registry, point)).decision == "continue"


async def test_a_wrong_answer_is_a_failure_too():
    registry = HookRegistry()
    registry.register(Written(lambda _event, _ctx: "hello", "before_inbound", mode="fail_closed"))
    assert (await fire(registry, "before_inbound")).decision == "block"
    registry.replace(Written(lambda _event, _ctx: "hello", "before_inbound", mode="fail_open"))
    assert (await fire(registry, "before_inbound")).decision == "continue"


async def test_plain_functions_and_calls_of_the_base_work():
    class Base(LifecycleHook):
        hook_points = ("before_inbound",)

        def execute(self, event, ctx):
            return Continue(f"{event.content}!")

    class Louder(Base):
        async def execute(self, event, ctx):
            answer = await super().execute(event, ctx)
            return Continue(answer.value.upper())

    registry = HookRegistry()
    spec = registry.register(Louder())
    assert (spec.name, spec.source.partition(":")[0]) == ("Louder", __file__)
    assert (await fire(registry, "before_inbound")).value.content == "HELLO!"


@pytest.mark.parametrize("point", ["before_run", "before_llm_call", "after_run", "on_result"])
def test_a_point_without_an_event_is_refused(point):
    with pytest.raises(HookRefusedError, match=f"it reads .*, but {point} carries"):
        HookRegistry().register(Written(broken, point))


def test_execute_takes_the_event_and_the_context():
    with pytest.raises(TypeError, match=r"define execute\(self, event, ctx\)"):

        class Short(LifecycleHook):
            async def execute(self, event): ...


@pytest.mark.parametrize("point", DECIDING)
async def test_hooks_are_added_and_removed_while_messages_flow(point):
    """What is under way ends with the hooks it began with; what is fired next has the new ones."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    seen = []

    async def wait(_event, _ctx):
        entered.set()
        await go_on.wait()

    def note(name):
        return Written(lambda _event, _ctx: seen.append(name), point, name=name)

    registry = HookRegistry()
    registry.register(Written(wait, point, name="wait"), priority=1)
    registry.register(note("there"))
    under_way = asyncio.create_task(fire(registry, point))
    await entered.wait()
    registry.unregister("there")
    registry.register(note("added"))
    registry.register(Written(lambda _event, _ctx: Block("closed"), point, name="closed"))
    go_on.set()
    assert (await under_way).decision == "continue"
    assert seen == ["there"]
    assert [spec.name for spec in registry.list(point)] == ["wait", "added", "closed"]
    assert (await fire(registry, point)).decision == "block"
    registry.unregister("closed")
    assert (await fire(registry, point)).decision == "continue"
    assert seen == ["there", "added", "added"]


async def test_many_messages_see_whole_sets_of_hooks_while_these_change():
    """Two hooks are put in and taken out together: no message meets one of them alone."""
    registry = HookRegistry()

    async def yielding(_event, _ctx):
        await asyncio.sleep(0)

    async def mark(event, _ctx):
        await asyncio.sleep(0)
        return Continue(f"{event.content}+")

    registry.register(Written(yielding, "before_inbound", "before_outbound", name="yielding"))
    without = registry.list()
    registry.register(Written(mark, "before_inbound", "before_outbound", name="first"))
    registry.register(Written(mark, "before_inbound", "before_outbound", name="second"))
    with_both = registry.list()

    async def change():
        for number in range(200):
            registry.swap(without if number % 2 else with_both)
            await asyncio.sleep(0)

    async def send(point):
        return {(await fire(registry, point)).value.content for _ in range(100)}

    points = ["before_inbound", "before_outbound"] * 5
    *sent, _ = await asyncio.gather(*map(send, points), change())
    assert set().union(*sent) == {"hello", "hello++", "bye", "bye++"}


class Bouncer(LifecycleHook):
    """It rejects, and says nothing of its own failures."""

    hook_points = ("before_inbound",)

    async def execute(self, event, ctx):
        return Reject("no") if "x" in event.content else None


class ChosenOpen(Bouncer):
    failure_mode = "fail_open"


class ChosenClosed(Bouncer):
    def failure_mode(self):
        return HookFailureMode.FAIL_CLOSED


class Doorkeeper(Bouncer):
    hook_points = ("on_session_start", "on_session_end")


class Reader(LifecycleHook):
    hook_points = ("before_inbound",)

    async def execute(self, event, ctx):
        return Continue(event.content.strip())


@pytest.mark.parametrize(
    ("kind", "at"), [(Bouncer, "before_inbound"), (Doorkeeper, "on_session_start")]
)
def test_one_that_rejects_and_fails_open_by_default_is_warned_of(kind, at, caplog):
    HookRegistry().register(kind())
    (told,) = caplog.messages
    assert told.startswith(f"hook '{kind.__name__}' at {at}: it can refuse, but in lane ")
    assert told.endswith('lets the work go on. Say failure_mode="fail_closed"')


@pytest.mark.parametrize(
    ("hook", "options"),
    [
        (ChosenOpen(), {}),
        (ChosenClosed(), {}),
        (Reader(), {}),
        (Bouncer(), {"on_error": "continue"}),
        (Bouncer(), {"failure_mode": "fail_closed"}),
    ],
)
def test_one_that_chose_or_never_rejects_is_not_warned_of(hook, options, caplog):
    HookRegistry().register(hook, **options)
    assert caplog.messages == []


async def test_the_remedy_of_the_warning_closes_it():
    class Broken(Doorkeeper):
        failure_mode = "fail_closed"

        async def execute(self, event, ctx):
            raise RuntimeError("broken")

    registry = HookRegistry()
    registry.register(Broken())
    assert (await fire(registry, "on_session_start")).decision == "block"
