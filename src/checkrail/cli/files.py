"""Reading a file of hooks for a command, with its problems told as people and machines want."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import TYPE_CHECKING

import click

from checkrail.cli.app import REFUSED_FILE
from checkrail.cli.show import as_json, console

if TYPE_CHECKING:
    from pathlib import Path

    from checkrail.config import Loaded, Problem


def read(path: Path, *, as_data: bool) -> Loaded:
    """Load a file, or print everything that is wrong with it and leave."""
    from checkrail.agent.blueprint import check_tools
    from checkrail.config import ConfigError, load

    try:
        with contextlib.redirect_stdout(sys.stderr):  # what hooks print is not the result
            return load(path, check_tools=check_tools)
    except ConfigError as error:
        problems = error.problems
    if as_data:
        told = {"file": str(path), "ok": False, "problems": list(map(dataclasses.asdict, problems))}
        click.echo(as_json(told))
    else:
        tell(problems, "red")
        noun = "problem" if len(problems) == 1 else "problems"
        text = f"{len(problems)} {noun} in {path}"
        console(stderr=True).print(text, style="bold red", markup=False)
    sys.exit(REFUSED_FILE)


def tell(problems: tuple[Problem, ...], style: str, what: str = "") -> None:
    """Print problems, one a line."""
    out = console(stderr=True)
    for problem in problems:
        out.print(f"{what}{problem}", style=style, markup=False)
