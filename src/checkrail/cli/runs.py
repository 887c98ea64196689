"""`checkrail runs` shows, follows and cancels the runs of a server."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from checkrail.cli.remote import Address, ServerRefused, remote, server_options
from checkrail.cli.show import as_json, console, print_table, shown

if TYPE_CHECKING:
    from checkrail.cli.remote import Remote

STATUSES = ("pending", "running", "success", "error", "timeout", "interrupted")
NEWEST = 200
"""Among how many runs the beginning of an id is looked for."""

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
def list_runs(address: Address, *, limit: int, as_data: bool, live: bool, **only: Any) -> None:
    """List runs, the newest first."""
    wanted = {"status": only["status"], "agent_name": only["agent"]}
    wanted |= {name: only[part] and str(only[part]) for name, part in _IDS.items()}
    with remote(address) as it:
        found = it.get("/runs", limit=limit, live=True if live else None, **wanted)
    if as_data:
        for run in found:
            click.echo(json.dumps(run))
        return
    from checkrail.cli.run_page import runs_table

    if found:
        print_table(console(), runs_table(found, time.time()))
    else:
        console(stderr=True).print("There are no such runs.", style="dim")


_IDS = {"thread_id": "thread", "before": "before"}


@command.command("show", epilog="Example: checkrail runs show 019a87f2")
@click.argument("run")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def show(run: str, address: Address, *, as_data: bool) -> None:
    """Show a run: how it is or ended, what it used, and the timeline of its hooks."""
    with remote(address) as it:
        path = f"/runs/{_id_of(it, run)}"
        found, records = it.get(path), _records(it, path)
    if as_data:
        click.echo(as_json(found | {"hooks": records}))
        return
    from checkrail.cli.recorded import Recorded
    from checkrail.cli.run_page import print_run

    print_run(console(), found, [*map(Recorded, records)], time.time())


@command.command("tail", epilog="Example: checkrail runs tail 019a87f2")
@click.argument("run")
@click.option("--json", "as_data", is_flag=True, help="Print each event as a line of JSON.")
@server_options
def tail(run: str, address: Address, *, as_data: bool) -> None:
    """Follow a run: its events from the first one on, until it ends.

    Leaves with 0 if it ended well or waits for a person, with 3 if it was blocked and with 4 if
    it failed or was cancelled. Ctrl-C stops following, and not the run.
    """
    with remote(address) as it:
        run_id = _id_of(it, run)
        try:
            code = _followed(it, run_id, as_data=as_data)
        except KeyboardInterrupt:
            told = f"The run goes on. To stop it: checkrail runs cancel {run_id}"
            console(stderr=True).print(told, style="yellow")
            code = INTERRUPTED
    sys.exit(code)


def _followed(it: Remote, run_id: str, *, as_data: bool) -> int:
    """Print the events of a run, and give the exit code for its end."""
    from checkrail.cli.tailing import EventLines, JsonLines, code_of

    lines = JsonLines() if as_data else EventLines()
    for event in it.events(f"/runs/{run_id}/events"):
        lines.show(event)
        if event["event"] == "end":
            return code_of(event["data"])
    return code_of(_over(it, run_id))


def _over(it: Remote, run_id: str) -> dict[str, Any]:
    """Ask for the end of a run whose events do not tell it: they were forgotten, or it is gone."""
    try:
        found: dict[str, Any] = it.get(f"/runs/{run_id}")
    except ServerRefused as refused:
        if refused.status != 404:
            raise
        told = f"the run {run_id} is gone: it was rolled back or removed"
        raise ServerRefused(told, 404) from None
    told = f"{found['status']} ({found['phase']}); its events are not kept any more"
    console(stderr=True).print(shown(told), style="dim")
    return found


@command.command("cancel", epilog="Example: checkrail runs cancel 019a87f2 --wait")
@click.argument("run")
@click.option("--rollback", is_flag=True, help="Also remove it, and what it did to its thread.")
@click.option("--wait", is_flag=True, help="Wait until it is over.")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
@server_options
def cancel(run: str, address: Address, *, rollback: bool, wait: bool, as_data: bool) -> None:
    """Cancel a run."""
    action = "rollback" if rollback else "interrupt"
    with remote(address) as it:
        run_id = _id_of(it, run)
        it.post(f"/runs/{run_id}/cancel", patient=wait, action=action, wait=wait or None)
    if as_data:
        click.echo(as_json({"run_id": run_id, "action": action, "over": wait}))
        return
    done = "rolled back" if rollback else "cancelled"
    says = f"was {done}" if wait else f"is being {done}"
    console().print(f"the run {run_id} {says}")


def _id_of(it: Remote, run: str) -> str:
    """Find the run that an id, or the beginning of one, names."""
    try:
        return str(UUID(run))
    except ValueError:
        pass
    beginning = run.strip().lower()
    newest = [each["run_id"] for each in it.get("/runs", limit=NEWEST)]
    if run == "last" and newest:
        return str(newest[0])
    found = [run_id for run_id in newest if beginning and run_id.startswith(beginning)]
    if not found:
        told = f"none of the newest {NEWEST} runs begins with {shown(run)!r}"
        raise click.UsageError(f"{told}: see `checkrail runs ls`, or say the whole id")
    if len(found) > 1:
        told = f"{len(found)} of the newest runs begin with {shown(run)!r}"
        raise click.UsageError(f"{told}: say more of the id")
    return str(found[0])


def _records(it: Remote, path: str) -> list[dict[str, Any]]:
    """Read all records of a run, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        page = it.get(f"{path}/hooks", limit=PAGE, after=found[-1]["seq"] if found else None)
        found += page
        if len(page) < PAGE:
            return found
