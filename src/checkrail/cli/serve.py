"""`checkrail serve` serves a project in production."""

from __future__ import annotations

import click

from checkrail.cli.extras import require_extra
from checkrail.cli.server_startup import exit_with_error, open_project, serve_project, server_url
from checkrail.engine.errors import CheckrailError
from checkrail.resources import pause_gc


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
    with pause_gc():
        from checkrail.server import logs

        project = open_project(config)
    server = project.loaded.server
    logs.configure_logging(server.log_level)
    host, port = host or server.host, port or server.port

    def announce() -> None:
        click.echo(f"{project.file}: {server_url(host, port)}", err=True)

    try:
        serve_project(project, host, port, announce=announce, workers=workers)
    except CheckrailError as error:
        exit_with_error(error)
