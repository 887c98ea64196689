"""Every documented form of a rule, as rules that keep the planted text back at a point.

What a test asks with these is whether the text got past the rule, whatever else was done to the
value before: the changes run first, and none of them takes the text away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from tests.planting import MARK

from checkrail import Ask, Block, Fail, Hook, Reject
from checkrail.config import load_text
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.points import Lane

NAMES = {
    "before_llm_call": "request",
    "after_llm_call": "message",
    "before_tool_call": "tool_call",
    "after_tool_call": "tool_result",
}
SEARCHES = (
    "{}.text.contains('{}')",
    "text({}).contains('{}')",
    "{}.text.matches('{}')",
    "{}.text.lowerAscii().indexOf('{}') >= 0",
)
REFUSALS: dict[str, dict[str, Any]] = {
    "block": {"block": "Not here"},
    "block with all that goes with it": {
        "block": True,
        "status": 451,
        "code": "no",
        "retry_after": 2.5,
    },
    "block first": {"block": "Not here", "lane": "transform"},
    "fail": {"fail": "Not here", "code": "no"},
    "ask": {"ask": "Really?"},
    "approval": {"type": "approval", "question": "Really?"},
}
RESULTS: dict[str, dict[str, Any]] = {
    "stop": {"stop": "Closed"},
    "stop with parts": {"stop": {"content": [{"type": "text", "text": "Closed"}]}},
    "replace": {"replace": {"content": "cached"}},
    "retry": {"retry": "Again"},
    "retry with a message": {"retry": "Again", "inject": "Be kind"},
}
RULES = {
    "before_llm_call": [*REFUSALS, "stop", "stop with parts", "replace"],
    "after_llm_call": [*REFUSALS, "stop", "stop with parts", "retry", "retry with a message"],
    "before_tool_call": [*REFUSALS, "replace"],
    "after_tool_call": [name for name in REFUSALS if name not in ("ask", "approval")],
}

REDACTIONS: list[Any] = [
    f"/{MARK}/",
    ["email", f"/{MARK}/"],
    {"patterns": [f"/(?i){MARK.upper()}/"], "with": "***"},
    {"kinds": ["secrets"], "patterns": ["/push\\s+--force/"]},
]


def returns_a_block(event: Any) -> Block | None:
    return Block("Not here") if MARK in event.value.text else None


async def raises_a_rejection(event: Any, value: Any) -> None:
    if MARK in value.text:
        raise Reject("Not here", status=451)


def returns_a_failure(event: Any, value: Any) -> Fail | None:
    return Fail("Not here") if MARK in value.text else None


def asks(event: Any, value: Any) -> Ask | None:
    return Ask("Really?") if MARK in value.text else None


class Classy(Hook):
    async def execute(self, event: Any) -> Block | None:
        return Block("Not here") if MARK in event.value.text else None


def breaks(event: Any, value: Any) -> None:
    if MARK in value.text:
        raise RuntimeError("broken")


IN_PYTHON = [returns_a_block, raises_a_rejection, returns_a_failure, Classy(), breaks, asks]
MATCHERS: dict[str, list[dict[str, Any]]] = {
    "before_llm_call": [{}, {"mode": "enforce", "priority": 5}],
    "after_llm_call": [{}, {"timeout": 60, "stream": "whole"}],
    "before_tool_call": [{}, {"tools": ["f"]}, {"tools": ["/^f$/", "other*"]}],
    "after_tool_call": [{}, {"tools": ["*"]}],
}
CHANGES: dict[str, list[dict[str, Any]]] = {
    "before_llm_call": [
        {"set": {"params.extra": 1}},
        {"set": {"params['a key'].b": ["x"]}},
        {"inject": "Be brief."},
        {"inject": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
        {"redact": ["secrets", "email", "card", "/zzz/"]},
    ],
    "after_llm_call": [
        {"append": " Bye."},
        {"prepend": "Well: "},
        {"set": {"metadata.extra": 1}},
        {"redact": {"patterns": ["/zzz/"], "with": "", "fields": ["content"]}},
        {"append": "!", "redact": "/zzz/", "last": True},
    ],
    "before_tool_call": [
        {"set": {"args.extra": 1}},
        {"set": {"$.args['another key']": {"a": None}}},
        {"redact": ["email", "/zzz/"]},
        {"last": True},
    ],
    "after_tool_call": [
        {"append": " Bye."},
        {"prepend": "Well: "},
        {"set": {"duration_ms": 1}},
        {"redact": ["secrets", "/zzz/"]},
    ],
}


def forms(point: str, *without: str) -> st.SearchStrategy[list[HookSpec]]:
    """Return a rule at a point in any form but some, called `rule`, after changes of any form."""
    names = [name for name in RULES[point] if name not in without]
    in_file = st.builds(
        lambda name, search, matcher: _load(
            point,
            {"when": search.format(NAMES[point], MARK), **(REFUSALS | RESULTS)[name], **matcher},
        ),
        st.sampled_from(names),
        st.sampled_from(SEARCHES),
        st.sampled_from(MATCHERS[point]),
    )
    calls = [call for call in IN_PYTHON if call is not asks or "ask" in names]
    in_python = st.sampled_from(calls).map(lambda call: declare(call, [point], "rule", lane="gate"))
    return st.builds(
        lambda changes, rule: [*_load_changes(point, changes, rule), rule],
        st.lists(st.sampled_from(CHANGES[point]), max_size=2),
        in_file | in_python,
    )


def redactions(point: str) -> st.SearchStrategy[list[HookSpec]]:
    """Return a redaction at a point, and a gate for what it cannot take out: texts in pieces."""
    gate = _load(point, {"when": SEARCHES[0].format(NAMES[point], MARK), "block": "Not here"})
    return st.sampled_from(REDACTIONS).map(
        lambda told: [_load(point, {"redact": told}, "redaction"), gate]
    )


def _load(point: str, entry: dict[str, Any], name: str = "rule") -> HookSpec:
    rule = {"name": name, **entry}
    (spec,) = load_text(json.dumps({"hooks": {point: [rule]}}), "json").specs
    return spec


def _load_changes(point: str, changes: list[dict[str, Any]], rule: HookSpec) -> list[HookSpec]:
    """Load what changes the value before; `last` would end the lane before a rule in it."""
    told = [one for one in changes if rule.lane is Lane.GATE or "last" not in one]
    return [_load(point, {"priority": 1, **one}, f"change {at}") for at, one in enumerate(told)]


def check_rule(records: Iterable[Any], rule: HookSpec) -> None:
    """Check that the rule was called, decided each time, and failed only if it breaks."""
    ended = [one for one in records if one.hook == rule.name and one.kind != "hook_start"]
    assert ended
    failures = {str(one.failure) for one in ended if one.failure}
    assert failures == ({"error"} if rule.fn is breaks else set()), [one.error for one in ended]
