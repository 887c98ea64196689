"""Tools and models that raise what ends processes elsewhere: an error of theirs, and no more."""

import asyncio

import pytest

from checkrail import Agent, ToolCall, tool
from checkrail.agent import RunFailed
from checkrail.agent.models.scripted_model import ScriptedModel


class Own(BaseException):
    pass


RAISED = [SystemExit(3), Own("no"), asyncio.CancelledError(), GeneratorExit()]
raised = pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)


@raised
@pytest.mark.parametrize("suspends", [False, True, None])
async def test_a_tool_that_exits_gives_an_error_to_the_model(raised, suspends):
    async def leave() -> str:
        """Leave."""
        if suspends:
            await asyncio.sleep(0)
        raise raised

    def plainly_leave() -> str:
        """Leave."""
        raise raised

    made = tool(plainly_leave if suspends is None else leave)
    model = ScriptedModel([ToolCall("c1", made.name, {}), "I am still here."])
    response = await Agent(model, tools=[made]).run("go")
    [result] = [each for each in response.messages if each["role"] == "tool"]
    word = "cancelled" if isinstance(raised, asyncio.CancelledError) else type(raised).__name__
    assert word in result["content"]
    assert response.content == "I am still here."


@raised
async def test_a_model_that_exits_ends_its_run_as_an_error(raised):
    with pytest.raises(RunFailed) as failed:
        await Agent(ScriptedModel([raised])).run("go")
    word = "cancelled" if isinstance(raised, asyncio.CancelledError) else type(raised).__name__
    assert word in str(failed.value)


def test_an_interrupt_of_a_tool_ends_the_process_that_is_the_users():
    @tool
    async def leave() -> str:
        """Leave."""
        raise KeyboardInterrupt

    model = ScriptedModel([ToolCall("c1", "leave", {}), "I am still here."])
    with pytest.raises(KeyboardInterrupt):
        Agent(model, tools=[leave]).run_sync("go")
