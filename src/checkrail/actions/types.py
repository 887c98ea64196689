"""The types of actions that a file can declare: their fields, and how a hook is made of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from checkrail.actions.command import command
from checkrail.actions.errors import ActionError
from checkrail.actions.models import (
    AgentFields,
    ApprovalFields,
    CommandFields,
    HttpFields,
    PythonFields,
    RuleFields,
)
from checkrail.actions.python import load
from checkrail.actions.rule import rule
from checkrail.actions.shapes import explain
from checkrail.engine.outcomes import Ask
from checkrail.engine.points import Decision

Points = tuple[str, ...]
Made = tuple[Callable[..., Any], frozenset[Decision] | None]
"""A hook's function, and the decisions that it can take where that is known."""


@dataclass(frozen=True, slots=True)
class ActionType:
    """One type of action; `served` says that it needs a server that is not there yet."""

    name: str
    fields: type[BaseModel]
    make: Callable[[Any, Points, Path | None], Made]
    served: bool = False

    def build(self, given: Mapping[str, Any], points: Points, base: Path | None = None) -> Made:
        """Make the hook that these fields describe; paths in them are relative to `base`."""
        try:
            read = self.fields.model_validate(dict(given))
        except ValidationError as error:
            told = explain(error, given, self.fields.model_fields)
            keys = ", ".join(sorted(self.fields.model_fields))
            raise ActionError(f"the {self.name} action is wrong {told}", f"Keys: {keys}") from None
        return self.make(read, points, base)


def _python(fields: PythonFields, _points: Points, base: Path | None) -> Made:
    found = load(fields.reference, base)
    if not callable(found):
        problem = f"{fields.reference!r} is {type(found).__name__}, which cannot be called"
        raise ActionError(problem, "Name a function, or an object that can be called")
    return found, None


def _rule(fields: RuleFields, points: Points, _base: Path | None) -> Made:
    return rule(fields.model_dump(exclude_unset=True, by_alias=True), points)


def _command(fields: CommandFields, _points: Points, base: Path | None) -> Made:
    cwd = (base or Path.cwd()) / fields.cwd if fields.cwd is not None else base
    return command(fields.command, cwd=cwd, env=fields.env), None


def _approval(fields: ApprovalFields, _points: Points, _base: Path | None) -> Made:
    question = Ask(fields.question, fields.timeout, fields.on_deny, fields.on_timeout)
    return lambda _event: question, frozenset({Decision.ASK})


def _unserved(fields: BaseModel, _points: Points, _base: Path | None) -> NoReturn:
    what = "an agent" if isinstance(fields, AgentFields) else "an http"
    problem = f"{what} action needs a run server, and this version has none"
    raise ActionError(problem, "Use a python, rule or command action until then")


ACTION_TYPES: dict[str, ActionType] = {
    made.name: made
    for made in (
        ActionType("python", PythonFields, _python),
        ActionType("rule", RuleFields, _rule),
        ActionType("command", CommandFields, _command),
        ActionType("http", HttpFields, _unserved, served=True),
        ActionType("agent", AgentFields, _unserved, served=True),
        ActionType("approval", ApprovalFields, _approval),
    )
}
