"""Answers that come as text: read as JSON, or refused in words that do not repeat them."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from checkrail.engine.errors import InvalidOutcomeError

FORM = 'Answer with one JSON object, such as {"action": "continue"}'


def read_json(who: str, written: bytes | str) -> Any:
    """Read what somebody answered; silence is no answer, for they may not have got that far."""
    if not written.strip():
        raise InvalidOutcomeError(f"{who} answered nothing. {FORM}")
    try:
        return json.loads(written, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        # what was written instead may be anything, and the reason of a refusal goes to the caller
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        problem = f"{who} answered {len(written)} bytes that are no JSON ({why})"
        raise InvalidOutcomeError(f"{problem}. {FORM}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
