"""`checkrail schema` prints JSON Schemas: of the project's file, and of hooks' wire format."""

from __future__ import annotations

from typing import Any

import click

from checkrail.cli.output import cell, console, new_table, print_table, to_json_text
from checkrail.engine.errors import CheckrailError
from checkrail.engine.points import CONTRACTS, HookPoint


@click.command(epilog="Example: checkrail schema before_tool_call")
@click.argument("point", required=False)
@click.option("--file", "of_file", is_flag=True, help="Print the schema of a project's file.")
@click.option("--json", "as_data", is_flag=True, help="Print the list of points as JSON.")
def command(point: str | None, *, of_file: bool, as_data: bool) -> None:
    """Print the JSON Schemas of a POINT's request and answer; without POINT, the points.

    With --file, the JSON Schema of a project's file, by which editors complete and check it.
    """
    if of_file and point is not None:
        raise click.UsageError("say POINT or --file, not both")
    if of_file:
        from checkrail.config.json_schema import file_schema

        click.echo(to_json_text(file_schema()))
        return
    if point is None:
        _print_points(as_data=as_data)
        return
    from checkrail.actions.wire import point_schema

    try:
        click.echo(to_json_text(point_schema(point)))
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
        click.echo(to_json_text(told))
        return
    table = new_table("point", "value", "a hook may", folded={"a hook may"})
    for row, point in zip(told, HookPoint, strict=True):
        may = [decision for decision in row["decisions"] if decision != "continue"]
        words = ["change it"] * bool(row["change"]) + may
        table.add_row(cell(point, "bold"), str(row["value"]), ", ".join(words) or "only watch")
    print_table(console(), table)
