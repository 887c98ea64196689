import dataclasses

import pytest

from checkrail import (
    AgentResponse,
    AssistantMessage,
    HookPoint,
    HookRegistry,
    InboundMessage,
    ModelRequest,
    ToolCall,
    ToolResult,
)
from checkrail.engine.frozen import FrozenError
from checkrail.engine.values import plain
from checkrail.styles import LIVE, AgentEvent, AgentStatus, Live, on

ANSWER = AssistantMessage("hello")
CALL = ToolCall(id="1", name="sql")
RESULT = ToolResult(id="1", name="sql", content="ORA-00904", is_error=True, error="bad identifier")
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
REQUEST = ModelRequest(messages=MESSAGES)

FILLED = {
    AgentEvent.BEFORE_LLM_CALL: (REQUEST, {}),
    AgentEvent.AFTER_LLM_CALL: (ANSWER, {"assistant_message": ANSWER}),
    AgentEvent.BEFORE_TOOL_EXECUTION: (CALL, {"tool_call": CALL}),
    AgentEvent.AFTER_TOOL_EXECUTION: (RESULT, {"tool_result": RESULT}),
    AgentEvent.ON_TOOL_ERROR: (RESULT, {"tool_result": RESULT, "error": "bad identifier"}),
    AgentEvent.BEFORE_FINAL_RESPONSE: (ANSWER, {"assistant_message": ANSWER}),
    AgentEvent.QUERY_END: (AgentResponse("bye"), {}),
}


async def statuses(point, value, **context):
    """The status as the condition, an effect and the value see it."""
    registry = HookRegistry()
    seen = []

    def condition(status):
        seen.append(dataclasses.replace(status))
        return True

    def make(status, current):
        seen.append(status)
        return current

    on(registry, point).when(condition).handle(value=make, effects=[seen.append])
    await registry.fire(point, value, **context)
    return seen


@pytest.mark.parametrize("event", AgentEvent)
async def test_each_event_fills_its_fields_and_no_others(event):
    value, filled = FILLED[event]
    live = Live(agent=object(), history=MESSAGES)
    seen = await statuses(event, value, iteration=4, metadata={LIVE: live})
    wanted = AgentStatus(
        event=event,
        agent=live.agent,
        iteration=4,
        conversation_history=MESSAGES,
        flags=live.flags,
        **filled,
    )
    assert seen == [wanted] * 3
    assert seen[1].event is event


async def test_an_effect_and_the_value_share_one_status():
    _, effect, value = await statuses("query_end", None)
    assert effect is value


async def test_a_point_outside_the_loop_has_the_core_fields():
    message = InboundMessage("u", "web", "hi")
    for status in await statuses("before_inbound", message, iteration=None):
        assert status == AgentStatus(event=HookPoint.BEFORE_INBOUND)


async def test_an_error_without_a_text_of_its_own_is_told_by_the_content():
    result = ToolResult(content="ORA-00904", is_error=True)
    assert [s.error for s in await statuses("on_tool_error", result)] == ["ORA-00904"] * 3


async def test_without_a_loop_there_is_no_agent_and_flags_last_for_one_call():
    registry = HookRegistry()
    seen = []

    def mark(status):
        seen.append((status.agent, dict(status.flags)))
        status.flags["seen"] = True

    on(registry, "query_end").handle(effects=[mark])
    on(registry, "query_end").handle(effects=[mark])
    await registry.fire("query_end", None)
    assert seen == [(None, {}), (None, {})]


async def test_flags_are_kept_for_the_whole_run_and_the_agent_is_the_live_one():
    registry = HookRegistry()
    agent = {"mood": "fine"}
    seen = []

    def act(status):
        status.flags["count"] = status.flags.get("count", 0) + 1
        status.agent["mood"] = "better"

    on(registry, "before_tool_execution").handle(effects=[act])
    on(registry, "before_tool_execution").when(lambda s: s.flags["count"] == 2).handle(
        effects=[lambda status: seen.append(status.flags["count"])],
    )
    scope = registry.scope(run_id="r1", metadata={LIVE: Live(agent)})
    await scope.fire("before_tool_call", CALL)
    await scope.fire("before_tool_call", CALL)
    await registry.fire("before_tool_call", CALL, run_id="r2", metadata={LIVE: Live(agent)})
    assert (seen, agent) == ([2], {"mood": "better"})


async def test_the_history_is_the_requests_before_the_model_and_the_loops_elsewhere():
    live = Live(history=[{"role": "user", "content": "earlier"}])
    before = await statuses("before_llm_call", REQUEST, metadata={LIVE: live})
    after = await statuses("after_llm_call", ANSWER, metadata={LIVE: live})
    assert [status.conversation_history for status in before] == [MESSAGES] * 3
    assert [status.conversation_history for status in after] == [live.history] * 3


async def test_the_history_is_a_copy_however_deep():
    live = Live(history=[{"role": "user", "content": ["a"]}])
    for status in (await statuses("after_llm_call", ANSWER, metadata={LIVE: live}))[:2]:
        status.conversation_history[0]["content"].append("b")
        status.conversation_history.clear()
    assert live.history == [{"role": "user", "content": ["a"]}]


@pytest.mark.parametrize(
    "change",
    [
        lambda history: history.clear(),
        lambda history: history.insert(0, {"role": "system", "content": "x"}),
        lambda history: history[0].update(content="rewritten"),
    ],
)
async def test_earlier_messages_cannot_be_rewritten_in_passing(change):
    registry = HookRegistry()
    on(registry, "before_llm_call").handle(effects=[lambda s: change(s.conversation_history)])
    verdict = await registry.fire("before_llm_call", REQUEST)
    assert (verdict.decision, verdict.code) == ("fail", "hook_invalid")
    assert "only appended to" in verdict.reason


async def test_what_was_appended_is_frozen_when_it_is_injected():
    registry = HookRegistry()
    note = {"role": "user", "content": ["x"]}
    on(registry, "before_llm_call").handle(
        effects=[lambda status: status.conversation_history.append(note)],
    )
    verdict = await registry.fire("before_llm_call", REQUEST)
    note["content"].append("y")
    assert verdict.inject == ({"role": "user", "content": ["x"]},)
    with pytest.raises(FrozenError):
        verdict.inject[0]["content"].append("z")


async def test_the_history_can_be_replaced_by_a_longer_list():
    registry = HookRegistry()

    def extend(status):
        status.conversation_history = [*status.conversation_history, {"role": "user"}]

    on(registry, "before_llm_call").handle(effects=[extend])
    assert (await registry.fire("before_llm_call", REQUEST)).inject == ({"role": "user"},)


def test_live_state_is_never_written_out():
    told = plain({LIVE: Live(agent="secret", history=[{"content": "secret"}])})
    assert told == {LIVE: "<Live>"}
