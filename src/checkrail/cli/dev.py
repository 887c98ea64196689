"""`checkrail dev` serves a project on this machine, and reloads it."""

from __future__ import annotations

import click

from checkrail.cli.extras import require_extra
from checkrail.cli.serving import address, opened, serve, told
from checkrail.engine.errors import CheckrailError
from checkrail.server.memory import loading


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
    with loading():
        from checkrail.server import logs

        project = opened(config)
    server = project.loaded.server
    logs.configure(server.log_level)
    host, port = host or server.host, port or server.port

    def announce() -> None:
        click.echo(f"{project.file}: {', '.join(project.described()) or 'no graphs'}")
        click.echo(f"API   {address(host, port)}")
        click.echo(f"docs  {address(host, port)}/docs")
        if "gateway" not in server.http.disabled:
            click.echo(f"LLMs  {address(host, port)}/gateway")

    try:
        serve(project, host, port, announce=announce, dev=True)
    except CheckrailError as error:
        told(error)
