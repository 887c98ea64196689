"""Agents that say their hooks themselves, in a subclass: plan, enrich, schema, cache."""

import dataclasses

import pytest

from checkrail import Agent, AssistantMessage, ToolCall, ToolResult
from checkrail.agent import RunFailed, ToolError
from checkrail.engine.errors import HookRefusedError
from checkrail.styles import AgentEvent, HookDecision
from checkrail.testing import ScriptedModel

DOCS = {"ORA-00904": "the column does not exist"}
SCHEMA = "orders(id, customer, total)"
GUIDANCE = "Begin with a <plan>."


class SqlAgent(Agent):
    def __init__(self, *replies, **options):
        super().__init__(ScriptedModel(replies), tools=[self.sql], **options)
        self.cache = {}
        self.on(AgentEvent.BEFORE_FINAL_RESPONSE).when(self._missing_plan_tag).handle(
            decision=HookDecision.RETRY, effects=[self._inject_plan_guidance]
        )
        self.on(AgentEvent.AFTER_TOOL_EXECUTION).when(self._is_oracle_error_with_docs).handle(
            decision=HookDecision.CONTINUE, value=self._enrich_with_oracle_docs
        )
        self.on(AgentEvent.ON_TOOL_ERROR).when(self._is_invalid_identifier_error).handle(
            decision=HookDecision.CONTINUE, effects=[self._inject_schema_message]
        )
        self.on(AgentEvent.BEFORE_LLM_CALL).when(self._cache_hit).handle(
            decision=HookDecision.STOP, value=self._cached_assistant_message
        )

    async def sql(self, query: str) -> str:
        """Ask the database."""
        if "sum" in query:
            raise ToolError("ORA-00904: invalid identifier")
        return "420"

    def _missing_plan_tag(self, status):
        return "<plan>" not in status.assistant_message.content

    def _inject_plan_guidance(self, status):
        status.conversation_history.append({"role": "user", "content": GUIDANCE})

    async def _is_oracle_error_with_docs(self, status):
        result = status.tool_result
        return result.is_error and result.error[:9] in DOCS

    async def _enrich_with_oracle_docs(self, status, result):
        return dataclasses.replace(result, content=f"{result.content} ({DOCS[result.error[:9]]})")

    def _is_invalid_identifier_error(self, status):
        return "invalid identifier" in status.error

    async def _inject_schema_message(self, status):
        status.flags["schema"] = True
        status.conversation_history.append({"role": "system", "content": SCHEMA})

    def _cache_hit(self, status):
        return status.conversation_history[-1]["content"] in self.cache

    def _cached_assistant_message(self, status, request):
        return AssistantMessage(self.cache[request.messages[-1]["content"]])


def contents(messages):
    return [message["content"] for message in messages]


async def test_an_answer_without_a_plan_is_asked_for_again_with_guidance(valid):
    agent = SqlAgent("420.", "<plan>Ask.</plan> 420.")
    response = await agent.run("What did we sell for?")
    assert response.content == "<plan>Ask.</plan> 420."
    assert contents(response.messages) == [
        "What did we sell for?",
        "Your answer was not accepted. Please answer again.",
        GUIDANCE,
        "<plan>Ask.</plan> 420.",
    ]
    valid(response.messages)


async def test_a_tool_error_is_enriched_before_the_model_sees_it(valid):
    call = ToolCall("1", "sql", {"query": "select sum from orders"})
    agent = SqlAgent(call, "<plan>x</plan> sorry")
    response = await agent.run("?")
    told = "ORA-00904: invalid identifier (the column does not exist)"
    assert agent.model.requests[1].messages[2]["content"] == told
    valid(response.messages)


async def test_after_a_tool_error_the_schema_is_in_the_conversation_behind_the_result(valid):
    call = ToolCall("1", "sql", {"query": "select sum from orders"})
    agent = SqlAgent(call, ToolCall("2", "sql", {"query": "select total"}), "<plan>x</plan> 420")
    response = await agent.run("?")
    roles = [message["role"] for message in response.messages]
    assert roles == ["user", "assistant", "tool", "system", "assistant", "tool", "assistant"]
    assert response.messages[3]["content"] == SCHEMA
    valid(response.messages)


async def test_a_cached_answer_does_not_reach_the_model(valid):
    agent = SqlAgent("never asked")
    agent.cache["What did we sell for?"] = "<plan>x</plan> 420"
    response = await agent.run("What did we sell for?")
    assert (response.content, response.stop_reason) == ("<plan>x</plan> 420", "stop")
    assert (agent.model.requests, response.usage) == ([], {})
    valid(response.messages)


async def test_a_cached_answer_still_has_to_have_a_plan():
    agent = SqlAgent("never asked")
    agent.cache["?"] = agent.cache["Your answer was not accepted. Please answer again."] = "420"
    agent.cache[GUIDANCE] = "420"
    with pytest.raises(RunFailed, match="'missing_plan_tag' at before_final_response has used up"):
        await agent.run("?")


async def test_the_hooks_of_one_agent_are_not_those_of_another():
    agents = [SqlAgent("<plan>x</plan> a"), SqlAgent("<plan>x</plan> b")]
    agents[0].cache["?"] = "<plan>x</plan> cached"
    assert [(await agent.run("?")).content for agent in agents] == [
        "<plan>x</plan> cached",
        "<plan>x</plan> b",
    ]
    assert [spec.name for spec in agents[0].registry.list()] == [
        "missing_plan_tag",
        "is_oracle_error_with_docs",
        "is_invalid_identifier_error",
        "cache_hit",
    ]


@pytest.mark.parametrize("event", AgentEvent)
def test_retry_on_an_event_that_cannot_be_retried_is_refused_and_says_where(make, event):
    begun = make("hi").on(event)
    if event in (AgentEvent.AFTER_LLM_CALL, AgentEvent.BEFORE_FINAL_RESPONSE):
        begun.handle(decision=HookDecision.RETRY)
        return
    with pytest.raises(HookRefusedError, match=r"hook 'mine' was refused: .* does not allow retry"):
        begun.handle(decision=HookDecision.RETRY, name="mine")


@pytest.mark.parametrize("event", AgentEvent)
def test_stop_is_for_the_events_that_have_an_answer_to_give(make, event):
    begun = make("hi").on(event)
    if event in (
        AgentEvent.BEFORE_LLM_CALL,
        AgentEvent.AFTER_LLM_CALL,
        AgentEvent.BEFORE_FINAL_RESPONSE,
    ):
        begun.handle(decision=HookDecision.STOP, value="bye")
        return
    with pytest.raises(HookRefusedError, match=r"hook 'mine' was refused: .* does not allow stop"):
        begun.handle(decision=HookDecision.STOP, value="bye", name="mine")


def test_stop_without_a_value_is_refused(make):
    with pytest.raises(HookRefusedError, match="hook 'mine' was refused: stop has no value"):
        make("hi").on(AgentEvent.BEFORE_LLM_CALL).handle(HookDecision.STOP, name="mine")


@pytest.mark.parametrize("value", [None, 42, {"content": "hi"}, ToolResult()])
async def test_stop_with_a_value_of_another_type_fails_the_run_and_names_the_hook(make, value):
    agent = make("hi")
    agent.on(AgentEvent.BEFORE_LLM_CALL).handle(
        HookDecision.STOP, value=lambda status, current: value, name="cached"
    )
    with pytest.raises(RunFailed, match="hook 'cached' at before_llm_call broke its contract"):
        await agent.run("hello")


@pytest.mark.parametrize("event", [event for event in AgentEvent if event != "query_end"])
async def test_a_value_of_another_type_fails_the_run_and_names_the_hook(make, tools, event):
    agent = make(ToolCall("1", "broken"), "hi", tools=tools)
    agent.on(event).handle(value=lambda status, current: 42, name="confused")
    with pytest.raises(RunFailed, match=r"hook 'confused' at .* broke its contract: .* not int"):
        await agent.run("hello")


async def test_fail_stops_with_an_error(make):
    agent = make("hi")
    agent.on(AgentEvent.BEFORE_LLM_CALL).handle(HookDecision.FAIL, reason="closed on Sundays")
    with pytest.raises(RunFailed, match="closed on Sundays"):
        await agent.run("hello")


async def test_the_other_decisions_work_in_this_style_too(make, tools):
    agent = make(ToolCall("1", "echo"), ToolCall("2", "broken"), "hi", tools=tools)
    agent.on("before_tool_call").handle(HookDecision.REPLACE, value="cached", tools=["echo"])
    agent.on("before_tool_call").handle(HookDecision.BLOCK, reason="no", tools=["broken"])
    response = await agent.run("hello")
    assert [m["content"] for m in response.messages if m["role"] == "tool"] == ["cached", "no"]


def test_an_event_that_does_not_exist_is_refused_with_a_suggestion(make):
    with pytest.raises(LookupError, match="did you mean 'before_llm_call'"):
        make("hi").on("before_llm_cal")
