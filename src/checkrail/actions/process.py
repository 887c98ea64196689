"""Running a program: what it is told, what it says, and its certain end.

The pipes are our own and not asyncio's, which wait for every process that inherited them: a
program may leave others behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

CHUNK = 65536
LEFT = 32
"""How many chunks are read after the end: more than a pipe can hold."""


class TooMuchOutputError(Exception):
    """A program wrote more than anybody wants to read."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code, negative for a signal, and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes


class _Pipe:
    """A pipe with one end for us, and one for the program."""

    def __init__(self, ours: int, theirs: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.ours: int | None = ours
        self.theirs: int | None = theirs
        os.set_blocking(ours, False)

    def hand_over(self) -> None:
        """Close the program's end here, once the program has it."""
        if self.theirs is not None:
            os.close(self.theirs)
            self.theirs = None

    def close(self) -> None:
        """Leave nothing open."""
        self.hand_over()
        if self.ours is not None:
            self.loop.remove_reader(self.ours)
            self.loop.remove_writer(self.ours)
            os.close(self.ours)
            self.ours = None


class _Input(_Pipe):
    """What the program is told; it need not listen to the end."""

    def __init__(self, data: bytes) -> None:
        theirs, ours = os.pipe()
        super().__init__(ours, theirs)
        self.left = memoryview(data)
        self.loop.add_writer(ours, self._write, ours)

    def _write(self, ours: int) -> None:
        try:
            self.left = self.left[os.write(ours, self.left[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.left = self.left[:0]
        if not self.left:
            self.close()


class _Output(_Pipe):
    """What the program says, up to a limit; then `overflow` is called, if there is one.

    Without `overflow` the last of it is kept.
    """

    def __init__(self, limit: int) -> None:
        ours, theirs = os.pipe()
        super().__init__(ours, theirs)
        self.limit = limit
        self.kept = bytearray()
        self.overflow: Callable[[], None] | None = None
        self.loop.add_reader(ours, self.read)

    def read(self) -> bool:
        """Read one chunk, and say whether there was one."""
        if self.ours is None:
            return False
        try:
            data = os.read(self.ours, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
        self.kept += data
        if len(self.kept) > self.limit:
            self._full()
        return bool(data)

    def _full(self) -> None:
        if self.overflow is None:
            del self.kept[: -self.limit]
        else:
            self.close()
            self.overflow()

    def drain(self) -> None:
        """Read what is left after the program's end; others may still write, without end."""
        for _ in range(LEFT):
            if not self.read():
                return


async def run(
    argv: Sequence[str],
    data: bytes,
    *,
    cwd: Path | None,
    env: Mapping[str, str],
    limits: tuple[int, int],
) -> Ended:
    """Run a program to its end; cancelled, it is killed with all that it started.

    `limits` are for its output, which it must not exceed, and for its errors.
    """
    with ExitStack() as stack:
        told, out, err = _Input(data), _Output(limits[0]), _Output(limits[1])
        for pipe in (told, out, err):
            stack.callback(pipe.close)
        process = await _started(argv, (told, out, err), cwd, env)
        out.overflow = lambda: _kill(process)
        for pipe in (told, out, err):
            pipe.hand_over()
        try:
            code = await process.wait()
        except BaseException:
            await _killed(process)
            raise
        out.drain()
        err.drain()
        if len(out.kept) > limits[0]:
            raise TooMuchOutputError(limits[0])
        return Ended(code, bytes(out.kept), bytes(err.kept))


async def _started(
    argv: Sequence[str],
    pipes: tuple[_Pipe, _Pipe, _Pipe],
    cwd: Path | None,
    env: Mapping[str, str],
) -> Process:
    stdin, stdout, stderr = (pipe.theirs for pipe in pipes)
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            start_new_session=True,
        ),
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            await _killed(await starting)
        raise


def _kill(process: Process) -> None:
    """Kill a program and its whole group, whatever signals they ignore."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


async def _killed(process: Process) -> None:
    _kill(process)
    await process.wait()
