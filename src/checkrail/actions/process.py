"""Running a program: what it is told, what it says, and its certain end.

The pipes are our own and not asyncio's, which wait for every process that inherited them: a
program may leave others behind.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

CHUNK = 65536
LEFT = 32
"""How many chunks are read after the end: more than a pipe can hold."""

LOOKED_AT = 0.02
"""How often it is seen whether a group that was asked to end is gone, in seconds."""

PASSED_ON = ("PATH", "HOME", "LANG")
"""What a program sees of this process's environment; the rest may be secret."""

Stream = Literal["stdout", "stderr"]
Heard = Callable[[Stream, bytes], None]
"""Is told what a program writes, as it comes; if it raises, the program is killed."""


class TooMuchOutputError(Exception):
    """A program wrote more than anybody wants to read."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
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
    """What is written to the program; it need not read to the end."""

    def __init__(self, data: bytes) -> None:
        theirs, ours = os.pipe()
        super().__init__(ours, theirs)
        self.left = memoryview(data)

    def start_writing(self) -> None:
        """Begin to write: not before the program has its end, for that is closed with ours."""
        if self.ours is not None:
            self.loop.add_writer(self.ours, self._write_chunk, self.ours)

    def _write_chunk(self, ours: int) -> None:
        try:
            self.left = self.left[os.write(ours, self.left[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.left = self.left[:0]
        if not self.left:
            self.close()


class _Output(_Pipe):
    """What the program writes, up to a limit; then it is killed, or the last of it is kept.

    `heard` is told all of it, as it comes.
    """

    def __init__(self, limit: int, heard: Callable[[bytes], None] | None, *, last: bool) -> None:
        ours, theirs = os.pipe()
        super().__init__(ours, theirs)
        self.limit = limit
        self.heard = heard
        self.last = last
        self.kept = bytearray()
        self.kill: Callable[[], None] = lambda: None
        self.error: Exception | None = None
        self.loop.add_reader(ours, self.read_chunk)

    def read_chunk(self) -> bool:
        """Read one chunk, and return whether there was one."""
        if self.ours is None:
            return False
        try:
            data = os.read(self.ours, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        try:
            self._store_chunk(data)
        except Exception as error:  # noqa: BLE001 - it is raised where the program is waited for
            self.error = error
            self.close()
            self.kill()
        return True

    def _store_chunk(self, data: bytes) -> None:
        if self.heard is not None:
            self.heard(data)
        self.kept += data
        if len(self.kept) <= self.limit:
            return
        if not self.last:
            raise TooMuchOutputError(self.limit)
        del self.kept[: -self.limit]

    def drain(self) -> None:
        """Read what is left after the program's end; others may still write, without end."""
        for _ in range(LEFT):
            if not self.read_chunk():
                return


async def run_program(
    argv: Sequence[str],
    data: bytes,
    *,
    cwd: Path | None,
    env: Mapping[str, str],
    limits: tuple[int, int],
    heard: Heard | None = None,
    grace: float = 0.0,
) -> ProcessResult:
    """Run a program to its end; cancelled, it is killed with all that it started.

    `limits` are for its output, which it must not exceed, and for its errors. `grace` is how long
    it has to end by itself when it is cancelled, in seconds.
    """
    with ExitStack() as stack:
        told = _Input(data)
        stack.callback(told.close)
        out = _Output(limits[0], heard and partial(heard, "stdout"), last=False)
        stack.callback(out.close)
        err = _Output(limits[1], heard and partial(heard, "stderr"), last=True)
        stack.callback(err.close)
        process = await _start_program(argv, (told, out, err), cwd, env, grace)
        out.kill = err.kill = partial(_kill_group, process)
        if out.error is not None or err.error is not None:  # it was quicker than we were
            _kill_group(process)
        for pipe in (told, out, err):
            pipe.hand_over()
        told.start_writing()
        try:
            code = await process.wait()
        except BaseException:
            await _end_program(process, grace)
            raise
        for pipe in (out, err):
            pipe.drain()
            if pipe.error is not None:
                raise pipe.error
        return ProcessResult(code, bytes(out.kept), bytes(err.kept))


async def _start_program(
    argv: Sequence[str],
    pipes: tuple[_Pipe, _Pipe, _Pipe],
    cwd: Path | None,
    env: Mapping[str, str],
    grace: float,
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
        with suppress(OSError, ValueError):
            await _end_program(await starting, grace)  # it may be at work already
        raise


def _kill_group(process: Process) -> None:
    """Kill a program and its whole group, whatever signals they ignore."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGKILL)


async def _end_program(process: Process, grace: float = 0.0) -> None:
    """Wait until a program and its group have ended; with `grace` they get a SIGTERM first."""
    if process.returncode is not None:
        return
    gone = False
    try:
        gone = grace > 0 and await _terminate_group(process, grace)
    finally:
        if not gone:
            _signal_group(process.pid, signal.SIGKILL)
        await process.wait()


async def _terminate_group(process: Process, grace: float) -> bool:
    """Send SIGTERM to a program and its group, and return whether all of them ended in time."""
    _signal_group(process.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(grace):
            await process.wait()
            while _signal_group(process.pid, 0):  # noqa: ASYNC110 - nobody tells of others in its group
                await asyncio.sleep(LOOKED_AT)
    except TimeoutError:
        return False
    return True


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a group of processes, and return whether it exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody who is no longer ours to signal
    return True


NOT_FOUND = 127
"""The exit code of `env` where the interpreter that a script names is missing."""


def build_environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment of a program: a little of ours, and `env`."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | dict(env or {})


def describe_start_error(
    argv: Sequence[str], cwd: Path | None, error: OSError, env: Mapping[str, str]
) -> str:
    """Return why a program could not be started, and what to do."""
    program = argv[0]
    if cwd is not None and not cwd.is_dir():
        return f"{program} could not be started in {cwd}: there is no such folder"
    if isinstance(error, FileNotFoundError):
        return _describe_missing(program, cwd, env)
    if isinstance(error, PermissionError):
        return f"{program} is not executable: chmod +x, or name its interpreter first"
    if error.errno == errno.ENOEXEC:
        remedy = "begin a script with a line such as #!/usr/bin/env python3"
        return f"{program} is neither a program nor a script with an interpreter: {remedy}"
    return f"{program} could not be started: {error.strerror or error}"


def _describe_missing(program: str, cwd: Path | None, env: Mapping[str, str]) -> str:
    """Return what is missing to start a program: itself, or what its file needs."""
    if found := missing_interpreter(program, cwd, env):
        return ": ".join(found)
    if _first_line(program, cwd, env) is None:
        return f"there is no program {program}: install it, or name its whole path"
    return f"{program} cannot be started here: it may be built for another system"


def missing_interpreter(
    program: str, cwd: Path | None, env: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return the problem and the remedy if a program is a script whose interpreter is missing.

    One that is named by way of `env` is looked for on the PATH.
    """
    first = _first_line(program, cwd, env) or ""
    words = first[2:].rstrip("\n").strip(" \t").split(" ") if first.startswith("#!") else []
    if not words:
        return None
    interpreter, *rest = words
    if Path(interpreter).name == "env":
        named = (word for word in rest if word and not word.startswith("-") and "=" not in word)
        interpreter = next(named, interpreter)
    if _first_line(interpreter, cwd, env) is not None:
        return None
    problem = f"the interpreter {interpreter!r} of the script {program} is not there"
    if interpreter.endswith("\r"):
        return problem, "end the lines of the script with LF, not with CR LF"
    return problem, "install it, or correct the first line of the script"


def _first_line(program: str, cwd: Path | None, env: Mapping[str, str]) -> str | None:
    """Return the first line of a program's file, None where there is none that can be read."""
    import shutil  # slow to import, and only needed where something is wrong

    file = (cwd or Path.cwd()) / program
    if os.sep not in program:
        file = Path(shutil.which(program, path=env.get("PATH")) or "")
    try:
        with file.open("rb") as lines:
            return lines.readline(256).decode(errors="replace")
    except OSError:
        return None


def printable_text(written: bytes) -> str:
    """Return what a program wrote as a text that is safe to show."""
    text = written.decode(errors="replace")
    return "".join(sign for sign in text if sign.isprintable() or sign in "\n\t").strip()


def describe_exit(code: int) -> str:
    """Return how a program ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
