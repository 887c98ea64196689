"""What is wrong with a call's arguments, told so that a model can mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.engine.errors import suggestion

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SHOWN = 80
UNEXPECTED = ("extra_forbidden", "unexpected_keyword_argument")


def told(tool: str, problems: Iterable[ErrorDetails], given: Any, known: Sequence[str]) -> str:
    """List each problem: where it is, what was found there and what was expected."""
    by_place: dict[str, list[ErrorDetails]] = {}
    for problem in problems:
        by_place.setdefault(_place(problem["loc"], given), []).append(problem)
    lines = [f"- {place}: {_line(found, known)}" for place, found in by_place.items()]
    return "\n".join([f"the arguments of {tool!r} do not fit:", *lines])


def _place(loc: tuple[int | str, ...], data: Any) -> str:
    """Write a path; names of a union's members are no part of it, and are left out."""
    text = ""
    for number, part in enumerate(loc):
        if isinstance(part, int) and isinstance(data, (list, tuple)):
            text += f"[{part}]"
            data = data[part] if part < len(data) else None
        elif isinstance(data, Mapping) and (part in data or number == len(loc) - 1):
            text += f".{part}"
            data = data.get(part)
    return text.removeprefix(".") or "arguments"


def _line(problems: list[ErrorDetails], known: Sequence[str]) -> str:
    first = problems[0]
    if first["type"] == "missing":
        return "missing, expected a value: it has no default"
    if first["type"] in UNEXPECTED:
        if len(first["loc"]) > 1:
            return "unexpected"
        near = suggestion(str(first["loc"][-1]), known)
        return f"unexpected{near}, expected only: {', '.join(known) or 'nothing'}"
    expected = " or ".join(dict.fromkeys(_expected(problem["msg"]) for problem in problems))
    return f"found {shown(first['input'])}, expected {expected}"


def shown(given: Any) -> str:
    """Show what was given, in few words."""
    text = repr(given)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _expected(message: str) -> str:
    for start in ("Input should be ", "Value error, ", "Assertion failed, "):
        message = message.removeprefix(start)
    return message.partition(", unable to")[0]
