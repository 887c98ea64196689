"""How answers end, and what they cost, in the words of each API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STOP_REASONS = {
    "stop": "end end_turn stop_sequence completed complete eos eos_token done",
    "tool_calls": "tool_call tool_use function_call",
    "length": "max_tokens max_output_tokens model_length model_context_window_exceeded",
    "content_filter": (
        "content_filtered guardrail_intervened safety blocklist prohibited_content spii recitation "
        "error_toxic"
    ),
    "refusal": "",
    "pause": "pause_turn",
}
"""The words that hooks see, each with what providers call it.

`stop`: the answer is whole. `tool_calls`: it calls tools. `length`: its limit cut it off.
`content_filter`: the provider withheld it. `refusal`: the model would not answer. `pause`: the
provider interrupted its own tools, and goes on when it is given the answer back.
"""

_WORDS = {word: ours for ours, theirs in STOP_REASONS.items() for word in (ours, *theirs.split())}


def read_stop_reason(given: Any, *, calls: bool) -> str | None:
    """Return a provider's stop reason in our words, true to whether tools are called.

    A word that nobody knows stays as it is; what is no word is as good as silence.
    """
    if not isinstance(given, str) or not given:
        return None
    reason = _WORDS.get(given.lower(), given)
    if reason == "tool_calls" and not calls:
        return "stop"
    return "tool_calls" if reason == "stop" and calls else reason


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


def to_finish_reason(stop: str | None, *, calls: bool) -> str:
    """Return a stop reason as the chat API has it, true to whether tools are called."""
    reason = FINISHES.get(stop or "stop", stop or "stop")
    if reason in CALLING and not calls:
        return "stop"
    return "tool_calls" if reason == "stop" and calls else reason


def to_stop_reason(stop: str | None, *, calls: bool) -> str:
    """Return a stop reason as the messages API has it, true to whether tools are called."""
    reason = STOPS.get(stop or "stop", stop or "end_turn")
    if reason == "tool_use" and not calls:
        return "end_turn"
    return "tool_use" if reason in ("end_turn", "stop_sequence") and calls else reason


def to_chat_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write usage as the chat API does."""
    told = usage or {}
    sent, answered = _read_count(told, "input_tokens"), _read_count(told, "output_tokens")
    written: dict[str, Any] = {"prompt_tokens": sent, "completion_tokens": answered}
    written["total_tokens"] = _read_count(told, "total_tokens") or sent + answered
    for ours, theirs in (("input", "prompt"), ("output", "completion")):
        if details := told.get(f"{ours}_tokens_details"):
            written[f"{theirs}_tokens_details"] = dict(details)
    return written


def to_messages_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write usage as the messages API does, which counts cached tokens apart."""
    told = usage or {}
    details = told.get("input_tokens_details") or {}
    cached, made = (
        _read_count(details, "cached_tokens"),
        _read_count(details, "cache_creation_tokens"),
    )
    sent = _read_count(told, "input_tokens")
    return {
        "input_tokens": max(0, sent - cached - made),
        "cache_creation_input_tokens": made,
        "cache_read_input_tokens": cached,
        "output_tokens": _read_count(told, "output_tokens"),
    }


COUNTED = ("input_tokens", "output_tokens", "total_tokens")


def counts_differ(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bool:
    """Return whether token counts changed; the cost is not part of the API."""
    was = before or {}
    return after is not None and any(was.get(name) != after.get(name) for name in COUNTED)


def _read_count(told: Mapping[str, Any], name: str) -> int:
    found = told.get(name)
    return found if isinstance(found, int) else 0
