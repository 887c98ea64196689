"""`checkrail gateway` puts hooks in front of models."""

from __future__ import annotations

import contextlib
import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from checkrail.cli.connections import allow_many
from checkrail.cli.gateways import OPTIONS, base_urls, log_to_stderr, not_writable, opened
from checkrail.cli.serving import address, bound, stop_by_signals, told
from checkrail.engine.errors import CheckrailError

if TYPE_CHECKING:
    from checkrail.gateway.opening import OpenGateway
    from checkrail.telemetry import JsonLinesSink

PORT = 4000


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
def command(
    config: str | None, hooks: str | None, host: str, port: int, records: Path | None
) -> None:
    """Put hooks in front of models, for any client of the OpenAI or Anthropic API.

    Without options, the hooks are those of hooks.yaml, here or in ~/.config/checkrail, and of the
    project's file here. Where models are, and who may call, stands under `gateway` in the file:
    other hosts than this one are only listened to with keys. Files that change are reloaded.
    """
    try:
        with _kept(records) as sink:
            log_to_stderr(logging.INFO)
            gateway = opened(config, hooks, sink=sink)
            _check_host(host, gateway)
            with gateway.counting():
                _serve(gateway, host, port)
    except CheckrailError as error:
        told(error)


def _kept(records: Path | None) -> AbstractContextManager[JsonLinesSink | None]:
    """Open the file that records are kept in, if there is to be one."""
    from checkrail.telemetry import JsonLinesSink

    if records is None:
        return contextlib.nullcontext()
    try:
        return JsonLinesSink(records)
    except OSError as error:
        raise not_writable("records", records, error) from None


def _check_host(host: str, gateway: OpenGateway) -> None:
    from checkrail.actions.this_machine import is_loopback

    if not is_loopback(host) and not gateway.settings.keys:
        raise CheckrailError(
            f"the gateway was told to listen on {host or 'all addresses'!r}, where other machines "
            "reach it, and there are no keys. Write some under gateway.keys, or leave out --host"
        )


def _serve(gateway: OpenGateway, host: str, port: int) -> None:
    import uvicorn

    allow_many()
    running = uvicorn.Server(uvicorn.Config(gateway.app(), host=host, port=port, **OPTIONS))
    stop_by_signals(running)
    with contextlib.closing(bound(host, port)) as listener:
        listener.listen(2048)  # who reads the announcement may call at once
        _announce(gateway, address(host, port))
        running.run([listener])


def _announce(gateway: OpenGateway, url: str) -> None:
    count = sum(spec.mode != "off" for spec in gateway.registry.list())
    files = ", ".join(str(loaded.file) for loaded in gateway.loaded)
    click.echo(f"gateway  {url}  {count} {'hook' if count == 1 else 'hooks'} of {files}")
    for name, value in base_urls(url).items():
        if name != "OPENAI_API_BASE":
            click.echo(f"{name}={value}")
