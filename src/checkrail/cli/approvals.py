"""`checkrail approvals` shows what hooks ask people, and answers it."""

from __future__ import annotations

import json
import time
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

STATUSES = ("open", "approved", "denied", "expired", "void")
Row = dict[str, Any]


@click.group(epilog="Example: checkrail approvals ls")
def command() -> None:
    """See what hooks ask, and answer.

    APPROVAL is the id of a question, its beginning, or `last` for the newest that is open. Which
    ones there are depends on the API key; without auth, the server on this machine shows them all.
    """


@command.command("ls", epilog="Example: checkrail approvals ls --all")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, help="How many, at most.")
@click.option("--status", type=click.Choice(STATUSES), help="Those of a status.  [default: open]")
@click.option("--all", "every", is_flag=True, help="Those that were answered too.")
@click.option("--run", metavar="ID", type=click.UUID, help="Only those of a run.")
@click.option("--json", "as_data", is_flag=True, help="Print each question as a line of JSON.")
@server_options
def list_approvals(
    address: ServerAddress,
    *,
    limit: int,
    status: str | None,
    every: bool,
    run: UUID | None,
    as_data: bool,
) -> None:
    """List questions that nobody has answered, the newest first."""
    if status is not None and every:
        raise click.UsageError("say --status or --all, not both")
    wanted = None if every else status or "open"
    with connect_server(address) as it:
        found = it.get("/approvals", limit=limit, status=wanted, run_id=run and str(run))
    print_rows(found, _print_approvals, "questions", as_data=as_data)


@command.command("show", epilog="Example: checkrail approvals show last")
@click.argument("approval")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def show_approval(approval: str, address: ServerAddress, *, as_data: bool) -> None:
    """Show a question, with the value that it is about."""
    with connect_server(address) as it:
        row = _find_approval(it, approval)
    if as_data:
        click.echo(to_json_text(row))
        return
    out = console()
    out.print(escape_text(row["question"]), style="bold")
    for name, told in _describe_approval(row):
        out.print(f"  {name:<8}  {escape_text(told)}")
    out.print(escape_text(to_json_text(row["value"])))
    if row["edited"]:
        out.print("  edited to", style="dim")
        out.print(escape_text(to_json_text(row["edited"]["value"])))


@command.command("approve", epilog="Example: checkrail approvals approve last")
@click.argument("approval")
@click.option("--reason", metavar="TEXT", help="Why; kept with the answer.")
@click.option("--value", metavar="JSON", help="Go on with this value instead.")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def approve_question(
    approval: str,
    address: ServerAddress,
    *,
    reason: str | None,
    value: str | None,
    as_data: bool,
) -> None:
    """Say yes; the run goes on."""
    said: Row = {} if value is None else {"value": _parse_value(value)}
    _send_answer(approval, address, "approve", said | _reason_field(reason), as_data=as_data)


@command.command("deny", epilog='Example: checkrail approvals deny last --reason "not today"')
@click.argument("approval")
@click.option("--reason", metavar="TEXT", help="Why; the run is told.")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def deny_question(
    approval: str, address: ServerAddress, *, reason: str | None, as_data: bool
) -> None:
    """Say no; what that means to the run is up to the hook."""
    _send_answer(approval, address, "deny", _reason_field(reason), as_data=as_data)


def _send_answer(
    approval: str, address: ServerAddress, word: str, said: Row, *, as_data: bool
) -> None:
    with connect_server(address) as it:
        row = _find_approval(it, approval)
        body = said | {"digest": row["digest"]}
        told = it.post(f"/approvals/{row['approval_id']}/{word}", body=body)
    if as_data:
        click.echo(to_json_text(told))
        return
    line = f"{told['status']}: {told['question']} ({_describe_origin(told)})"
    console().print(escape_text(line))


def _reason_field(reason: str | None) -> Row:
    return {} if reason is None else {"reason": reason}


def _parse_value(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise click.UsageError(f"--value is JSON, but {error}") from None


def _find_approval(it: ServerClient, approval: str) -> Row:
    """Return the question that an id, or the beginning of one, names."""
    try:
        whole = UUID(approval)
    except ValueError:
        return _match_approval(it, approval)
    row: Row = it.get(f"/approvals/{whole}")
    return row


def _match_approval(it: ServerClient, approval: str) -> Row:
    if approval == "last":
        newest: list[Row] = it.get("/approvals", limit=1, status="open")
        if not newest:
            raise click.UsageError("no question is open: see `checkrail approvals ls --all`")
        return newest[0]
    rows: dict[str, Row] = {row["approval_id"]: row for row in it.get("/approvals", limit=NEWEST)}
    return rows[match_beginning(approval, [*rows], "questions", "checkrail approvals ls")]


def _describe_approval(row: Row) -> list[tuple[str, str]]:
    found = [
        ("id", row["approval_id"]),
        ("status", row["status"]),
        ("asked by", f"{row['hook']} at {row['point']}"),
        ("of", ", ".join(filter(None, (row["agent_name"], _describe_origin(row))))),
        ("asked", row["created_at"]),
    ]
    if row["expires_at"] and row["status"] == "open":
        found.append(("until", f"{row['expires_at']}, then {row['on_timeout']}"))
    if row["answered_at"]:
        by = f" by {row['answered_by']}" if row["answered_by"] else ""
        found.append(("answered", f"{row['answered_at']}{by}"))
    if row["reason"]:
        found.append(("because", row["reason"]))
    return [*found, ("digest", row["digest"])]


def _describe_origin(row: Row) -> str:
    """Return what waits for the answer: a run, or a call of the gateway."""
    return f"run {row['run_id']}" if row["run_id"] else f"request {row['request_id']}"


def _print_approvals(rows: list[Row]) -> None:
    from checkrail.cli.records import parse_time
    from checkrail.cli.run_page import format_duration

    now = time.time()
    titles = ("approval", "agent", "point", "hook", "status", "asked", "question")
    table = new_table(*titles, folded={"question"})
    for row in rows:
        asked = f"{format_duration(now - (parse_time(row['created_at']) or now))} ago"
        told = (row[name] or "" for name in ("agent_name", "point", "hook", "status"))
        question = " ".join(row["question"].split())
        table.add_row(
            cell(row["approval_id"], "bold"),
            *map(cell, told),
            cell(asked, "dim"),
            cell(question if len(question) <= 100 else f"{question[:99]}…"),
        )
    print_table(console(), table)
