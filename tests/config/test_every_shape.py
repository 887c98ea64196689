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
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from mcp.types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

from checkrail.config import ConfigError, load_text
from checkrail.engine.points import Decision
from checkrail.engine.records import RecordKind
from checkrail.engine.registry import HookRegistry
from checkrail.engine.text import text_of
from checkrail.engine.values import (
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    ToolCall,
    ToolResult,
)

quick = settings(max_examples=25, derandomize=True, deadline=None)

NEEDLE = "push --force"
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def _split(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _thinking(text):
    return {"type": "thinking", "thinking": text, "signature": "c2ln"}


def _arguments(text):
    """Write arguments as some models do, with every letter as its number."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in text if ord(letter) < 0x10000)
    return f'{{"command": "{escaped}"}}'


# Each makes content of a text, in the shape that somebody's API gives it.
SHAPES = {
    "text": lambda t: t,
    "bytes": lambda t: t.encode(),
    "words": lambda t: t.split(" "),
    "command line": lambda t: ["bash", "-lc", f"git {t}"],
    "chat parts": lambda t: [{"type": "text", "text": t}],
    "parts in pieces": lambda t: [{"type": "text", "text": piece} for piece in _split(t)],
    "chat image": lambda t: [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "text", "text": t},
    ],
    "chat image address": lambda t: [{"type": "image_url", "image_url": {"url": t}}],
    "chat refusal": lambda t: [{"type": "refusal", "refusal": t}],
    "messages thinking": lambda t: [_thinking(t), {"type": "text", "text": "Hello"}],
    "messages after thinking": lambda t: [_thinking("Hm"), {"type": "text", "text": t}],
    "messages citation": lambda t: [{"type": "text", "text": "x", "citations": [{"title": t}]}],
    "messages tool use": lambda t: [
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": t.split(" ")}}
    ],
    "messages tool result": lambda t: [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": t}]}
    ],
    "messages document": lambda t: [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": t}},
        {"type": "image", "source": PNG},
    ],
    "messages document context": lambda t: [{"type": "document", "source": PNG, "context": t}],
    "responses text": lambda t: [{"type": "output_text", "text": t, "annotations": []}],
    "responses reasoning": lambda t: [
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": t}]}
    ],
    "responses call": lambda t: [
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": _arguments(t)}
    ],
    "responses unknown": lambda t: [{"type": "made_up_call", "action": {"query": t}}],
    "langchain mixed": lambda t: ["Hello ", {"type": "text", "text": t}],
    "langchain reasoning": lambda t: [{"type": "reasoning", "reasoning": t}],
    "langchain message": lambda t: AIMessage(content=t),
    "langchain messages": lambda t: {
        "messages": [HumanMessage(content=[{"type": "text", "text": t}])]
    },
    "langchain tool message": lambda t: [ToolMessage(content=t, tool_call_id="c1")],
    "mcp content": lambda t: [TextContent(type="text", text=t)],
    "mcp result": lambda t: CallToolResult(content=[TextContent(type="text", text=t)]),
    "mcp resource": lambda t: [
        EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri="file:///a", mimeType="text/plain", text=t),
        )
    ],
    "mcp structured": lambda t: {"structuredContent": {"rows": [{"type": "text", "id": t}]}},
    "nested": lambda t: {"a": [{"b": {"c": [1, [t]]}}]},
    "key": lambda t: {"files": {t: 1}},
    "tuple": lambda t: (1, (t, None)),
    "set": lambda t: {t},
    "message": lambda t: {"role": "user", "content": t},
}
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
@given(content=ANY)
def test_a_gate_blocks_what_its_text_form_blocks_and_fails_where_there_is_no_text(
    gates, point, content
):
    value = VALUES[point](content)
    verdict, endings = _fire(gates, point, value)
    seen = text_of(VALUES[point](content)), text_of(content)
    for name in _conditions(point):
        ending = endings.get(name)
        if name.startswith(("whole", "text")):
            assert ending is None or ending.kind is RecordKind.BLOCKED, ending.error
        blocks = {
            "whole": NEEDLE in seen[0],
            "text": NEEDLE in seen[1],
            "place": NEEDLE in seen[1],
            "prefix": seen[1].startswith(NEEDLE),
            "substring": seen[1].startswith("push"),
        }[name.partition(" ")[0]]
        assert ending is not None or not blocks, f"{name} let {value!r} pass"
    assert (verdict.decision is Decision.BLOCK) == bool(endings)


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
