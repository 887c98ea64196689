"""`checkrail calls` shows what went through the gateway, and what became of it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from checkrail.cli.output import (
    cell,
    console,
    escape_text,
    match_beginning,
    new_table,
    print_rows,
    print_table,
    to_json_text,
)
from checkrail.cli.server_client import NEWEST, ServerAddress, connect_server, server_options

if TYPE_CHECKING:
    from checkrail.cli.server_client import ServerClient

DECISIONS = ("continue", "replace", "stop", "ask", "retry", "block", "fail")
Row = dict[str, Any]


@click.group(epilog="Example: checkrail calls ls --decision block")
def command() -> None:
    """See the calls of models that went through a gateway.

    CALL is the id of a call, its beginning, or `last` for the newest. The gateway is that of a
    server, or one that runs alone and has a `database`: --server http://127.0.0.1:4000.
    """


@command.command("ls", epilog="Example: checkrail calls ls --user ada --since 2026-01-31")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, help="How many, at most.")
@click.option("--key-name", metavar="NAME", help="Only those with a key of this name.")
@click.option("--user", metavar="ID", help="Only those of a user.")
@click.option("--model", metavar="NAME", help="Only those of a model, as asked for or answered.")
@click.option("--status", type=click.IntRange(100, 599), help="Only those that ended with this.")
@click.option("--decision", type=click.Choice(DECISIONS), help="By the strictest of the hooks'.")
@click.option("--since", metavar="TIME", help="Only newer ones: 2026-01-31, or with T12:00:00Z.")
@click.option("--before", metavar="ID", type=click.UUID, help="Those before a call: the next page.")
@click.option("--json", "as_data", is_flag=True, help="Print each call as a line of JSON.")
@server_options
def list_calls(
    address: ServerAddress,
    *,
    limit: int,
    since: str | None,
    before: UUID | None,
    key_name: str | None,
    as_data: bool,
    **wanted: Any,
) -> None:
    """List calls, the newest first."""
    moment = None if since is None else _parse_moment(since)
    more = {"key": key_name, "since": moment, "before": before and str(before)}
    with connect_server(address) as it:
        found = it.get("/gateway/calls", limit=limit, **more, **wanted)
    print_rows(found, _print_calls, "calls", as_data=as_data)


@command.command("show", epilog="Example: checkrail calls show last")
@click.argument("call")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def show_call(call: str, address: ServerAddress, *, as_data: bool) -> None:
    """Show a call: whose it was, who answered, what hooks decided and what it used."""
    with connect_server(address) as it:
        row = _find_call(it, call)
    if as_data:
        click.echo(to_json_text(row))
        return
    out = console()
    out.print(escape_text(f"{row['model'] or row['path']}: {_describe_end(row)}"), style="bold")
    for name, told in _describe_call(row):
        out.print(f"  {name:<10}  {escape_text(told)}")


def _parse_moment(given: str) -> str:
    try:
        return datetime.fromisoformat(given).isoformat()
    except ValueError:
        told = f"--since is a time such as 2026-01-31T12:00:00Z, not {escape_text(given)!r}"
        raise click.UsageError(told) from None


def _find_call(it: ServerClient, call: str) -> Row:
    """Return the call that an id, or the beginning of one, names."""
    try:
        row: Row = it.get(f"/gateway/calls/{UUID(call)}")
    except ValueError:
        return _match_call(it, call)
    return row


def _match_call(it: ServerClient, call: str) -> Row:
    rows: list[Row] = it.get("/gateway/calls", limit=1 if call == "last" else NEWEST)
    if call == "last" and rows:
        return rows[0]
    by_id = {row["call_id"]: row for row in rows}
    return by_id[match_beginning(call, [*by_id], "calls", "checkrail calls ls")]


def _describe_end(row: Row) -> str:
    return "the caller went away" if row["status"] is None else f"answered {row['status']}"


def _describe_call(row: Row) -> list[tuple[str, str]]:
    usage = row["usage"] or {}
    tokens = [f"{usage[f'{way}_tokens']} {way}" for way in ("input", "output") if _has(usage, way)]
    cost = [] if row["cost"] is None else [f"${row['cost']:.4f}"]
    first = [] if row["first_byte_ms"] is None else [f"first byte {row['first_byte_ms']:.0f} ms"]
    decisions = (f"{name} {count}" for name, count in (row["decisions"] or {}).items())
    found = [
        ("id", row["call_id"]),
        ("request", row["request_id"]),
        ("at", row["created_at"]),
        ("api", f"{row['format']}{', streamed' if row['streamed'] else ''} ({row['path']})"),
        ("answered by", row["answered_model"]),
        ("upstream", ", ".join(filter(None, (row["upstream"], row["provider"])))),
        *((name, row[f"{name}_id"]) for name in ("user", "session", "run")),
        ("key", row["key"]),
        ("agent", row["agent_name"]),
        ("hooks", ", ".join(decisions)),
        ("decision", row["decision"]),
        ("because", row["reason"]),
        ("tokens", ", ".join([*tokens, *cost])),
        ("took", ", ".join([f"{row['duration_ms']:.0f} ms", *first])),
    ]
    return [(name, told) for name, told in found if told]


def _has(usage: Row, way: str) -> bool:
    return usage.get(f"{way}_tokens") is not None


def _print_calls(rows: list[Row]) -> None:
    from checkrail.cli.records import parse_time
    from checkrail.cli.run_page import format_duration

    now = time.time()
    titles = ("call", "model", "key", "user", "status", "decision", "in", "out", "cost", "when")
    table = new_table(*titles, folded={"model"})
    for row in rows:
        usage = row["usage"] or {}
        when = f"{format_duration(now - (parse_time(row['created_at']) or now))} ago"
        counts = (usage.get(f"{way}_tokens") for way in ("input", "output"))
        table.add_row(
            cell(row["call_id"], "bold"),
            *(cell(row[name] or "") for name in ("model", "key", "user_id")),
            cell("gone" if row["status"] is None else str(row["status"])),
            cell(row["decision"] or ""),
            *(cell("" if count is None else str(count)) for count in counts),
            cell("" if row["cost"] is None else f"${row['cost']:.4f}"),
            cell(when, "dim"),
        )
    print_table(console(), table)
