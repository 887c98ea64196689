"""Which messages of a request are new since the last request of its conversation."""

import dataclasses

import pytest

from checkrail import Approval, Ask, Block, Continue, HookRegistry, Stop
from checkrail.actions.errors import ActionError
from checkrail.actions.expression import compile_expression
from checkrail.engine.new_messages import SEEN_MESSAGES
from checkrail.engine.values import ModelRequest

POINT = "before_llm_call"


def said(*texts):
    return [{"role": "user", "content": text} for text in texts]


class Watched:
    """A registry whose hook notes the new messages of each request."""

    def __init__(self, answer=lambda event: None):
        self.registry = HookRegistry()
        self.found = []
        self.answer = answer
        self.registry.register(self.note, POINT, name="note")

    def note(self, event):
        self.found.append([message["content"] for message in event.new_messages])
        return self.answer(event)

    async def request(self, *texts, model="m", **ids):
        value = ModelRequest(model=model, messages=said(*texts))
        await self.registry.fire(POINT, value, **ids)
        return self.found[-1]


async def test_only_what_was_not_in_the_last_request_is_new():
    watched = Watched()
    assert await watched.request("a", "b") == ["a", "b"]
    assert await watched.request("a", "b") == []
    assert await watched.request("a", "b", "c") == ["c"]


async def test_what_is_said_again_is_new_each_time():
    watched = Watched()
    await watched.request("go on")
    assert await watched.request("go on", "go on") == ["go on"]
    assert await watched.request("go on", "go on") == []


async def test_a_changed_message_is_new_wherever_it_stands():
    watched = Watched()
    await watched.request("a", "b", "c")
    assert await watched.request("a", "B", "c") == ["B"]
    assert await watched.request("c", "a") == []


@pytest.mark.parametrize(
    "other",
    [{"session_id": "s2"}, {"user": "eve"}, {"model": "other"}, {"agent_name": "helper"}],
)
async def test_what_somebody_else_said_is_new(other):
    watched = Watched()
    first = {"session_id": "s1", "user": "ann"}
    await watched.request("a", **first)
    assert await watched.request("a", **{**first, **other}) == ["a"]
    assert await watched.request("a", **first) == []


async def test_a_conversation_goes_on_over_runs_and_requests():
    watched = Watched()
    await watched.request("a", thread_id="t", run_id="r1", request_id="1", iteration=1)
    assert await watched.request("a", thread_id="t", run_id="r2", request_id="2") == []
    await watched.request("a", run_id="r1")
    assert await watched.request("a", run_id="r2") == ["a"]


@pytest.mark.parametrize("answer", [Block("no"), Stop("this is the answer")])
async def test_what_did_not_go_to_the_model_stays_new(answer):
    watched = Watched(lambda event: answer)
    await watched.request("a")
    assert await watched.request("a") == ["a"]


async def test_what_another_hook_blocked_or_failed_on_stays_new():
    watched = Watched()
    watched.registry.register(lambda event: Block("no"), POINT, name="later")
    await watched.request("a")
    assert await watched.request("a") == ["a"]

    def broken(event):
        raise RuntimeError("broken")

    watched.registry.replace(broken, POINT, name="later", on_error="continue")
    await watched.request("b")
    assert await watched.request("b") == ["b"]


async def test_everything_is_new_to_a_hook_that_was_loaded_anew():
    watched = Watched()
    await watched.request("a")
    watched.registry.replace(watched.note, POINT, name="note")
    assert await watched.request("a") == ["a"]


async def test_each_hook_is_told_what_is_new_to_it():
    registry, found = HookRegistry(), []

    def note(event):
        found.append([message["content"] for message in event.new_messages])

    registry.register(note, POINT, name="sometimes", when=lambda event: event.attempt == 2)
    registry.register(note, POINT, name="always")
    request = ModelRequest(messages=said("a"))
    await registry.fire(POINT, request)
    await registry.fire(POINT, request, attempt=2)
    assert found == [["a"], ["a"], []]


async def test_hooks_see_new_messages_as_others_left_them():
    watched = Watched()

    def mask(event, request):
        hidden = [
            {**said, "content": said["content"].replace("x", "-")} for said in request.messages
        ]
        return Continue(dataclasses.replace(request, messages=hidden), redacted=True)

    watched.registry.register(mask, POINT, name="mask", priority=1)
    assert await watched.request("ax") == ["a-"]
    assert await watched.request("ax", "bx") == ["b-"]


async def test_odd_messages_are_told_apart_or_new():
    registry, found = HookRegistry(), []
    registry.register(lambda event: found.append(len(event.new_messages)), POINT)
    odd = [
        {"role": "user", "content": text} for text in ("\ud800", [b"1"], {"a": float("nan")}, "é")
    ]
    odd.append({"role": "user", "content": object()})
    for _ in range(2):
        await registry.fire(POINT, ModelRequest(messages=odd))
    assert found == [5, 1]


async def test_elsewhere_there_are_none():
    registry, found = HookRegistry(), []
    registry.register(lambda event: found.append(event.new_messages), "before_run")
    await registry.fire("before_run", {"messages": said("a")})
    assert found == [None]


async def test_no_more_is_remembered_than_said():
    watched = Watched()
    await watched.request("first")
    await watched.request(*map(str, range(SEEN_MESSAGES)))
    assert await watched.request("first") == ["first"]


async def test_conditions_name_them():
    registry = HookRegistry()
    when = compile_expression("text(new_messages).contains('no')", [POINT])
    registry.register(lambda event: Block("said no"), POINT, name="no", when=when)
    assert (await registry.fire(POINT, ModelRequest(messages=said("yes")))).decision == "continue"
    blocked = ModelRequest(messages=said("yes", "no"))
    for _ in range(2):
        assert (await registry.fire(POINT, blocked)).decision == "block"
    with pytest.raises(ActionError, match=r"'new_messages'.*does not exist at these points"):
        compile_expression("size(new_messages) > 0", ["before_run"])


async def test_all_are_new_to_whoever_is_no_hook_at_its_turn():
    """A person is asked: no hook is at its turn, so nothing was seen before."""
    found = []

    async def answer(question):
        found.extend(message["content"] for message in kept[-1].new_messages)
        return Approval(approved=True)

    def ask(event):
        kept.append(event)
        return Ask("may it go?")

    kept = []
    registry = HookRegistry()
    registry.register(ask, POINT)
    scope = registry.scope().with_ask_handler(answer)
    for _ in range(2):
        await scope.fire(POINT, ModelRequest(model="m", messages=said("a")))
    assert found == ["a", "a"]
