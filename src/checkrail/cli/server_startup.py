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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.app import FAILED, REFUSED_FILE
from checkrail.cli.files import print_problems
from checkrail.engine.errors import CheckrailError
from checkrail.resources import pause_gc, raise_file_limit

if TYPE_CHECKING:
    import uvicorn

    from checkrail.server.app import Server
    from checkrail.server.project import Project

log = logging.getLogger("checkrail.server")

UVICORN_OPTIONS: dict[str, Any] = {
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "lifespan": "on",
    "timeout_graceful_shutdown": 3,
    "timeout_keep_alive": 75,  # longer than clients and load balancers keep a connection
    "http": "checkrail.connections.http:HttpProtocol",
}
"""What uvicorn is told in every case."""

OPTIONS: dict[str, Any] = {
    **UVICORN_OPTIONS,
    "ws": "checkrail.connections.websockets:WebSocketProtocol",
    "ws_max_size": 1024 * 1024,
}
"""What uvicorn is told of a server."""

FILE = "CHECKRAIL_CONFIG"
"""Tells worker processes which file to serve."""

WORKER_SILENCE_SECONDS = 30
"""After so long a worker that does not answer is replaced; starting one takes a while, if busy."""

_WAITING_CALLS = 2048
"""So many calls may wait for a server that has not started yet."""


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

        from checkrail.dashboard.startup import add_dashboard
        from checkrail.server.app import Server
        from checkrail.server.auth import check_binding

    raise_file_limit()
    server = project.loaded.server
    check_binding(host, has_auth=server.auth is not None)
    if workers > 1:
        if server.database is None:
            raise CheckrailError(
                "several workers need PostgreSQL, for SQLite takes one process. "
                "Set CHECKRAIL_DATABASE_URL, or leave out --workers"
            )
        os.environ[FILE] = str(project.file.absolute())
        target = "checkrail.cli.server_startup:create_server"
        options = {"host": host, "port": port, "workers": workers, **OPTIONS}
        serve_workers(target, announce=announce, **options)
        return
    started = Server(project, dev=dev, wrap=add_dashboard)
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


def create_server() -> Server:
    """Make the server that the environment names; what uvicorn calls in each worker."""
    from checkrail.dashboard.startup import add_dashboard
    from checkrail.server import logs
    from checkrail.server.app import Server
    from checkrail.server.project import Project

    project = Project(Path(os.environ[FILE]))
    logs.configure_logging(project.loaded.server.log_level)
    return Server(project, worker=True, wrap=add_dashboard)


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


def serve_workers(
    target: str, host: str, port: int, *, announce: Callable[[], None], **options: Any
) -> None:
    """Serve an app in several processes, until a signal ends them or one of them cannot start.

    They share one socket. Who calls before the first of them is ready waits.
    """
    import uvicorn
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import Multiprocess

    config = uvicorn.Config(
        target,
        host=host,
        port=port,
        factory=True,
        timeout_worker_healthcheck=WORKER_SILENCE_SECONDS,
        **options,
    )
    with contextlib.closing(bind_socket(host, port)) as listener:
        running = Multiprocess(config, sockets=[listener])
        announce()
        running.run()
    if any(process.exitcode == STARTUP_FAILURE for process in running.processes):
        raise CheckrailError("a worker did not start. What it logged says why")


def exit_on_signals(running: uvicorn.Server) -> None:
    """Exit a server on signals, also before it listens to them by itself.

    It raises those that it got again once it has stopped, which is no failure.
    """

    def request_exit(_number: int, _frame: object) -> None:
        running.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, request_exit)


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; who calls before it is served waits."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_WAITING_CALLS)
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
