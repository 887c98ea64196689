"""Printing: for people in colour where the terminal has it, for machines as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

Hide = Callable[[str], str]
"""Takes secrets out of a text."""

WIDE = 10_000
"""How wide a line may get where nobody's terminal would break it."""


def console(*, stderr: bool = False) -> Console:
    """Give a console that prints what it is given, and never cuts or wraps a name in two."""
    colours: Any = None if os.environ.get("NO_COLOR") else "auto"
    found = Console(
        stderr=stderr, color_system=colours, highlight=False, emoji=False, soft_wrap=True
    )
    found.width = max(found.width, 100) if found.is_terminal else WIDE
    return found


def as_json(data: Any) -> str:
    """Write data for machines."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return json.dumps(data, indent=2)
    return text


def shown(text: str) -> str:
    """Make a text safe to print: what hooks say may carry what would draw on the terminal."""
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def hidden(data: Any, hide: Hide) -> Any:
    """Take secrets out of every text of some data."""
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, list):
        return [hidden(item, hide) for item in data]
    if isinstance(data, dict):
        return {key: hidden(item, hide) for key, item in data.items()}
    return data
