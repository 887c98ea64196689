"""`checkrail litellm-config` gives the lines that put hooks into a LiteLLM proxy."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from checkrail.cli.app import REFUSED_FILE
from checkrail.engine.errors import CheckrailError

CALLBACK = "checkrail.adapters.litellm.callback"
SETTINGS = "litellm_settings"
ENTRY = f"callbacks: [{CALLBACK}]"

LINES = f"""\
# Hooks of Checkrail: those of the file that CHECKRAIL_HOOKS names, else of hooks.yaml here.
{SETTINGS}:
  {ENTRY}
"""


_OPENED = re.compile(rf"""({SETTINGS}["']?\s*:\s*\{{)""")
_LIST = re.compile(r"""(\bcallbacks["']?\s*:\s*\[[^\]\n]*[^\]\s,]),?\s*\]""")
_ONE = re.compile(r"""(\bcallbacks["']?\s*:\s*)([\w.'"-]+)""")


class _NotWrittenError(CheckrailError):
    """A file that has to be changed by hand."""


@click.command(epilog="Example: checkrail litellm-config --write config.yaml")
@click.option(
    "--write",
    "-w",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write them into this config.yaml, whose other lines stay as they are.",
)
def command(file: Path | None) -> None:
    """Print the lines for the config.yaml of a LiteLLM proxy that put hooks before its models.

    The proxy needs checkrail[config] where it is installed. It does not start if the hooks cannot
    be loaded: they are those of the file that CHECKRAIL_HOOKS names, else of hooks.yaml, here or in
    ~/.config/checkrail, and of the project's file here.
    """
    if file is None:
        click.echo(LINES, nl=False)
        return
    try:
        said = file.read_text(encoding="utf-8") if file.exists() else ""
        changed = add_callback(said)
        if changed != said:
            file.write_text(changed, encoding="utf-8")
    except (OSError, UnicodeDecodeError, CheckrailError) as error:
        click.echo(f"{file} was not written: {error}", err=True)
        sys.exit(REFUSED_FILE)
    click.echo(f"{file}: {'it has the callback already' if changed == said else 'written'}")


def add_callback(said: str) -> str:
    """Return a config with the callback, and all its lines; the same, if it is there already."""
    data, line = _read_settings(said)
    settings = data.get(SETTINGS)
    known = settings if isinstance(settings, dict) else {}
    callbacks = known.get("callbacks")
    if CALLBACK in (callbacks if isinstance(callbacks, list) else [callbacks]):
        return said
    others = callbacks if isinstance(callbacks, list) else [callbacks] if callbacks else []
    wanted = {**data, SETTINGS: {**known, "callbacks": [*others, CALLBACK]}}
    candidates = _iter_candidates(said, line) if SETTINGS in data else _iter_added(said)
    for changed in candidates:
        if _is_equivalent(changed, wanted):
            return changed
    raise _NotWrittenError(f"add {CALLBACK} to {SETTINGS}.callbacks by hand")


def _iter_added(said: str) -> Iterator[str]:
    """Yield texts that may have settings of their own: at the end, or in a config of one line."""
    gap = "" if not said else "\n" if said.endswith("\n") else "\n\n"
    yield f"{said}{gap}{LINES}"
    for gap in (", ", ""):  # there may be other keys, or none
        yield said.replace("{", f"{{{SETTINGS}: {{{ENTRY}}}{gap}", 1)


def _iter_candidates(said: str, line: int) -> Iterator[str]:
    """Yield texts that may have the callback: below a line, in one-line settings, in a list."""
    lines = said.splitlines()
    below = lines[line] if line < len(lines) else ""
    indent = below[: len(below) - len(below.lstrip(" "))] or "  "
    yield "\n".join([*lines[:line], f"{indent}{ENTRY}", *lines[line:], ""])
    start = sum(map(len, said.splitlines(keepends=True)[: max(0, line - 1)]))
    before, after = said[:start], said[start:]
    for gap in (", ", ""):  # there may be other settings, or none
        yield before + re.sub(_OPENED, rf"\1{ENTRY}{gap}", after, count=1)
    yield before + re.sub(_LIST, rf"\1, {CALLBACK}]", after, count=1)
    yield before + re.sub(_ONE, rf"\1[\2, {CALLBACK}]", after, count=1)


def _is_equivalent(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return _read_settings(text)[0] == wanted
    except _NotWrittenError:
        return False


def _read_settings(text: str) -> tuple[dict[str, Any], int]:
    """Return a config, and the line on which its settings begin."""
    from checkrail.config.nodes import UnreadableError
    from checkrail.config.problems import Report
    from checkrail.config.yaml_text import parse_yaml

    report = Report("config.yaml")
    try:
        data, lines = parse_yaml(text, report)
    except UnreadableError as error:
        raise _NotWrittenError(f"it cannot be read: {error}") from None
    if report.problems or not isinstance(data, dict | None):
        raise _NotWrittenError("it is no config of LiteLLM, which is a mapping in YAML")
    return data or {}, lines.get((SETTINGS,), 0)
