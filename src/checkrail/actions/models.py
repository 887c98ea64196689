"""The fields of each type of action, as they stand in a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, model_validator

Text = Annotated[str, Field(min_length=1)]
Reason = str | Literal[True]
Seconds = Annotated[float, Field(gt=0)]
Status = Annotated[int, Field(ge=400, le=599)]
Meaning = Literal["block", "fail", "continue"]
Behaviour = Literal["block", "continue", "ignore"]
FailureKind = Literal["error", "timeout", "unreachable", "invalid"]
Restored = Literal["tools", "text"]
Kept = InstanceOf[str]
"""A text that stays the object it is: one that variables were put into knows how it was written."""


class Fields(BaseModel):
    """What all actions share: nothing is converted, and unknown keys are refused.

    Their validators are built when a file first uses them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class PythonFields(Fields):
    """A Python function, by its import reference or by `module` and `function`."""

    path: Text | None = None
    module: Text | None = None
    function: Text | None = None

    @model_validator(mode="after")
    def _one_way(self) -> PythonFields:
        pair = (self.module is not None, self.function is not None)
        if pair not in ((True, True), (False, False)) or (self.path is None) is not any(pair):
            raise ValueError("either path, or module and function")
        return self

    @property
    def reference(self) -> str:
        """The import reference, in whichever form it was written."""
        return self.path or f"{self.module}:{self.function}"


class RedactFields(Fields):
    """What a rule redacts, and where."""

    patterns: Annotated[list[Text], Field(min_length=1)] | None = None
    kinds: Annotated[list[Literal["secrets", "email", "card"]], Field(min_length=1)] | None = None
    mask: str = Field(default="[redacted]", alias="with")
    fields_: Annotated[list[Text], Field(min_length=1)] | None = Field(default=None, alias="fields")
    restore: Restored | Annotated[list[Restored], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> RedactFields:
        if self.patterns is None and self.kinds is None:
            raise ValueError("an object with `patterns`, `kinds` or both")
        if self.restore is not None and "mask" in self.model_fields_set:
            raise ValueError("an object with `with` or `restore`, but not both")
        return self


class RuleFields(Fields):
    """What a rule does."""

    block: Reason | None = None
    ask: Reason | None = None
    retry: Reason | None = None
    fail: Reason | None = None
    replace: Any = None
    stop: Any = None
    status: Status | None = None
    code: Text | None = None
    retry_after: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    set: Annotated[dict[str, Any], Field(min_length=1)] | None = None
    prepend: Text | None = None
    append: Text | None = None
    redact: Text | Annotated[list[Text], Field(min_length=1)] | RedactFields | None = None
    inject: Text | Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    last: Literal[True] | None = None


class CommandFields(Fields):
    """A program, started without a shell."""

    command: Annotated[list[str], Field(min_length=1)]
    cwd: Text | None = None
    env: dict[str, str] = {}


class HttpFields(Fields):
    """A web service that is called; what it is sent may be secret."""

    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+", repr=False)]
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, Kept] = Field(default={}, repr=False)
    secret: Kept | None = Field(default=None, repr=False)


class AgentFields(Fields):
    """Another agent, whose run answers."""

    agent_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")]
    on_error: Behaviour | dict[FailureKind, Behaviour]
    timeout_seconds: Seconds = 300


class ApprovalFields(Fields):
    """A person who has to approve."""

    question: Text
    timeout: Seconds | None = None
    on_deny: Meaning = "block"
    on_timeout: Meaning = "block"
