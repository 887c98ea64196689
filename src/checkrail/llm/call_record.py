"""What is kept of one call of a model through the gateway: whose it was, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 256
LONGEST_REASON = 1000
_LARGEST = 2**53


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call of a model that is over. It holds nothing of what was said, and no key.

    `status` is None where the caller went away before there was any; `decision` is the strictest
    of the `decisions` that hooks made, which are counted, and None where there were no hooks.
    """

    call_id: str
    created_at: float
    format: str
    path: str
    request_id: str
    duration_ms: float
    owner: str | None = None
    key: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    agent_name: str | None = None
    model: str | None = None
    answered_model: str | None = None
    upstream: str | None = None
    provider: str | None = None
    status: int | None = None
    streamed: bool = False
    usage: Mapping[str, Any] | None = None
    cost: float | None = None
    decision: str | None = None
    decisions: Mapping[str, int] | None = None
    reason: str | None = None
    first_byte_ms: float | None = None


def countable_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the numbers of a usage, which anybody may have written anything else into."""
    found: dict[str, Any] = {}
    for name, value in (usage or {}).items():
        if not str(name).isidentifier() or len(name) > LONGEST_NAME:
            continue
        if isinstance(value, Mapping):
            if inner := {key: n for key, n in countable_usage(value).items() if _is_count(n)}:
                found[name] = inner
        elif _is_count(value):
            found[name] = value
    return found


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 <= value < _LARGEST
