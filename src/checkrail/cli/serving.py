"""What `checkrail dev` and `checkrail serve` have in common."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.app import FAILED, REFUSED_FILE
from checkrail.cli.connections import allow_many
from checkrail.cli.files import tell
from checkrail.engine.errors import CheckrailError
from checkrail.server.memory import loading

if TYPE_CHECKING:
    import uvicorn

    from checkrail.server.project import Project


def opened(config: str | None) -> Project:
    """Load the project that a command names, or tell what is wrong with it and leave."""
    from checkrail.config.problems import ConfigError
    from checkrail.config.project import find_project
    from checkrail.server.project import Project

    try:
        return Project(find_project(config or "."))
    except ConfigError as error:
        tell(error.problems, "red")
        sys.exit(REFUSED_FILE)


def serve(
    project: Project,
    host: str,
    port: int,
    *,
    announce: Callable[[], None],
    workers: int = 1,
    dev: bool = False,
) -> None:
    """Serve a project until the process is told to stop; `announce` is called when it listens."""
    with loading():
        import uvicorn

        from checkrail.server.app import Server
        from checkrail.server.auth import check_binding
        from checkrail.server.process import FILE, OPTIONS

    allow_many()
    server = project.loaded.server
    check_binding(host, has_auth=server.auth is not None)
    if workers > 1:
        if server.database is None:
            raise CheckrailError(
                "several workers need PostgreSQL, for SQLite takes one process. "
                "Set CHECKRAIL_DATABASE_URL, or leave out --workers"
            )
        bound(host, port).close()
        announce()
        os.environ[FILE] = str(project.file.absolute())
        target = "checkrail.server.process:create"
        uvicorn.run(target, factory=True, host=host, port=port, workers=workers, **OPTIONS)
        return
    started = Server(project, dev=dev)
    running = uvicorn.Server(uvicorn.Config(started, host=host, port=port, **OPTIONS))
    stop_by_signals(running)
    with contextlib.closing(bound(host, port)) as listener:
        announce()
        try:
            running.run([listener])
        except SystemExit:
            if started.failed is None:
                raise
    if started.failed is not None:
        raise CheckrailError(f"the server did not start: {started.failed}")


def stop_by_signals(running: uvicorn.Server) -> None:
    """Stop a server when it is told to, also before it listens to signals by itself.

    It raises those that it got again once it has stopped, which is no failure.
    """

    def stop(_number: int, _frame: object) -> None:
        running.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def bound(host: str, port: int) -> socket.socket:
    """Listen on an address, or say why that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise CheckrailError(
            f"the server cannot listen on {address(host, port)}: {error.strerror}. "
            "Stop what listens there, or choose another --port"
        ) from None
    return listener


def told(error: CheckrailError) -> Any:
    """Tell an error and leave."""
    click.secho(str(error), fg="red", err=True)
    sys.exit(FAILED)


def address(host: str, port: int) -> str:
    """Return the URL of a server."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
