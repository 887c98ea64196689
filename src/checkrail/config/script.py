"""Scripts: what a model is to say without being there, one reply after the other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.value_checks import Check, ValueCheck, accept_any, mapping, read_members, text
from checkrail.engine.values import AssistantMessage, ToolCall

CALL: dict[str, Check] = {"tool": text, "args": mapping}
REPLY: dict[str, Check] = {
    **CALL,
    "content": ValueCheck("a text", lambda value: isinstance(value, str), {"type": "string"}),
    "tool_calls": accept_any,
}


def parse_script(given: Any, where: Where, report: Report) -> tuple[str | AssistantMessage, ...]:
    """Read the replies of a script; what is wrong with them is reported."""
    if given is None:
        return ()
    if not isinstance(given, list) or not given:
        report.add(where, f"found {describe_value(given)}", "a list of what the model is to say")
        return ()
    script = ScriptReader(report)
    return tuple(script.read_reply(item, (*where, number)) for number, item in enumerate(given))


class ScriptReader:
    """Reads one reply after the other, and gives each call an id of its own."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.ids = count(1)

    def read_reply(self, given: Any, where: Where) -> str | AssistantMessage:
        """Read one reply; one that is wrong is reported, and is empty."""
        if isinstance(given, str):
            return given
        if not isinstance(given, dict) or not given:
            expected = "a text, {tool, args}, or {content, tool_calls}"
            self.report.add(where, f"found {describe_value(given)}", expected)
            return ""
        if "tool" in given and "tool_calls" in given:
            self.report.add((*where, "tool"), "both `tool` and `tool_calls`", "one of them")
        said = read_members(given, REPLY, where, self.report)
        calls = self._read_calls(said.get("tool_calls", []), (*where, "tool_calls"))
        if "tool" in given or "args" in given:
            calls = [self._read_call(said, where, told="tool" in given)]
        reason = "tool_calls" if calls else "stop"
        return AssistantMessage(said.get("content", ""), calls, stop_reason=reason)

    def _read_calls(self, given: Any, where: Where) -> list[ToolCall]:
        if not isinstance(given, list):
            self.report.add(where, f"found {describe_value(given)}", "a list of {tool, args}")
            return []
        found = []
        for number, item in enumerate(given):
            at = (*where, number)
            before = len(self.report.problems)
            said = read_members(item, CALL, at, self.report)
            found.append(self._read_call(said, at, told=len(self.report.problems) > before))
        return found

    def _read_call(self, said: Mapping[str, Any], where: Where, *, told: bool) -> ToolCall:
        """Build a call; a missing tool is reported, unless another mistake explains it."""
        if "tool" not in said and not told:
            self.report.add(where, "`tool` is missing", "the name of a tool")
        return ToolCall(f"call-{next(self.ids)}", said.get("tool", ""), said.get("args", {}))
