"""`checkrail runs` shows, follows and cancels the runs of a server."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.output import (
    console,
    escape_text,
    print_rows,
    print_table,
    to_json_text,
)
from checkrail.cli.server_client import (
    ServerAddress,
    ServerRequestError,
    connect_server,
    find_id,
    server_options,
)

if TYPE_CHECKING:
    from checkrail.cli.server_client import ServerClient

STATUSES = ("pending", "running", "success", "error", "timeout", "interrupted")
PAGE = 1000
INTERRUPTED = 130


@click.group(epilog="Example: checkrail runs ls")
def command() -> None:
    """See, follow and cancel the runs of a server.

    RUN is the id of a run, its beginning, or `last` for the newest. Which runs there are depends on
    the API key; without auth, the server on this machine shows them all.
    """


@command.command("ls", epilog="Example: checkrail runs ls --status error")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, help="How many, at most.")
@click.option("--status", type=click.Choice(STATUSES), help="Only those that are or ended so.")
@click.option("--agent", metavar="NAME", help="Only those of an agent.")
@click.option("--thread", metavar="ID", type=click.UUID, help="Only those of a thread.")
@click.option("--live", is_flag=True, help="Only those that have not ended.")
@click.option("--before", metavar="ID", type=click.UUID, help="Only those older than this one.")
@click.option("--json", "as_data", is_flag=True, help="Print each run as a line of JSON.")
@server_options
def list_runs(
    address: ServerAddress, *, limit: int, as_data: bool, live: bool, **only: Any
) -> None:
    """List runs, the newest first."""
    wanted = {"status": only["status"], "agent_name": only["agent"]}
    wanted |= {name: only[part] and str(only[part]) for name, part in _IDS.items()}
    with connect_server(address) as it:
        found = it.get("/runs", limit=limit, live=True if live else None, **wanted)
    print_rows(found, _print_runs, "runs", as_data=as_data)


def _print_runs(found: list[dict[str, Any]]) -> None:
    from checkrail.cli.run_page import build_runs_table

    print_table(console(), build_runs_table(found, time.time()))


_IDS = {"thread_id": "thread", "before": "before"}


@command.command("show", epilog="Example: checkrail runs show 019a87f2")
@click.argument("run")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def show_run(run: str, address: ServerAddress, *, as_data: bool) -> None:
    """Show a run: how it is or ended, what it used, and the timeline of its hooks."""
    with connect_server(address) as it:
        path = "/runs/" + find_id(it, "run", run)
        found, records = it.get(path), _load_records(it, path)
    if as_data:
        click.echo(to_json_text(found | {"hooks": records}))
        return
    from checkrail.cli.records import Recorded
    from checkrail.cli.run_page import print_run

    print_run(console(), found, [*map(Recorded, records)], time.time())


@command.command("tail", epilog="Example: checkrail runs tail 019a87f2")
@click.argument("run")
@click.option("--json", "as_data", is_flag=True, help="Print each event as a line of JSON.")
@server_options
def tail_run(run: str, address: ServerAddress, *, as_data: bool) -> None:
    """Follow a run: its events from the first one on, until it ends.

    Leaves with 0 if it ended well or waits for a person, with 3 if it was blocked and with 4 if
    it failed or was cancelled. Ctrl-C stops following, and not the run.
    """
    with connect_server(address) as it:
        run_id = find_id(it, "run", run)
        try:
            code = _follow_run(it, run_id, as_data=as_data)
        except KeyboardInterrupt:
            told = f"The run goes on. To stop it: checkrail runs cancel {run_id}"
            console(stderr=True).print(told, style="yellow")
            code = INTERRUPTED
    sys.exit(code)


def _follow_run(it: ServerClient, run_id: str, *, as_data: bool) -> int:
    """Print the events of a run, and return the exit code for its end."""
    from checkrail.cli.event_lines import EventLines, JsonLines, exit_code

    lines = JsonLines() if as_data else EventLines()
    for event in it.events(f"/runs/{run_id}/events"):
        lines.show(event)
        if event["event"] == "end":
            return exit_code(event["data"])
    return exit_code(_load_ended_run(it, run_id))


def _load_ended_run(it: ServerClient, run_id: str) -> dict[str, Any]:
    """Load a run whose events do not include its end: they were removed, or the run was."""
    try:
        found: dict[str, Any] = it.get(f"/runs/{run_id}")
    except ServerRequestError as refused:
        if refused.status != 404:
            raise
        told = f"the run {run_id} is gone: it was rolled back or removed"
        raise ServerRequestError(told, 404) from None
    told = f"{found['status']} ({found['phase']}); its events are not kept any more"
    console(stderr=True).print(escape_text(told), style="dim")
    return found


@command.command("cancel", epilog="Example: checkrail runs cancel 019a87f2 --wait")
@click.argument("run")
@click.option("--rollback", is_flag=True, help="Also remove it, and what it did to its thread.")
@click.option("--wait", is_flag=True, help="Wait until it is over.")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def cancel_run(
    run: str, address: ServerAddress, *, rollback: bool, wait: bool, as_data: bool
) -> None:
    """Cancel a run."""
    action = "rollback" if rollback else "interrupt"
    with connect_server(address) as it:
        run_id = find_id(it, "run", run)
        it.post(f"/runs/{run_id}/cancel", patient=wait, action=action, wait=wait or None)
    if as_data:
        click.echo(to_json_text({"run_id": run_id, "action": action, "over": wait}))
        return
    done = "rolled back" if rollback else "cancelled"
    says = f"was {done}" if wait else f"is being {done}"
    console().print(f"the run {run_id} {says}")


def _load_records(it: ServerClient, path: str) -> list[dict[str, Any]]:
    """Read all records of a run, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        page = it.get(f"{path}/hooks", limit=PAGE, after=found[-1]["seq"] if found else None)
        found += page
        if len(page) < PAGE:
            return found
