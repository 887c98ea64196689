"""`checkrail chat` talks to an agent, and shows what happens, to people or machines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TextIO

import click
from click.core import ParameterSource

from checkrail.agent.errors import RunFailed
from checkrail.agent.events import Finished, HookCalled, TextDelta, ToolFinished, ToolStarted
from checkrail.cli.app import BLOCKED, FAILED, REFUSED_FILE
from checkrail.cli.files import print_problems, read_config
from checkrail.cli.logs import show_hook_logs
from checkrail.cli.output import Hide, console, escape_text, hide_secrets, print_table
from checkrail.cli.prompts import YES, discard_typed, escape_controls, read_lines
from checkrail.cli.server_client import ServerAddress, optional_server_options
from checkrail.cli.timeline import timeline
from checkrail.engine.asks import Approval, Question
from checkrail.engine.errors import CheckrailError, suggestion
from checkrail.engine.points import LOOP_POINTS, HookPoint
from checkrail.engine.records import RecordKind
from checkrail.engine.values import AgentResponse, plain
from checkrail.llm.conversation import content_of, text_of

if TYPE_CHECKING:
    from checkrail.agent.agent import Agent
    from checkrail.agent.blueprint import AgentBuilder
    from checkrail.agent.events import StreamEvent
    from checkrail.config.agents import AgentConfig
    from checkrail.config.loader import Loaded
    from checkrail.engine.records import HookRecord
    from checkrail.engine.values import ToolResult


INTERRUPTED = 130


class TerminalChat:
    """Sends messages to an agent that remembers them, and shows what happens in a transcript.

    The event loop stands still between two turns, so that a prompt is a plain one: whatever hooks
    left in the background is waited for at the end of each. `records` are those that hooks make.
    """

    def __init__(
        self,
        builder: AgentBuilder,
        agent: Agent,
        transcript: Transcript,
        records: list[HookRecord],
        log_level: int,
    ) -> None:
        self._builder = builder
        self._agent = agent
        self._transcript = transcript
        self._log_level = log_level
        self._conversation = agent.conversation()
        self._runner = asyncio.Runner()
        self._records = records
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt), self._runner:
            self._runner.run(self._agent.aclose())

    def send_all(self, said: Iterable[str], *, patient: bool) -> int:
        """Send one message after the other, and return the worst exit code.

        A person is `patient`: they see what is wrong, and may go on after a cancellation.
        """
        worst = 0
        for text in said:
            code = self.send_message(text)
            if code == INTERRUPTED and not patient:
                return code
            worst = max(worst, code)
        return 0 if patient else worst

    def send_message(self, text: str) -> int:
        """Send one message, and return the exit code of its run."""
        self._ended = False
        try:
            with contextlib.redirect_stdout(sys.stderr), show_hook_logs(self._log_level):
                response = self._runner.run(self._run_turn(text))
        except KeyboardInterrupt:
            if not self._ended:
                _exit_now()
            self._transcript.show_cancelled()
            return INTERRUPTED
        if response.stop_reason in ANSWERED:
            return 0
        return BLOCKED if response.stop_reason == "block" else FAILED

    async def _run_turn(self, text: str) -> AgentResponse:
        self._records.clear()
        heard: set[HookRecord] = set()
        try:
            response = await self._stream_turn(text, heard)
            await self._builder.wait_for_background_hooks()
            for record in self._records:
                if record not in heard:  # it was made in the background, after the run
                    self._transcript.show_event(HookCalled(record))
            return response
        finally:
            self._ended = True

    async def _stream_turn(self, text: str, heard: set[HookRecord]) -> AgentResponse:
        async with contextlib.aclosing(aiter(self._conversation.stream(text))) as events:
            while not isinstance(event := await _next_event(events), Finished):
                if isinstance(event, HookCalled):
                    heard.add(event.record)
                self._transcript.show_event(event)
        self._transcript.show_event(event)
        return event.response


async def _next_event(events: AsyncIterator[StreamEvent]) -> StreamEvent:
    """Return the next event of a run; a run that fails is finished too."""
    try:
        return await anext(events)
    except RunFailed as failed:
        return Finished(failed.response)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the talk goes on
        told = f"{type(error).__name__}: {error}"
        return Finished(AgentResponse(stop_reason="error", error=told))


def _exit_now() -> NoReturn:
    """Exit without waiting: somebody pressed Ctrl-C again while a run was being cancelled."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


class TerminalAskHandler:
    """Puts questions of hooks to the person, one after the other; only yes is yes."""

    def __init__(self, hide: Callable[[str], str], before: Callable[[], None]) -> None:
        self._hide = hide
        self._before = before
        self._lock = asyncio.Lock()

    async def ask(self, question: Question) -> Approval:
        """Show the very value of a question, and wait for the answer."""
        async with self._lock:
            self._before()
            discard_typed()
            value = json.dumps(plain(question.value), ensure_ascii=False)
            out = console(stderr=True)
            told = f"{question.hook} at {question.point} asks: {question.reason}"
            out.print(escape_text(self._hide(told)), style="bold yellow")
            out.print(escape_text(self._hide(value)))
            out.print("Let it pass? [y/N] ", style="bold yellow", end="")
            answer = await _read_answer()
        return Approval(approved=answer.strip().lower() in YES)


async def _read_answer() -> str:
    """Read a line without holding anything up, so that the wait for it can be cancelled."""
    file, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(file, typed.set)
    try:
        await typed.wait()
        return os.read(file, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(file)


EXAMPLE = "agents: {support: {model: openai/gpt-5}}"
HEARD = LOOP_POINTS | {HookPoint.QUERY_END}
"""The points of an agent's loop: there is no run, session or channel here."""


@click.command(epilog="Example: checkrail chat checkrail.yaml -m 'Where is my order?'")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--agent", "name", metavar="NAME", help="Which agent, if there are several.")
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
@click.option("--session", metavar="ID", help="Of a server: the session to go on with.")
@click.option("--channel", metavar="NAME", help="Of a server: the channel.  [default: terminal]")
@optional_server_options
def command(
    file: Path | None,
    name: str | None,
    messages: tuple[str, ...],
    address: ServerAddress | None,
    *,
    trace: bool,
    as_data: bool,
    session: str | None,
    channel: str | None,
) -> None:
    """Talk to an agent of FILE, or of a server, with all of its hooks.

    Without -m, what you type is said, or each line of standard input. Ctrl-C stops an answer of
    FILE, and leaves a server, where the run goes on. Ctrl-D leaves. Leaves with 3 if an answer was
    blocked and with 4 if one failed, unless you were at the terminal.
    """
    if not all(text.strip() for text in messages):
        raise click.UsageError("--message is empty: say something")
    if file is not None:
        if _names_server() or session is not None or channel is not None:
            raise click.UsageError(
                "FILE has no server: leave out FILE, or --server and its options"
            )
        code = _talk_to_file(file, name, messages, trace=trace, as_data=as_data)
    elif address is not None:
        if trace:
            raise click.UsageError("--trace is for a FILE: see `checkrail runs show` for a server")
        from checkrail.cli.server_chat import talk_to_server

        said_as = {"agent_name": name, "session_id": session, "channel": channel or "terminal"}
        code = talk_to_server(address, said_as, messages, as_data=as_data)
    else:
        raise click.UsageError("say whose agent you want to talk to: FILE, or --server URL")
    sys.exit(code)


def _names_server() -> bool:
    """Return whether a server was named on the command line; the environment is for no FILE."""
    context = click.get_current_context()
    return context.get_parameter_source("server") is ParameterSource.COMMANDLINE


def _talk_to_file(
    file: Path, name: str | None, messages: tuple[str, ...], *, trace: bool, as_data: bool
) -> int:
    loaded = read_config(file, as_data=as_data)
    config = _choose_agent(loaded, file, name)
    if not all(text.strip() for text in messages):
        raise click.UsageError("--message is empty")
    transcript: Transcript = TextTranscript(sys.stdout, loaded.scrub, config.name, trace=trace)
    if as_data:
        transcript = JsonTranscript(sys.stdout, loaded.scrub)
    typed = sys.stdin.isatty() and not messages
    _print_warnings(loaded, config)
    with _start_chat(loaded, config.name, transcript, trace=trace) as talk:
        if typed and not as_data:
            _print_greeting(config)
        return talk.send_all(messages or read_lines(), patient=typed)


def _start_chat(loaded: Loaded, name: str, transcript: Transcript, *, trace: bool) -> TerminalChat:
    """Build the agent and open a conversation with it, or print why not and exit."""
    from checkrail.agent.blueprint import AgentBuilder

    desk = TerminalAskHandler(loaded.scrub, transcript.close).ask if sys.stdin.isatty() else None
    records: list[HookRecord] = []
    builder = AgentBuilder(loaded, ask=desk, sink=records.append)
    try:
        agent = builder.build(name)
    except CheckrailError as error:
        told = escape_text(loaded.scrub(str(error)))
        console(stderr=True).print(told, style="red")
        sys.exit(REFUSED_FILE)
    return TerminalChat(
        builder, agent, transcript, records, logging.INFO if trace else logging.WARNING
    )


def _choose_agent(loaded: Loaded, file: Path, name: str | None) -> AgentConfig:
    """Return the agent that is meant, or print which there are and exit."""
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


def _print_warnings(loaded: Loaded, config: AgentConfig) -> None:
    print_problems(loaded.warnings, "yellow", "warning: ")
    specs = [spec for spec in (*loaded.specs, *config.hooks) if spec.mode != "off"]
    deaf = {place.point for spec in specs for place in spec.places} - HEARD
    if deaf:
        points = ", ".join(point for point in HookPoint if point in deaf)
        told = f"warning: hooks at {points} are not called in a chat: they are for served runs"
        console(stderr=True).print(told, style="yellow")


def _print_greeting(config: AgentConfig) -> None:
    told = f"{config.name} ({config.model.label if config.model else ''}). "
    keys = "Ctrl-C stops an answer, Ctrl-D leaves."
    console(stderr=True).print(told + keys, style="dim")


ANSWERED = frozenset({"answer", "stop"})
PARTIAL = {
    "length": "the answer is cut off at its token limit: raise the model's `max_tokens`",
    "content_filter": "the provider's content filter withheld the answer, or a part of it",
    "refusal": "the model refused to answer",
}
"""What a model's answer lacks, by how it finished."""

SHOWN = 200


class Transcript(Protocol):
    """Shows what happens in a chat."""

    def show_event(self, event: StreamEvent) -> None:
        """Show an event of a run."""

    def show_cancelled(self) -> None:
        """Show that the person cancelled a run."""

    def close(self) -> None:
        """Make room for something else on the screen."""


class TextTranscript:
    """Shows answers as they come; with `trace`, also every hook and tool on the way.

    `hide` takes secrets out of everything but the answers.
    """

    def __init__(self, out: TextIO, hide: Hide, agent: str, *, trace: bool) -> None:
        self._out = out
        self._notes = console(stderr=True)
        self._hide = hide
        self._agent = agent
        self._trace = trace
        self._iteration = 0
        self._point = ""
        self._open = False  # whether the last line of the answer has not ended yet

    def show_event(self, event: StreamEvent) -> None:
        """Show an event."""
        match event:
            case TextDelta(text, iteration):
                self._write_text(text, iteration)
            case HookCalled(record):
                self._show_hook(record)
            case ToolStarted(call) if self._trace:
                arguments = json.dumps(plain(call.args), ensure_ascii=False)
                self._print_note(f"→ {call.name} {_shorten(self._hide(arguments))}", "dim")
            case ToolFinished(result) if self._trace:
                self._print_note(f"← {_describe_result(result, self._hide)}", "dim")
            case Finished(response):
                self._show_end(response)

    def show_cancelled(self) -> None:
        """Show that there will be no more of the answer."""
        self.close()
        self._print_note("cancelled", "yellow")

    def close(self) -> None:
        """End the line of the answer, if it has not ended."""
        if self._open:
            self._out.write("\n")
            self._out.flush()
        self._open = False

    def _write_text(self, text: str, iteration: int) -> None:
        if iteration != self._iteration:
            self.close()
        self._iteration = iteration
        self._out.write(escape_controls(text))
        self._out.flush()
        self._open = not text.endswith("\n")
        self._point = ""

    def _show_hook(self, record: HookRecord) -> None:
        if record.kind is RecordKind.START:
            return
        if self._trace:
            agent = record.ids.get("agent_name", self._agent)
            at = f"{record.point}" if agent == self._agent else f"{record.point} of {agent}"
            if at != self._point:
                self._print_note(at, "dim cyan")
            self._point = at
            print_table(self._notes, timeline([record], self._hide), style="dim")
        elif record.failure not in (None, "cancelled"):
            told = f"hook {record.hook!r} at {record.point} failed ({record.failure})"
            self._print_note(f"warning: {told}: {self._hide(record.error or '')}", "yellow")

    def _show_end(self, response: AgentResponse) -> None:
        self.close()
        if response.stop_reason not in ANSWERED:
            word = "blocked" if response.stop_reason == "block" else "failed"
            self._print_note(f"{word}: {self._hide(response.error or '')}", "red")
        elif (problem := PARTIAL.get(response.finish or "")) is not None:
            self._print_note(f"warning: {problem}", "yellow")
        if self._trace:
            used = (response.usage or {}).get("total_tokens", 0)
            self._print_note(f"{response.stop_reason}, {used} tokens", "dim")

    def _print_note(self, text: str, style: str) -> None:
        if self._trace or self._out.isatty():
            self.close()
        self._point = ""
        self._notes.print(escape_text(text), style=style)


class JsonTranscript:
    """Writes each event as a line of JSON; `hide` removes secrets from all but the answers."""

    def __init__(self, out: TextIO, hide: Hide) -> None:
        self._out = out
        self._hide = hide

    def show_event(self, event: StreamEvent) -> None:
        """Write an event."""
        match event:
            case TextDelta(text, iteration):
                self._write_line("text", {"text": text, "iteration": iteration})
            case HookCalled(record):
                self._write_line("hook", hide_secrets(record.wire(), self._hide))
            case ToolStarted(call):
                self._write_line("tool_started", hide_secrets(plain(call), self._hide))
            case ToolFinished(result):
                self._write_line("tool_finished", hide_secrets(plain(result), self._hide))
            case Finished(response):
                self._write_finish(response)

    def show_cancelled(self) -> None:
        """Write that a run was cancelled."""
        self._write_line("finished", {"stop_reason": "cancelled"})

    def close(self) -> None:
        """Do nothing, for every line is whole."""

    def _write_finish(self, response: AgentResponse) -> None:
        told = plain(response)
        del told["messages"]
        self._write_line("finished", told | {"error": hide_secrets(response.error, self._hide)})

    def _write_line(self, kind: str, data: dict[str, Any]) -> None:
        told = {"event": kind} | data
        text = json.dumps(told, ensure_ascii=False)
        try:
            text.encode(self._out.encoding)
        except UnicodeEncodeError:
            text = json.dumps(told)
        self._out.write(f"{text}\n")
        self._out.flush()


def _describe_result(result: ToolResult, hide: Hide) -> str:
    content = content_of(result)
    text = hide(content if isinstance(content, str) else text_of(content))
    return f"{result.name}{' failed' if result.is_error else ''}: {_shorten(text)}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
