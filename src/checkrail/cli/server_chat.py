"""A conversation with an agent of a server: its replies as they come, and what waits for a yes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, Protocol

from checkrail.cli.app import BLOCKED, FAILED
from checkrail.cli.output import console, escape_text
from checkrail.cli.prompts import YES, discard_typed, escape_controls, read_lines
from checkrail.cli.server_client import (
    ServerAddress,
    ServerClient,
    ServerRequestError,
    connect_server,
    find_id,
)
from checkrail.times import uuid7

INTERRUPTED = 130
CODES = {"answered": 0, "blocked": BLOCKED, "withheld": BLOCKED}
LAST = ("reply", "error")

Data = dict[str, Any]


class ChatServerError(ServerRequestError):
    """The server is away, or did not let its caller talk to it."""

    exit_code = 1


def talk_to_server(
    address: ServerAddress, said_as: Data, messages: tuple[str, ...], *, as_data: bool
) -> int:
    """Say messages, or what is typed, to an agent of a server; return the worst exit code."""
    typed = sys.stdin.isatty() and not messages
    transcript: Transcript = JsonFrames() if as_data else ReplyText()
    try:
        with connect_server(address) as it:
            if said_as["session_id"] is not None:
                said_as = said_as | {"session_id": find_id(it, "session", said_as["session_id"])}
            if typed and not as_data:
                told = f"{it.url}. Ctrl-C and Ctrl-D leave."
                console(stderr=True).print(escape_text(told), style="dim")
            chat = ServerChat(it, transcript, said_as, answers=sys.stdin.isatty())
            return chat.send_all(messages or read_lines(), patient=typed)
    except ServerRequestError as error:
        raise ChatServerError(error.message, error.status, error.said) from None


class ServerChat:
    """Sends messages to a server, one after the other, and shows what becomes of each."""

    def __init__(
        self, it: ServerClient, transcript: Transcript, said_as: Data, *, answers: bool
    ) -> None:
        self._it = it
        self._transcript = transcript
        self._said_as = {name: value for name, value in said_as.items() if value is not None}
        self._answers = answers
        self._seen: set[str] = set()
        self._run_id = ""

    def send_all(self, said: Iterable[str], *, patient: bool) -> int:
        """Send one message after the other, and return the worst exit code.

        To a `patient` person it is 0: they have seen what was wrong.
        """
        worst = 0
        for text in said:
            try:
                worst = max(worst, self.send_message(text))
            except KeyboardInterrupt:
                self._transcript.close()
                self._print_leaving()
                return INTERRUPTED
        return 0 if patient else worst

    def send_message(self, text: str) -> int:
        """Send one message, and return the exit code of its reply."""
        body = {"content": text, "message_id": uuid7(), **self._said_as}
        self._run_id = ""
        try:
            for name, data in self._it.frames("/messages/stream", body, LAST):
                self._transcript.show_frame(name, data)
                if name == "message":
                    self._run_id = data["run_id"]
                elif name == "status":
                    for approval_id in data.get("approval_ids", ()):
                        self._handle_question(approval_id)
                elif name == "reply":
                    return CODES.get(data["status"], FAILED)
        except ServerRequestError as error:
            if not _is_refusal(error):
                raise
            self._transcript.show_frame("error", error.said)
            return BLOCKED
        return FAILED

    def _handle_question(self, approval_id: str) -> None:
        """Let the person answer what a hook asks, or show who may."""
        if approval_id in self._seen:
            return
        self._seen.add(approval_id)
        try:
            row = self._it.get(f"/approvals/{approval_id}")
            if row["status"] != "open":
                return
            self._transcript.close()
            _print_question(row)
            if self._answers:
                self._send_answer(row)
            else:
                _print_note(f"it waits: checkrail approvals approve {approval_id}")
        except ServerRequestError as refused:
            if refused.status not in (403, 404, 409):
                raise
            _print_note(refused.message)

    def _send_answer(self, row: Data) -> None:
        discard_typed()
        console(stderr=True).print("Let it pass? [y/N] ", style="bold yellow", end="")
        line = sys.stdin.readline()
        if not line:
            _print_note("nobody has answered: it waits")
            return
        word = "approve" if line.strip().lower() in YES else "deny"
        self._it.post(f"/approvals/{row['approval_id']}/{word}", body={"digest": row["digest"]})

    def _print_leaving(self) -> None:
        if self._run_id:
            _print_note(f"The run goes on. To stop it: checkrail runs cancel {self._run_id}")


def _is_refusal(error: ServerRequestError) -> bool:
    """Return whether a hook refused a message, and not the server its caller."""
    return error.said.get("error") == "refused"


def _print_question(row: Data) -> None:
    out = console(stderr=True)
    told = f"{row['hook']} at {row['point']} asks: {row['question']}"
    out.print(escape_text(told), style="bold yellow")
    out.print(escape_text(json.dumps(row["value"], ensure_ascii=False)))


def _print_note(text: str, style: str = "yellow") -> None:
    console(stderr=True).print(escape_text(text), style=style)


class Transcript(Protocol):
    """Shows what becomes of messages."""

    def show_frame(self, name: str, data: Data) -> None:
        """Show a frame of a message."""

    def close(self) -> None:
        """Make room for something else on the screen."""


class JsonFrames:
    """Writes each frame as a line of JSON."""

    def show_frame(self, name: str, data: Data) -> None:
        """Write a frame."""
        print(json.dumps({"event": name} | data), flush=True)  # noqa: T201 - it was requested

    def close(self) -> None:
        """Do nothing, for every line is whole."""


class ReplyText:
    """Shows replies, at a terminal as they come; why there is none goes to standard error."""

    def __init__(self) -> None:
        self._streams = sys.stdout.isatty()
        self._received = ""
        self._printed = 0  # of the text received; a stream that broke begins anew
        self._open = False

    def show_frame(self, name: str, data: Data) -> None:
        """Show a frame."""
        if name == "message":
            self._received = ""
        elif name == "delta" and self._streams:
            self._received += data["text"]
            self._print_text(self._received[self._printed :])
            self._printed = max(self._printed, len(self._received))
        elif name == "reply":
            self._show_reply(data)
            self._printed = 0
        elif name == "error":
            self.close()
            self._printed = 0
            _print_note(f"blocked: {data['message']}", "red")

    def close(self) -> None:
        """End the line of the reply, if it has not ended."""
        if self._open:
            self._print_text("\n")
        self._open = False

    def _show_reply(self, message: Data) -> None:
        status, refusal = message["status"], message["refusal"] or {}
        reply = message["reply"] or ""
        is_shown = bool(reply) and self._received.rstrip().endswith(reply.rstrip())
        if reply and status != "blocked" and not is_shown:
            self.close()
            self._print_text(reply)
        self.close()
        if status != "answered":
            why = refusal.get("reason") or message["error"] or ""
            _print_note(f"{status}: {why}" if why else status, "red")

    def _print_text(self, text: str) -> None:
        if text:
            sys.stdout.write(escape_controls(text))
            sys.stdout.flush()
            self._open = not text.endswith("\n")
