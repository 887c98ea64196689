"""`checkrail gateway` puts hooks in front of models."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.extras import PACKAGES, is_installed, require_extra
from checkrail.cli.gateway_startup import (
    OPTIONS,
    gateway_variables,
    log_to_stderr,
    not_writable_error,
    open_gateway,
)
from checkrail.cli.server_startup import (
    bind_socket,
    exit_on_signals,
    exit_with_error,
    serve_workers,
    server_url,
)
from checkrail.engine.errors import CheckrailError
from checkrail.resources import raise_file_limit

if TYPE_CHECKING:
    from checkrail.engine.scope import Sink
    from checkrail.gateway.startup import OpenGateway
    from checkrail.telemetry.jsonl import JsonLinesSink

log = logging.getLogger("checkrail.gateway")

PORT = 4000

SAID = "CHECKRAIL_GATEWAY"
"""Tells worker processes what the command was told."""

ANYBODY = (
    "whoever has a key may answer what their own calls ask, agents too: name the keys of those who "
    "may under gateway.approvers"
)


@click.command(epilog="Example: checkrail gateway --hooks hooks.yaml --port 4000")
@click.option("--config", "-c", type=click.Path(), help="The project's file or folder.")
@click.option("--hooks", type=click.Path(), help="A file of hooks.  [default: hooks.yaml]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", "-p", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="The port."
)
@click.option(
    "--records",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Append a line of JSON to a file for each record of a hook.",
)
@click.option(
    "--approvals",
    is_flag=True,
    help="Let hooks ask people, who answer by `checkrail approvals --server URL`.",
)
@click.option(
    "--workers",
    "-w",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Processes on the same port.",
)
def command(
    config: str | None,
    hooks: str | None,
    host: str,
    port: int,
    records: Path | None,
    *,
    approvals: bool,
    workers: int,
) -> None:
    """Put hooks in front of models, for any client of the OpenAI or Anthropic API.

    Without options, the hooks are those of hooks.yaml, here or in ~/.config/checkrail, and of the
    project's file here. Where models are, and who may call, stands under `gateway` in the file:
    other hosts than this one are only listened to with keys. Files that change are reloaded.
    """
    if records is not None and workers > 1:
        told = "--records is a file for one process: leave out --workers, or name a `database`"
        raise click.UsageError(f"{told} in the project's file, which keeps the calls of all")
    said = GatewayCommand(config, hooks, approvals, workers)
    try:
        with _open_records(records) as sink:
            log_to_stderr(logging.INFO)
            gateway = said.open(sink)
            _check_host(host, gateway)
            said.check_workers(gateway)
            said.warn(gateway)
            if workers > 1:
                _serve_workers(said, gateway, host, port)
            else:
                _serve_gateway(said, gateway, host, port)
    except CheckrailError as error:
        exit_with_error(error)


def _open_records(records: Path | None) -> AbstractContextManager[JsonLinesSink | None]:
    """Open the file for records, if there is to be one."""
    from checkrail.telemetry.jsonl import JsonLinesSink

    if records is None:
        return contextlib.nullcontext()
    try:
        return JsonLinesSink(records)
    except OSError as error:
        raise not_writable_error("records", records, error) from None


def _check_host(host: str, gateway: OpenGateway) -> None:
    from checkrail.actions.addresses import is_loopback

    if not is_loopback(host) and not gateway.settings.keys:
        raise CheckrailError(
            f"the gateway was told to listen on {host or 'all addresses'!r}, where other machines "
            "reach it, and there are no keys. Write some under gateway.keys, or leave out --host"
        )


def _serve_gateway(said: GatewayCommand, gateway: OpenGateway, host: str, port: int) -> None:
    import uvicorn

    raise_file_limit()
    counting = contextlib.nullcontext() if said.needs_store(gateway) else gateway.open_counters()
    with counting:
        app = said.build_app(gateway)
        running = uvicorn.Server(uvicorn.Config(app, host=host, port=port, **OPTIONS))
        exit_on_signals(running)
        with contextlib.closing(bind_socket(host, port)) as listener:
            _print_address(gateway, server_url(host, port))
            running.run([listener])


def _serve_workers(said: GatewayCommand, gateway: OpenGateway, host: str, port: int) -> None:
    """Serve in several processes, each of which reads the files by itself."""
    raise_file_limit()
    said.prepare_database(gateway)
    said.hand_over()

    def announce() -> None:
        _print_address(gateway, server_url(host, port))

    target = "checkrail.cli.gateway:create"
    options = {"host": host, "port": port, "workers": said.workers, **OPTIONS}
    serve_workers(target, announce=announce, **options)


def _print_address(gateway: OpenGateway, url: str) -> None:
    count = sum(spec.mode != "off" for spec in gateway.registry.list())
    files = ", ".join(str(loaded.file) for loaded in gateway.loaded)
    click.echo(f"gateway  {url}  {count} {'hook' if count == 1 else 'hooks'} of {files}")
    for name, value in gateway_variables(url).items():
        if name != "OPENAI_API_BASE":
            click.echo(f"{name}={value}")


@dataclass(frozen=True)
class GatewayCommand:
    """What `checkrail gateway` was told, as far as each of its processes has to know it."""

    config: str | None = None
    hooks: str | None = None
    approvals: bool = False
    workers: int = 1

    def open(self, sink: Sink | None = None) -> OpenGateway:
        """Load the files."""
        return open_gateway(self.config, self.hooks, sink=sink)

    def needs_store(self, gateway: OpenGateway) -> bool:
        """Return whether there is a database that calls and questions are kept in."""
        if self.approvals:
            require_extra("server")
        configured = gateway.loaded[0].server.database is not None
        return self.approvals or (configured and all(map(is_installed, PACKAGES["server"])))

    def warn(self, gateway: OpenGateway) -> None:
        """Log what is hardly meant."""
        if self.approvals and gateway.settings.keys and not gateway.settings.approvers:
            log.warning(ANYBODY)
        if gateway.loaded[0].server.database is not None and not self.needs_store(gateway):
            log.warning('calls are not recorded. To record them: pip install "checkrail[server]"')

    def check_workers(self, gateway: OpenGateway) -> None:
        """Raise if several processes could not share what hooks count."""
        from checkrail.gateway.startup import has_counting_hooks

        if self.workers > 1 and has_counting_hooks(gateway.registry):
            if is_installed("sqlalchemy"):
                return
            raise CheckrailError(
                "limits and budgets of several workers need a database that they share. "
                'Install what it takes: pip install "checkrail[server]", or leave out --workers'
            )

    def prepare_database(self, gateway: OpenGateway) -> None:
        """Have the tables there before several processes look, or raise what is wrong."""
        from checkrail.gateway.startup import prepare_database

        if self.needs_store(gateway):
            prepare_database(gateway.loaded[0].server)
        with gateway.open_counters():
            pass

    def build_app(self, gateway: OpenGateway) -> Any:
        """Build the app of this process."""
        if not self.needs_store(gateway):
            return gateway.build_app(with_metrics=True)
        from checkrail.gateway.startup import prepare_database
        from checkrail.server.standalone_gateway import StandaloneGateway

        url = prepare_database(gateway.loaded[0].server)
        return StandaloneGateway(gateway, url, asks=self.approvals)

    def hand_over(self) -> None:
        """Tell worker processes."""
        os.environ[SAID] = json.dumps(asdict(self))


def create() -> Any:
    """Make the app that the environment tells of; what uvicorn calls in each worker."""
    said = GatewayCommand(**json.loads(os.environ[SAID]))
    log_to_stderr(logging.INFO)
    gateway = said.open()
    if said.needs_store(gateway):
        return said.build_app(gateway)
    return CountingApp(gateway, said.build_app(gateway))


class CountingApp:
    """The app of a worker whose hooks count in the database that all of them share."""

    def __init__(self, gateway: OpenGateway, app: Any) -> None:
        self._gateway = gateway
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or go through a life of the process."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        with self._gateway.open_counters():
            await self._app(scope, receive, send)
