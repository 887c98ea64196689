"""Transcripts: what happens in a chat, told as it does, for people or for machines.

The answer's text, or the JSON, is all that goes to standard output.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from checkrail.agent.events import Finished, HookCalled, TextDelta, ToolFinished, ToolStarted
from checkrail.agent.messages import content_of, text_of
from checkrail.cli.show import Hide, console, hidden, print_table, shown
from checkrail.cli.timeline import timeline
from checkrail.engine.records import RecordKind
from checkrail.engine.values import plain

if TYPE_CHECKING:
    from checkrail.agent.events import StreamEvent
    from checkrail.engine.records import HookRecord
    from checkrail.engine.values import AgentResponse, ToolResult

ANSWERED = frozenset({"answer", "stop"})
PARTIAL = {
    "length": "the answer is cut off at its token limit: raise the model's `max_tokens`",
    "content_filter": "the provider's content filter withheld the answer, or a part of it",
    "refusal": "the model refused to answer",
}
"""What a model's answer lacks, by how it finished."""

SHOWN = 200
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Signs that would draw on the terminal, or turn the text around."""


class Transcript(Protocol):
    """Somebody who is told what happens."""

    def heard(self, event: StreamEvent) -> None:
        """Take an event of a run."""

    def cancelled(self) -> None:
        """Take that a run was cancelled by the person who asked."""

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

    def heard(self, event: StreamEvent) -> None:
        """Show an event."""
        match event:
            case TextDelta(text, iteration):
                self._say(text, iteration)
            case HookCalled(record):
                self._hook(record)
            case ToolStarted(call) if self._trace:
                arguments = json.dumps(plain(call.args), ensure_ascii=False)
                self._note(f"→ {call.name} {_short(self._hide(arguments))}", "dim")
            case ToolFinished(result) if self._trace:
                self._note(f"← {_told(result, self._hide)}", "dim")
            case Finished(response):
                self._end(response)

    def cancelled(self) -> None:
        """Say that there will be no more of the answer."""
        self.close()
        self._note("cancelled", "yellow")

    def close(self) -> None:
        """End the line of the answer, if it has not ended."""
        if self._open:
            self._out.write("\n")
            self._out.flush()
        self._open = False

    def _say(self, text: str, iteration: int) -> None:
        if iteration != self._iteration:
            self.close()
        self._iteration = iteration
        self._out.write(UNSAFE.sub(_escaped, text))
        self._out.flush()
        self._open = not text.endswith("\n")
        self._point = ""

    def _hook(self, record: HookRecord) -> None:
        if record.kind is RecordKind.START:
            return
        if self._trace:
            agent = record.ids.get("agent_name", self._agent)
            at = f"{record.point}" if agent == self._agent else f"{record.point} of {agent}"
            if at != self._point:
                self._note(at, "dim cyan")
            self._point = at
            print_table(self._notes, timeline([record], self._hide), style="dim")
        elif record.failure not in (None, "cancelled"):
            told = f"hook {record.hook!r} at {record.point} failed ({record.failure})"
            self._note(f"warning: {told}: {self._hide(record.error or '')}", "yellow")

    def _end(self, response: AgentResponse) -> None:
        self.close()
        if response.stop_reason not in ANSWERED:
            word = "blocked" if response.stop_reason == "block" else "failed"
            self._note(f"{word}: {self._hide(response.error or '')}", "red")
        elif (problem := PARTIAL.get(response.finish or "")) is not None:
            self._note(f"warning: {problem}", "yellow")
        if self._trace:
            used = (response.usage or {}).get("total_tokens", 0)
            self._note(f"{response.stop_reason}, {used} tokens", "dim")

    def _note(self, text: str, style: str) -> None:
        if self._trace or self._out.isatty():
            self.close()
        self._point = ""
        self._notes.print(shown(text), style=style)


class JsonTranscript:
    """Writes each event as a line of JSON; `hide` takes secrets out of all but the answers."""

    def __init__(self, out: TextIO, hide: Hide) -> None:
        self._out = out
        self._hide = hide

    def heard(self, event: StreamEvent) -> None:
        """Write an event."""
        match event:
            case TextDelta(text, iteration):
                self._write("text", {"text": text, "iteration": iteration})
            case HookCalled(record):
                self._write("hook", hidden(record.wire(), self._hide))
            case ToolStarted(call):
                self._write("tool_started", hidden(plain(call), self._hide))
            case ToolFinished(result):
                self._write("tool_finished", hidden(plain(result), self._hide))
            case Finished(response):
                self._finish(response)

    def cancelled(self) -> None:
        """Write that a run was cancelled."""
        self._write("finished", {"stop_reason": "cancelled"})

    def close(self) -> None:
        """Do nothing, for every line is whole."""

    def _finish(self, response: AgentResponse) -> None:
        told = plain(response)
        del told["messages"]
        self._write("finished", told | {"error": hidden(response.error, self._hide)})

    def _write(self, kind: str, data: dict[str, Any]) -> None:
        told = {"event": kind} | data
        text = json.dumps(told, ensure_ascii=False)
        try:
            text.encode(self._out.encoding)
        except UnicodeEncodeError:
            text = json.dumps(told)
        self._out.write(f"{text}\n")
        self._out.flush()


def _told(result: ToolResult, hide: Hide) -> str:
    content = content_of(result)
    text = hide(content if isinstance(content, str) else text_of(content))
    return f"{result.name}{' failed' if result.is_error else ''}: {_short(text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _escaped(sign: re.Match[str]) -> str:
    return sign[0].encode("unicode_escape").decode()
