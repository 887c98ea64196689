"""Printing: for people in colour where the terminal has it, for machines as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Hide = Callable[[str], str]
"""Takes secrets out of a text."""

WIDE = 10_000
"""How wide a line may get where nobody's terminal would break it."""

NARROWEST = 20
"""How narrow a column that may be folded gets, at least."""


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: no markup, no emoji, no line cut or wrapped.

    Whatever is printed may hold what somebody else wrote. Styles are therefore given as `Text` or
    as `style`, and never within a string.
    """
    colours: Any = None if os.environ.get("NO_COLOR") else "auto"
    found = Console(
        stderr=stderr,
        color_system=colours,
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=True,
    )
    if not found.is_terminal:
        found.width = WIDE
    return found


def new_table(*titles: str, folded: Collection[str] = (), header: bool = True) -> Table:
    """Return a table with these columns, of which only the `folded` ones may be broken."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_header=header)
    for title in titles:
        table.add_column(Text(title), no_wrap=title not in folded, overflow="fold")
    return table


def cell(text: str, style: str = "") -> Text:
    """Return the text of a table's cell, safe to print."""
    return Text(shown(text), style)


def print_table(out: Console, table: Table, style: str | None = None) -> None:
    """Print a table; where a terminal is too narrow, its lines run on instead of being cut."""
    wide = out.options.update(width=WIDE)
    for column in table.columns:
        cells = (column.header, *column.cells) if table.show_header else column.cells
        sizes = [out.measure(each, options=wide).maximum for each in cells] or [0]
        column.min_width = max(sizes) if column.no_wrap else min(max(sizes), NARROWEST)
    out.width = max(out.width, out.measure(table, options=wide).minimum)
    out.print(table, style=style)


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
