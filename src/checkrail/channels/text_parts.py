"""Long texts in the parts that a channel takes."""

from __future__ import annotations

from collections.abc import Callable

from checkrail.channels.protocol import Capabilities

Measures = Callable[[str], Capabilities]
"""Returns what a channel of the project can do."""

_BREAKS = ("\n\n", "\n", ". ", " ")


def measure_text(text: str, unit: str) -> int:
    """Return how long a text is, as a channel counts."""
    if unit == "bytes":
        return len(text.encode())
    if unit == "utf16":
        return len(text) + sum(letter > "\uffff" for letter in text)
    return len(text)


def split_text(text: str, capabilities: Capabilities) -> list[str]:
    """Return a text in parts that fit, cut between paragraphs, lines, sentences or words."""
    parts = []
    while measure_text(text, capabilities.measure) > capabilities.max_text:
        end = _find_cut(text, _count_fitting(text, capabilities))
        parts.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [part for part in (*parts, text) if part.strip()]


def _count_fitting(text: str, capabilities: Capabilities) -> int:
    """Return how many letters of a text fit, at least one."""
    low, high = 1, min(len(text), capabilities.max_text)
    while low < high:
        middle = (low + high + 1) // 2
        if measure_text(text[:middle], capabilities.measure) <= capabilities.max_text:
            low = middle
        else:
            high = middle - 1
    return low


def _find_cut(text: str, most: int) -> int:
    """Return where to cut a text: at the coarsest break in the second half of what fits."""
    for mark in _BREAKS:
        at = text.rfind(mark, most // 2, most)
        if at > 0:
            return at + len(mark)
    return most
