"""How answers end, and what they cost, in the words of each API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FINISHES = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause": "stop",
    "pause_turn": "stop",
    "refusal": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
"""What the chat API calls our stop reasons and those of the messages API."""

STOPS = {
    "content_filter": "refusal",
    "function_call": "tool_use",
    "length": "max_tokens",
    "pause": "pause_turn",
    "stop": "end_turn",
    "tool_calls": "tool_use",
}
"""What the messages API calls our stop reasons and those of the chat API."""

CALLING = frozenset({"function_call", "tool_calls", "tool_use"})


def finish_reason(stop: str | None, *, calls: bool) -> str:
    """Return a stop reason as the chat API has it, true to whether tools are called."""
    reason = FINISHES.get(stop or "stop", stop or "stop")
    if reason in CALLING and not calls:
        return "stop"
    return "tool_calls" if reason == "stop" and calls else reason


def stop_reason(stop: str | None, *, calls: bool) -> str:
    """Return a stop reason as the messages API has it, true to whether tools are called."""
    reason = STOPS.get(stop or "stop", stop or "end_turn")
    if reason == "tool_use" and not calls:
        return "end_turn"
    return "tool_use" if reason in ("end_turn", "stop_sequence") and calls else reason


def chat_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write usage as the chat API does."""
    told = usage or {}
    sent, answered = _count(told, "input_tokens"), _count(told, "output_tokens")
    written: dict[str, Any] = {"prompt_tokens": sent, "completion_tokens": answered}
    written["total_tokens"] = _count(told, "total_tokens") or sent + answered
    for ours, theirs in (("input", "prompt"), ("output", "completion")):
        if details := told.get(f"{ours}_tokens_details"):
            written[f"{theirs}_tokens_details"] = dict(details)
    return written


def messages_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write usage as the messages API does: what came from a cache is counted apart."""
    told = usage or {}
    details = told.get("input_tokens_details") or {}
    cached, made = _count(details, "cached_tokens"), _count(details, "cache_creation_tokens")
    sent = _count(told, "input_tokens")
    return {
        "input_tokens": max(0, sent - cached - made),
        "cache_creation_input_tokens": made,
        "cache_read_input_tokens": cached,
        "output_tokens": _count(told, "output_tokens"),
    }


COUNTED = ("input_tokens", "output_tokens", "total_tokens")


def counts_differ(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bool:
    """Return whether tokens were counted anew; what they cost is nobody's but ours."""
    was = before or {}
    return after is not None and any(was.get(name) != after.get(name) for name in COUNTED)


def _count(told: Mapping[str, Any], name: str) -> int:
    found = told.get(name)
    return found if isinstance(found, int) else 0
