"""Why a model's answer ended, in the same words for every provider."""

from __future__ import annotations

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
