"""Printing: for people in colour where the terminal has it, for machines as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import click
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
    return Text(escape_text(text), style)


def print_table(out: Console, table: Table, style: str | None = None) -> None:
    """Print a table; where a terminal is too narrow, its lines run on instead of being cut."""
    wide = out.options.update(width=WIDE)
    for column in table.columns:
        cells = (column.header, *column.cells) if table.show_header else column.cells
        sizes = [out.measure(each, options=wide).maximum for each in cells] or [0]
        column.min_width = max(sizes) if column.no_wrap else min(max(sizes), NARROWEST)
    out.width = max(out.width, out.measure(table, options=wide).minimum)
    out.print(table, style=style)


def print_rows(
    rows: Sequence[Any], show: Callable[[Any], object], what: str, *, as_data: bool
) -> None:
    """Print what a list holds: for people, or each of it as a line of JSON."""
    if as_data:
        for row in rows:
            click.echo(json.dumps(row))
    elif rows:
        show(rows)
    else:
        console(stderr=True).print(f"There are no such {what}.", style="dim")


def match_beginning(given: str, ids: Sequence[str], what: str, ls: str) -> str:
    """Return the one of the newest ids that begins so; `ls` is the command that lists them."""
    beginning = given.strip().lower()
    found = [each for each in ids if beginning and each.startswith(beginning)]
    shown = escape_text(given)
    if not found:
        told = f"none of the newest {what} begins with {shown!r}"
        raise click.UsageError(f"{told}: see `{ls}`, or give the whole id")
    if len(found) > 1:
        told = f"{len(found)} of the newest {what} begin with {shown!r}"
        raise click.UsageError(f"{told}: give more of the id")
    return found[0]


def to_json_text(data: Any) -> str:
    """Return data as JSON for machines."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return json.dumps(data, indent=2)
    return text


def escape_text(text: str) -> str:
    """Return a text that is safe to print: what hooks say may contain control characters."""
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def hide_secrets(data: Any, hide: Hide) -> Any:
    """Remove secrets from every text of some data."""
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, list):
        return [hide_secrets(item, hide) for item in data]
    if isinstance(data, dict):
        return {key: hide_secrets(item, hide) for key, item in data.items()}
    return data
