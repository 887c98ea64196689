"""`checkrail schema` prints what hooks outside the process are sent, and may answer."""

from __future__ import annotations

from typing import Any

import click

from checkrail.cli.show import as_json, console
from checkrail.engine.errors import CheckrailError
from checkrail.engine.points import CONTRACTS, HookPoint


@click.command(epilog="Example: checkrail schema before_tool_call")
@click.argument("point", required=False)
@click.option("--json", "as_data", is_flag=True, help="Print the list of points as JSON.")
def command(point: str | None, *, as_data: bool) -> None:
    """Print the JSON Schemas of a POINT's request and answer; without POINT, the points."""
    if point is None:
        _print_points(as_data=as_data)
        return
    from checkrail.actions.wire import schema

    try:
        click.echo(as_json(schema(point)))
    except CheckrailError as error:
        raise click.UsageError(str(error)) from None


def _print_points(*, as_data: bool) -> None:
    told: list[dict[str, Any]] = [
        {
            "point": str(point),
            "value": contract.value.__name__ if contract.value is not object else "JSON",
            "wire": contract.wire,
            "change": contract.change,
            "decisions": sorted(contract.decisions),
            "lanes": list(contract.lanes),
        }
        for point, contract in CONTRACTS.items()
    ]
    if as_data:
        click.echo(as_json(told))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("point", "value", "a hook may"):
        table.add_column(title, no_wrap=title == "point")
    for row, point in zip(told, HookPoint, strict=True):
        may = [decision for decision in row["decisions"] if decision != "continue"]
        words = ["change it"] * bool(row["change"]) + may
        table.add_row(f"[bold]{point}[/]", str(row["value"]), ", ".join(words) or "only watch")
    console().print(table)
