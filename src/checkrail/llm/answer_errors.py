"""What an answer of a model can be instead of an answer: invalid, unfinished, an error."""

from __future__ import annotations

from typing import Any

LONGEST = 300
"""How much is told of what a provider said, in characters."""


class InvalidAnswer(ValueError):
    """An answer is not of the shape that its API promises."""


class UnfinishedAnswer(InvalidAnswer):
    """An answer had begun, and its stream ended before it did."""


def missing_end(*, begun: bool) -> InvalidAnswer:
    """Return the error of a stream without its end; one that had not begun may be no answer."""
    kind = UnfinishedAnswer if begun else InvalidAnswer
    return kind("its stream ended before the answer did")


class ErrorAnswer(Exception):
    """A provider gave an error where an answer should be; `body` is what it said."""

    def __init__(self, body: Any) -> None:
        super().__init__("an error in place of an answer")
        self.body = body


def shorten_line(text: str) -> str:
    """Return a text on one line, and no more of it than helps."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
