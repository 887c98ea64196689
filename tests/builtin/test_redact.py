import dataclasses
import json
import re
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from checkrail import (
    AgentResponse,
    AssistantMessage,
    Continue,
    HookRegistry,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    Reject,
    ToolCall,
    ToolResult,
)
from checkrail.builtin import BUILTINS, redact
from checkrail.engine.errors import HookRefusedError, InvalidOutcomeError
from checkrail.engine.frozen import FrozenDict
from checkrail.engine.points import CONTRACTS, HookPoint
from checkrail.testing import RecordingRegistry, assert_changed, event, sample

MAIL, CARD, PASSWORD = "ann@example.com", "4111 1111 1111 1111", "password=hunter2"
EMAIL = "[redacted:email]"
SECRET = "[redacted:secrets]"


def outcome_of(value, point="on_result", **config):
    made = event(point, value)
    return BUILTINS["redact"].make(config)(made, made.value)


def redacted(value, point="on_result", **config):
    outcome = outcome_of(value, point, **config)
    assert isinstance(outcome, Continue)
    assert outcome.redacted
    return outcome.value


CHANGING = [point for point in HookPoint if CONTRACTS[point].change]


@pytest.mark.parametrize("point", CHANGING)
async def test_at_every_point_whose_value_can_change(point):
    registry = RecordingRegistry()
    registry.register(BUILTINS["redact"].make({}), point, lane="transform")
    value = sample(point)
    assert (await registry.fire(point, value)).value == value
    tainted = {
        dict: lambda: {"text": MAIL},
        ModelRequest: lambda: dataclasses.replace(value, messages=[{"role": "u", "content": MAIL}]),
        ToolCall: lambda: dataclasses.replace(value, args={"text": MAIL}),
    }
    make = next((tainted[kind] for kind in tainted if isinstance(value, kind)), None)
    given_value = make() if make else dataclasses.replace(value, content=MAIL)
    verdict = await registry.fire(point, given_value)
    assert_changed(verdict, by="redact")
    assert MAIL not in repr(verdict.value)
    assert EMAIL in repr(verdict.value)


def test_it_cannot_stand_where_nothing_can_change():
    with pytest.raises(HookRefusedError, match="after_run has no transform lane"):
        HookRegistry().register(BUILTINS["redact"].make({}), "after_run", lane="transform")


async def test_nothing_keeps_the_earlier_form():
    seen = []
    registry = RecordingRegistry()
    registry.register(BUILTINS["redact"].make({}), "on_result", priority=1)
    registry.register(seen.append, "on_result", name="later")
    await registry.fire("on_result", {"a": MAIL})
    assert seen[0].original == {"a": EMAIL}
    assert MAIL not in json.dumps([record.wire() for record in registry.records])
    assert registry.records[1].redacted


@pytest.mark.parametrize(
    "value",
    ["nothing here", 7, None, [], {}, {"a": [1, {"b": None}]}, {"a": SECRET, "password": SECRET}],
)
def test_a_value_with_nothing_to_hide_is_left_as_it_is(value):
    assert outcome_of(value) is None


def test_kinds():
    value = [MAIL, CARD, PASSWORD]
    assert redacted(value) == [EMAIL, "[redacted:card]", f"password={SECRET}"]
    assert redacted(value, kinds=["email"]) == [EMAIL, CARD, PASSWORD]
    assert redacted(value, kinds=["card"]) == [MAIL, "[redacted:card]", PASSWORD]
    assert redacted(value, kinds=["secrets"]) == [MAIL, CARD, f"password={SECRET}"]


def test_patterns_of_ones_own():
    patterns = {"badge": r"B-\d+", "name": "(A)nn"}
    value = f"Ann has B-123 and {MAIL}"
    assert redacted(value, patterns=patterns) == f"[redacted:name] has [redacted:badge] and {EMAIL}"
    assert redacted(value, kinds=[], patterns={"badge": r"B-\d+"}) == (
        f"Ann has [redacted:badge] and {MAIL}"
    )


def test_another_label():
    assert redacted({"a": MAIL, "password": "x" * 9}, **{"with": "<{kind}>"}) == {
        "a": "<email>",
        "password": "<secrets>",
    }
    assert redacted(MAIL, **{"with": ""}) == ""


def test_it_goes_through_everything_in_data():
    value = {"a": [{"b": (MAIL, {"c": MAIL})}], "d": "fine", MAIL: "keys stay"}
    assert redacted(value) == {
        "a": [{"b": (EMAIL, {"c": EMAIL})}],
        "d": "fine",
        MAIL: "keys stay",
    }


def test_what_did_not_change_is_the_same_object():
    made = event("on_result", {"a": {"deep": ["x"]}, "b": MAIL})
    outcome = BUILTINS["redact"].make({})(made, made.value)
    assert outcome.value["a"] is made.value["a"]


def test_a_secret_is_known_by_its_name_too():
    value = {
        "password": "hunter2",
        "headers": {"X-Api-Key": "abcd", "next_page_token": "abcd1234"},
        "access_token": ["aaaa", "bbbb"],
        "token": 7,
        "secret": "${SECRET}",
    }
    assert redacted(value) == {
        "password": SECRET,
        "headers": {"X-Api-Key": SECRET, "next_page_token": "abcd1234"},
        "access_token": [SECRET, SECRET],
        "token": 7,
        "secret": "${SECRET}",
    }
    assert outcome_of(value, kinds=["email", "card"]) is None


def test_a_request_keeps_its_handles():
    everything = {"any": ".+"}
    request = ModelRequest(
        model="m",
        provider="p",
        messages=[
            {"role": "user", "name": "ann", "content": "hi"},
            {
                "role": "assistant",
                "id": "m1",
                "content": [
                    {"type": "text", "text": "hi"},
                    {
                        "type": "tool_use",
                        "id": "c1",
                        "name": "f",
                        "input": {"id": "1", "type": "t"},
                    },
                ],
                "tool_calls": [
                    {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c2", "content": "done"},
        ],
        tools=[{"type": "function", "function": {"name": "f", "description": "does"}}],
        params={"tool_choice": {"type": "function", "function": {"name": "f"}}, "user": "ann"},
        raw={"model": "m", "input": [{"type": "message"}]},
    )
    out = "[redacted:any]"
    assert redacted(request, "before_llm_call", kinds=[], patterns=everything) == ModelRequest(
        model="m",
        provider="p",
        messages=[
            {"role": "user", "name": out, "content": out},
            {
                "role": "assistant",
                "id": "m1",
                "content": [
                    {"type": "text", "text": out},
                    {
                        "type": "tool_use",
                        "id": "c1",
                        "name": "f",
                        "input": {"id": out, "type": out},
                    },
                ],
                "tool_calls": [
                    {"id": "c2", "type": "function", "function": {"name": "f", "arguments": out}},
                ],
            },
            {"role": "tool", "tool_call_id": "c2", "content": out},
        ],
        tools=[{"type": "function", "function": {"name": "f", "description": out}}],
        params={"tool_choice": {"type": "function", "function": {"name": "f"}}, "user": out},
        raw={"model": "m", "input": [{"type": "message"}]},
    )


@pytest.mark.parametrize(
    ("point", "value", "changed"),
    [
        (
            "after_llm_call",
            AssistantMessage(
                MAIL,
                [ToolCall("a@b.io", "a@b.io", {"name": MAIL, "id": MAIL})],
                model="a@b.io",
                stop_reason="a@b.io",
                metadata={"id": MAIL},
            ),
            AssistantMessage(
                EMAIL,
                [ToolCall("a@b.io", "a@b.io", {"name": EMAIL, "id": EMAIL})],
                model="a@b.io",
                stop_reason="a@b.io",
                metadata={"id": EMAIL},
            ),
        ),
        (
            "before_final_response",
            AssistantMessage([{"type": "text", "text": MAIL, "id": "a@b.io"}]),
            AssistantMessage([{"type": "text", "text": EMAIL, "id": "a@b.io"}]),
        ),
        (
            "before_tool_call",
            ToolCall("1", "send", {"to": [MAIL], "type": MAIL}, context="a@b.io"),
            ToolCall("1", "send", {"to": [EMAIL], "type": EMAIL}, context="a@b.io"),
        ),
        (
            "after_tool_call",
            ToolResult("1", "find", [{"id": MAIL, "name": MAIL}], error=MAIL),
            ToolResult("1", "find", [{"id": EMAIL, "name": EMAIL}], error=EMAIL),
        ),
        (
            "before_inbound",
            InboundMessage(MAIL, "mail", MAIL, MAIL, [{"name": MAIL}], {"from": MAIL}),
            InboundMessage(MAIL, "mail", EMAIL, MAIL, [{"name": EMAIL}], {"from": EMAIL}),
        ),
        (
            "before_outbound",
            OutboundMessage(MAIL, "mail", f"Hi {MAIL}"),
            OutboundMessage(MAIL, "mail", f"Hi {EMAIL}"),
        ),
        (
            "query_end",
            AgentResponse(MAIL, {"id": MAIL}, [{"role": "user", "content": MAIL}], error=MAIL),
            AgentResponse(EMAIL, {"id": EMAIL}, [{"role": "user", "content": EMAIL}], error=EMAIL),
        ),
        (
            "before_run",
            {"messages": [{"role": "user", "id": "a@b.io", "content": MAIL}], "id": MAIL},
            {"messages": [{"role": "user", "id": "a@b.io", "content": EMAIL}], "id": EMAIL},
        ),
        ("before_run", {"messages": [MAIL, {"id": MAIL}]}, {"messages": [EMAIL, {"id": EMAIL}]}),
        ("on_result", MAIL, EMAIL),
    ],
)
def test_ids_and_names_stay_and_data_does_not(point, value, changed):
    assert redacted(value, point) == changed


def test_an_answer_that_never_came_has_nothing_to_hide():
    assert outcome_of(None, "query_end") is None


class Person(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    tags: list[str] = []


class ChatMessage(BaseModel):
    """Like the messages of agent frameworks."""

    type: str = "human"
    id: str
    content: str
    additional: dict[str, str] = {}


@dataclasses.dataclass(frozen=True)
class Note:
    text: str
    size: int = dataclasses.field(default=0, init=False)


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - what others' data may be made of


def test_objects_are_changed_as_copies():
    person, note = Person(name=MAIL, tags=["x", MAIL], more={"a": MAIL}), Note(MAIL)
    value = redacted({"person": person, "note": note, "pair": Pair(1, MAIL), "set": {MAIL, "x"}})
    assert value["person"] == Person(name=EMAIL, tags=["x", EMAIL], more={"a": EMAIL})
    assert value["note"] == Note(EMAIL)
    assert value["pair"] == Pair(1, EMAIL)
    assert isinstance(value["pair"], Pair)
    assert value["set"] == {EMAIL, "x"}
    assert (person.name, note.text) == (MAIL, MAIL)


def test_messages_that_are_objects_keep_their_handles():
    message = ChatMessage(id="a@b.io", content=MAIL, additional={"note": MAIL})
    assert redacted({"messages": [message]}, "before_run")["messages"] == [
        ChatMessage(id="a@b.io", content=EMAIL, additional={"note": EMAIL}),
    ]


def test_objects_with_nothing_to_hide_and_other_objects_are_let_be():
    other = object()
    assert outcome_of({"a": Person(name="ann"), "b": Note("x"), "c": other, "d": Person}) is None


@pytest.mark.parametrize(
    ("point", "fields", "value", "changed"),
    [
        ("on_result", ["a"], {"a": MAIL, "b": MAIL}, {"a": EMAIL, "b": MAIL}),
        ("on_result", ["a"], {"a": {"x": [MAIL]}}, {"a": {"x": [EMAIL]}}),
        ("on_result", ["a.x"], {"a": {"x": MAIL, "y": MAIL}}, {"a": {"x": EMAIL, "y": MAIL}}),
        ("on_result", ["a[1]"], {"a": [MAIL, MAIL]}, {"a": [MAIL, EMAIL]}),
        ("on_result", ["*.x"], {"a": {"x": MAIL, "y": MAIL}}, {"a": {"x": EMAIL, "y": MAIL}}),
        ("on_result", ["a[-1]"], {"a": [MAIL, MAIL]}, {"a": [MAIL, EMAIL]}),
        ("on_result", ["a[-2].x"], {"a": [{"x": MAIL}] * 2}, {"a": [{"x": EMAIL}, {"x": MAIL}]}),
        ("on_result", ["output.a"], {"a": MAIL, "b": MAIL}, {"a": EMAIL, "b": MAIL}),
        ("on_result", ["output"], {"a": MAIL}, {"a": EMAIL}),
        ("before_run", ["parameters.a", "b"], {"a": MAIL, "b": MAIL}, {"a": EMAIL, "b": EMAIL}),
        (
            "before_tool_call",
            ["args.body"],
            ToolCall("1", "f", {"to": MAIL, "body": MAIL}),
            ToolCall("1", "f", {"to": MAIL, "body": EMAIL}),
        ),
        (
            "before_tool_call",
            ["tool_call.args.body"],
            ToolCall("1", "f", {"to": MAIL, "body": MAIL}),
            ToolCall("1", "f", {"to": MAIL, "body": EMAIL}),
        ),
        (
            "before_llm_call",
            ["request.messages[*].content"],
            ModelRequest(messages=[{"content": MAIL, "x": MAIL}, {"content": [{"text": MAIL}]}]),
            ModelRequest(messages=[{"content": EMAIL, "x": MAIL}, {"content": [{"text": EMAIL}]}]),
        ),
        (
            "before_inbound",
            ["content", "user_id"],
            InboundMessage(MAIL, "mail", MAIL, metadata={"a": MAIL}),
            InboundMessage(EMAIL, "mail", EMAIL, metadata={"a": MAIL}),
        ),
        ("on_result", ["a"], {"a": Person(name=MAIL)}, {"a": Person(name=EMAIL)}),
        (
            "on_result",
            ["a.name"],
            {"a": Person(name=MAIL, x=MAIL)},
            {"a": Person(name=EMAIL, x=MAIL)},
        ),
    ],
)
def test_fields_say_where_to_look(point, fields, value, changed):
    assert redacted(value, point, fields=fields) == changed


@pytest.mark.parametrize("fields", [["b"], ["b.a"], ["a[7]"], ["a[-3]"], ["a[0].y"]])
def test_elsewhere_nothing_is_changed(fields):
    assert outcome_of({"a": [{"x": MAIL}, {"x": MAIL}]}, fields=fields) is None


@pytest.mark.parametrize(
    "content",
    [
        MAIL,
        [MAIL],
        {"type": "text", "text": MAIL},
        [{"type": "text", "text": MAIL}, MAIL],
        [[{"type": "text", "text": MAIL}]],
        ({"text": MAIL},),
        {MAIL},
    ],
)
@pytest.mark.parametrize(
    "field", ["messages[*].content", "messages[*].content[*].text", "messages.content.text"]
)
def test_a_field_is_found_in_every_shape(field, content):
    """A list that the path does not name, and a text where it goes on, hide nothing."""
    value = ModelRequest(messages=[{"role": "user", "content": content, "name": MAIL}])
    after = redacted(value, "before_llm_call", fields=[field])
    assert MAIL not in repr(after.messages[0]["content"])
    assert after.messages[0]["name"] == MAIL


@pytest.mark.parametrize("fields", [["body"], ["parameters.body"], ["request"], ["text"]])
async def test_a_field_that_no_value_of_the_point_has_is_no_field(fields, caplog):
    registry = HookRegistry()
    registry.register(redact, "before_tool_call", config={"fields": fields})
    verdict = await registry.fire("before_tool_call", ToolCall("1", "f", {"body": MAIL}))
    assert verdict.decision == "fail"
    assert "a ToolCall has none of its fields" in verdict.reason


@pytest.mark.parametrize("fields", [[], [""], ["$['a']"], ["a..b"], ["a["], ["a[x]"], ["[0]"]])
def test_fields_that_are_no_paths_are_refused(fields):
    with pytest.raises(InvalidOutcomeError, match="paths, such as"):
        BUILTINS["redact"].make({"fields": fields})


async def test_what_nests_too_deeply_to_be_searched_does_not_pass():
    value = MAIL
    for _ in range(5000):
        value = FrozenDict({"a": value})
    registry = RecordingRegistry()
    registry.register(BUILTINS["redact"].make({}), "on_result")
    verdict = await registry.fire("on_result", value)
    assert verdict.decision == "block"
    assert "nests too deeply" in verdict.reason


def test_arguments_that_nest_too_deeply_and_have_escapes_do_not_pass():
    hidden = "[" * 5000 + every_letter_as_its_number(MAIL) + "]" * 5000
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": hidden}}]
    request_ = ModelRequest(messages=[{"role": "assistant", "tool_calls": calls}])
    with pytest.raises(Reject, match="nests too deeply"):
        redacted(request_, "before_llm_call")


async def test_as_a_plain_function():
    registry = RecordingRegistry()
    registry.register(redact, "after_tool_call", config={"kinds": ["email"], "with": "***"})
    verdict = await registry.fire("after_tool_call", ToolResult("1", "f", f"{MAIL} {PASSWORD}"))
    assert_changed(verdict, content=f"*** {PASSWORD}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["x", MAIL, PASSWORD, "", "a b"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "token", "id"]), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_was_redacted_has_nothing_left_to_redact(value):
    outcome = outcome_of(value)
    assert (outcome is None) is (not any(word in repr(value) for word in (MAIL, PASSWORD)))
    if outcome is not None:
        assert outcome_of(outcome.value) is None
        assert MAIL not in repr(outcome.value)


def texts_in(value):
    """Every text that leaves with a value, and is no name of a key."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts_in(item)


def tool_with(**more):
    return ModelRequest(tools=[{"type": "function", "function": {"name": "f", **more}}])


def message_with(**more):
    return ModelRequest(messages=[{"role": "user", "content": "hi", **more}])


def part_with(**more):
    return message_with(content=[{"type": "document", **more}])


@pytest.mark.parametrize(
    "request_",
    [
        part_with(context=MAIL),
        part_with(title=MAIL, status=MAIL),
        part_with(name=MAIL),
        part_with(source={"type": "text", "data": MAIL, "name": MAIL, "id": MAIL}),
        part_with(citations=[{"id": MAIL, "model": MAIL}]),
        part_with(content=[{"type": "text", "text": "x", "name": MAIL, "context": MAIL}]),
        part_with(id={"a": MAIL}, type=[MAIL]),
        message_with(name=MAIL),
        message_with(context=MAIL, status=MAIL, channel=MAIL, user_id=MAIL, provider=MAIL),
        message_with(id={"not": ["an id", MAIL]}),
        message_with(profile={"id": MAIL, "name": MAIL, "type": MAIL, "role": MAIL}),
        message_with(audio={"id": "a1", "transcript": MAIL, "name": MAIL}),
        message_with(tool_calls=[{"id": "1", "function": {"name": "f", "arguments": MAIL}}]),
        message_with(tool_calls=[{"id": "1", "name": "f", "args": {"id": MAIL}, "note": MAIL}]),
        tool_with(description=MAIL, input_examples=[{"name": MAIL, "id": MAIL, "type": MAIL}]),
        tool_with(parameters={"properties": {"name": {"default": MAIL, "type": MAIL}}}),
        ModelRequest(tools=[{"name": "f", "input_examples": [{"context": MAIL, "name": MAIL}]}]),
        ModelRequest(params={"prompt": {"id": "p1", "variables": {"name": MAIL, "id": MAIL}}}),
        ModelRequest(
            params={"metadata": {"id": MAIL, "user_id": MAIL, "messages": [{"id": MAIL}]}}
        ),
        ModelRequest(
            params={"user": MAIL, "safety_identifier": MAIL, "context": MAIL, "name": MAIL}
        ),
        ModelRequest(params={"web_search_options": {"user_location": {"name": MAIL, "id": MAIL}}}),
        ModelRequest(params={"mcp_servers": [{"name": MAIL, "url": f"https://x/{MAIL}"}]}),
        ModelRequest(params={"system": [{"type": "text", "text": MAIL, "name": MAIL}]}),
        ModelRequest(params={"tool_choice": {"type": "tool", "name": "f", "why": MAIL}}),
        ModelRequest(raw={"model": "m", "context": MAIL, "name": MAIL, "id": MAIL, "status": MAIL}),
    ],
)
def test_every_text_of_a_request_is_redacted_whatever_its_key(request_):
    after = redacted(request_, "before_llm_call")
    left = [*texts_in([after.messages, after.tools, after.params, after.raw])]
    assert not [text for text in left if MAIL in text]
    assert any(EMAIL in text for text in left)


def every_letter_as_its_number(data):
    """Write data as JSON with its letters as numbers, as some models and clients do."""
    return "".join(
        f"\\u{ord(letter):04x}" if letter.isalpha() or letter == "@" else letter
        for letter in json.dumps(data, ensure_ascii=False)
    )


@pytest.mark.parametrize(
    "written",
    [
        json.dumps({"to": MAIL, "text": "für Zoë"}),
        every_letter_as_its_number({"to": MAIL, "text": ["für", {"a": "Zoë"}]}),
        every_letter_as_its_number([MAIL, "Zoë"]),
        '{"a": "\\u005aoë", "a": "ls"}',
        json.dumps({"arguments": json.dumps({"arguments": json.dumps({"to": "Zoë"})})}),
        '{"a": ' + json.dumps(MAIL) + "cut",
        every_letter_as_its_number({"to": MAIL})[:-1] + r', "b": "\ud800"}',
        "[" * 5000 + MAIL,
    ],
)
def test_arguments_are_redacted_however_their_json_is_written(written):
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": written}}]
    item = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": written}
    request_ = ModelRequest(messages=[{"role": "assistant", "tool_calls": calls}, item])
    config = {"kinds": ["email"], "patterns": {"name": "Zoë"}}
    call, item = redacted(request_, "before_llm_call", **config).messages
    for left in (call["tool_calls"][0]["function"]["arguments"], item["arguments"]):
        assert not re.search("zo|5a|61|ann@", left.lower())
        assert re.search("redacted:(name|email)|^{.a.: .ls.}$", left)
        left.encode()


def test_arguments_are_masked_as_the_same_data_is():
    call = redacted(ToolCall("1", "f", {"password": "sunshine", "n": 1}), "before_tool_call")
    written = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
    written["tool_calls"][0]["function"]["arguments"] = json.dumps({"password": "sunshine", "n": 1})
    after = redacted(ModelRequest(messages=[written]), "before_llm_call")
    arguments = after.messages[0]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == call.args == {"password": SECRET, "n": 1}


def test_a_mask_over_signs_of_json_stays():
    arguments = '{"a": 7, "b": "x"}'
    message = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments}
    value = ModelRequest(messages=[message, {"role": "user", "content": arguments}])
    after = redacted(value, "before_llm_call", kinds=[], patterns={"seven": r"7, \S+"})
    assert "7" not in after.messages[0]["arguments"]
    assert "7" not in after.messages[1]["content"]


def test_arguments_in_which_nothing_is_found_stay_to_the_letter():
    arguments = '{ "a":1,"b" : "\\u0078", "a": 2 }'
    message = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments}
    assert outcome_of(ModelRequest(messages=[message]), "before_llm_call") is None


KEPT = [
    {"role": "tool", "tool_call_id": MAIL, "name": MAIL, "content": "done"},
    {"role": "function", "name": MAIL, "content": "done"},
    {"role": "assistant", "id": MAIL, "content": [{"type": "tool_use", "id": MAIL, "name": MAIL}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": MAIL, "content": "x"}]},
    {"type": "function_call", "call_id": MAIL, "name": MAIL, "arguments": "{}"},
    {"type": "function_call_output", "call_id": MAIL, "output": "x"},
]


@pytest.mark.parametrize("message", KEPT)
def test_what_calls_and_results_are_known_by_stays(message):
    assert outcome_of(ModelRequest(messages=[message]), "before_llm_call") is None
    assert outcome_of({"messages": [message]}, "before_run") is None


@pytest.mark.parametrize("data", [{"args": {"messages": KEPT}}, {"input": {"messages": KEPT}}])
def test_but_not_in_the_data_of_a_tool(data):
    call = ToolCall("1", "f", data)
    assert MAIL not in repr(redacted(call, "before_tool_call"))
