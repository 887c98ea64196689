"""Texts of messages, and texts in lines of a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 100


def text_of(content: Any, between: str = " ") -> str:
    """Return the text of a message's content: the content itself, or its parts that are texts."""
    if isinstance(content, (list, tuple)):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return between.join(part for part in parts if isinstance(part, str))
    return "" if content is None else str(content)


def on_one_line(name: str) -> str:
    """Return a name that somebody else chose so that it cannot pass for more than a name."""
    shown = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
    return shown if shown.isprintable() else repr(shown)[1:-1]
