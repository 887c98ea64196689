"""What people type, read line by line, and what is shown to them as it comes."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator

PROMPT = "> "
YES = frozenset({"y", "yes"})


def read_lines() -> Iterator[str]:
    """Yield the input line by line: typed at a prompt, or from a file or a pipe."""
    if sys.stdin.isatty():
        yield from _prompt_lines()
        return
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    for line in sys.stdin:
        if line.strip():
            yield line.strip()


def _prompt_lines() -> Iterator[str]:
    """Yield lines from a prompt until the person leaves, with Ctrl-D or Ctrl-C."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - input() uses it from here on
    while True:
        try:
            line = input(PROMPT) if sys.stdout.isatty() else _prompt_on_stderr()
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)  # noqa: T201 - the prompt's line ends here
            return
        if line.strip():
            yield line.strip()


def _prompt_on_stderr() -> str:
    """Prompt where standard output is for machines."""
    sys.stderr.write(PROMPT)
    sys.stderr.flush()
    return input()


def discard_typed() -> None:
    """Discard what was typed before the question was shown."""
    with contextlib.suppress(ImportError, OSError):
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Signs that would draw on the terminal, or turn the text around."""


def escape_controls(text: str) -> str:
    """Return a text in which no sign draws on the terminal, nor turns the text around."""
    return UNSAFE.sub(_escape_character, text)


def _escape_character(sign: re.Match[str]) -> str:
    return sign[0].encode("unicode_escape").decode()
