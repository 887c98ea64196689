"""The types of actions that a file can declare: their fields, and how a hook is made of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from checkrail.actions.agent import agent
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
from checkrail.actions.outside import Outside
from checkrail.actions.python import load
from checkrail.actions.rule import rule
from checkrail.actions.value_models import explain_error
from checkrail.engine.outcomes import Ask
from checkrail.engine.points import Decision

Points = tuple[str, ...]
Made = tuple[Callable[..., Any], frozenset[Decision] | None]
"""A hook's function, and the decisions that it can take where that is known."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a hook is made: for which points and how much time, and what it may use.

    Paths are relative to `base`; `timeout` is the hook's own, if it is known. `signer` is whose
    secret signs its requests, unless that is the server's.
    """

    points: Points
    base: Path | None = None
    outside: Outside = field(default_factory=Outside)
    timeout: float | None = None
    signer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionType:
    """One type of action; `served`: it works on the run server only."""

    name: str
    fields: type[BaseModel]
    make: Callable[[Any, Setting], Made]
    served: bool = False

    def build(
        self,
        given: Mapping[str, Any],
        points: Points,
        base: Path | None = None,
        *,
        outside: Outside | None = None,
        timeout: float | None = None,
        signer: tuple[str, ...] = (),
    ) -> Made:
        """Build the hook that these fields describe."""
        try:
            read = self.fields.model_validate(dict(given))
        except ValidationError as error:
            told = explain_error(error, given, self.fields.model_fields)
            keys = ", ".join(sorted(self.fields.model_fields))
            raise ActionError(f"the {self.name} action is wrong {told}", f"Keys: {keys}") from None
        return self.make(read, Setting(points, base, outside or Outside(), timeout, signer))


def _build_python(fields: PythonFields, setting: Setting) -> Made:
    found = load(fields.reference, setting.base)
    if not callable(found):
        problem = f"{fields.reference!r} is {type(found).__name__}, which cannot be called"
        raise ActionError(problem, "Name a function, or an object that can be called")
    return found, None


def _build_rule(fields: RuleFields, setting: Setting) -> Made:
    return rule(fields.model_dump(exclude_unset=True, by_alias=True), setting.points)


def _build_command(fields: CommandFields, setting: Setting) -> Made:
    base = setting.base
    cwd = (base or Path.cwd()) / fields.cwd if fields.cwd is not None else base
    return command(fields.command, cwd=cwd, env=fields.env), None


def _build_http(fields: HttpFields, setting: Setting) -> Made:
    from checkrail.actions.http import http  # what it needs to connect, other hooks do not

    made = http(
        fields.url,
        method=fields.method,
        headers=fields.headers,
        secret=fields.secret,
        outside=setting.outside,
        timeout=setting.timeout,
        signer=setting.signer,
    )
    return made, None


def _build_agent(fields: AgentFields, setting: Setting) -> Made:
    timeout = fields.timeout_seconds if setting.timeout is None else setting.timeout
    return agent(fields.agent_name, outside=setting.outside, timeout=timeout), None


def _build_approval(fields: ApprovalFields, _setting: Setting) -> Made:
    question = Ask(fields.question, fields.timeout, fields.on_deny, fields.on_timeout)
    return lambda _event: question, frozenset({Decision.ASK})


ACTION_TYPES: dict[str, ActionType] = {
    made.name: made
    for made in (
        ActionType("python", PythonFields, _build_python),
        ActionType("rule", RuleFields, _build_rule),
        ActionType("command", CommandFields, _build_command),
        ActionType("http", HttpFields, _build_http),
        ActionType("agent", AgentFields, _build_agent, served=True),
        ActionType("approval", ApprovalFields, _build_approval),
    )
}
