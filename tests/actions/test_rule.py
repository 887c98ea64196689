import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.actions import ActionError, rule
from checkrail.engine.errors import HookRefusedError, InvalidOutcomeError
from checkrail.engine.hook import declare
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Replace, Retry, Stop
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    ToolCall,
    ToolResult,
)


@pytest.fixture
def said(event_at):
    """Gives what a rule answers at a point."""

    async def answer(spec, point, value=...):
        hook, _ = rule(spec, [point])
        answer = hook(await event_at(point, value))
        return await answer if inspect.isawaitable(answer) else answer

    return answer


def refused(spec, *points) -> str:
    with pytest.raises(ActionError) as caught:
        rule(spec, points or ["before_tool_call"])
    return str(caught.value)


@pytest.mark.parametrize(
    ("spec", "point", "outcome"),
    [
        ({"block": "no"}, "before_tool_call", Block("no")),
        ({"block": True}, "before_tool_call", Block("")),
        ({"block": ""}, "before_tool_call", Block("")),
        ({"block": "no", "status": 451, "code": "law"}, "before_run", Block("no", 451, "law")),
        ({"ask": "sure?"}, "before_tool_call", Ask("sure?")),
        ({"retry": "shorter"}, "after_llm_call", Retry("shorter")),
        (
            {"retry": "shorter", "inject": "be brief"},
            "after_llm_call",
            Retry("shorter", [{"role": "system", "content": "be brief"}]),
        ),
        ({"fail": "broken"}, "before_tool_call", Fail("broken")),
        ({"fail": True, "status": 503, "code": "x"}, "before_run", Fail("", "x", 503)),
        ({"last": True}, "before_run", Continue(last=True)),
        (
            {"inject": [{"role": "user", "content": "hm"}]},
            "before_llm_call",
            Continue(inject=[{"role": "user", "content": "hm"}]),
        ),
    ],
)
async def test_what_a_rule_says(spec, point, outcome, said):
    assert await said(spec, point) == outcome
    decision = {outcome.decision}
    assert rule(spec, [point])[1] == decision


async def test_set_at_a_tool_call(said):
    answer = await said({"set": {"args.amount": 100}}, "before_tool_call")
    assert answer is not None
    assert isinstance(answer.value, ToolCall)
    assert answer.value.args["amount"] == 100
    assert answer.value.name == "transfer"


async def test_set_creates_keys_and_reaches_into_lists(said):
    spec = {"set": {"$.args.items[0].price": 9, "args.note.by": "me", "tool_call.name": "pay"}}
    value = (await said(spec, "before_tool_call")).value
    assert value.args == {
        "amount": 5,
        "to": "bob",
        "items": [{"price": 9}],
        "note": {"by": "me"},
    }
    assert value.name == "pay"


async def test_set_in_the_last_message(said):
    spec = {"set": {"messages[-1].content": "bye", "params.temperature": 0, "stream": False}}
    answer = await said(spec, "before_llm_call")
    assert isinstance(answer.value, ModelRequest)
    assert answer.value.messages == [{"role": "user", "content": "bye"}]
    assert answer.value.params == {"temperature": 0}
    assert answer.value.model == "gpt"


@pytest.mark.parametrize("point", ["before_run", "on_run_start"])
async def test_set_is_relative_to_the_parameters(point, said):
    answer = await said({"set": {"depth.n": 2, "parameters.tenant": "acme"}}, point)
    assert answer == Continue({"question": "why", "depth": {"n": 2}, "tenant": "acme"})


async def test_the_whole_of_the_parameters_can_be_set(said):
    assert await said({"set": {"parameters": {"a": 1}}}, "before_run") == Continue({"a": 1})


async def test_set_in_tool_calls_of_a_message(said):
    answer = await said({"set": {"tool_calls[0].args.amount": 1}}, "after_llm_call")
    assert answer.value.tool_calls[0] == ToolCall("c1", "transfer", {"amount": 1})
    assert answer.value.content == "hi"


async def test_set_at_messages(said):
    answer = await said({"set": {"metadata.seen": True}}, "before_inbound")
    assert isinstance(answer.value, InboundMessage)
    assert answer.value.metadata == {"lang": "en", "seen": True}
    assert answer.value.content == "hello"


async def test_setting_what_is_so_already_says_nothing(said):
    assert await said({"set": {"args.amount": 5}}, "before_tool_call") is None
    assert await said({"set": {"args.amount": 5}, "last": True}, "before_tool_call") == Continue(
        last=True,
    )


async def test_set_where_a_list_has_no_such_item(said):
    with pytest.raises(ActionError, match="there is no item 3 in a list of 1"):
        await said({"set": {"args.items[3].price": 1}}, "before_tool_call")


async def test_set_that_makes_no_value_of_the_type(said):
    with pytest.raises(
        InvalidOutcomeError, match=r"at \$\.messages\[0\]: found 'x', expected an obj"
    ):
        await said({"set": {"messages[0]": "x"}}, "before_llm_call")


async def test_at_the_end_of_a_query_without_a_response_there_is_nothing_to_change(said):
    assert await said({"set": {"content": "x"}, "redact": "/x/"}, "query_end", None) is None
    answer = await said({"set": {"content": "x"}}, "query_end", AgentResponse("bye"))
    assert answer == Continue(AgentResponse("x"))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"set": {"arg.amount": 1}}, "has no 'arg' (did you mean 'args'?)"),
        (
            {"set": {"args": 5}},
            "`set` of args does not fit: at $.args: found 5, expected an object",
        ),
        ({"set": {"name": None}}, "found null, expected a text"),
        ({"set": {"tool_call": {}}}, "cannot set tool_call as a whole. Set its fields: id, name"),
        ({"set": {"args..x": 1}}, "is wrong at column 5"),
        ({"set": {}}, "at $.set"),
        ({"redact": {"patterns": ["/x/"], "fields": ["arg"]}}, "has no 'arg'"),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused_at_once(spec, told):
    assert told in refused(spec)


@pytest.mark.parametrize(
    ("content", "extended"),
    [
        ("Hello", "<Hello>"),
        ("", "<>"),
        (
            [{"type": "text", "text": "Hello"}],
            [{"type": "text", "text": each} for each in ("<", "Hello", ">")],
        ),
    ],
)
async def test_a_text_around_the_content(content, extended, said):
    spec = {"prepend": "<", "append": ">"}
    answer = await said(spec, "before_final_response", AssistantMessage(content))
    assert answer == Continue(AssistantMessage(extended))


@pytest.mark.parametrize(
    ("spec", "content"),
    [
        ({"prepend": "Hi. "}, "Hi. one"),
        ({"append": " Bye."}, "one Bye."),
        ({"append": " Bye.", "set": {"content": "two"}}, "two Bye."),
        ({"append": " Ask ann@example.com", "redact": "email"}, "one Ask [redacted]"),
    ],
)
async def test_a_text_before_or_after_what_other_keys_make(spec, content, said):
    answer = await said(spec, "before_inbound", InboundMessage("ann", "web", "one"))
    assert answer.value.content == content
    assert answer.redacted is ("redact" in spec)


async def test_no_text_can_stand_around_what_is_none(said):
    with pytest.raises(ActionError, match="the content is a mapping"):
        await said({"append": "!"}, "after_tool_call", ToolResult("1", "t", {"a": 1}))


@pytest.mark.parametrize("point", ["before_run", "before_llm_call", "before_tool_call"])
def test_a_text_stands_only_around_values_that_have_a_content(point):
    told = refused({"append": "!"}, point)
    assert f"what flows through {point} has no content" in told
    assert "before_inbound" in told
    assert "on_session_end" not in told


async def test_redact_everywhere_in_the_value(said):
    value = ToolCall(
        "sk-1",
        "mail",
        {"body": "key sk-12 and sk-34", "list": ["sk-5", 6, None, {"deep": "no"}], "n": 1.5},
    )
    answer = await said({"redact": r"sk-\d+"}, "before_tool_call", value)
    assert answer.redacted is True
    assert answer.value == ToolCall(
        "sk-1",
        "mail",
        {
            "body": "key [redacted] and [redacted]",
            "list": ["[redacted]", 6, None, {"deep": "no"}],
            "n": 1.5,
        },
    )


async def test_redact_says_nothing_where_nothing_matches(said):
    assert await said({"redact": ["/nope/", "[0-9]{9}"]}, "before_tool_call") is None


async def test_redact_with_a_mask_taken_as_it_is(said):
    spec = {"redact": {"patterns": ["b[o]b"], "with": r"\1 \g<0>"}}
    assert (await said(spec, "before_tool_call")).value.args["to"] == r"\1 \g<0>"


async def test_redact_in_some_fields_only(said):
    messages = [{"role": "user", "content": "a1"}, {"role": "user", "content": "a1", "name": "a1"}]
    for field, expected in (
        ("messages[-1].content", ["a1", "#"]),
        ("messages[0].content", ["#", "a1"]),
        ("messages[*].content", ["#", "#"]),
        ("request.messages[0].content", ["#", "a1"]),
        ("messages.content", ["#", "#"]),
        ("messages[-1].content[*].text", ["a1", "#"]),
    ):
        spec = {"redact": {"patterns": ["a1"], "with": "#", "fields": [field]}}
        answer = await said(spec, "before_llm_call", ModelRequest("a1", messages=messages))
        assert [message["content"] for message in answer.value.messages] == expected
        assert answer.value.model == "a1"
    spec = {"redact": {"patterns": ["a1"], "fields": ["messages[7].content", "params.user"]}}
    assert await said(spec, "before_llm_call", ModelRequest(messages=messages)) is None


async def test_a_field_may_be_the_whole_value(said):
    spec = {"redact": {"patterns": ["why?"], "with": "#", "fields": ["parameters"]}}
    assert (await said(spec, "before_run")).value["question"] == "#"


async def test_fields_of_several_points(event_at):
    spec = {"redact": {"patterns": ["b.b", "/done/"], "with": "#", "fields": ["args", "content"]}}
    hook, _ = rule(spec, ["before_tool_call", "after_tool_call"])
    assert hook(await event_at("before_tool_call")).value.args["to"] == "#"
    assert hook(await event_at("after_tool_call")).value.content == "#"
    spec = {"redact": {"patterns": ["b.b"], "fields": ["args"]}}
    hook, _ = rule(spec, ["before_tool_call", "after_tool_call"])
    assert hook(await event_at("after_tool_call")) is None


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        ("email", "write to ann@example.org now", "write to [redacted] now"),
        ("card", "pay 4111 1111 1111 1111", "pay [redacted]"),
        ("card", "not 4111 1111 1111 1112", None),
        ("secrets", "the key is AKIAIOSFODNN7EXAMPLE.", "the key is [redacted]."),
    ],
)
async def test_built_in_patterns(name, text, left, said):
    answer = await said({"redact": name}, "after_tool_call", ToolResult(content=text))
    assert (answer and answer.value.content) == left


async def test_secrets_are_also_known_by_their_name(said):
    value = ToolCall(args={"password": "hunter2!"})
    answer = await said(
        {"redact": {"patterns": ["secrets"], "with": "#"}}, "before_tool_call", value
    )
    assert answer.value.args == {"password": "#"}


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("emails", "there is no built-in pattern 'emails' (did you mean 'email'?)"),
        ("emails", "For the word itself write /emails/"),
        ("(", "'(' is no regular expression"),
        ("x*", "matches even an empty text"),
        ("", "at $.redact"),
        ([], "at $.redact"),
        ({"with": "x"}, "an object with `patterns`, `kinds` or both"),
        ({"patterns": ["/x/"], "mask": "x"}, "at $.redact.mask: found a key that is not known"),
        ([5], "at $.redact[0]: found 5, expected a text"),
    ],
)
def test_a_pattern_that_cannot_be(pattern, told):
    assert told in refused({"redact": pattern})


async def test_what_a_pydantic_object_holds_is_redacted_too(said):
    from pydantic import BaseModel

    class Note(BaseModel):
        text: str

    answer = await said({"redact": "/sk-1/"}, "on_result", {"note": Note(text="sk-1"), "other": 1})
    assert answer.value["note"].text == "[redacted]"


@given(text=st.text(), number=st.integers())
async def test_a_redacted_value_holds_nothing_that_matches(text, number):
    registry = HookRegistry()
    hook, decisions = rule({"redact": {"patterns": ["[^#]"], "with": "#"}}, ["before_tool_call"])
    registry.register(hook, "before_tool_call", name="r", decisions=decisions)
    call = ToolCall("id", "t", {"a": text, "b": [{"c": text}, number]})
    verdict = await registry.fire("before_tool_call", call)
    assert set(verdict.value.args["a"]) <= {"#"}
    assert set(verdict.value.args["b"][0]["c"]) <= {"#"}
    assert verdict.value.args["b"][1] == number


async def test_several_things_at_once(said):
    spec = {
        "set": {"params.temperature": 0, "params.note": "sk-9"},
        "redact": r"sk-\d",
        "inject": "mind the gap",
        "last": True,
    }
    answer = await said(spec, "before_llm_call")
    assert answer.value.params == {"temperature": 0, "note": "[redacted]"}
    assert (answer.redacted, answer.last) == (True, True)
    assert answer.inject == [{"role": "system", "content": "mind the gap"}]


async def test_inject_is_said_even_if_nothing_is_redacted(said):
    answer = await said({"redact": "/nope/", "inject": "hello"}, "before_llm_call")
    assert answer == Continue(inject=[{"role": "system", "content": "hello"}])


@pytest.mark.parametrize(
    ("spec", "point", "outcome"),
    [
        (
            {"replace": "cached"},
            "before_tool_call",
            Replace(ToolResult("c1", "transfer", "cached")),
        ),
        (
            {"replace": {"content": {"n": 1}, "is_error": True}},
            "before_tool_call",
            Replace(ToolResult("c1", "transfer", {"n": 1}, is_error=True)),
        ),
        ({"replace": "hi"}, "before_llm_call", Replace(AssistantMessage("hi"))),
        ({"replace": {"a": 1}}, "on_run_start", Replace({"a": 1})),
        ({"replace": None}, "on_run_start", Replace(None)),
        ({"stop": "bye"}, "before_inbound", Stop("bye")),
        ({"stop": "bye"}, "after_llm_call", Stop(AssistantMessage("bye"))),
        (
            {"stop": {"content": "x", "tool_calls": [{"tool_name": "t", "parameters": {"a": 1}}]}},
            "before_llm_call",
            Stop(AssistantMessage("x", [ToolCall("", "t", {"a": 1})])),
        ),
    ],
)
async def test_replace_and_stop_bring_typed_values(spec, point, outcome, said):
    assert await said(spec, point) == outcome


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
async def test_of_what_a_rule_stops_nothing_goes_on(point, event_at):
    secret = {"other_fields": {"reasoning_content": "secret"}, "reasoning": "secret"}
    message = AssistantMessage("hi", [ToolCall("1", "secret")], "gpt", metadata=secret)
    hook, _ = rule({"stop": {"content": [{"type": "text", "text": "Closed"}]}}, [point])
    outcome = hook(await event_at(point, message))
    assert outcome == Stop(AssistantMessage([{"type": "text", "text": "Closed"}]))


async def test_one_replace_at_points_that_bring_different_things(event_at):
    hook, decisions = rule({"replace": "cached"}, ["before_tool_call", "before_llm_call"])
    assert decisions == {Decision.REPLACE}
    assert isinstance(hook(await event_at("before_tool_call")).value, ToolResult)
    assert isinstance(hook(await event_at("before_llm_call")).value, AssistantMessage)


@pytest.mark.parametrize(
    ("spec", "point", "told"),
    [
        ({"replace": {"contents": 1}}, "before_tool_call", "`replace` does not fit: at $.contents"),
        ({"replace": 5}, "before_tool_call", "found 5, expected an object"),
        ({"stop": {"content": 5}}, "after_llm_call", "at $.content: found 5"),
        ({"stop": 5}, "before_inbound", "`stop` brings a text, not a number"),
    ],
)
def test_what_replace_and_stop_cannot_bring(spec, point, told):
    assert told in refused(spec, point)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "the rule does nothing. Give it one of: block, ask"),
        ({"status": 403}, "the rule does nothing"),
        ({"block": "x", "replace": "y"}, "the rule says both block and replace"),
        ({"block": "x", "ask": "y"}, "the rule says both block and ask"),
        ({"block": "x", "set": {"args.a": 1}}, "the rule says both block and set"),
        ({"ask": "x", "redact": "/y/"}, "the rule says both ask and redact"),
        ({"stop": "x", "inject": "y"}, "the rule says both stop and inject"),
        ({"retry": "x", "last": True}, "the rule says both retry and last"),
        ({"ask": "x", "status": 403}, "the rule has a status, but refuses nothing"),
        ({"set": {"args.a": 1}, "code": "x"}, "the rule has a code, but refuses nothing"),
        ({"block": None}, "the rule says `block` and nothing after it"),
        ({"block": False}, "at $.block: found False"),
        ({"block": 5}, "at $.block: found 5, expected a text or True"),
        ({"block": "x", "status": 200}, "at $.status: found 200"),
        ({"block": "x", "status": "403"}, "at $.status: found '403', expected a whole number"),
        ({"blok": "x"}, "at $.blok: found a key that is not known here (did you mean 'block'?)"),
        ({"last": False}, "at $.last"),
        ({"inject": []}, "at $.inject"),
        ({"inject": ["text"]}, "at $.inject[0]: found 'text', expected an object"),
        ({"set": ["args"]}, "at $.set: found a list, expected an object"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(spec, told):
    assert told in refused(spec)


@pytest.mark.parametrize(
    ("spec", "point", "told"),
    [
        (
            {"set": {"status": "x"}},
            "after_run",
            "changes the value, which after_run does not allow",
        ),
        ({"redact": "/x/"}, "on_session_start", "which on_session_start does not allow"),
        ({"last": True}, "on_run_finish", "which after_run does not allow"),
        (
            {"inject": "x"},
            "before_run",
            "before_run is not in the agent loop. Use one of: after_llm",
        ),
    ],
)
def test_a_rule_where_it_cannot_be_followed_is_refused(spec, point, told):
    assert told in refused(spec, point)


@pytest.mark.parametrize(
    ("spec", "point"),
    [
        ({"block": "x"}, "after_run"),
        ({"ask": "x"}, "before_run"),
        ({"retry": "x"}, "before_tool_call"),
        ({"replace": "x"}, "before_run"),
        ({"stop": "x"}, "before_tool_call"),
    ],
)
def test_registration_refuses_a_decision_that_the_point_does_not_allow(spec, point):
    hook, decisions = rule(spec, [point])
    with pytest.raises(HookRefusedError, match="does not allow"):
        HookRegistry().register(declare(hook, [point], "r", decisions=decisions))


async def test_in_the_engine_a_redaction_leaves_no_trace():
    kept = []
    registry = HookRegistry(kept.append)
    for name, spec in {"tag": {"set": {"args.tag": "sk-7"}}, "hide": {"redact": r"sk-\d"}}.items():
        hook, decisions = rule(spec, ["before_tool_call"])
        registry.register(hook, "before_tool_call", name=name, decisions=decisions)
    verdict = await registry.fire("before_tool_call", ToolCall(args={"note": "sk-1"}))
    assert verdict.value.args == {"note": "[redacted]", "tag": "[redacted]"}
    assert "sk-" not in str([record.wire() for record in kept])


async def test_set_leaves_the_other_arguments_as_they_are():
    from decimal import Decimal

    fn, _ = rule({"set": {"args.currency": "EUR"}}, ["before_tool_call"])
    registry = HookRegistry()
    registry.register(fn, "before_tool_call")
    verdict = await registry.fire("before_tool_call", ToolCall(args={"amount": Decimal("1.5")}))
    assert verdict.value.args == {"amount": Decimal("1.5"), "currency": "EUR"}
