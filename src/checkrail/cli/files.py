"""Reading a file of hooks for a command, with its problems told as people and machines want."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.app import REFUSED_FILE
from checkrail.cli.logs import hide_engine_logs
from checkrail.cli.output import console, escape_text, to_json_text
from checkrail.resources import pause_gc

if TYPE_CHECKING:
    from pathlib import Path

    from checkrail.config.loader import Loaded
    from checkrail.config.problems import Problem


def read_config(path: Path, *, as_data: bool) -> Loaded:
    """Load a file, or that of a project's folder, or print what is wrong with it and exit."""
    with pause_gc():
        from checkrail.config.loader import load
        from checkrail.config.problems import ConfigError
        from checkrail.config.project import find_project

    try:
        if path.is_dir():
            path = find_project(path)
        # What hooks print is not the result, and what the engine logs is told by the command.
        with pause_gc(), contextlib.redirect_stdout(sys.stderr), hide_engine_logs():
            return load(path, check_tools=_check_tools)
    except ConfigError as error:
        problems = error.problems
    if as_data:
        told = {"file": str(path), "ok": False, "problems": list(map(dataclasses.asdict, problems))}
        click.echo(to_json_text(told))
    else:
        print_problems(problems, "red")
        noun = "problem" if len(problems) == 1 else "problems"
        text = f"{len(problems)} {noun} in {path}"
        console(stderr=True).print(text, style="bold red")
    sys.exit(REFUSED_FILE)


def _check_tools(*given: Any) -> Any:
    """Check the tools of an agent; the agent's modules are imported only then."""
    from checkrail.agent.blueprint import check_tools

    return check_tools(*given)


def print_problems(problems: tuple[Problem, ...], style: str, what: str = "") -> None:
    """Print problems, one a line."""
    out = console(stderr=True)
    for problem in problems:
        out.print(escape_text(f"{what}{problem}"), style=style)
