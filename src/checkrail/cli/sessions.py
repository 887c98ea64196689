"""`checkrail sessions` shows and ends the sessions of a server."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import UUID

import click

from checkrail.cli.output import (
    cell,
    console,
    escape_text,
    new_table,
    print_rows,
    print_table,
    to_json_text,
)
from checkrail.cli.server_client import ServerAddress, connect_server, find_id, server_options

Row = dict[str, Any]


@click.group(epilog="Example: checkrail sessions ls --open")
def command() -> None:
    """See and end the sessions of a server: who talks to its agents, and where.

    SESSION is the id of a session, its beginning, or `last` for the newest. Which sessions there
    are depends on the API key; without auth, the server on this machine shows them all.
    """


@command.command("ls", epilog="Example: checkrail sessions ls --channel slack --open")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, help="How many, at most.")
@click.option("--channel", metavar="NAME", help="Only those on a channel.")
@click.option("--user", metavar="ID", help="Only those of a user.")
@click.option("--open", "is_open", is_flag=True, help="Only those that have not ended.")
@click.option("--before", metavar="ID", type=click.UUID, help="Only those older than this one.")
@click.option("--json", "as_data", is_flag=True, help="Print each session as a line of JSON.")
@server_options
def list_sessions(
    address: ServerAddress,
    *,
    limit: int,
    channel: str | None,
    user: str | None,
    is_open: bool,
    before: UUID | None,
    as_data: bool,
) -> None:
    """List sessions, the newest first."""
    wanted: Row = {"channel": channel, "user_id": user, "before": before and str(before)}
    with connect_server(address) as it:
        found = it.get("/sessions", limit=limit, open=True if is_open else None, **wanted)
    print_rows(found, _print_sessions, "sessions", as_data=as_data)


@command.command("show", epilog="Example: checkrail sessions show last")
@click.argument("session")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def show_session(session: str, address: ServerAddress, *, as_data: bool) -> None:
    """Show a session: whose it is, since when, its threads and its newest runs."""
    with connect_server(address) as it:
        row = it.get("/sessions/" + find_id(it, "session", session))
    if as_data:
        click.echo(to_json_text(row))
    else:
        _print_session(row)


@command.command("end", epilog="Example: checkrail sessions end 019a87f2")
@click.argument("session")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def end_session(session: str, address: ServerAddress, *, as_data: bool) -> None:
    """End a session: its runs are cancelled, and nothing more is said in it."""
    with connect_server(address) as it:
        session_id = find_id(it, "session", session)
        row = it.post(f"/sessions/{session_id}/end")
    if as_data:
        click.echo(to_json_text(row))
    else:
        console().print(f"the session {row['session_id']} has ended")


def _print_sessions(rows: list[Row]) -> None:
    from checkrail.cli.records import parse_time
    from checkrail.cli.run_page import format_duration

    now = time.time()
    table = new_table("session", "channel", "user", "began", "ended", folded={"user"})
    for row in rows:
        began = f"{format_duration(now - (parse_time(row['created_at']) or now))} ago"
        table.add_row(
            cell(row["session_id"], "bold"),
            cell(row["channel"]),
            cell(row["user_id"] or ""),
            cell(began, "dim"),
            cell(_describe_end(row)),
        )
    print_table(console(), table)


def _describe_end(row: Row) -> str:
    """Return why a session ended; of one that is open, nothing."""
    return "" if row["ended_at"] is None else row["reason"] or "yes"


def _print_session(row: Row) -> None:
    from checkrail.cli.run_page import build_runs_table

    out = console()
    out.print(f"session {row['session_id']}", style="bold")
    for name, told in _describe_session(row):
        out.print(f"  {name:<8}  {escape_text(told)}")
    if row["runs"]:
        print_table(out, build_runs_table(row["runs"], time.time()))


def _describe_session(row: Row) -> list[tuple[str, str]]:
    ended = f"{row['ended_at']} ({_describe_end(row)})" if row["ended_at"] else None
    found = [
        ("channel", row["channel"]),
        ("user", row["user_id"]),
        ("parent", row["parent_session_id"]),
        ("began", row["created_at"]),
        ("ended", ended),
        ("metadata", json.dumps(row["metadata"], ensure_ascii=False) if row["metadata"] else None),
        *(("thread", thread_id) for thread_id in row["thread_ids"]),
    ]
    return [(name, told) for name, told in found if told]
