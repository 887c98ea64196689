"""Simple JSON paths: `args.amount`, `$.args.items[0].price`, `messages[-1].content`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkrail.actions.errors import ActionError
from checkrail.actions.expression_fields import kind_of
from checkrail.engine.errors import suggestion
from checkrail.engine.points import Contract
from checkrail.engine.values import Value, plain

_STEP = re.compile(
    r"""
      (?:\.|^) (?P<key> [^.\[\]$\s'"*]+ )
    | \[ (?P<index> -?\d+ | \* ) \]
    | \[ (?: '(?P<single>[^']+)' | "(?P<double>[^"]+)" ) \]
    """,
    re.VERBOSE,
)
_FORMS = "Write it as in args.amount, items[0].price, messages[-1].content or $['a key']"

Step = str | int
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Path:
    """Where in a value something is; `rooted`: it was written with its `$`."""

    text: str
    steps: tuple[Step, ...]
    rooted: bool

    def __str__(self) -> str:
        return self.text


def parse_path(text: Any, *, wild: bool = False) -> Path:
    """Parse a path, or raise where it is wrong; a `wild` one may have `[*]` for every item."""
    if not isinstance(text, str):
        raise ActionError(f"a path is a text, not {kind_of(text)}", _FORMS)
    rooted = text.startswith("$")
    rest = text[1:] if rooted else text
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        begins = rest[0] in ".[" if rooted else rest[0] not in ".["
        if not begins or found is None or (found["index"] == EVERY and not wild):
            problem = f"the path {text!r} is wrong at column {at + rooted + 1}"
            raise ActionError(problem, _FORMS)
        steps.append(_parse_step(found))
        at = found.end()
    if not steps:
        raise ActionError(f"the path {text!r} leads nowhere", _FORMS)
    return Path(text, tuple(steps), rooted)


def _parse_step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return EVERY if found["index"] == EVERY else int(found["index"])
    return found["key"] or found["single"] or found["double"]


def is_valid_at(path: Path, contract: Contract) -> bool:
    """Return whether a path can lead anywhere in the values of a point."""
    try:
        relative_path(path, contract)
    except ActionError:
        return False
    return True


def relative_path(path: Path, contract: Contract) -> Path:
    """Return a path from the value on; it may begin with the value's name, as in `when`.

    The name alone stands for the whole value. With `$` in front it is the name of a key.
    """
    fields = getattr(contract.value, "__slots__", None)
    if path.steps[0] == contract.wire and not path.rooted and contract.wire not in (fields or ()):
        path = Path(path.text, path.steps[1:], rooted=True)
    if fields is None or not path.steps or path.steps[0] in fields:
        return path
    first = str(path.steps[0])
    problem = f"the path {path.text!r} leads nowhere at {contract.point}: "
    problem += f"a {contract.value.__name__} has no {first!r}{suggestion(first, fields)}"
    raise ActionError(problem, f"It has: {', '.join(fields)}")


class _Absent(Exception):
    """There is nothing where the path leads."""


def assign_path(value: Any, path: Path, new: Any) -> Any:
    """Return a copy of a value with something set; missing keys are made, missing items are not."""
    try:
        return _assign_steps(value, path.steps, new)
    except _Absent as absent:
        problem = f"{path.text!r} cannot be set: {absent}"
        raise ActionError(problem, "Guard the rule with `when`, or mend the path") from None


def _assign_steps(value: Any, steps: tuple[Step, ...], new: Any) -> Any:
    if not steps:
        return new
    step, *rest = steps
    if value is None and isinstance(step, str):
        value = {}
    inner = _find_part(value, step)
    return _with_part(value, step, _assign_steps(inner, tuple(rest), new))


def _find_part(value: Any, step: Step) -> Any:
    if isinstance(value, Value):
        if step not in value.__slots__:
            raise _Absent(f"a {type(value).__name__} has no field {step!r}")
        return getattr(value, str(step))
    data = _to_data(value)
    if isinstance(data, Mapping) and isinstance(step, str):
        return data.get(step)
    if isinstance(data, (list, tuple)) and isinstance(step, int):
        if not -len(data) <= step < len(data):
            raise _Absent(f"there is no item {step} in a list of {len(data)}")
        return data[step]
    wanted = "a list" if isinstance(step, int) else "an object"
    raise _Absent(f"{step!r} needs {wanted}, but found {kind_of(value)}")


def _with_part(value: Any, step: Step, new: Any) -> Any:
    if isinstance(value, Value):
        return dataclasses.replace(value, **{str(step): new})  # type: ignore[type-var]
    data = _to_data(value)
    if isinstance(data, Mapping):
        return {**data, step: new}
    items = list(data)
    items[int(step)] = new
    return items


def _to_data(value: Any) -> Any:
    """Return an object of another library as the data that it holds."""
    return value if isinstance(value, (Mapping, list, tuple)) else plain(value)
