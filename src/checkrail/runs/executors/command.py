"""A program as the body of a run: started without a shell, told as it goes, certain to end."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from checkrail.actions.process import (
    NOT_FOUND,
    ProcessResult,
    Stream,
    TooMuchOutputError,
    build_environment,
    describe_exit,
    describe_start_error,
    missing_interpreter,
    printable_text,
    run_program,
)
from checkrail.actions.wire import encode_request
from checkrail.engine.values import plain
from checkrail.runs.execute.job import Emit, Job, JobResult
from checkrail.runs.executors.query import InvalidParameters

STDOUT_LIMIT = 1 << 20
STDERR_LIMIT = 4096
TOLD_LIMIT = 1 << 20
"""How much of its errors a program may have told while it runs."""

UNTOLD = b"\n[the rest is not told]\n"

GRACE = 5.0
"""How long a program has to end by itself when its run is cancelled, in seconds."""

_NAME = re.compile(r"[^\W_][\w.-]*")
_OPEN = frozenset(
    {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"}
)
"""Where a schema has these, it says itself which names there may be besides its `properties`."""


async def run_command(work: Job, base: Path) -> JobResult:
    """Run an agent's program in its folder, which is relative to `base`.

    Its parameters are JSON on its input, or arguments. What it writes is told as it comes. If it
    ends well, its output is the run's: as data if it is JSON, else as text. Cancelled, it and all
    that it started are asked to end, and killed if they do not.
    """
    agent = work.agent
    cwd = base / (agent.cwd or "")
    listener = _OutputEvents(work.emit)
    env = build_environment(agent.env) | _environment(work)
    try:
        argv, data = _command_line(work)
        ended = await run_program(
            argv,
            data,
            cwd=cwd,
            env=env,
            limits=(STDOUT_LIMIT, STDERR_LIMIT),
            heard=listener.feed,
            grace=GRACE,
        )
        listener.flush()
    except InvalidParameters as error:
        return JobResult(error=str(error), error_type=type(error).__name__)
    except TooMuchOutputError:
        problem = f"{agent.command[0]} wrote more than {STDOUT_LIMIT} bytes to its output"
        remedy = "write less, or a file and its name"
        return JobResult(error=f"{problem} and was ended: {remedy}", error_type="TooMuchOutput")
    except OSError as error:
        return _error_result(describe_start_error(agent.command, cwd, error, env))
    if ended.code == NOT_FOUND and (missing := missing_interpreter(argv[0], cwd, env)):
        return _error_result(": ".join(missing))
    return _to_result(agent.command[0], ended)


def _to_result(program: str, ended: ProcessResult) -> JobResult:
    if ended.code == 0:
        return JobResult(_parse_output(ended.stdout))
    said = printable_text(ended.stderr)
    return _error_result(f"{program} {describe_exit(ended.code)}{f': {said}' if said else ''}")


def _error_result(error: str) -> JobResult:
    return JobResult(error=error, error_type="CommandFailed")


def _parse_output(written: bytes) -> Any:
    """Read what a program wrote: as JSON if it is, else as text without the last line's end."""
    text = written.decode(errors="replace")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text.rstrip("\r\n")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _environment(work: Job) -> dict[str, str]:
    """Return the environment variables that describe a run to its program."""
    told = {
        "CHECKRAIL_RUN_ID": work.run_id,
        "CHECKRAIL_IDEMPOTENCY_KEY": work.idempotency_key,
        "CHECKRAIL_SCOPE": json.dumps(plain(work.context)),
    }
    return told if work.session_id is None else told | {"CHECKRAIL_SESSION_ID": work.session_id}


def _command_line(work: Job) -> tuple[list[str], bytes]:
    """Return the arguments of a command, and what is written to its standard input."""
    agent = work.agent
    given = plain(work.parameters)
    if agent.parameters_as != "arguments":
        return [*agent.command], encode_request(given)
    if not isinstance(given, Mapping):
        problem = f"the parameters of {agent.name!r} become arguments by their names"
        raise InvalidParameters(f"{problem}: send an object, not {type(given).__name__}")
    known = _declared_options(agent.parameters_schema)
    words = [word for name, value in given.items() for word in _option_words(name, value, known)]
    return [*agent.command, *words], b""


def _declared_options(schema: Mapping[str, Any] | None) -> Container[str] | None:
    """Return the parameters that may become options; None: the schema has checked it.

    An option that nobody thought of might do anything: who may call an agent is not to choose it.
    """
    if schema is None:
        return {"prompt", "messages"}
    return schema.get("properties") or () if _OPEN.isdisjoint(schema) else None


def _option_words(name: str, value: Any, known: Container[str] | None) -> Iterator[str]:
    if not _NAME.fullmatch(name) or (known is not None and name not in known):
        problem = f"the parameter {name!r} is no option of the command"
        raise InvalidParameters(f"{problem}: declare it in `properties` of parameters_schema")
    if isinstance(value, list):
        for item in value:
            yield from _option(name, item)
    elif value is True:
        yield f"--{name}"
    elif value is not False and value is not None:
        yield from _option(name, value)


def _option(name: str, value: Any) -> tuple[str, ...]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\0" in text or not _can_be_encoded(text):
        problem = f"the parameter {name!r} holds characters that no argument can have"
        raise InvalidParameters(f"{problem}: leave them out, or take parameters on stdin")
    if text.startswith("-"):  # apart, it would be taken for another option
        return (f"--{name}={text}",)
    return f"--{name}", text


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _OutputEvents:
    """Emits what a program writes, in whole characters, and a limited amount of its errors."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: decoder("replace") for name in ("stdout", "stderr")}
        self._room = TOLD_LIMIT

    def feed(self, stream: Stream, data: bytes) -> None:
        """Emit what was written."""
        if stream == "stderr":
            data = self._within_limit(data)
        self._emit_text(stream, self._decoders[stream].decode(data))

    def flush(self) -> None:
        """Emit what is left of characters that were cut off."""
        for stream, decoder in self._decoders.items():
            self._emit_text(stream, decoder.decode(b"", final=True))

    def _within_limit(self, data: bytes) -> bytes:
        room, self._room = self._room, self._room - len(data)
        if len(data) <= room:
            return data
        return b"" if room < 0 else data[:room] + UNTOLD

    def _emit_text(self, stream: str, text: str) -> None:
        if text:
            self._emit("custom", (), {"type": stream, "text": text})
