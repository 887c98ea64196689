"""Verdicts between a server and a runner: what is asked at a point, and what was decided there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.actions.value_models import build_value, check_data, result_type
from checkrail.engine.frozen import thaw
from checkrail.engine.outcomes import (
    UNSET,
    Ask,
    Block,
    Continue,
    Fail,
    Outcome,
    Replace,
    Retry,
    Stop,
)
from checkrail.engine.points import CONTRACTS, Decision, HookPoint
from checkrail.engine.values import Value, plain
from checkrail.engine.verdict import Verdict

ASKED = (
    HookPoint.BEFORE_LLM_CALL,
    HookPoint.AFTER_LLM_CALL,
    HookPoint.BEFORE_TOOL_CALL,
    HookPoint.AFTER_TOOL_CALL,
    HookPoint.ON_TOOL_ERROR,
    HookPoint.BEFORE_FINAL_RESPONSE,
    HookPoint.QUERY_END,
)
"""The points inside an execution, which a runner asks the server about."""

IDS = ("agent_name", "model", "provider", "iteration", "tool_call_id", "request_id")
"""What a runner says of where in a run it is; all else the server knows."""


def parse_value(point: HookPoint, data: Any, current: Any = None) -> Any:
    """Parse the value at a point; `InvalidOutcomeError` says what is wrong with it.

    What it leaves out is as it is in the `current` one.
    """
    kind = CONTRACTS[point].value
    if data is None and point is HookPoint.QUERY_END:
        return None
    return _parse_as(kind, data, f"the value at {point}", current)


def _parse_as(kind: type, data: Any, what: str, current: Any = None) -> Any:
    if kind is object or kind is str:
        return data
    return build_value(kind, check_data(kind, data, what), current)


def render_verdict(verdict: Verdict, original: Any) -> dict[str, Any]:
    """Render a verdict: what was decided by whom, and what of the original value has changed."""
    said: dict[str, Any] = {"action": str(verdict.decision)}
    for name in ("reason", "status", "code", "retry_after", "hook"):
        if found := getattr(verdict, name):
            said[name] = found
    if verdict.inject:
        said["inject"] = plain(thaw([*verdict.inject]))
    if verdict.redacted:
        said["redacted"] = _render_changes(original, verdict.given)
    if verdict.subject != verdict.given:
        said["subject"] = _render_changes(verdict.given, verdict.subject)
    if verdict.decision in (Decision.REPLACE, Decision.STOP):
        said["value"] = plain(verdict.value)
    return said


def _render_changes(before: Any, after: Any) -> Any:
    """Render what of a value has changed: the rest a runner has in a form that JSON may not."""
    if not isinstance(after, Value) or type(before) is not type(after):
        return plain(after)
    names = [name for name in after.__slots__ if getattr(before, name) != getattr(after, name)]
    return {name: plain(getattr(after, name)) for name in names}


@dataclass(frozen=True, slots=True)
class RemoteVerdict:
    """A verdict as a runner gets it; what is UNSET did not change, or was not given."""

    decision: Decision = Decision.CONTINUE
    reason: str = ""
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None
    hook: str | None = None
    inject: Sequence[Mapping[str, Any]] = field(default_factory=list)
    redacted: Any = UNSET
    subject: Any = UNSET
    value: Any = UNSET
    approval: Mapping[str, Any] | None = None

    def to_outcome(self) -> Outcome | None:
        """Return the decision as a hook's outcome; None: go on."""
        reason = self.reason
        if self.decision is Decision.BLOCK:
            return Block(reason, self.status or 403, self.code, self.retry_after)
        if self.decision is Decision.FAIL:
            return Fail(reason, self.code, self.status or 500)
        if self.decision is Decision.RETRY:
            return Retry(reason, self.inject)
        if self.decision is Decision.REPLACE:
            return Replace(self.value, reason)
        if self.decision is Decision.STOP:
            return Stop(self.value, reason)
        if self.decision is Decision.ASK:
            return Ask(reason)
        return Continue(inject=self.inject) if self.inject else None


def parse_verdict(point: HookPoint, said: Mapping[str, Any], current: Any) -> RemoteVerdict:
    """Parse a verdict on the current value, or raise what is wrong with it."""
    decision = Decision(said["action"])
    if decision is Decision.ASK:
        return RemoteVerdict(decision, said["approval"]["approval_id"], approval=said["approval"])
    contract = CONTRACTS[point]
    brings = result_type(contract, decision)
    redacted: Any = UNSET
    subject: Any = UNSET
    if "redacted" in said:
        redacted = current = parse_value(point, said["redacted"], current)
    if "subject" in said:
        subject = parse_value(point, said["subject"], current)
    return RemoteVerdict(
        decision,
        said.get("reason") or "",
        said.get("status"),
        said.get("code"),
        said.get("retry_after"),
        said.get("hook"),
        said.get("inject") or [],
        redacted,
        subject,
        UNSET if brings is None else _parse_as(brings, said["value"], f"the value of a {decision}"),
    )
