"""Answers that are none: told as what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.agent.models.sdk_errors import ErrorAnswer, InvalidAnswer, shortened
from checkrail.gateway.formats.base import UnreadableError

WRONG = (ErrorAnswer, InvalidAnswer, RecursionError, ValueError)
"""What reading an answer raises if it is none."""


def unreadable(what: str, error: Exception) -> UnreadableError:
    """Tell what is wrong with an answer."""
    if isinstance(error, ErrorAnswer):
        return UnreadableError(reported(error.body))
    shape = "it is not of the shape that its API has"
    problem = str(error) if isinstance(error, InvalidAnswer) else shape
    return UnreadableError(f"the {what} of the model cannot be read: {problem}")


def reported(error: Any) -> str:
    """Return what a provider reported in place of an answer."""
    told = error.get("message") if isinstance(error, Mapping) else error
    said = shortened(told) if isinstance(told, str) and told else "no message"
    return f"the model's API reported an error: {said}"
