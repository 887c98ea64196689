"""`checkrail serve` serves a project in production."""

from __future__ import annotations

import click

from checkrail.cli.extras import require_extra
from checkrail.cli.serving import address, opened, serve, told
from checkrail.engine.errors import CheckrailError
from checkrail.server.memory import loading


@click.command(epilog="Example: checkrail serve --host 0.0.0.0 --workers 2")
@click.option(
    "--config", "-c", type=click.Path(), help="The project's file or folder.  [default: here]"
)
@click.option("--host", help="Where to listen; other than loopback needs auth.")
@click.option("--port", "-p", type=click.IntRange(1, 65535), help="The port.  [default: 2024]")
@click.option(
    "--workers",
    "-w",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Processes; more than one needs PostgreSQL.",
)
def command(config: str | None, host: str | None, port: int | None, workers: int) -> None:
    """Serve a project in production.

    SIGTERM stops it gracefully: runs that are under way may end, and the rest is handed back.
    PostgreSQL by CHECKRAIL_DATABASE_URL; its tables are made by `checkrail db upgrade`.
    """
    require_extra("server")
    with loading():
        from checkrail.server import logs

        project = opened(config)
    server = project.loaded.server
    logs.configure(server.log_level)
    host, port = host or server.host, port or server.port

    def announce() -> None:
        click.echo(f"{project.file}: {address(host, port)}", err=True)

    try:
        serve(project, host, port, announce=announce, workers=workers)
    except CheckrailError as error:
        told(error)
