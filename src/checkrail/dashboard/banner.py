"""Why a run came out as it did, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.dashboard import shown
from checkrail.dashboard.steps import Step


@dataclass(frozen=True, slots=True)
class Banner:
    """A sentence at the top: in bold what happened, then the words of who decided it."""

    kind: str
    icon: str
    title: str
    reason: str = ""
    more: str = ""
    step: str = ""
    is_slim: bool = False


def build_banners(
    run: Mapping[str, Any], hooks: Sequence[Step], approvals: Sequence[Mapping[str, Any]]
) -> list[Banner]:
    """Return what stands at the top of a run, by the calls of its hooks that decided something."""
    found: list[Banner] = []
    phase, status = run.get("phase"), run.get("status")
    if phase in ("blocked", "refused"):
        found.append(_describe_block(run, hooks, approvals))
    elif phase == "cancelled":
        reason = str(run.get("cancel_reason") or "")
        found.append(Banner("cancelled", "circle-slash", "Cancelled", reason))
    elif status == "timeout":
        found.append(Banner("failed", "circle-x", "Timed out", str(run.get("error") or "")))
    elif status == "error":
        kind = str(run.get("error_type") or "Error")
        found.append(Banner("failed", "circle-x", kind, str(run.get("error") or "")))
    found += _describe_tools(hooks) if phase not in ("blocked", "refused") else []
    found += _describe_shadows(hooks)
    return found


def _describe_block(
    run: Mapping[str, Any], hooks: Sequence[Step], approvals: Sequence[Mapping[str, Any]]
) -> Banner:
    hook = run.get("blocked_by")
    reason = str(run.get("block_reason") or run.get("error") or "")
    call = _find_call(hooks, hook)
    record = {} if call is None else call.details
    point = str(record.get("point") or "")
    step = "" if call is None else call.id
    more = _describe_place(run, call)
    by = f" by {hook}" if hook else ""
    if record.get("failure"):
        title = f"{hook} could not decide ({record['failure']}), and its on_error is block"
        told = str(record.get("error") or reason)
        return Banner(
            "failed", "triangle-alert", title, told, f"It did not refuse this run. {more}", step
        )
    answered = next((each for each in approvals if each.get("hook") == hook), None)
    if answered is not None and answered.get("status") == "denied":
        who = answered.get("answered_by") or "Somebody"
        title = f"{who} denied “{answered.get('question')}”"
        return Banner("blocked", "shield-ban", title, str(answered.get("reason") or ""), more, step)
    if answered is not None and answered.get("status") == "expired":
        title = f"Nobody answered “{answered.get('question')}” in time"
        told = f"on_timeout is {answered.get('on_timeout')}"
        return Banner("blocked", "shield-ban", title, told, more, step)
    title = {
        "before_run": f"Refused before it started{by}",
        "on_run_start": f"Blocked before the agent ran{by}",
        "on_result": f"The result was withheld{by}",
    }.get(point, f"Blocked{by}{f' at {point}' if point else ''}")
    if run.get("phase") == "refused":
        title = f"Refused before it started{by}"
        more = f"Nothing ran. {more}"
    return Banner("blocked", "shield-ban", title, reason or "It gave no reason.", more, step)


def _find_call(hooks: Sequence[Step], name: Any) -> Step | None:
    mine = [each for each in hooks if each.name == name and not each.details.get("shadow")]
    for wanted in ("blocked", "failed"):
        found = [each for each in mine if each.result == wanted]
        if found:
            return found[-1]
    return mine[-1] if mine and name else None


def _describe_place(run: Mapping[str, Any], call: Step | None) -> str:
    if call is None:
        return ""
    parts = [str(call.details["source"])] if call.details.get("source") else []
    started = shown.parse_time(run.get("started_at") or run.get("created_at"))
    if started is not None and call.ended is not None:
        parts.append(f"{shown.duration(call.ended - started)} after the start")
    if call.details.get("status"):
        parts.append(f"status {call.details['status']}")
    return " · ".join(parts)


def _describe_tools(hooks: Sequence[Step]) -> list[Banner]:
    blocked = [
        each
        for each in hooks
        if each.result == "blocked" and str(each.details.get("point", "")).endswith("tool_call")
    ]
    if not blocked:
        return []
    first = blocked[0]
    calls = "1 tool call was" if len(blocked) == 1 else f"{len(blocked)} tool calls were"
    title = f"{calls} blocked and the agent went on. First by {first.name}"
    reason = str(first.details.get("reason") or "")
    return [Banner("info", "shield-ban", title, reason, "", first.id, is_slim=True)]


def _describe_shadows(hooks: Sequence[Step]) -> list[Banner]:
    found: dict[str, Step] = {}
    for each in hooks:
        if each.result == "would_block":
            found.setdefault(each.name, each)
    return [
        Banner(
            "would",
            "ghost",
            f"{name} would have blocked this",
            str(each.details.get("reason") or ""),
            "",
            each.id,
            is_slim=True,
        )
        for name, each in [*found.items()][:3]
    ]
