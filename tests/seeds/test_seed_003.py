"""Hooks of an agent loop, as their guide has them: events, decisions, values, effects, contracts.

The guide's `before_tool_execution` and `after_tool_execution` are our `before_tool_call` and
`after_tool_call`, its `AssistantResponse` is our `AgentResponse`; both names work.
"""

import dataclasses
from typing import ClassVar

import pytest

from checkrail import Agent, AssistantMessage, ToolCall, ToolResult
from checkrail.agent import RunFailed, ToolError
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.points import CONTRACTS, find_places
from checkrail.engine.values import AgentResponse, AssistantResponse
from checkrail.styles import AgentEvent, AgentStatus, HookDecision
from checkrail.testing import ScriptedModel


def broken(why: str) -> str:
    """Fail."""
    raise ToolError(why)


def agent_of(*replies, tools=(broken,), **options):
    return Agent(ScriptedModel(replies), tools=[*tools], **options)


# 2) Events


def test_the_supported_events():
    assert [*AgentEvent] == [
        "before_llm_call",
        "after_llm_call",
        "before_tool_execution",
        "after_tool_execution",
        "on_tool_error",
        "before_final_response",
        "query_end",
    ]


async def test_events_come_in_the_order_of_the_lifecycle():
    seen = []
    agent = agent_of(ToolCall("1", "broken", {"why": "no"}), "done")
    for event in AgentEvent:
        agent.on(event).handle(effects=[lambda status: seen.append(str(status.event))])
    await agent.run("go")
    assert seen == [
        "before_llm_call",
        "after_llm_call",
        "before_tool_execution",
        "after_tool_execution",
        "on_tool_error",
        "before_llm_call",
        "after_llm_call",
        "before_final_response",
        "query_end",
    ]


async def test_on_tool_error_comes_only_if_a_tool_returns_an_error():
    def works() -> str:
        """Work."""
        return "fine"

    seen = []
    agent = agent_of(ToolCall("1", "works", {}), "done", tools=[works])
    for event in AgentEvent:
        agent.on(event).handle(effects=[lambda status: seen.append(str(status.event))])
    await agent.run("go")
    assert "after_tool_execution" in seen
    assert "on_tool_error" not in seen


# 3) Context and 8) Available values by event

POPULATED = {
    "before_llm_call": (set(), type(None)),
    "after_llm_call": ({"assistant_message"}, AssistantMessage),
    "before_tool_execution": ({"tool_call"}, ToolCall),
    "after_tool_execution": ({"tool_result"}, ToolResult),
    "on_tool_error": ({"tool_result", "error"}, ToolResult),
    "before_final_response": ({"assistant_message"}, AssistantMessage),
    "query_end": (set(), AssistantResponse),
}


@pytest.mark.parametrize("event", [*AgentEvent])
async def test_the_context_has_the_core_fields_and_what_belongs_to_the_event(event):
    seen = {}
    agent = agent_of(ToolCall("1", "broken", {"why": "no"}), "done")

    def note(status, current=None):
        seen[str(status.event)] = (dataclasses.replace(status), current)
        return current

    changes = {} if event == "before_llm_call" else {"value": note}
    agent.on(event).handle(decision=HookDecision.CONTINUE, effects=[note], **changes)
    await agent.run("go")
    status, current = seen[event]
    fields, kind = POPULATED[event]
    assert status.agent is agent
    assert status.iteration in (1, 2)
    assert status.conversation_history[0]["role"] == "user"
    particular = ("tool_call", "tool_result", "assistant_message", "error")
    assert {name for name in particular if getattr(status, name) is not None} == fields
    assert isinstance(current, kind)


async def test_at_tool_events_the_history_ends_with_the_message_that_made_the_call():
    seen = {}
    agent = agent_of(ToolCall("1", "broken", {"why": "no"}), "done")
    for event in ("before_tool_execution", "after_tool_execution", "on_tool_error"):
        agent.on(event).handle(
            effects=[lambda status: seen.update({str(status.event): status.conversation_history})]
        )
    await agent.run("go")
    assert len(seen) == 3
    for history in seen.values():
        assert [message["role"] for message in history] == ["user", "assistant"]
        (call,) = history[-1]["tool_calls"]
        assert call["function"] == {"name": "broken", "arguments": '{"why": "no"}'}


# 4) Decisions


def test_the_four_decisions_of_the_guide():
    assert {"CONTINUE", "RETRY", "FAIL", "STOP"} <= HookDecision.__members__.keys()


async def test_continue_keeps_going_to_the_next_hook():
    seen = []
    agent = agent_of("done")
    for number in (1, 2):
        agent.on("after_llm_call").handle(
            decision=HookDecision.CONTINUE, effects=[lambda _, n=number: seen.append(n)]
        )
    await agent.run("go")
    assert seen == [1, 2]


@pytest.mark.parametrize("event", ["after_llm_call", "before_final_response"])
async def test_retry_reruns_the_model(event):
    agent = agent_of("no plan", "<plan> now")
    agent.on(event).when(lambda status: "<plan>" not in status.assistant_message.content).handle(
        decision=HookDecision.RETRY
    )
    response = await agent.run("go")
    assert (response.content, len(agent.model.requests)) == ("<plan> now", 2)


async def test_fail_stops_with_an_error():
    agent = agent_of("done")
    agent.on("after_llm_call").handle(decision=HookDecision.FAIL, reason="enough")
    with pytest.raises(RunFailed, match="enough"):
        await agent.run("go")


@pytest.mark.parametrize("event", ["before_llm_call", "after_llm_call", "before_final_response"])
async def test_stop_returns_a_specific_value(event):
    agent = agent_of("done")
    agent.on(event).handle(decision=HookDecision.STOP, value=AssistantMessage("cached"))
    response = await agent.run("go")
    assert (response.content, response.stop_reason) == ("cached", "stop")


# 5) Value and effects


async def test_a_value_changes_what_the_pipeline_consumes_and_effects_do_not():
    agent = agent_of("done")
    agent.on("before_final_response").handle(
        value=lambda _, message: dataclasses.replace(message, content=message.content + "!"),
        effects=[lambda status: status.flags.update(seen=True)],
    )
    seen = []
    agent.on("query_end").handle(effects=[lambda status: seen.append(dict(status.flags))])
    assert (await agent.run("go")).content == "done!"
    assert seen == [{"seen": True}]


async def test_an_effect_adds_to_the_conversation():
    agent = agent_of(ToolCall("1", "broken", {"why": "no"}), "done")
    note = {"role": "user", "content": "the schema is orders(id)"}
    agent.on("on_tool_error").handle(
        effects=[lambda status: status.conversation_history.append(note)]
    )
    await agent.run("go")
    assert agent.model.requests[-1].messages[-1] == note


# 6) Contracts

CONTRACTS_SUMMARY = {
    "after_llm_call": (AssistantMessage, True, AssistantMessage),
    "before_tool_execution": (ToolCall, False, None),
    "after_tool_execution": (ToolResult, False, None),
    "on_tool_error": (ToolResult, False, None),
    "before_final_response": (AssistantMessage, True, AssistantMessage),
    "query_end": (AssistantResponse, False, None),
}


@pytest.mark.parametrize("event", [*CONTRACTS_SUMMARY])
def test_each_event_has_its_contract(event):
    (place,) = find_places(event)
    contract = CONTRACTS[place.point]
    assert (contract.value, contract.retry, contract.stop) == CONTRACTS_SUMMARY[event]
    assert contract.change


def test_before_llm_call_is_not_retried_and_stops_with_a_message():
    contract = CONTRACTS["before_llm_call"]
    assert (contract.retry, contract.stop) == (False, AssistantMessage)


async def test_the_guides_before_llm_call_has_no_value_and_ours_has_the_request():
    """What differs on purpose: the value there is the request, and so it can be changed."""
    seen = []
    agent = agent_of("done")
    agent.on("before_llm_call").handle(value=lambda _, request: seen.append(request) or request)
    await agent.run("go")
    assert seen[0].messages[-1] == {"role": "user", "content": "go"}


@pytest.mark.parametrize("value", [None, lambda _status, _current: None])
async def test_at_before_llm_call_none_is_a_value_that_changes_nothing(value):
    """The guide's contract there: what comes in and what comes out is None."""
    agent = agent_of("done")
    agent.on(AgentEvent.BEFORE_LLM_CALL).handle(value=value)
    assert (await agent.run("go")).content == "done"
    assert agent.model.requests[0].messages[-1] == {"role": "user", "content": "go"}


async def test_query_end_may_leave_nothing():
    agent = agent_of("done")
    agent.on("query_end").handle(value=lambda _status, _response: None)
    response = await agent.run("go")
    assert (response.content, response.stop_reason) == ("", "answer")


# 7) Callables


async def test_conditions_values_and_effects_may_be_sync_or_async():
    seen = []

    async def condition(status: AgentStatus) -> bool:
        return status.iteration == 1

    async def value(_status: AgentStatus, current: AssistantMessage) -> AssistantMessage:
        return dataclasses.replace(current, content=current.content.upper())

    async def effect(status: AgentStatus) -> str:
        seen.append(status.event)
        return "a return value is ignored"

    agent = agent_of("done")
    agent.on(AgentEvent.AFTER_LLM_CALL).when(condition).handle(value=value, effects=[effect])
    agent.on(AgentEvent.AFTER_LLM_CALL).when(lambda status: False).handle(effects=[effect])
    assert (await agent.run("go")).content == "DONE"
    assert seen == ["after_llm_call"]


# 10) Practical examples


class OracleAgent(Agent):
    """The four examples of the guide, said by an agent itself."""

    docs: ClassVar = {"ORA-00904": "the column does not exist"}

    def __init__(self, *replies):
        super().__init__(ScriptedModel(replies), tools=[self.query])
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

    async def query(self, sql: str) -> str:
        """Ask the database."""
        raise ToolError(f"ORA-00904: {sql}: invalid identifier")

    def _missing_plan_tag(self, status):
        return "<plan>" not in status.assistant_message.content

    def _inject_plan_guidance(self, status):
        status.conversation_history.append({"role": "user", "content": "Begin with a <plan>."})

    def _is_oracle_error_with_docs(self, status):
        return status.tool_result.is_error and status.tool_result.error[:9] in self.docs

    def _enrich_with_oracle_docs(self, _status, result):
        enriched = f"{result.content} ({self.docs[result.error[:9]]})"
        return dataclasses.replace(result, content=enriched)

    def _is_invalid_identifier_error(self, status):
        return "invalid identifier" in status.error

    def _inject_schema_message(self, status):
        status.conversation_history.append({"role": "system", "content": "orders(id, total)"})

    def _cache_hit(self, status):
        return status.conversation_history[-1]["content"] in self.cache

    def _cached_assistant_message(self, status, _current):
        return AssistantMessage(self.cache[status.conversation_history[-1]["content"]])


async def test_example_1_a_missing_plan_is_retried_with_guidance():
    agent = OracleAgent("420", "<plan>look it up</plan> 420")
    assert (await agent.run("the total?")).content == "<plan>look it up</plan> 420"
    told = [message["content"] for message in agent.model.requests[1].messages]
    assert told[-1] == "Begin with a <plan>."


async def test_examples_2_and_3_a_tool_error_is_enriched_and_the_schema_follows():
    agent = OracleAgent(ToolCall("1", "query", {"sql": "sum"}), "<plan></plan> done")
    await agent.run("the total?")
    *_, result, schema = agent.model.requests[1].messages
    assert result["content"] == "ORA-00904: sum: invalid identifier (the column does not exist)"
    assert schema == {"role": "system", "content": "orders(id, total)"}


async def test_example_4_a_cache_hit_ends_before_the_model():
    agent = OracleAgent()
    agent.cache["the total?"] = "<plan></plan> 420"
    response = await agent.run("the total?")
    assert (response.content, agent.model.requests) == ("<plan></plan> 420", [])


# 12) Common errors


@pytest.mark.parametrize(
    "event",
    [
        "before_llm_call",
        "before_tool_execution",
        "after_tool_execution",
        "on_tool_error",
        "query_end",
    ],
)
def test_retry_on_an_event_that_is_not_retryable_is_refused_at_once(event):
    with pytest.raises(HookRefusedError, match=f"{event} does not allow retry"):
        agent_of("done").on(event).handle(decision=HookDecision.RETRY)


@pytest.mark.parametrize(
    "event", ["before_tool_execution", "after_tool_execution", "on_tool_error", "query_end"]
)
@pytest.mark.parametrize("value", [{}, {"value": "x"}])
def test_stop_on_an_event_that_does_not_allow_it_is_refused_at_once(event, value):
    with pytest.raises(HookRefusedError, match=f"{event} does not allow stop"):
        agent_of("done").on(event).handle(decision=HookDecision.STOP, **value)


def test_stop_without_its_value_is_refused_at_once():
    with pytest.raises(HookRefusedError, match="stop has no value"):
        agent_of("done").on("before_llm_call").handle(decision=HookDecision.STOP)


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        ("before_llm_call", AssistantMessage()),
        ("after_llm_call", ToolResult()),
        ("after_llm_call", None),
        ("before_tool_execution", AssistantMessage()),
        ("after_tool_execution", 7),
        ("on_tool_error", ToolCall()),
        ("before_final_response", AgentResponse()),
        ("query_end", AssistantMessage()),
    ],
)
async def test_a_value_of_the_wrong_type_is_an_explicit_error(event, wrong):
    agent = agent_of(ToolCall("1", "broken", {"why": "no"}), "done")
    agent.on(event).handle(value=lambda _status, _current: wrong)
    with pytest.raises(RunFailed, match=f"not {type(wrong).__name__}") as failed:
        await agent.run("go")
    assert failed.value.by_hook


@pytest.mark.parametrize("event", ["before_llm_call", "after_llm_call", "before_final_response"])
@pytest.mark.parametrize("wrong", [ToolResult(), None, 7])
@pytest.mark.parametrize("made", [True, False])
async def test_stop_with_a_value_of_the_wrong_type_is_an_explicit_error(event, wrong, made):
    agent = agent_of("done")
    value = (lambda _status, _current: wrong) if made else wrong
    agent.on(event).handle(decision=HookDecision.STOP, value=value)
    with pytest.raises(RunFailed, match=f"not {type(wrong).__name__}") as failed:
        await agent.run("go")
    assert failed.value.by_hook


@pytest.mark.parametrize("decision", [HookDecision.FAIL, HookDecision.RETRY])
async def test_a_guard_whose_condition_raises_lets_nothing_pass(decision):
    agent = agent_of("done")
    agent.on("before_final_response").when(lambda status: 1 / 0).handle(decision=decision)
    response = await agent.run("go")
    assert (response.stop_reason, response.content) == ("block", "")
    assert "ZeroDivisionError" in response.error
