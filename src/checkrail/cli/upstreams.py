"""The upstreams of a file's gateway: which APIs and models each takes, and with whose key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.table import Table

from checkrail.cli.show import cell, new_table

if TYPE_CHECKING:
    from checkrail.config.gateway import UpstreamConfig


def upstream_rows(upstreams: Iterable[UpstreamConfig]) -> dict[str, dict[str, Any]]:
    """Tell of upstreams, in the order in which they are asked, what is no secret."""
    rows: dict[str, dict[str, Any]] = {}
    for each in upstreams:
        key = "its own" if each.key else "caller's"
        told = {"format": [], "models": [*each.models], "key": key}
        rows.setdefault(each.name, told)["format"].append(each.format)
    return rows


def upstreams_table(rows: dict[str, dict[str, Any]]) -> Table:
    """Show the upstreams, one a line."""
    table = new_table("  upstream", "speaks", "models", "key", folded={"models"})
    for name, row in rows.items():
        speaks, models = (cell(", ".join(row[key])) for key in ("format", "models"))
        table.add_row(cell(f"  {name}", "bold"), speaks, models, row["key"])
    return table
