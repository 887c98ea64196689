"""`checkrail with` runs a command with a gateway in front of its models."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkrail.cli.gateway_startup import (
    OPTIONS,
    gateway_variables,
    log_to_stderr,
    not_writable_error,
    open_gateway,
)
from checkrail.cli.server_startup import bind_socket, exit_with_error, server_url
from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import Event
from checkrail.engine.records import HookRecord, RecordKind
from checkrail.engine.registry import HookRegistry

if TYPE_CHECKING:
    from checkrail.gateway.startup import OpenGateway


OWN = "checkrail with"

_UNSEEN = (
    "checkrail: NO HOOK SAW ANYTHING. The command called no model, or went past the gateway: "
    "point it at OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL"
)

_PI_EXTENSION = """\
export default function (pi) {
  for (const [name, baseUrl] of Object.entries(URLS)) pi.registerProvider(name, { baseUrl });
}
"""


class Tally:
    """Counts, from any thread, what hooks of a registry decide and what answers use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[str] = set()
        self._tokens: Counter[str] = Counter()
        self._cost: float | None = None
        self._hooks: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def watch(self, registry: HookRegistry) -> None:
        """Observe every call and answer."""
        for point in ("before_llm_call", "after_llm_call"):
            registry.register(self._count_event, point, name=f"{OWN}: {point}", lane="observe")

    def record(self, record: HookRecord) -> None:
        """Count what a hook decided; made to be a sink."""
        if record.kind is RecordKind.START or record.hook.startswith(OWN):
            return
        told = "failed" if record.failure else str(record.decision)
        if record.changed and told == "continue":
            told = "change"
        with self._lock:
            self._hooks[record.hook][f"would {told}" if record.shadow else told] += 1

    def _count_event(self, event: Event[Any]) -> None:
        usage = getattr(event.value, "usage", None) or {}
        with self._lock:
            self._calls.add(event.request_id or "")
            for name in ("input_tokens", "output_tokens", "total_tokens"):
                self._tokens[name] += usage.get(name) or 0
            if (cost := usage.get("cost")) is not None:
                self._cost = (self._cost or 0.0) + cost

    @property
    def calls(self) -> int:
        """How many calls of models were seen."""
        with self._lock:
            return len(self._calls)

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON data; without prices, there is no cost."""
        with self._lock:
            tokens = ("input_tokens", "output_tokens", "total_tokens")
            return {
                "calls": len(self._calls),
                **{name: self._tokens[name] for name in tokens},
                "cost": self._cost,
                "hooks": {name: dict(counts) for name, counts in self._hooks.items()},
            }

    def lines(self) -> Iterator[str]:
        """Return a summary for a person."""
        found = self.to_json()
        calls = f"{found['calls']} {'call' if found['calls'] == 1 else 'calls'}"
        cost = "" if found["cost"] is None else f", {_format_dollars(found['cost'])}"
        yield f"{calls}, {found['input_tokens']} tokens in, {found['output_tokens']} out{cost}"
        wide = max(map(len, found["hooks"]), default=0)
        for name, counts in found["hooks"].items():
            told = ", ".join(f"{what} {count}" for what, count in counts.items())
            yield f"  {name:<{wide}}  {told}"


def _format_dollars(cost: float) -> str:
    """Return an amount so that a small one is not shown as zero."""
    return f"${cost:.6f}" if 0 < cost < 0.001 else f"${cost:.4f}"


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
@click.option(
    "--require",
    is_flag=True,
    help="Exit with 1 if COMMAND succeeds and no call is seen.",
)
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    config: str | None,
    hooks: str | None,
    summary: Path | None,
    require: bool,  # noqa: FBT001 - click passes it by name
    words: tuple[str, ...],
) -> None:
    """Run COMMAND with a gateway of its own in front of its models.

    COMMAND finds the gateway by OPENAI_BASE_URL, ANTHROPIC_BASE_URL and GOOGLE_GEMINI_BASE_URL in
    its environment, and codex and pi by arguments that are added to theirs; where the variables
    led before, the gateway goes unless its file says otherwise. At the end, what was called,
    decided, used and spent is told on standard error. Leaves with the exit code of COMMAND.
    """
    tally = Tally()
    try:
        _check_writable(summary)
        log_to_stderr(logging.WARNING)
        gateway = open_gateway(config, hooks, sink=tally.record)
        tally.watch(gateway.registry)
        _use_environment_upstreams(gateway)
        with (
            gateway.open_counters(),
            _run_gateway(gateway) as url,
            tempfile.TemporaryDirectory(prefix="checkrail-") as folder,
        ):
            known = _add_agent_arguments(words, url, Path(folder))
            code = _run_command(known, _build_environment(url))
    except CheckrailError as error:
        exit_with_error(error)
    code = code or int(require and not tally.calls)
    _print_summary(tally, code, summary)
    sys.exit(code)


def _check_writable(summary: Path | None) -> None:
    """Check that the summary can be written before anything is run."""
    if summary is None:
        return
    try:
        summary.open("a").close()
    except OSError as error:
        raise not_writable_error("the summary", summary, error) from None


def _use_environment_upstreams(gateway: OpenGateway) -> None:
    """Send requests where the command would have sent them, if the file has no upstreams."""
    from checkrail.config.gateway import ANTHROPIC, GEMINI, OPENAI, public_upstreams
    from checkrail.config.gateway_reader import find_url_problem

    if gateway.settings.upstreams != public_upstreams():
        return
    openai = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or OPENAI
    found = {
        "OPENAI_BASE_URL": openai,
        "ANTHROPIC_BASE_URL": os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC,
        "GOOGLE_GEMINI_BASE_URL": os.environ.get("GOOGLE_GEMINI_BASE_URL") or GEMINI,
    }
    for name, url in found.items():
        if wrong := find_url_problem(url):
            raise CheckrailError(f"{name} is {wrong}. Correct it, or unset it")
    gateway.use_upstreams(public_upstreams(*found.values()))


def _build_environment(url: str) -> dict[str, str]:
    """Return the environment of the command, which reaches this machine without a proxy."""
    found = {**os.environ, **gateway_variables(url)}
    for name in ("NO_PROXY", "no_proxy"):
        found[name] = ",".join(filter(None, (os.environ.get(name), HOST)))
    return found


@contextlib.contextmanager
def _run_gateway(gateway: OpenGateway) -> Iterator[str]:
    """Run a gateway in a thread, on a free port."""
    import uvicorn

    from checkrail.gateway.auth import LocalAuthenticator

    app = gateway.build_app(door=LocalAuthenticator())
    running = uvicorn.Server(uvicorn.Config(app, **OPTIONS))
    with contextlib.closing(bind_socket(HOST, 0)) as listener:
        thread = threading.Thread(target=running.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield server_url(HOST, listener.getsockname()[1])
        finally:
            running.should_exit = True
            thread.join()


def _run_command(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end, forward signals to it, and return its exit code."""
    try:
        with _forward_signals() as hand_on_to:
            process = subprocess.Popen(words, env=environment)  # noqa: S603 - it is the user's
            hand_on_to(process)
            code = process.wait()
    except OSError as error:
        click.secho(f"{words[0]}: {error.strerror}", fg="red", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _forward_signals() -> Iterator[Callable[[subprocess.Popen[Any]], None]]:
    """Forward signals to a process, also those that come before it has started.

    What is typed at a terminal reaches it without us.
    """
    child: list[subprocess.Popen[Any]] = []
    early: list[int] = []

    def forward_signal(number: int, _frame: object) -> None:
        if not child:
            early.append(number)
        for process in child:
            process.send_signal(number)

    def forward_signals_to(process: subprocess.Popen[Any]) -> None:
        child.append(process)
        for number in early:
            process.send_signal(number)

    def forward_interrupt(number: int, frame: object) -> None:
        if not sys.stdin.isatty():
            forward_signal(number, frame)

    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    before = {number: signal.signal(number, forward_signal) for number in numbers}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, forward_interrupt)
    try:
        yield forward_signals_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_summary(tally: Tally, code: int, summary: Path | None) -> None:
    first, *rest = tally.lines()
    click.echo("\n".join((f"checkrail: {first}", *rest)), err=True)
    if not tally.calls:
        click.secho(_UNSEEN, fg="red", bold=True, err=True)
    if summary is not None:
        summary.write_text(json.dumps({**tally.to_json(), "exit_code": code}, indent=2) + "\n")


def _add_agent_arguments(words: Sequence[str], url: str, folder: Path) -> list[str]:
    """Return a command with the arguments by which its program finds the gateway at a URL.

    Files that it has to read are put into the folder. A program that nobody knows stays as it is,
    and goes by its environment.
    """
    add = _AGENTS.get(Path(words[0]).stem)
    return [words[0], *(add(url, folder) if add is not None else ()), *words[1:]]


def _codex_arguments(url: str, _folder: Path) -> list[str]:
    """Return a setting: Codex does not read the variable of OpenAI's SDKs."""
    return ["-c", f'openai_base_url="{url}/v1"']


def _pi_arguments(url: str, folder: Path) -> list[str]:
    """Return an extension: pi reads no variables for the addresses of its providers."""
    file = folder / "checkrail-gateway.js"
    urls = {"anthropic": url, "openai": f"{url}/v1", "google": f"{url}/v1beta"}
    file.write_text(_PI_EXTENSION.replace("URLS", json.dumps(urls)))
    return ["--extension", str(file)]


_AGENTS: dict[str, Callable[[str, Path], list[str]]] = {
    "codex": _codex_arguments,
    "pi": _pi_arguments,
}
