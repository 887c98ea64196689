"""A loop is left while somebody is asked, and entered again where it was: nothing is done twice."""

import json

import pytest

from checkrail import Continue, Retry
from checkrail.config import AgentConfig
from checkrail.config.agent_models import ModelConfig
from checkrail.config.agent_tools import ToolConfig
from checkrail.engine.outcomes import Ask
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.testing import ScriptedModel

from .approval_support import approve, asked, asks, deny, questions, waiting

POINTS = ["before_llm_call", "after_llm_call", "before_final_response"]
PROMPT = {"prompt": "Move 500"}


class Bank:
    """An agent whose model calls tools and then tells what came of it."""

    def __init__(self, *calls, last="Done."):
        self.asked = 0
        self.made = []
        self.last = last
        self.calls = calls

    def reply(self, request):
        self.asked += 1
        if self.calls and request.messages[-1]["role"] == "user":
            return AssistantMessage("On it.", [ToolCall(f"c{n}", *each) for n, each in self.calls])
        return self.last

    def agent(self, **more):
        def transfer(amount: int) -> str:
            """Move money."""
            self.made.append(amount)
            return f"moved {amount}"

        def look(place: str) -> str:
            """Look at something."""
            self.made.append(place)
            return f"{place} is fine"

        tools = [
            ToolConfig(tool.__name__, (), (tool.__name__,), (tool,)) for tool in (transfer, look)
        ]
        model = ModelConfig("scripted", given=ScriptedModel(self.reply))
        return AgentConfig("bank", "tests", model=model, tools=tuple(tools), **more)


def calls(*many):
    return [*enumerate(many, 1)]


def about(name, **options):
    """A hook that asks about one tool."""

    def four_eyes(event, call):
        return Ask(f"{call.name}?", **options) if call.name == name else None

    return four_eyes


@pytest.mark.parametrize("point", POINTS)
async def test_a_loop_is_left_at_every_point_and_goes_on_after_a_restart(world, point):
    bank = Bank()
    hook = (asks(), point)
    async with world.opened({}, hook, agents=[bank.agent()]) as first:
        run = await first.admit("bank", PROMPT, await first.thread())
        row = await waiting(first, run)
    before = bank.asked
    assert before == (0 if point == "before_llm_call" else 1)
    async with world.opened({}, hook, agents=[bank.agent()]) as second:
        await approve(second, row)
        ended = await second.over(run)
        assert (ended.status, ended.output) == ("success", "Done.")
        assert bank.asked == 1
        assert ended.usage["scripted"]["output_tokens"] == 2
        values = (await second.thread_row(run.thread_id)).values["messages"]
        assert [each["content"] for each in values] == ["Move 500", "Done."]
        [row] = await questions(second, run)
        assert row.used_at is not None


async def test_tools_that_are_done_are_not_called_again(world):
    bank = Bank(*calls(("look", {"place": "till"}), ("transfer", {"amount": 500})))
    hook = (about("transfer"), "before_tool_call", {"name": "four_eyes"})
    async with world.opened({}, hook, agents=[bank.agent()]) as first:
        run = await first.admit("bank", PROMPT, await first.thread())
        row = await waiting(first, run)
        assert (bank.asked, bank.made) == (1, ["till"])
    async with world.opened({}, hook, agents=[bank.agent()]) as second:
        await approve(second, row)
        ended = await second.over(run)
        assert (ended.status, ended.output, ended.attempt) == ("success", "Done.", 2)
        assert (bank.asked, bank.made) == (2, ["till", 500])
        values = (await second.thread_row(run.thread_id)).values["messages"]
        told = [(each["role"], each["content"]) for each in values]
        assert told == [
            ("user", "Move 500"),
            ("assistant", "On it."),
            ("tool", "till is fine"),
            ("tool", "moved 500"),
            ("assistant", "Done."),
        ]
        records = await second.records(run)
        assert [r["hook"] for r in records if r["kind"] == "hook_complete"].count("four_eyes") == 3


async def test_several_questions_are_open_at_once_and_each_needs_its_answer(world):
    bank = Bank(*calls(("transfer", {"amount": 1}), ("transfer", {"amount": 2})))
    hook = (about("transfer"), "before_tool_call")
    async with world.opened({}, hook, agents=[bank.agent()]) as served:
        run = await served.admit("bank", PROMPT)
        await waiting(served, run, 2)
        one, two = await questions(served, run)
        await deny(served, two, reason="not that one")
        left = await asked(served, run, 2, "denied")
        assert left.approval_id == two.approval_id
        await approve(served, one)
        ended = await served.over(run)
        assert ended.status == "success"
        assert bank.made == [1]


async def test_an_edited_call_is_the_one_that_is_made_and_that_history_shows(world):
    bank = Bank(*calls(("transfer", {"amount": 500})))
    hook = (about("transfer"), "before_tool_call")
    async with world.opened({}, hook, agents=[bank.agent()]) as served:
        run = await served.admit("bank", PROMPT, await served.thread())
        await approve(served, await waiting(served, run), value={"args": {"amount": 5}})
        assert (await served.over(run)).status == "success"
        assert bank.made == [5]
        values = (await served.thread_row(run.thread_id)).values["messages"]
        arguments = values[1]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(arguments) == {"amount": 5}


async def test_a_client_sees_every_text_once(world):
    bank = Bank(*calls(("transfer", {"amount": 500})), last="All is done now.")
    async with world.opened(
        {}, (about("transfer"), "before_tool_call"), agents=[bank.agent()]
    ) as served:
        run = await served.admit("bank", PROMPT, await served.thread())
        row = await waiting(served, run)
        assert "".join(_texts(await served.events(run))) == "On it."
        await approve(served, row)
        await served.over(run)
        assert "".join(_texts(await served.followed(run))) == "On it.All is done now."


async def test_a_text_that_somebody_is_asked_about_is_not_seen_before(world):
    bank = Bank(last="All is done now.")
    async with world.opened({}, (asks(), "before_final_response"), agents=[bank.agent()]) as served:
        run = await served.admit("bank", PROMPT, await served.thread())
        row = await waiting(served, run)
        assert _texts(await served.events(run)) == []
        await approve(served, row)
        await served.over(run)
        assert "".join(_texts(await served.followed(run))) == "All is done now."


def _texts(events):
    custom = [event.data for event in events if event.event == "custom"]
    return [told["text"] for told in custom if told["type"] == "text_delta"]


async def test_retries_are_counted_across_the_wait(world):
    bank = Bank()

    def never(event, message):
        return Retry("again") if bank.asked < 9 else None

    hooks = [(asks(), "before_llm_call"), (never, "after_llm_call", {"max_retries": 2})]
    async with world.opened({}, *hooks, agents=[bank.agent()]) as served:
        run = await served.admit("bank", PROMPT)
        for number in range(1, 4):
            await approve(served, await waiting(served, run, number))
        ended = await served.over(run)
        assert (ended.status, ended.error_type, bank.asked) == ("error", "HookFailed", 3)
        assert "used up its 2 retries" in ended.error


async def test_what_hooks_made_of_the_request_before_is_not_made_again(world):
    bank = Bank()
    seen = []

    def change(event, request):
        seen.append(event.point)
        return Continue(request)

    hooks = [(change, "before_llm_call"), (asks(), "after_llm_call")]
    async with world.opened({}, *hooks, agents=[bank.agent()]) as served:
        run = await served.admit("bank", PROMPT)
        await approve(served, await waiting(served, run))
        assert (await served.over(run)).status == "success"
        assert seen == ["before_llm_call"]


async def test_a_run_that_waits_is_cancelled_and_its_usage_is_known(world):
    bank = Bank()
    async with world.opened({}, (asks(), "after_llm_call"), agents=[bank.agent()]) as served:
        run = await served.admit("bank", PROMPT, await served.thread())
        await waiting(served, run)
        await served.service.cancel(run.run_id, "interrupt")
        ended = await served.over(run)
        assert ended.phase == "cancelled"
        assert ended.usage["scripted"]["output_tokens"] == 2


async def test_a_silence_goes_on_as_the_hook_says_also_when_nobody_holds_the_run(world):
    bank = Bank(*calls(("transfer", {"amount": 500})))
    hook = (about("transfer", timeout=0.2, on_timeout="block"), "before_tool_call")
    async with world.opened({}, hook, agents=[bank.agent()]) as served:
        run = await served.admit("bank", PROMPT)
        ended = await served.over(run)
        assert (ended.status, ended.output, bank.made) == ("success", "Done.", [])
