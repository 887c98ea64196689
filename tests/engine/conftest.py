"""What the tests of the engine share: a value for every point, and a way to collect records."""

import asyncio

import pytest

from checkrail.engine.records import HookRecord
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
)

ANSWER = AssistantMessage(content="hello")

SAMPLES = {
    "on_session_start": Session(session_id="s1"),
    "before_inbound": InboundMessage(user_id="u1", channel="web", content="hi"),
    "before_run": {"city": "Bern"},
    "on_run_start": {"city": "Bern"},
    "before_llm_call": ModelRequest(model="m", messages=[{"role": "user", "content": "hi"}]),
    "after_llm_call": ANSWER,
    "before_tool_call": ToolCall(id="c1", name="search", args={"q": "x"}),
    "after_tool_call": ToolResult(id="c1", name="search", content="found"),
    "on_tool_error": ToolResult(id="c1", name="search", is_error=True, error="boom"),
    "before_final_response": ANSWER,
    "query_end": AgentResponse(content="done"),
    "on_result": {"answer": 42},
    "before_outbound": OutboundMessage(user_id="u1", channel="web", content="bye"),
    "after_run": RunResult(output="done"),
    "on_run_error": RunError(error="boom"),
    "on_session_end": Session(session_id="s1", thread_ids=["t1"], reason="closed"),
}


@pytest.fixture
def sample():
    """A value that fits, by the name of the point."""
    return SAMPLES.__getitem__


@pytest.fixture
def told():
    """A sink that keeps the records it was given, in order."""
    kept: list[HookRecord] = []
    return kept


@pytest.fixture
def short_grace(monkeypatch):
    """Let hooks that swallow their cancellation be cancelled again soon, for quick tests."""
    monkeypatch.setattr("checkrail.engine.timeouts.GRACE", 0.05)


@pytest.fixture
async def forever():
    """A hook that swallows every cancellation, until the test is over."""
    released = asyncio.Event()

    async def hook(event):
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    yield hook
    released.set()
    await asyncio.sleep(0.01)
