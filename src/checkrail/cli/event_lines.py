"""Following a run: its events as lines, and how it ended as an exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkrail.cli.app import BLOCKED, FAILED
from checkrail.cli.output import console, escape_text

SHOWN = 200
STYLES = {"error": "red", "end": "bold"}
GOOD = ("success", "interrupted")


def exit_code(ended: Mapping[str, Any]) -> int:
    """Return the exit code for the end of a run; one that waits for a person has not failed."""
    if ended["phase"] in ("blocked", "refused"):
        return BLOCKED
    return 0 if ended["status"] in GOOD and ended["phase"] != "cancelled" else FAILED


class EventLines:
    """Prints events for people, one a line."""

    def __init__(self) -> None:
        self._out = console()

    def show(self, event: Mapping[str, Any]) -> None:
        """Print an event."""
        name = "|".join((event["event"], *event["ns"]))
        line = f"{event['seq']:>5}  {name:<10}  {_shorten(_describe_event(event))}"
        self._out.print(escape_text(line), style=STYLES.get(event["event"]))


class JsonLines:
    """Prints events for machines, one a line."""

    def show(self, event: Mapping[str, Any]) -> None:
        """Print an event."""
        print(json.dumps(event), flush=True)  # noqa: T201 - it is what was asked for


def _describe_event(event: Mapping[str, Any]) -> str:
    data = event["data"]
    if event["event"] == "end":
        why = f": {data['error']}" if data.get("error") else ""
        return f"{data['status']} ({data['phase']}){why}"
    if event["event"].startswith("hook_"):
        ending = data.get("decision") or data.get("failure") or ""
        why = data.get("reason") or data.get("error") or ""
        told = f"{data['hook']} at {data['point']} {ending}".rstrip()
        return f"{told}: {why}" if why else told
    if event["event"] == "messages" and isinstance(data, list) and data:
        data = data[0]
        content = data.get("content") if isinstance(data, dict) else None
        if isinstance(content, str) and content:
            return content
    return json.dumps(data, ensure_ascii=False)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
