"""What hooks say of a request, an answer, and the tools in both."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import pytest

from checkrail import Ask, Block, Continue, Fail, HookRegistry, Replace, Retry, Stop
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, ToolResult
from checkrail.gateway.hooks import ROUNDS, GatewayHooks
from checkrail.gateway.tool_memory import ToolMemory

HELLO = ModelRequest(
    model="m",
    messages=[{"role": "user", "content": "my key is sk-123"}],
    raw={"model": "m", "messages": [{"role": "user", "content": "my key is sk-123"}]},
)
ANSWER = AssistantMessage("Hello", model="m", stop_reason="stop")
CALLS = AssistantMessage(
    "I will.",
    [ToolCall("c1", "transfer", {"amount": 5000}), ToolCall("c2", "search", {"q": "x"})],
    model="m",
    stop_reason="tool_calls",
)


@pytest.fixture
def records() -> list:
    return []


@pytest.fixture
def registry(records) -> HookRegistry:
    return HookRegistry(records.append)


def judge(registry: HookRegistry, blocked_tool: str = "text", **ids: object) -> GatewayHooks:
    return GatewayHooks(registry.scope(**ids), memory=ToolMemory(), blocked_tool=blocked_tool)


def block_transfers(registry: HookRegistry) -> None:
    registry.register(
        lambda event: Block("too much"), "before_tool_call", tools=["transfer"], name="limit"
    )


class TestRequests:
    async def test_without_a_decision_the_request_is_sent_as_it_is(self, registry):
        asked = await judge(registry).check_request(HELLO)
        assert asked.request is HELLO

    async def test_a_block_is_a_refusal_with_its_status_and_code(self, registry):
        registry.register(lambda event: Block("no", 451, "law"), "before_llm_call")
        refusal = (await judge(registry).check_request(HELLO)).refusal
        assert (refusal.status, refusal.message, refusal.code) == (451, "no", "law")

    async def test_a_failure_is_a_refusal_with_500(self, registry):
        registry.register(lambda event: Fail("broken"), "before_llm_call")
        assert (await judge(registry).check_request(HELLO)).refusal.status == 500

    async def test_what_is_injected_comes_last(self, registry):
        note = {"role": "system", "content": "Be brief"}
        registry.register(lambda event: Continue(inject=[note]), "before_llm_call")
        asked = await judge(registry).check_request(HELLO)
        assert asked.request.messages == [*HELLO.messages, note]

    async def test_stop_and_replace_are_answers(self, registry):
        registry.register(lambda event: Stop("stopped"), "before_llm_call", name="stop")
        assert (await judge(registry).check_request(HELLO)).message.content == "stopped"
        registry.replace(lambda event: Replace("cached"), "before_llm_call", name="stop")
        assert (await judge(registry).check_request(HELLO)).message.content == "cached"

    async def test_a_replaced_answer_passes_the_hooks_on_answers_and_a_stop_does_not(
        self, registry
    ):
        registry.register(lambda event: Block("never say cached"), "after_llm_call")
        registry.register(lambda event: Replace("cached"), "before_llm_call", name="first")
        assert (await judge(registry).check_request(HELLO)).refusal.message == "never say cached"
        registry.replace(lambda event: Stop(CALLS), "before_llm_call", name="first")
        message = (await judge(registry).check_request(HELLO)).message
        assert (message.tool_calls, message.stop_reason) == ([], "stop")

    async def test_a_replaced_answer_that_is_to_be_retried_asks_the_model(self, registry):
        registry.register(
            lambda event, request: Replace("cached") if len(request.messages) == 1 else None,
            "before_llm_call",
        )
        registry.register(
            lambda event, message: Retry("stale") if message.content == "cached" else None,
            "after_llm_call",
        )
        asked = await judge(registry).check_request(HELLO)
        assert asked.request.messages[1:] == [{"role": "user", "content": "stale"}]

    async def test_hooks_cannot_make_a_stream_of_what_is_none(self, registry):
        registry.register(
            lambda event, request: Continue(dataclasses.replace(request, stream=True)),
            "before_llm_call",
        )
        assert (await judge(registry).check_request(HELLO)).request.stream is False

    async def test_a_redaction_leaves_the_secret_nowhere(self, registry, records):
        """Also not in what the wire carried, which this hook forgot, nor with a later hook."""

        def redact(event, request):
            messages = [{"role": "user", "content": "my key is [redacted]"}]
            return Continue(dataclasses.replace(request, messages=messages), redacted=True)

        def later(event, request):
            return Continue(dataclasses.replace(request, params={"seen": str(request)}))

        registry.register(redact, "before_llm_call")
        registry.register(later, "before_llm_call")
        seen = []
        registry.register(lambda event: seen.append(event.value), "before_llm_call", lane="observe")
        asked = await judge(registry).check_request(HELLO)
        told = [asked.request, seen, [record.wire() for record in records]]
        assert "[redacted]" in str(told)
        assert "sk-123" not in str(told)

    async def test_nobody_is_asked(self, registry):
        async def person(question):
            raise AssertionError

        registry.ask = person
        registry.register(lambda event: Ask("may I?"), "before_llm_call")
        assert (await judge(registry).check_request(HELLO)).refusal.status == 400


class TestAnswers:
    async def test_without_a_decision_the_answer_is_given_as_it_is(self, registry):
        answered = await judge(registry).check_answer(HELLO, CALLS)
        assert answered.message is CALLS

    async def test_change_block_and_stop(self, registry):
        registry.register(lambda event: Continue("changed"), "after_llm_call", name="it")
        assert (await judge(registry).check_answer(HELLO, CALLS)).message.content == "changed"
        registry.replace(lambda event: Block("no", 418), "after_llm_call", name="it")
        assert (await judge(registry).check_answer(HELLO, CALLS)).refusal.status == 418
        registry.replace(lambda event: Stop(CALLS), "after_llm_call", name="it")
        assert (await judge(registry).check_answer(HELLO, CALLS)).message.tool_calls == []

    async def test_a_retry_asks_again_with_the_feedback_and_without_the_answer(self, registry):
        registry.register(lambda event: Retry("shorter"), "after_llm_call")
        system = {"role": "system", "content": "Be brief"}

        def instruct(event, request):
            return Continue(dataclasses.replace(request, messages=[system, *request.messages]))

        registry.register(instruct, "before_llm_call")
        judging = judge(registry)
        asked = await judging.check_request(HELLO)
        answered = await judging.check_answer(asked.request, ANSWER)
        feedback = {"role": "user", "content": "shorter"}
        assert answered.again.messages == [system, *HELLO.messages, feedback]

    async def test_retries_are_counted(self, registry):
        registry.register(lambda event: Retry("again"), "after_llm_call", max_retries=2)
        judging = judge(registry)
        request = (await judging.check_request(HELLO)).request
        for _ in range(2):
            request = (await judging.check_answer(request, ANSWER)).again
        refusal = (await judging.check_answer(request, ANSWER)).refusal
        assert (refusal.status, refusal.code) == (500, "retries_exhausted")

    async def test_hooks_on_requests_see_what_is_asked_again(self, registry):
        registry.register(lambda event: Retry("again"), "after_llm_call")
        registry.register(
            lambda event, request: Block("enough") if len(request.messages) > 1 else None,
            "before_llm_call",
        )
        judging = judge(registry)
        await judging.check_request(HELLO)
        assert (await judging.check_answer(HELLO, ANSWER)).refusal.message == "enough"

    async def test_an_answer_that_hooks_made_none_is_a_failure(self, registry):
        registry.register(
            lambda event, message: Continue(dataclasses.replace(message, tool_calls=["x"])),
            "after_llm_call",
        )
        refusal = (await judge(registry).check_answer(HELLO, ANSWER)).refusal
        assert (refusal.status, refusal.code) == (500, "hook_invalid")

    async def test_observers_see_what_there_was_of_an_answer_as_redacted(self, registry):
        seen = []
        registry.register(
            lambda event, message: Continue("[redacted]", redacted=True), "after_llm_call"
        )
        registry.register(lambda event: seen.append(event.value), "after_llm_call", lane="observe")
        await judge(registry).observe_cut_off(
            HELLO, dataclasses.replace(ANSWER, content="half a secr")
        )
        assert [message.content for message in seen] == ["[redacted]"]


class TestToolCalls:
    async def test_arguments_are_changed_in_place(self, registry):
        registry.register(
            lambda event, call: Continue(dataclasses.replace(call, args={"amount": 1})),
            "before_tool_call",
            tools=["transfer"],
        )
        message = (await judge(registry).check_answer(HELLO, CALLS)).message
        assert [call.args for call in message.tool_calls] == [{"amount": 1}, {"q": "x"}]
        assert (message.content, message.stop_reason) == ("I will.", "tool_calls")

    async def test_a_blocked_call_becomes_a_text(self, registry):
        block_transfers(registry)
        message = (await judge(registry).check_answer(HELLO, CALLS)).message
        assert message.content == "I will.\n\ntransfer was not called: too much"
        assert [call.name for call in message.tool_calls] == ["search"]
        assert message.stop_reason == "tool_calls"

    async def test_a_blocked_call_becomes_a_part_among_parts(self, registry):
        block_transfers(registry)
        thought = {"type": "thinking", "thinking": "hm"}
        given = dataclasses.replace(CALLS, content=[thought])
        message = (await judge(registry).check_answer(HELLO, given)).message
        note = {"type": "text", "text": "transfer was not called: too much"}
        assert message.content == [thought, note]

    @pytest.mark.parametrize(
        ("stop", "plain"), [("tool_calls", "stop"), ("tool_use", "stop"), (7, None)]
    )
    async def test_a_blocked_call_is_left_out(self, registry, stop, plain):
        block_transfers(registry)
        given = dataclasses.replace(CALLS, tool_calls=CALLS.tool_calls[:1], stop_reason=stop)
        message = (await judge(registry, "drop").check_answer(HELLO, given)).message
        assert message == dataclasses.replace(given, tool_calls=[], stop_reason=plain)

    async def test_the_model_is_asked_again_with_the_error(self, registry):
        block_transfers(registry)
        seen = []
        registry.register(lambda event: seen.append(event.value), "on_tool_error")
        judging = judge(registry, "continue")
        await judging.check_request(HELLO)
        again = (await judging.check_answer(HELLO, CALLS)).again
        _, said, blocked, other = again.messages
        assert [call["id"] for call in said["tool_calls"]] == ["c1", "c2"]
        assert (blocked["tool_call_id"], blocked["content"]) == ("c1", "too much")
        assert other["tool_call_id"] == "c2"
        assert [(result.name, result.is_error) for result in seen] == [
            ("transfer", True),
            ("search", True),
        ]

    async def test_a_model_that_will_not_learn_is_told_so_in_a_text(self, registry):
        block_transfers(registry)
        judging = judge(registry, "continue")
        request = (await judging.check_request(HELLO)).request
        for _ in range(ROUNDS):
            request = (await judging.check_answer(request, CALLS)).again
        assert "too much" in (await judging.check_answer(request, CALLS)).message.content

    async def test_replace_and_ask_block(self, registry):
        registry.register(
            lambda event: Replace(ToolResult(content="done")), "before_tool_call", name="it"
        )
        message = (await judge(registry).check_answer(HELLO, CALLS)).message
        assert message.tool_calls == []
        assert "cannot answer in place of a tool" in message.content
        registry.replace(lambda event: Ask("may I?"), "before_tool_call", name="it")
        assert (await judge(registry).check_answer(HELLO, CALLS)).message.tool_calls == []

    async def test_a_failure_at_one_of_several_calls_refuses_all(self, registry):
        registry.register(lambda event: Fail("broken"), "before_tool_call", tools=["search"])
        assert (await judge(registry).check_answer(HELLO, CALLS)).refusal.message == "broken"

    async def test_hooks_see_calls_side_by_side(self, registry):
        both = asyncio.Barrier(2)

        async def wait(event):
            await both.wait()

        registry.register(wait, "before_tool_call", timeout=20)
        assert (await judge(registry).check_answer(HELLO, CALLS)).message is CALLS

    async def test_arguments_that_are_no_json_are_blocked_where_a_rule_might_apply(self, registry):
        block_transfers(registry)
        given = dataclasses.replace(
            CALLS,
            tool_calls=[ToolCall("c1", "transfer"), ToolCall("c2", "search")],
            metadata={UNPARSED: {"c1": '{"amount": 5', "c2": "{"}},
        )
        message = (await judge(registry).check_answer(HELLO, given)).message
        assert [call.name for call in message.tool_calls] == ["search"]
        assert "no JSON object" in message.content
        assert message.metadata == {UNPARSED: {"c2": "{"}}

    async def test_observers_alone_leave_broken_arguments_alone(self, registry):
        registry.register(lambda event: None, "before_tool_call", lane="observe")
        given = dataclasses.replace(
            CALLS, tool_calls=[ToolCall("c1", "transfer")], metadata={UNPARSED: {"c1": "{"}}
        )
        assert (await judge(registry).check_answer(HELLO, given)).message is given

    async def test_a_call_tells_which_run_it_belongs_to(self, registry):
        seen = []
        registry.register(
            lambda event: seen.append((event.value.context, event.tool_call_id)), "before_tool_call"
        )
        answered = await judge(registry, run_id="run-1").check_answer(HELLO, CALLS)
        assert seen == [("run-1", "c1"), ("run-1", "c2")]
        assert answered.message is CALLS

    async def test_what_is_injected_with_nothing_to_follow_is_left_out(self, registry, caplog):
        note = {"role": "user", "content": "hm"}
        registry.register(lambda event: Continue(inject=[note]), "before_tool_call")
        with caplog.at_level(logging.ERROR):
            assert (await judge(registry).check_answer(HELLO, CALLS)).message is CALLS
        assert "left out" in caplog.text


class TestHolding:
    @pytest.mark.parametrize(
        ("point", "options", "held"),
        [
            ("before_llm_call", {}, "nothing"),
            ("after_llm_call", {"lane": "observe"}, "nothing"),
            ("after_llm_call", {"mode": "shadow"}, "nothing"),
            ("after_llm_call", {}, "all"),
            ("after_llm_call", {"lane": "gate"}, "all"),
            ("after_llm_call", {"users": ["bob"]}, "nothing"),
            ("after_llm_call", {"models": ["other"]}, "all"),
            ("before_tool_call", {"tools": ["transfer"]}, "tools"),
            ("before_tool_call", {"lane": "observe"}, "nothing"),
            ("before_final_response", {}, "nothing"),
            ("query_end", {}, "nothing"),
        ],
    )
    def test_what_waits_is_what_a_hook_may_change(self, registry, point, options, held):
        registry.register(lambda event: None, point, **options)
        assert judge(registry, user="ann").current_hold() == held

    def test_no_more_waits_where_a_blocked_call_asks_the_model_again(self, registry):
        judging = judge(registry, "continue")
        assert judging.current_hold() == "nothing"
        block_transfers(registry)
        assert judging.current_hold() == "tools"
