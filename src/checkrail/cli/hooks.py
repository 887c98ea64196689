"""`checkrail hooks` shows what is built in."""

from __future__ import annotations

import json
from typing import Any

import click

from checkrail.builtin import BUILTINS, Builtin
from checkrail.cli.output import cell, console, new_table, print_table, to_json_text
from checkrail.engine.errors import suggestion


@click.command(epilog="Example: checkrail hooks redact")
@click.argument("name", required=False)
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def command(name: str | None, *, as_data: bool) -> None:
    """Show the built-in hooks, or all about the one called NAME."""
    if name is not None and name not in BUILTINS:
        hint = suggestion(name, BUILTINS)
        raise click.UsageError(f"there is no built-in hook {name!r}{hint}: see `checkrail hooks`")
    if as_data:
        found = (
            [_builtin_to_json(BUILTINS[name])]
            if name
            else [_builtin_to_json(each) for each in BUILTINS.values()]
        )
        click.echo(to_json_text(found[0] if name else found))
    elif name:
        _print_builtin(BUILTINS[name])
    else:
        _print_builtins()


def _builtin_to_json(builtin: Builtin) -> dict[str, Any]:
    return {
        "name": builtin.name,
        "summary": builtin.summary,
        "points": [str(point) for point in builtin.points],
        "lane": str(builtin.lane),
        "config": builtin.config_model.model_json_schema(),
        "example": dict(builtin.example),
    }


def _print_builtins() -> None:
    table = new_table("hook", "lane", "what it does", folded={"what it does"})
    for builtin in BUILTINS.values():
        table.add_row(cell(builtin.name, "bold"), str(builtin.lane), builtin.summary)
    out = console()
    print_table(out, table)
    out.print("\nAll about one: checkrail hooks NAME")


def _print_builtin(builtin: Builtin) -> None:
    out = console()
    out.print(cell(builtin.name, "bold") + cell(f" ({builtin.lane}): {builtin.summary}\n"))
    out.print(f"Made for: {', '.join(builtin.points)}\n")
    out.print("Config:")
    for key, shape in builtin.config_model.model_json_schema()["properties"].items():
        default = f" (default {json.dumps(shape['default'])})" if "default" in shape else ""
        out.print(f"  {key}: {shape.get('description', '')}{default}")
    out.print("\nIn a file:\n")
    out.print(_render_example(builtin))


def _render_example(builtin: Builtin) -> str:
    import io

    from ruamel.yaml import YAML

    entry = {"name": builtin.name, "builtin": builtin.name, "config": dict(builtin.example)}
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump({"hooks": {str(builtin.points[0]): [entry]}}, text)
    return text.getvalue()
