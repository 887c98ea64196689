"""`checkrail check` says whether a file is right, and what it will do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from checkrail.cli.files import read, tell
from checkrail.cli.plan import hook_row, plan_table
from checkrail.cli.show import as_json, console
from checkrail.engine.points import HookPoint
from checkrail.engine.registry import HookRegistry


@click.command(epilog="Example: checkrail check checkrail.yaml")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def command(file: Path, *, as_data: bool) -> None:
    """Validate FILE and print the plan: each point, each hook in order.

    FILE is YAML, JSON or TOML. All of its problems are told at once, with their lines.
    """
    loaded = read(file, as_data=as_data)
    registry = HookRegistry()
    registry.swap(loaded.specs)
    plan = {
        str(point): [hook_row(bound) for bound in registry.bound(point)]
        for point in HookPoint
        if registry.has(point)
    }
    off = [spec.name for spec in loaded.specs if spec.mode == "off"]
    if as_data:
        warnings = [dataclasses.asdict(warning) for warning in loaded.warnings]
        told = {"file": str(file), "ok": True, "warnings": warnings, "plan": plan, "off": off}
        click.echo(as_json(told))
        return
    tell(loaded.warnings, "yellow", "warning: ")
    _print_plan(file, plan, off)


def _print_plan(file: Path, plan: dict[str, list[dict[str, Any]]], off: list[str]) -> None:
    out = console()
    for point, rows in plan.items():
        out.print(f"[bold cyan]{point}[/]")
        out.print(plan_table(rows))
        out.print()
    if off:
        out.print(f"switched off: {', '.join(off)}", style="dim", markup=False)
    count = len({row["name"] for rows in plan.values() for row in rows})
    noun = "hook" if count == 1 else "hooks"
    out.print(f"{file}: {count} {noun} at {len(plan)} of {len(HookPoint)} points", markup=False)
