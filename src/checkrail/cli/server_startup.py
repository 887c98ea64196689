"""What `checkrail dev` and `checkrail serve` have in common."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.app import FAILED, REFUSED_FILE
from checkrail.cli.files import print_problems
from checkrail.engine.errors import CheckrailError
from checkrail.resources import pause_gc, raise_file_limit

if TYPE_CHECKING:
    import uvicorn

    from checkrail.server.project import Project


log = logging.getLogger("checkrail.server")


def open_project(config: str | None) -> Project:
    """Load the project that a command names, or print what is wrong with it and exit."""
    from checkrail.config.problems import ConfigError
    from checkrail.config.project import find_project
    from checkrail.server.project import Project

    try:
        return Project(find_project(config or "."))
    except ConfigError as error:
        print_problems(error.problems, "red")
        sys.exit(REFUSED_FILE)


def serve_project(
    project: Project,
    host: str,
    port: int,
    *,
    announce: Callable[[], None],
    workers: int = 1,
    dev: bool = False,
) -> None:
    """Serve a project until a signal ends the process; `announce` is called when it listens."""
    with pause_gc():
        import uvicorn

        from checkrail.dashboard.startup import FILE, build_server
        from checkrail.server.auth import check_binding
        from checkrail.server.process import OPTIONS

    raise_file_limit()
    server = project.loaded.server
    check_binding(host, has_auth=server.auth is not None)
    if workers > 1:
        if server.database is None:
            raise CheckrailError(
                "several workers need PostgreSQL, for SQLite takes one process. "
                "Set CHECKRAIL_DATABASE_URL, or leave out --workers"
            )
        bind_socket(host, port).close()
        announce()
        os.environ[FILE] = str(project.file.absolute())
        target = "checkrail.dashboard.startup:create"
        uvicorn.run(target, factory=True, host=host, port=port, workers=workers, **OPTIONS)
        return
    started = build_server(project, dev=dev)
    running = uvicorn.Server(uvicorn.Config(started, host=host, port=port, **OPTIONS))
    exit_on_signals(running)
    with contextlib.closing(bind_socket(host, port)) as listener:
        announce()
        try:
            run_server(running, listener)
        except SystemExit:
            if started.failed is None:
                raise
    if started.failed is not None:
        raise CheckrailError(f"the server did not start: {started.failed}")


def run_server(running: uvicorn.Server, listener: socket.socket) -> None:
    """Run a server until it stops; a `SystemExit` of a callback is an error of that callback.

    A loop raises it from where it runs, whoever scheduled the callback, and can go on after it.
    """
    with asyncio.Runner(loop_factory=running.config.get_loop_factory()) as runner:
        loop = runner.get_loop()
        serving = loop.create_task(running.serve([listener]))
        while not serving.done():
            try:
                loop.run_until_complete(serving)
            except SystemExit:
                if serving.done():  # uvicorn's own
                    raise
                log.exception("code of the project called sys.exit() in a callback of the loop")


def exit_on_signals(running: uvicorn.Server) -> None:
    """Exit a server on signals, also before it listens to them by itself.

    It raises those that it got again once it has stopped, which is no failure.
    """

    def request_exit(_number: int, _frame: object) -> None:
        running.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, request_exit)


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address, or print why that fails and exit."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise CheckrailError(
            f"the server cannot listen on {server_url(host, port)}: {error.strerror}. "
            "Stop what listens there, or choose another --port"
        ) from None
    return listener


def exit_with_error(error: CheckrailError) -> Any:
    """Print an error and exit."""
    click.secho(str(error), fg="red", err=True)
    sys.exit(FAILED)


def server_url(host: str, port: int) -> str:
    """Return the URL of a server."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
