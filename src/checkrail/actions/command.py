"""Hooks that are programs: the event is JSON on their input, their answer JSON on their output."""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from checkrail.actions.errors import ActionError
from checkrail.actions.process import (
    NOT_FOUND,
    ProcessResult,
    TooMuchOutputError,
    build_environment,
    describe_exit,
    describe_start_error,
    missing_interpreter,
    printable_text,
    run_program,
)
from checkrail.actions.wire import encode_request, parse_answer, render_event
from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block, Outcome
from checkrail.engine.points import CONTRACTS

STDOUT_LIMIT = 1 << 20
STDERR_LIMIT = 4096
REFUSED = 2
"""The exit code that blocks, with what was written to stderr as the reason."""


def command(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Callable[[Event[Any]], Awaitable[Outcome | None]]:
    """Build a hook from a program; there is no shell, and nothing that it started outlives it.

    That is, nothing outlives its cancellation; what it leaves behind on purpose is let be.
    """
    program = _check_argv(argv)

    async def call_program(event: Event[Any]) -> Outcome | None:
        told = encode_request(render_event(event))
        limits, around = (STDOUT_LIMIT, STDERR_LIMIT), build_environment(env)
        try:
            ended = await run_program(program, told, cwd=cwd, env=around, limits=limits)
        except TooMuchOutputError:
            problem = f"{program[0]} wrote more than {STDOUT_LIMIT} bytes to its output"
            raise InvalidOutcomeError(f"{problem}: answer with one JSON object") from None
        except OSError as error:
            raise UnreachableError(describe_start_error(program, cwd, error, around)) from error
        if ended.code == NOT_FOUND and (missing := missing_interpreter(program[0], cwd, around)):
            raise UnreachableError(": ".join(missing))
        return _parse_answer(event, program, ended)

    return call_program


def _check_argv(argv: Any) -> tuple[str, ...]:
    if isinstance(argv, str):
        problem = f"a command is a list, not the text {argv!r}"
        raise ActionError(problem, f"There is no shell: write {shlex.split(argv)}")
    words = tuple(argv)
    if not words or not words[0]:
        raise ActionError("the command is empty", "Name the program and its arguments, as a list")
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise ActionError(f"{word!r} cannot be part of a command", "Every part is a text")
    return words


def _parse_answer(
    event: Event[Any], program: tuple[str, ...], ended: ProcessResult
) -> Outcome | None:
    observing = event.verdict is not None
    if ended.code == 0:
        if observing and not ended.stdout.strip():
            return None
        data = _parse_output(program, ended.stdout)
        return parse_answer(event.point, data, event.value, observing=observing)
    if ended.code == REFUSED and CONTRACTS[event.point].block and not observing:
        return Block(printable_text(ended.stderr))
    said, how = printable_text(ended.stderr), f"{program[0]} {describe_exit(ended.code)}"
    raise ActionError(f"{how}: {said}" if said else how, public=how)


def _parse_output(program: tuple[str, ...], written: bytes) -> Any:
    """Parse the output as JSON; an empty one is refused: the program may not have got that far."""
    if not written.strip():
        told = f'{program[0]} wrote nothing. Answer with one JSON object: {{"action": "continue"}}'
        raise InvalidOutcomeError(told)
    try:
        return json.loads(written, parse_constant=_refuse_constant)
    except ValueError as error:
        # what it wrote instead may be anything, and the reason of a refusal goes to the caller
        problem = f"{program[0]} wrote {len(written)} bytes that are no JSON ({error})"
        raise InvalidOutcomeError(
            f'{problem}. Answer with one JSON object, such as {{"action": "continue"}}'
        ) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
