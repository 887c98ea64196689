"""`checkrail runner` carries out runs of a server that is somewhere else."""

from __future__ import annotations

import asyncio
import sys

import click

from checkrail.cli.app import REFUSED_FILE
from checkrail.cli.extras import require_extra
from checkrail.cli.files import print_problems
from checkrail.cli.server_client import SERVER
from checkrail.cli.server_startup import exit_with_error
from checkrail.engine.errors import CheckrailError
from checkrail.resources import pause_gc


@click.command(epilog="Example: checkrail runner --server https://agents.example --tag gpu")
@click.option(
    "--server",
    envvar="CHECKRAIL_SERVER",
    metavar="URL",
    default=SERVER,
    help=f"Where the server is, also said as CHECKRAIL_SERVER.  [default: {SERVER}]",
)
@click.option(
    "--key",
    envvar="CHECKRAIL_RUNNER_KEY",
    metavar="KEY",
    help="A key of role runner; better said as CHECKRAIL_RUNNER_KEY.",
)
@click.option(
    "--config", "-c", type=click.Path(), help="The project's file or folder.  [default: here]"
)
@click.option(
    "--capacity",
    type=click.IntRange(1, 10_000),
    default=4,
    show_default=True,
    help="How many runs it carries out at a time.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="What it has; may be repeated.")
@click.option("--name", metavar="NAME", help="What it is called.  [default: this machine's name]")
def command(  # noqa: PLR0917 - click gives them by their names
    server: str,
    key: str | None,
    config: str | None,
    capacity: int,
    tags: tuple[str, ...],
    name: str | None,
) -> None:
    """Carry out runs of a server.

    The agents are those of the project here, from the code that is here; hooks are the server's,
    and hold in every run. SIGTERM stops it gracefully: runs that are under way may end, and the
    rest is handed back.
    """
    require_extra("server")
    with pause_gc():
        from checkrail.config.problems import ConfigError
        from checkrail.config.project import find_project
        from checkrail.runner.project import RunnerProject
        from checkrail.runner.runner import RunnerSettings, serve_runner
        from checkrail.server import logs

    try:
        with pause_gc():
            project = RunnerProject(find_project(config or "."))
    except ConfigError as error:
        print_problems(error.problems, "red")
        sys.exit(REFUSED_FILE)
    said = project.loaded.server
    logs.configure_logging(said.log_level)
    given = {} if name is None else {"name": name}
    settings = RunnerSettings(
        capacity=capacity,
        tags=tags,
        stop_grace=said.stop_grace_seconds,
        cancel_grace=said.cancel_grace_seconds,
        **given,
    )
    click.echo(f"{project.file}: carries out runs of {server}", err=True)
    try:
        asyncio.run(serve_runner(project, server, key, settings))
    except CheckrailError as error:
        exit_with_error(error)
