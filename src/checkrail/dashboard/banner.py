"""Why a run came out as it did, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.dashboard import shown

Record = Mapping[str, Any]


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
    run: Mapping[str, Any], records: Sequence[Record], approvals: Sequence[Mapping[str, Any]]
) -> list[Banner]:
    """Return what stands at the top of a run."""
    found: list[Banner] = []
    phase, status = run.get("phase"), run.get("status")
    if phase in ("blocked", "refused"):
        found.append(_describe_block(run, records, approvals))
    elif phase == "cancelled":
        reason = str(run.get("cancel_reason") or "")
        found.append(Banner("cancelled", "circle-slash", "Cancelled", reason))
    elif status == "timeout":
        found.append(Banner("failed", "circle-x", "Timed out", str(run.get("error") or "")))
    elif status == "error":
        kind = str(run.get("error_type") or "Error")
        found.append(Banner("failed", "circle-x", kind, str(run.get("error") or "")))
    found += _describe_tools(records) if phase not in ("blocked", "refused") else []
    found += _describe_shadows(records)
    return found


def _describe_block(
    run: Mapping[str, Any], records: Sequence[Record], approvals: Sequence[Mapping[str, Any]]
) -> Banner:
    hook = run.get("blocked_by")
    reason = str(run.get("block_reason") or run.get("error") or "")
    record = _find_record(records, hook)
    point = str((record or {}).get("point") or "")
    step = "" if record is None else str(record.get("call_id") or record.get("record_id"))
    more = _describe_place(run, record)
    by = f" by {hook}" if hook else ""
    if record is not None and record.get("failure"):
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


def _find_record(records: Sequence[Record], hook: Any) -> Record | None:
    ended = [each for each in records if each.get("event_type") != "hook_start"]
    mine = [each for each in ended if each.get("hook") == hook and not each.get("shadow")]
    for wanted in ("hook_blocked", "hook_failed"):
        found = [each for each in mine if each.get("event_type") == wanted]
        if found:
            return found[-1]
    return mine[-1] if mine and hook else None


def _describe_place(run: Mapping[str, Any], record: Record | None) -> str:
    if record is None:
        return ""
    parts = [str(record["source"])] if record.get("source") else []
    started = shown.parse_time(run.get("started_at") or run.get("created_at"))
    if started is not None and record.get("time"):
        parts.append(f"{shown.duration(float(record['time']) - started)} after the start")
    if record.get("status"):
        parts.append(f"status {record['status']}")
    return " · ".join(parts)


def _describe_tools(records: Sequence[Record]) -> list[Banner]:
    blocked = [
        each
        for each in records
        if each.get("event_type") == "hook_blocked"
        and str(each.get("point", "")).endswith("tool_call")
        and not each.get("shadow")
    ]
    if not blocked:
        return []
    first = blocked[0]
    calls = "1 tool call was" if len(blocked) == 1 else f"{len(blocked)} tool calls were"
    title = f"{calls} blocked and the agent went on. First by {first.get('hook')}"
    step = str(first.get("call_id") or first.get("record_id"))
    return [
        Banner("info", "shield-ban", title, str(first.get("reason") or ""), "", step, is_slim=True)
    ]


def _describe_shadows(records: Sequence[Record]) -> list[Banner]:
    found: dict[str, Record] = {}
    for each in records:
        if each.get("shadow") and each.get("decision") in ("block", "fail"):
            found.setdefault(str(each.get("hook")), each)
    return [
        Banner(
            "would",
            "ghost",
            f"{hook} would have blocked this",
            str(each.get("reason") or ""),
            "",
            str(each.get("call_id") or each.get("record_id")),
            is_slim=True,
        )
        for hook, each in [*found.items()][:3]
    ]
