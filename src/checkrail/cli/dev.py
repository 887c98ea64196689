"""`checkrail dev` serves a project on this machine, and reloads it."""

from __future__ import annotations

import click

from checkrail.cli.extras import require_extra
from checkrail.cli.server_startup import exit_with_error, open_project, serve_project, server_url
from checkrail.engine.errors import CheckrailError
from checkrail.resources import pause_gc


@click.command(epilog="Example: checkrail dev")
@click.option(
    "--config", "-c", type=click.Path(), help="The project's file or folder.  [default: here]"
)
@click.option("--host", help="A loopback address.  [default: 127.0.0.1]")
@click.option("--port", "-p", type=click.IntRange(1, 65535), help="The port.  [default: 2024]")
def command(config: str | None, host: str | None, port: int | None) -> None:
    """Serve a project on this machine, and reload it when its files change.

    Keeps everything in .checkrail/ beside the project's file. Webhooks to this machine may be
    plain http.
    """
    require_extra("server")
    with pause_gc():
        from checkrail.server import logs

        project = open_project(config)
    server = project.loaded.server
    logs.configure_logging(server.log_level)
    host, port = host or server.host, port or server.port

    def announce() -> None:
        click.echo(f"{project.file}: {', '.join(project.agent_descriptions()) or 'no graphs'}")
        click.echo(f"API   {server_url(host, port)}")
        click.echo(f"docs  {server_url(host, port)}/docs")
        if "dashboard" not in server.http.disabled:
            click.echo(f"UI    {server_url(host, port)}/ui")
        if "gateway" not in server.http.disabled:
            click.echo(f"LLMs  {server_url(host, port)}/gateway")

    try:
        serve_project(project, host, port, announce=announce, dev=True)
    except CheckrailError as error:
        exit_with_error(error)
