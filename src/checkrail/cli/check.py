"""`checkrail check` says whether a file is right, and what it will do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkrail.actions.agent import UNSERVED
from checkrail.cli.advice import advice
from checkrail.cli.agents import Plan, agent_row, agents_table, plan_of
from checkrail.cli.files import read, tell
from checkrail.cli.plan import plan_table
from checkrail.cli.show import as_json, cell, console, print_table
from checkrail.cli.upstreams import upstream_rows, upstreams_table
from checkrail.config.gateway import public_upstreams
from checkrail.engine.points import HookPoint

if TYPE_CHECKING:
    from rich.console import Console

    from checkrail.config import Loaded, Problem

HEADING = "bold cyan"


@click.command(epilog="Example: checkrail check checkrail.yaml")
@click.argument("file", type=click.Path(path_type=Path), default=".")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def command(file: Path, *, as_data: bool) -> None:
    """Validate FILE and print the plan: each point, each hook in order, agents, upstreams.

    FILE is YAML, JSON or TOML, or the folder of a project; this folder unless given. All of its
    problems are told at once, with their lines.
    """
    loaded = read(file, as_data=as_data)
    if loaded.file is not None and file.is_dir():
        file /= loaded.file.name
    told_of = (*_warnings(loaded), *advice(loaded))
    plan, off = plan_of(loaded.specs)
    agents = {name: agent_row(agent) for name, agent in loaded.agents.items()}
    upstreams = _upstreams(loaded)
    if as_data:
        warnings = [dataclasses.asdict(warning) for warning in told_of]
        told = {"file": str(file), "ok": True, "warnings": warnings, "plan": plan, "off": off}
        more = {"agents": agents, "upstreams": upstreams}
        click.echo(as_json(told | {name: rows for name, rows in more.items() if rows}))
        return
    tell(told_of, "yellow", "warning: ")
    out = console()
    _print_plan(out, plan, off)
    _print_agents(out, agents)
    if upstreams:
        out.print("gateway", style=HEADING)
        print_table(out, upstreams_table(upstreams))
        out.print()
    out.print(f"{file}: {_counted(plan, agents)}{_number(agents)}")


def _warnings(loaded: Loaded) -> list[Problem]:
    """Give what a file warns of; agents are there for a server, which runs those that are hooks."""
    served = bool(loaded.agents)
    return [each for each in loaded.warnings if not (served and UNSERVED in each.found)]


def _upstreams(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Tell where a gateway would go, if the file says so."""
    said = loaded.gateway.upstreams
    return {} if said == public_upstreams() else upstream_rows(said)


def _print_plan(out: Console, plan: Plan, off: list[str], agent: str = "") -> None:
    of, within = (f" of {agent}", f" in {agent}") if agent else ("", "")
    for point, rows in plan.items():
        out.print(cell(point, HEADING) + cell(of))
        print_table(out, plan_table(rows))
        out.print()
    if off:
        out.print(cell(f"switched off{within}: {', '.join(off)}", "dim"))


def _print_agents(out: Console, agents: dict[str, dict[str, Any]]) -> None:
    if not agents:
        return
    out.print("agents", style=HEADING)
    print_table(out, agents_table(agents))
    out.print()
    for name, row in agents.items():
        _print_plan(out, row["plan"], row["off"], name)


def _counted(plan: Plan, agents: dict[str, dict[str, Any]]) -> str:
    """Count the hooks of the file and of its agents, each once."""
    plans = [plan, *(row["plan"] for row in agents.values())]
    count = sum(len({row["name"] for rows in each.values() for row in rows}) for each in plans)
    points = {point for each in plans for point in each}
    noun = "hook" if count == 1 else "hooks"
    return f"{count} {noun} at {len(points)} of {len(HookPoint)} points"


def _number(agents: dict[str, dict[str, Any]]) -> str:
    noun = "agent" if len(agents) == 1 else "agents"
    return f", {len(agents)} {noun}" if agents else ""
