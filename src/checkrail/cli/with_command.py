"""`checkrail with` runs a command with a gateway in front of its models."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.gateways import OPTIONS, base_urls, log_to_stderr, not_writable, opened
from checkrail.cli.serving import address, bound, told
from checkrail.cli.tally import Tally
from checkrail.engine.errors import CheckrailError

if TYPE_CHECKING:
    from checkrail.gateway.opening import OpenGateway

HOST = "127.0.0.1"
NOT_FOUND = 127
NOT_EXECUTABLE = 126
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: checkrail with -- python agent.py",
)
@click.option("--config", "-c", type=click.Path(), help="The project's file or folder.")
@click.option("--hooks", type=click.Path(), help="A file of hooks.  [default: hooks.yaml]")
@click.option(
    "--json",
    "summary",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the summary to a file, as JSON.",
)
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    config: str | None, hooks: str | None, summary: Path | None, words: tuple[str, ...]
) -> None:
    """Run COMMAND with a gateway of its own in front of its models.

    COMMAND finds the gateway by OPENAI_BASE_URL and ANTHROPIC_BASE_URL in its environment; where
    they led before, the gateway goes unless its file says otherwise. At the end, what was called,
    decided, used and spent is told on standard error. Leaves with the exit code of COMMAND.
    """
    tally = Tally()
    try:
        _check_writable(summary)
        log_to_stderr(logging.WARNING)
        gateway = opened(config, hooks, sink=tally.record)
        tally.watch(gateway.registry)
        _use_environment(gateway)
        with gateway.counting(), _running(gateway) as url:
            code = _run(words, _environment(url))
    except CheckrailError as error:
        told(error)
    _tell(tally, code, summary)
    sys.exit(code)


def _check_writable(summary: Path | None) -> None:
    """See that the summary can be written before anything is run."""
    if summary is None:
        return
    try:
        summary.open("a").close()
    except OSError as error:
        raise not_writable("the summary", summary, error) from None


def _use_environment(gateway: OpenGateway) -> None:
    """Go where the command would have gone, if the file says nothing of upstreams."""
    from checkrail.config.gateway import ANTHROPIC, OPENAI, public_upstreams
    from checkrail.config.gateway_reader import wrong_url

    if gateway.settings.upstreams != public_upstreams():
        return
    openai = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or OPENAI
    anthropic = os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC
    for name, url in {"OPENAI_BASE_URL": openai, "ANTHROPIC_BASE_URL": anthropic}.items():
        if wrong := wrong_url(url):
            raise CheckrailError(f"{name} is {wrong}. Correct it, or unset it")
    gateway.use(public_upstreams(openai, anthropic))


def _environment(url: str) -> dict[str, str]:
    """Return the environment of the command; nobody is to go to this machine by a proxy."""
    found = {**os.environ, **base_urls(url)}
    for name in ("NO_PROXY", "no_proxy"):
        found[name] = ",".join(filter(None, (os.environ.get(name), HOST)))
    return found


@contextlib.contextmanager
def _running(gateway: OpenGateway) -> Iterator[str]:
    """Run a gateway in a thread, on a free port."""
    import uvicorn

    from checkrail.gateway.door import LocalDoor

    app = gateway.app(door=LocalDoor())
    running = uvicorn.Server(uvicorn.Config(app, **OPTIONS))
    with contextlib.closing(bound(HOST, 0)) as listener:
        listener.listen(2048)  # who calls before the thread has begun waits
        thread = threading.Thread(target=running.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield address(HOST, listener.getsockname()[1])
        finally:
            running.should_exit = True
            thread.join()


def _run(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end, hand signals on to it, and give its exit code."""
    try:
        with _signals() as hand_on_to:
            process = subprocess.Popen(words, env=environment)  # noqa: S603 - it is the user's
            hand_on_to(process)
            code = process.wait()
    except OSError as error:
        click.secho(f"{words[0]}: {error.strerror}", fg="red", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[subprocess.Popen[Any]], None]]:
    """Hand signals on to a process, also those that come before it is there.

    What is typed at a terminal reaches it without us.
    """
    child: list[subprocess.Popen[Any]] = []
    early: list[int] = []

    def hand_on(number: int, _frame: object) -> None:
        if not child:
            early.append(number)
        for process in child:
            process.send_signal(number)

    def hand_on_to(process: subprocess.Popen[Any]) -> None:
        child.append(process)
        for number in early:
            process.send_signal(number)

    def interrupted(number: int, frame: object) -> None:
        if not sys.stdin.isatty():
            hand_on(number, frame)

    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    before = {number: signal.signal(number, hand_on) for number in numbers}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupted)
    try:
        yield hand_on_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(tally: Tally, code: int, summary: Path | None) -> None:
    first, *rest = tally.lines()
    click.echo("\n".join((f"checkrail: {first}", *rest)), err=True)
    if summary is not None:
        summary.write_text(json.dumps({**tally.data(), "exit_code": code}, indent=2) + "\n")
