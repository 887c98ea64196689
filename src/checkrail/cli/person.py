"""The person at the terminal: what they type, and what hooks ask them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator

from checkrail.cli.show import console, shown
from checkrail.engine.asks import Approval, Question
from checkrail.engine.values import plain

PROMPT = "> "
YES = frozenset({"y", "yes"})


def lines() -> Iterator[str]:
    """Yield what is said, line by line: typed at a prompt, or from a file or a pipe."""
    if sys.stdin.isatty():
        yield from _typed()
        return
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    for line in sys.stdin:
        if line.strip():
            yield line.strip()


def _typed() -> Iterator[str]:
    """Prompt until the person leaves, with Ctrl-D or Ctrl-C."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - input() uses it from here on
    while True:
        try:
            line = input(PROMPT) if sys.stdout.isatty() else _prompted()
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)  # noqa: T201 - the prompt's line ends here
            return
        if line.strip():
            yield line.strip()


def _prompted() -> str:
    """Prompt where standard output is for machines."""
    sys.stderr.write(PROMPT)
    sys.stderr.flush()
    return input()


class Desk:
    """Puts questions of hooks to the person, one after the other; only yes is yes."""

    def __init__(self, hide: Callable[[str], str], before: Callable[[], None]) -> None:
        self._hide = hide
        self._before = before
        self._lock = asyncio.Lock()

    async def ask(self, question: Question) -> Approval:
        """Show the very value that is asked about, and wait for the answer."""
        async with self._lock:
            self._before()
            _forget_typed()
            value = json.dumps(plain(question.value), ensure_ascii=False)
            out = console(stderr=True)
            told = f"{question.hook} at {question.point} asks: {question.reason}"
            out.print(shown(self._hide(told)), style="bold yellow")
            out.print(shown(self._hide(value)))
            out.print("Let it pass? [y/N] ", style="bold yellow", end="")
            answer = await _answer()
        return Approval(approved=answer.strip().lower() in YES)


async def _answer() -> str:
    """Read a line without holding anything up, so that the wait for it can be cancelled."""
    file, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(file, typed.set)
    try:
        await typed.wait()
        return os.read(file, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(file)


def _forget_typed() -> None:
    """Forget what was typed before the question was there: it is no answer to it."""
    with contextlib.suppress(ImportError, OSError):
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
