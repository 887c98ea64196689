"""`checkrail chat` talks to an agent of a file."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from checkrail.cli.app import REFUSED_FILE
from checkrail.cli.files import read, tell
from checkrail.cli.person import Desk, lines
from checkrail.cli.show import console, shown
from checkrail.cli.talk import Talk
from checkrail.cli.transcript import JsonTranscript, TextTranscript, Transcript
from checkrail.engine.errors import CheckrailError, suggestion
from checkrail.engine.points import LOOP_POINTS, HookPoint

if TYPE_CHECKING:
    from checkrail.config import AgentConfig, Loaded
    from checkrail.engine.records import HookRecord

EXAMPLE = "agents: {support: {model: openai/gpt-5}}"
HEARD = LOOP_POINTS | {HookPoint.QUERY_END}
"""The points of an agent's loop: there is no run, session or channel here."""


@click.command(epilog="Example: checkrail chat checkrail.yaml -m 'Where is my order?'")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--agent", "name", metavar="NAME", help="Which agent, if FILE has several.")
@click.option(
    "-m",
    "--message",
    "messages",
    metavar="TEXT",
    multiple=True,
    help="Say this and leave; several are said one after the other.",
)
@click.option("--trace", is_flag=True, help="Show every hook and tool on the way.")
@click.option("--json", "as_data", is_flag=True, help="Print each event as a line of JSON.")
def command(
    file: Path,
    name: str | None,
    messages: tuple[str, ...],
    *,
    trace: bool,
    as_data: bool,
) -> None:
    """Talk to an agent of FILE, with all of its hooks.

    Without -m, what you type is said, or each line of standard input. Ctrl-C stops an answer,
    Ctrl-D leaves. Leaves with 3 if an answer was blocked and with 4 if one failed, unless you
    were at the terminal.
    """
    loaded = read(file, as_data=as_data)
    config = _chosen(loaded, file, name)
    if not all(text.strip() for text in messages):
        raise click.UsageError("--message is empty: say something")
    transcript: Transcript = TextTranscript(sys.stdout, loaded.scrubbed, config.name, trace=trace)
    if as_data:
        transcript = JsonTranscript(sys.stdout, loaded.scrubbed)
    typed = sys.stdin.isatty() and not messages
    _warn(loaded, config)
    with _talk(loaded, config.name, transcript, trace=trace) as talk:
        if typed and not as_data:
            _greet(config)
        code = talk.go_on(messages or lines(), patient=typed)
    sys.exit(code)


def _talk(loaded: Loaded, name: str, transcript: Transcript, *, trace: bool) -> Talk:
    """Make the agent and begin to talk to it, or say why not and leave."""
    from checkrail.agent.blueprint import AgentBuilder

    desk = Desk(loaded.scrubbed, transcript.close).ask if sys.stdin.isatty() else None
    records: list[HookRecord] = []
    builder = AgentBuilder(loaded, ask=desk, sink=records.append)
    try:
        agent = builder.build(name)
    except CheckrailError as error:
        told = shown(loaded.scrubbed(str(error)))
        console(stderr=True).print(told, style="red")
        sys.exit(REFUSED_FILE)
    return Talk(builder, agent, transcript, records, logging.INFO if trace else logging.WARNING)


def _chosen(loaded: Loaded, file: Path, name: str | None) -> AgentConfig:
    """Find the agent that is meant, or say which there are."""
    agents = loaded.agents
    known = ", ".join(agents)
    if not agents:
        raise click.UsageError(f"{file} has no agents: declare one, as in {EXAMPLE}")
    if name is None and len(agents) > 1:
        raise click.UsageError(f"{file} has {len(agents)} agents, say which: --agent {known}")
    if name is not None and name not in agents:
        hint = suggestion(name, agents)
        raise click.UsageError(f"there is no agent {name!r}{hint} in {file}. It has: {known}")
    config = agents[name] if name is not None else next(iter(agents.values()))
    if config.model is None:
        told = f"the agent {config.name!r} is of type {config.kind}"
        raise click.UsageError(f"{told}: chat can talk to autonomous agents only, as yet")
    return config


def _warn(loaded: Loaded, config: AgentConfig) -> None:
    tell(loaded.warnings, "yellow", "warning: ")
    specs = [spec for spec in (*loaded.specs, *config.hooks) if spec.mode != "off"]
    deaf = {place.point for spec in specs for place in spec.places} - HEARD
    if deaf:
        points = ", ".join(point for point in HookPoint if point in deaf)
        told = f"warning: hooks at {points} are not called in a chat: they are for served runs"
        console(stderr=True).print(told, style="yellow")


def _greet(config: AgentConfig) -> None:
    told = f"{config.name} ({config.model.label if config.model else ''}). "
    keys = "Ctrl-C stops an answer, Ctrl-D leaves."
    console(stderr=True).print(told + keys, style="dim")
