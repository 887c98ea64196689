"""Reading a file of hooks for a command, with its problems told as people and machines want."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.app import REFUSED_FILE
from checkrail.cli.logs import engine_quiet
from checkrail.cli.show import as_json, console, shown
from checkrail.server.memory import loading

if TYPE_CHECKING:
    from pathlib import Path

    from checkrail.config import Loaded, Problem


def read(path: Path, *, as_data: bool) -> Loaded:
    """Load a file, or that of a project's folder, or print what is wrong with it and leave."""
    with loading():
        from checkrail.config import ConfigError, find_project, load

    try:
        if path.is_dir():
            path = find_project(path)
        # What hooks print is not the result, and what the engine logs is told by the command.
        with loading(), contextlib.redirect_stdout(sys.stderr), engine_quiet():
            return load(path, check_tools=_check_tools)
    except ConfigError as error:
        problems = error.problems
    if as_data:
        told = {"file": str(path), "ok": False, "problems": list(map(dataclasses.asdict, problems))}
        click.echo(as_json(told))
    else:
        tell(problems, "red")
        noun = "problem" if len(problems) == 1 else "problems"
        text = f"{len(problems)} {noun} in {path}"
        console(stderr=True).print(text, style="bold red")
    sys.exit(REFUSED_FILE)


def _check_tools(*given: Any) -> Any:
    """Check the tools of an agent, once a file has one: the agent's modules are many."""
    from checkrail.agent.blueprint import check_tools

    return check_tools(*given)


def tell(problems: tuple[Problem, ...], style: str, what: str = "") -> None:
    """Print problems, one a line."""
    out = console(stderr=True)
    for problem in problems:
        out.print(shown(f"{what}{problem}"), style=style)
