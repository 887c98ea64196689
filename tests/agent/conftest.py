"""Agents on a script, checked each time for what providers demand of a conversation."""

import json

import pytest

from checkrail import Agent, AssistantMessage, Hooks, ToolCall
from checkrail.agent import RunFailed, ToolError, ToolSource
from checkrail.engine.points import HookPoint
from checkrail.testing import ScriptedModel

POINTS = (
    HookPoint.BEFORE_LLM_CALL,
    HookPoint.AFTER_LLM_CALL,
    HookPoint.BEFORE_TOOL_CALL,
    HookPoint.AFTER_TOOL_CALL,
    HookPoint.ON_TOOL_ERROR,
    HookPoint.BEFORE_FINAL_RESPONSE,
    HookPoint.QUERY_END,
)


def assert_valid(messages):
    """Assert what providers demand: every tool call is followed by its one result, at once."""
    waiting, told = [], set()
    for message in messages:
        where = f"{dict(message)} in {[dict(m) for m in messages]}"
        role = message["role"]
        assert role in {"system", "developer", "user", "assistant", "tool"}, where
        assert message.get("content") is not None or message.get("tool_calls"), where
        if role == "tool":
            assert waiting, f"an orphan: {where}"
            assert message["tool_call_id"] == waiting.pop(0), f"not in its place: {where}"
            continue
        assert not waiting, f"calls {waiting} have no result before {where}"
        for call in message.get("tool_calls", ()):
            assert call["id"], f"a call without an id: {where}"
            assert call["id"] not in told, f"an id that was used before: {where}"
            assert isinstance(json.loads(call["function"]["arguments"]), dict), where
            waiting.append(call["id"])
            told.add(call["id"])
    assert not waiting, f"calls {waiting} have no result at the end of {messages}"


class CheckedAgent(Agent):
    """An agent whose conversation is looked at whenever a run is over, however it ended."""

    async def run_loop(self, messages, *rest, **ids):
        try:
            return await super().run_loop(messages, *rest, **ids)
        finally:
            assert_valid(messages)


@pytest.fixture
def valid():
    """The check of a conversation, for messages that the agents of `make` did not see."""
    return assert_valid


@pytest.fixture
def make():
    """Make an agent that answers from a script; every request that it sends is checked."""
    models = []

    def made(*replies, **options):
        scripted = replies[0] if len(replies) == 1 and callable(replies[0]) else replies
        models.append(ScriptedModel(scripted))
        return CheckedAgent(models[-1], **options)

    yield made
    for model in models:
        for request in model.requests:
            assert_valid(request.messages)
            assert request.messages, "a request without messages"


@pytest.fixture
def ended():
    """Give what a run ended with, also if it failed."""

    async def response_of(run):
        try:
            return await run
        except RunFailed as failed:
            return failed.response

    return response_of


@pytest.fixture
def hooks():
    return Hooks()


class Witness:
    """Keeps every event of the loop's points, as it was when all hooks had spoken."""

    def __init__(self, hooks):
        self.events = []
        hooks.hook(*POINTS, lane="observe", name="witness")(self.see)

    def see(self, event):
        self.events.append(event)

    @property
    def points(self):
        return [str(event.point) for event in self.events]

    def at(self, point):
        return [event for event in self.events if event.point == point]

    @property
    def end(self):
        """The response at `query_end`, which there is once."""
        (event,) = self.at("query_end")
        return event.value


@pytest.fixture
def witness(hooks):
    """A witness among `hooks`."""
    return Witness(hooks)


@pytest.fixture
def calls():
    """Make an answer that calls tools: `calls(("1", "search", {"q": "x"}), …)`."""

    def answer(*given, content=""):
        return AssistantMessage(content, [ToolCall(*call) for call in given])

    return answer


class Source:
    """Tools that come from elsewhere, as those of an MCP server do."""

    def __init__(self, *tools):
        self.offered = tools
        self.opened = self.closed = 0

    async def tools(self):
        self.opened += 1
        return self.offered

    async def aclose(self):
        self.closed += 1


@pytest.fixture
def source():
    assert isinstance(Source(), ToolSource)
    return Source


async def echo(text: str = "") -> str:
    """Say it again."""
    return text


async def broken(why: str = "it broke") -> str:
    """Never works."""
    raise ToolError(why)


@pytest.fixture
def tools():
    """A tool that works and one that does not."""
    return [echo, broken]
