"""Rules of a file over every shape that the model APIs, LangChain and MCP bring.

A gate never lets pass what its text form would block, and nothing is raised out of the engine.
"""

import asyncio
import functools
import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shapes import NEEDLE, SHAPES

from checkrail.config import ConfigError, load_text
from checkrail.engine.points import Decision
from checkrail.engine.records import RecordKind
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import (
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    ToolCall,
    ToolResult,
)

quick = settings(max_examples=25, derandomize=True, deadline=None)

PLAIN = st.text(st.characters(codec="utf-8"), max_size=12)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | PLAIN | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=6,
)
TEXT_WITH_NEEDLE = st.builds(
    lambda before, after: f"{before}{NEEDLE}{after}",
    st.sampled_from(["", "git ", "é ", "a\n"]),
    st.sampled_from(["", " origin", "\nb"]),
)
SHAPED = st.builds(
    lambda shape, text: SHAPES[shape](text), st.sampled_from([*SHAPES]), TEXT_WITH_NEEDLE | PLAIN
)
ANY = SHAPED | DATA


def _among(inner):
    """Put data beside other data, or into it."""
    lists = st.builds(
        lambda before, item, after: [*before, item, *after],
        st.lists(DATA, max_size=2),
        inner,
        st.lists(DATA, max_size=2),
    )
    named = st.builds(lambda key, item, rest: {**rest, key: item}, PLAIN, inner, _DICTS)
    return lists | lists.map(tuple) | named


_DICTS = st.dictionaries(PLAIN, DATA, max_size=2)
HIDING = st.recursive(
    st.one_of(
        TEXT_WITH_NEEDLE,
        TEXT_WITH_NEEDLE.map(str.encode),
        st.builds(
            lambda shape, text: SHAPES[shape](text), st.sampled_from([*SHAPES]), st.just(NEEDLE)
        ),
        st.builds(lambda key, item: {key: item}, TEXT_WITH_NEEDLE, DATA),
    ),
    _among,
    max_leaves=4,
)
"""Data that has the needle somewhere: whoever made it knows, and need not look for it."""

LETTERS = st.text(st.sampled_from("pushforce "), max_size=12)
FREE = st.recursive(
    st.none() | st.booleans() | st.integers(0) | LETTERS | LETTERS.map(str.encode),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3),
    max_leaves=6,
)
"""Data that cannot have it, however its texts are joined: no dash is in it."""


def _request(content):
    greeting = {"role": "user", "content": "hi"}
    return ModelRequest("m", messages=[greeting, {"role": "user", "content": content}])


VALUES = {
    "before_inbound": lambda content: InboundMessage("ann", "web", content),
    "before_run": lambda content: {"question": content},
    "before_llm_call": _request,
    "after_llm_call": AssistantMessage,
    "before_tool_call": lambda content: ToolCall("c1", "bash", {"command": content}),
    "after_tool_call": lambda content: ToolResult("c1", "bash", content),
    "before_final_response": AssistantMessage,
    "on_result": lambda content: {"answer": content},
    "before_outbound": lambda content: OutboundMessage("ann", "web", content),
}
PLACES = {
    "before_inbound": "content",
    "before_run": "parameters.question",
    "before_llm_call": "request.messages[-1].content",
    "after_llm_call": "message.content",
    "before_tool_call": "tool_call.args.command",
    "after_tool_call": "tool_result.content",
    "before_final_response": "message.content",
    "on_result": "output.answer",
    "before_outbound": "content",
}
WHOLE = {
    "before_run": ["text(parameters)"],
    "on_result": ["text(output)", "text(value)"],
    "before_inbound": ["value.text", "original.text"],
    "before_outbound": ["value.text"],
    "before_llm_call": [
        "request.text",
        "request.messages[-1].text",
        "request.messages.filter(m, m.role == 'user')[-1].text",
        "text(request.messages)",
    ],
    "after_llm_call": ["message.text", "text(message)"],
    "before_final_response": ["message.text", "value['text']"],
    "before_tool_call": ["tool_call.text", "value.text", "text(tool_call.args)"],
    "after_tool_call": ["tool_result.text"],
}
SEARCHES = (
    f".contains('{NEEDLE}')",
    f".matches('{NEEDLE}')",
    f".lowerAscii().contains('{NEEDLE}')",
    f".indexOf('{NEEDLE}') >= 0",
)
PREFIX = f".startsWith('{NEEDLE}')"


def _conditions(point):
    """Name the conditions of a point: those of a text, and those of what may be none."""
    place, whole = PLACES[point], WHOLE[point]
    found = {f"whole {w}{s}": f"{w}{s}" for w in whole for s in SEARCHES}
    found |= {f"text {s}": f"text({place}){s}" for s in SEARCHES}
    found |= {f"place {s}": f"{place}{s}" for s in SEARCHES}
    found |= {f"place guarded {s}": f"{place} != null && {place}{s}" for s in SEARCHES[:2]}
    found |= {"prefix": f"{place}{PREFIX}", "substring": f"{place}.substring(0, 4) == 'push'"}
    if point == "before_llm_call":
        found["whole each"] = f"request.messages.exists(m, m.text{SEARCHES[0]})"
        found["place each"] = f"request.messages.exists(m, m.content{SEARCHES[0]})"
    return found


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """Write no log: most conditions here fail, as they should."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def gates():
    """A registry with every condition as a rule that blocks."""
    document = {
        "hooks": {
            point: [
                {"name": f"{point}: {name}", "when": when, "block": "Not here"}
                for name, when in _conditions(point).items()
            ]
            for point in VALUES
        }
    }
    registry = HookRegistry()
    registry.swap(load_text(json.dumps(document), "json").specs)
    return registry


def _fire(registry, point, value):
    verdict = asyncio.run(registry.fire(point, value))
    endings = {
        r.hook.removeprefix(f"{point}: "): r for r in verdict.records if r.kind != "hook_start"
    }
    return verdict, endings


@pytest.mark.parametrize("point", VALUES)
@settings(quick, max_examples=3)
@given(text=TEXT_WITH_NEEDLE)
def test_what_holds_the_text_is_blocked_in_every_shape(gates, point, text):
    for shape, make in SHAPES.items():
        verdict, endings = _fire(gates, point, VALUES[point](make(text)))
        assert verdict.decision is Decision.BLOCK
        for name in _conditions(point):
            if name.startswith(("whole", "text", "place")):
                assert name in endings, f"{name} let {shape} pass"


@pytest.mark.parametrize("point", VALUES)
@quick
@given(content=HIDING)
def test_a_gate_blocks_the_text_wherever_it_was_put(gates, point, content):
    value = VALUES[point](content)
    verdict, endings = _fire(gates, point, value)
    assert verdict.decision is Decision.BLOCK
    for name in _conditions(point):
        if name.startswith(("whole", "text", "place")):
            assert name in endings, f"{name} let {value!r} pass"
        if name.startswith(("whole", "text")):
            assert endings[name].kind is RecordKind.BLOCKED, endings[name].error


@pytest.mark.parametrize("point", VALUES)
@quick
@given(content=FREE)
def test_a_gate_for_a_text_lets_pass_what_has_it_not(gates, point, content):
    _, endings = _fire(gates, point, VALUES[point](content))
    assert not [name for name in endings if name.startswith(("whole", "text"))]


@pytest.mark.parametrize("point", VALUES)
@pytest.mark.parametrize("text", [NEEDLE, f"{NEEDLE} origin"])
def test_a_gate_for_how_a_text_begins_blocks_it(gates, point, text):
    for content in (text, [text], {"a": text}, [{"type": "text", "text": text}]):
        _, endings = _fire(gates, point, VALUES[point](content))
        assert {"prefix", "substring"} <= endings.keys()


FORMS = {
    "block": {"block": "No"},
    "fail": {"fail": True},
    "ask": {"ask": "Really?"},
    "retry": {"retry": "Again"},
    "replace": {"replace": {"content": "cached"}},
    "stop": {"stop": "Closed"},
    "redact": {"redact": ["email", "secrets", "/push/"]},
    "redact one field": {"redact": {"patterns": ["/push/"], "fields": ["content"]}},
    "inject": {"inject": "Be brief"},
    "set": {"set": {"content": "set"}},
    "set below": {"set": {"args.command": "set"}},
    "matched": {"users": ["a*"], "models": ["/^m/"], "block": "No"},
}
WHENS = ["", "has(user.identity)", "has(user.extras.team)", "user == null", "size({}) > 0"]


@functools.cache
def _rule(point, form, when):
    """Make a registry with one rule, or None where the point does not take it."""
    rule = {"name": "rule", **FORMS[form]}
    if when:
        rule["when"] = when.format(PLACES[point])
    registry = HookRegistry()
    try:
        registry.swap(load_text(json.dumps({"hooks": {point: [rule]}}), "json").specs)
    except ConfigError:
        return None
    return registry


def test_each_form_is_taken_somewhere():
    for form in FORMS:
        assert any(_rule(point, form, "") for point in VALUES), form


@pytest.mark.parametrize("point", VALUES)
@quick
@given(form=st.sampled_from([*FORMS]), when=st.sampled_from(WHENS), content=ANY)
def test_no_form_of_a_rule_raises_out_of_the_engine(point, form, when, content):
    registry = _rule(point, form, when)
    if registry is not None:
        value = VALUES[point](content)
        verdict = asyncio.run(registry.fire(point, value, user="ann", model="m"))
        assert verdict.decision in Decision


class Unruly:
    """An object that answers no question about itself."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __bool__(self):
        raise RuntimeError("bool")

    def __str__(self):
        raise RuntimeError("str")

    __repr__ = __str__


ODD = {
    "a long number": 10**6000,
    "an object": [Unruly()],
    "a part of objects": [{"type": Unruly(), "text": Unruly()}],
    "half a character": [{"type": "text", "text": "\ud800"}],
    "keys of any type": {1: 2, None: 3, (1, 2): 4, b"x": 5, False: 6, 1.5: 7},
    "a class": Unruly,
    "a generator": (number for number in range(3)),
    "arguments too deep": [{"type": "function_call", "arguments": "[" * 5000}],
}


@pytest.mark.parametrize("point", VALUES)
@pytest.mark.parametrize("odd", ODD)
def test_no_form_raises_over_what_has_no_form_in_json(point, odd):
    for form in FORMS:
        registry = _rule(point, form, "")
        if registry is not None:
            verdict = asyncio.run(registry.fire(point, VALUES[point](ODD[odd])))
            assert verdict.decision in Decision


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_that_a_retry_could_not_judge_does_not_pass(point, shape):
    rule = {"name": "rule", "when": f"message.content.contains('{NEEDLE}')", "retry": "Again"}
    registry = HookRegistry()
    registry.swap(load_text(json.dumps({"hooks": {point: rule}}), "json").specs)
    verdict, _ = _fire(registry, point, AssistantMessage(SHAPES[shape](NEEDLE)))
    assert verdict.decision in (Decision.RETRY, Decision.BLOCK)


def test_a_retry_that_is_to_fail_open_says_so():
    rule = {"when": "message.content.contains('x')", "retry": "Again", "on_error": "continue"}
    registry = HookRegistry()
    registry.swap(load_text(json.dumps({"hooks": {"after_llm_call": rule}}), "json").specs)
    verdict, _ = _fire(registry, "after_llm_call", AssistantMessage(["x"]))
    assert verdict.decision is Decision.CONTINUE
