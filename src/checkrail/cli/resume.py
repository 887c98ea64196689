"""`checkrail resume` tells a session of a server something, and its agent runs again."""

from __future__ import annotations

import json
import sys

import click

from checkrail.cli.remote import Address, remote, server_options
from checkrail.cli.show import as_json, console, shown


@click.command(epilog='Example: checkrail resume 019a87f2-… "Go on with the second one"')
@click.argument("session", type=click.UUID)
@click.argument("prompt")
@click.option("--no-wait", is_flag=True, help="Do not wait for the run that this starts.")
@click.option("--json", "as_data", is_flag=True, help="Print the run as JSON.")
@server_options
def command(session: str, prompt: str, address: Address, *, no_wait: bool, as_data: bool) -> None:
    """Tell SESSION something: its agent runs again, and what it answers is printed.

    PROMPT is what it is told; `-` reads it from the input. Leaves with 0 if the run ended well or
    waits for a person, with 3 if it was blocked and with 4 if it failed.
    """
    said = sys.stdin.read() if prompt == "-" else prompt
    if not said.strip():
        raise click.UsageError("there is nothing to say: PROMPT is empty")
    mode = "async_poll" if no_wait else "sync"
    with remote(address) as it:
        body = {"prompt": said, "execution_mode": mode}
        run = it.post(f"/sessions/{session}/resume", patient=not no_wait, body=body)
    if as_data:
        click.echo(as_json(run))
    elif no_wait:
        told = f"the session {session} goes on with the run {run['run_id']}"
        console().print(told, soft_wrap=True)
    else:
        _print(run)
    if not no_wait:
        from checkrail.cli.tailing import code_of

        sys.exit(code_of(run))


def _print(run: dict[str, object]) -> None:
    """Print what came of a run; what went wrong goes elsewhere than an answer."""
    text, data = run["result_text"], run["result_data"]
    if text is not None:
        click.echo(text)
    elif data is not None:
        click.echo(json.dumps(data, ensure_ascii=False, indent=2))
    if run["error"]:
        told = f"{run['status']} ({run['phase']}): {run['error']}"
        console(stderr=True).print(shown(told), style="red")
