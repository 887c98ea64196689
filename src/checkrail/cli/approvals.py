"""`checkrail approvals` shows what hooks ask people, and answers it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from checkrail.cli.remote import Address, remote, server_options
from checkrail.cli.show import as_json, cell, console, new_table, print_table, shown

if TYPE_CHECKING:
    from checkrail.cli.remote import Remote

STATUSES = ("open", "approved", "denied", "expired", "void")
NEWEST = 200
"""Among how many questions the beginning of an id is looked for."""

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
    address: Address,
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
    with remote(address) as it:
        found = it.get("/approvals", limit=limit, status=wanted, run_id=run and str(run))
    if as_data:
        for row in found:
            click.echo(json.dumps(row))
    elif found:
        _print(found)
    else:
        console(stderr=True).print("There are no such questions.", style="dim")


@command.command("show", epilog="Example: checkrail approvals show last")
@click.argument("approval")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def show(approval: str, address: Address, *, as_data: bool) -> None:
    """Show a question, with the value that it is about."""
    with remote(address) as it:
        row = _found(it, approval)
    if as_data:
        click.echo(as_json(row))
        return
    out = console()
    out.print(shown(row["question"]), style="bold")
    for name, told in _facts(row):
        out.print(f"  {name:<8}  {shown(told)}")
    out.print(shown(as_json(row["value"])))
    if row["edited"]:
        out.print("  edited to", style="dim")
        out.print(shown(as_json(row["edited"]["value"])))


@command.command("approve", epilog="Example: checkrail approvals approve last")
@click.argument("approval")
@click.option("--reason", metavar="TEXT", help="Why; kept with the answer.")
@click.option("--value", metavar="JSON", help="Go on with this value instead.")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def approve(
    approval: str,
    address: Address,
    *,
    reason: str | None,
    value: str | None,
    as_data: bool,
) -> None:
    """Say yes; the run goes on."""
    said: Row = {} if value is None else {"value": _read(value)}
    _answer(approval, address, "approve", said | _reason(reason), as_data=as_data)


@command.command("deny", epilog='Example: checkrail approvals deny last --reason "not today"')
@click.argument("approval")
@click.option("--reason", metavar="TEXT", help="Why; the run is told.")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def deny(approval: str, address: Address, *, reason: str | None, as_data: bool) -> None:
    """Say no; what that means to the run is up to the hook."""
    _answer(approval, address, "deny", _reason(reason), as_data=as_data)


def _answer(approval: str, address: Address, word: str, said: Row, *, as_data: bool) -> None:
    with remote(address) as it:
        row = _found(it, approval)
        body = said | {"digest": row["digest"]}
        told = it.post(f"/approvals/{row['approval_id']}/{word}", body=body)
    if as_data:
        click.echo(as_json(told))
        return
    line = f"{told['status']}: {told['question']} (run {told['run_id']})"
    console().print(shown(line))


def _reason(reason: str | None) -> Row:
    return {} if reason is None else {"reason": reason}


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise click.UsageError(f"--value is JSON, but {error}") from None


def _found(it: Remote, approval: str) -> Row:
    """Find the question that an id, or the beginning of one, names."""
    try:
        whole = UUID(approval)
    except ValueError:
        return _meant(it, approval)
    row: Row = it.get(f"/approvals/{whole}")
    return row


def _meant(it: Remote, approval: str) -> Row:
    if approval == "last":
        newest: list[Row] = it.get("/approvals", limit=1, status="open")
        if not newest:
            raise click.UsageError("no question is open: see `checkrail approvals ls --all`")
        return newest[0]
    beginning = approval.strip().lower()
    rows: list[Row] = it.get("/approvals", limit=NEWEST)
    found = [row for row in rows if beginning and row["approval_id"].startswith(beginning)]
    if not found:
        told = f"none of the newest {NEWEST} questions begins with {shown(approval)!r}"
        raise click.UsageError(f"{told}: see `checkrail approvals ls`, or say the whole id")
    if len(found) > 1:
        told = f"{len(found)} of the newest questions begin with {shown(approval)!r}"
        raise click.UsageError(f"{told}: say more of the id")
    return found[0]


def _facts(row: Row) -> list[tuple[str, str]]:
    found = [
        ("id", row["approval_id"]),
        ("status", row["status"]),
        ("asked by", f"{row['hook']} at {row['point']}"),
        ("of", f"{row['agent_name']}, run {row['run_id']}"),
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


def _print(rows: list[Row]) -> None:
    from checkrail.cli.recorded import seconds
    from checkrail.cli.run_page import lasted

    now = time.time()
    titles = ("approval", "agent", "point", "hook", "status", "asked", "question")
    table = new_table(*titles, folded={"question"})
    for row in rows:
        asked = f"{lasted(now - (seconds(row['created_at']) or now))} ago"
        told = (row[name] for name in ("agent_name", "point", "hook", "status"))
        question = " ".join(row["question"].split())
        table.add_row(
            cell(row["approval_id"], "bold"),
            *map(cell, told),
            cell(asked, "dim"),
            cell(question if len(question) <= 100 else f"{question[:99]}…"),
        )
    print_table(console(), table)
