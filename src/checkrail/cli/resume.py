"""`checkrail resume` tells a session of a server something, and its agent runs again."""

from __future__ import annotations

import json
import sys

import click

from checkrail.cli.output import console, escape_text, to_json_text
from checkrail.cli.server_client import ServerAddress, connect_server, server_options


@click.command(epilog='Example: checkrail resume 019a87f2-… "Go on with the second one"')
@click.argument("session", type=click.UUID)
@click.argument("prompt")
@click.option("--no-wait", is_flag=True, help="Do not wait for the run that this starts.")
@click.option("--json", "as_data", is_flag=True, help="Print the run as JSON.")
@server_options
def command(
    session: str, prompt: str, address: ServerAddress, *, no_wait: bool, as_data: bool
) -> None:
    """Tell SESSION something: its agent runs again, and what it answers is printed.

    PROMPT is what it is told; `-` reads it from the input. Leaves with 0 if the run ended well or
    waits for a person, with 3 if it was blocked and with 4 if it failed.
    """
    said = sys.stdin.read() if prompt == "-" else prompt
    if not said.strip():
        raise click.UsageError("PROMPT is empty")
    mode = "async_poll" if no_wait else "sync"
    with connect_server(address) as it:
        body = {"prompt": said, "execution_mode": mode}
        run = it.post(f"/sessions/{session}/resume", patient=not no_wait, body=body)
    if as_data:
        click.echo(to_json_text(run))
    elif no_wait:
        told = f"the session {session} goes on with the run {run['run_id']}"
        console().print(told, soft_wrap=True)
    else:
        _print_run(run)
    if not no_wait:
        from checkrail.cli.event_lines import exit_code

        sys.exit(exit_code(run))


def _print_run(run: dict[str, object]) -> None:
    """Print the result of a run; errors go to standard error."""
    text, data = run["result_text"], run["result_data"]
    if text is not None:
        click.echo(text)
    elif data is not None:
        click.echo(json.dumps(data, ensure_ascii=False, indent=2))
    if run["error"]:
        told = f"{run['status']} ({run['phase']}): {run['error']}"
        console(stderr=True).print(escape_text(told), style="red")
