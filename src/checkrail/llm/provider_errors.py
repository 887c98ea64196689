"""Answers that are none: told as what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.llm.answer_errors import ErrorAnswer, InvalidAnswer, shorten_line
from checkrail.llm.wire_format import UnreadableError

WRONG = (ErrorAnswer, InvalidAnswer, RecursionError, ValueError)
"""What reading an answer raises if it is none."""


def unreadable_error(what: str, error: Exception) -> UnreadableError:
    """Return the error for an answer that cannot be read."""
    if isinstance(error, ErrorAnswer):
        return UnreadableError(describe_error(error.body))
    shape = "it is not of the shape that its API has"
    problem = str(error) if isinstance(error, InvalidAnswer) else shape
    return UnreadableError(f"the {what} of the model cannot be read: {problem}")


def describe_error(error: Any) -> str:
    """Return what a provider reported in place of an answer."""
    told = error.get("message") if isinstance(error, Mapping) else error
    said = shorten_line(told) if isinstance(told, str) and told else "no message"
    return f"the model's API reported an error: {said}"
