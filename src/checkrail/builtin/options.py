"""The options of the built-in hooks, one model each. Reading this page pulls in pydantic."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from checkrail.builtin.walk import path_of
from checkrail.engine.matchers import compiled

Level = Literal["debug", "info", "warning", "error"]
Kind = Literal["secrets", "email", "card"]
Dimension = Literal["user", "agent", "tool", "session", "model"]
Schema = dict[str, Any] | bool

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(given: Any) -> Any:
    """Read a time: a number of seconds, or a text such as 90s, 1m, 1h or 1d."""
    if not isinstance(given, str):
        return given
    told = re.fullmatch(r"(\d+(?:\.\d+)?)\s?([smhd])", given)
    if told is None:
        raise ValueError("seconds, or a number with a unit, such as 90s, 1m, 1h or 1d")
    return float(told[1]) * UNITS[told[2]]


def pattern(given: str) -> str:
    """Check a glob, or a regular expression between slashes."""
    try:
        compiled(given)
    except (re.error, TypeError, AttributeError) as error:
        raise ValueError(f"a glob, or a regular expression between slashes ({error})") from None
    return given


Seconds = Annotated[float, BeforeValidator(seconds, json_schema_input_type=float | str)]
Glob = Annotated[str, BeforeValidator(pattern, json_schema_input_type=str)]
Status = Annotated[int, Field(ge=400, le=599, description="the HTTP status of a refusal")]


class Options(BaseModel):
    """What the options of all built-in hooks share: nothing unknown, nothing guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class LogRequestOptions(Options):
    """The options of `log_request`."""

    verbose: bool = Field(
        default=False,
        description="also log the last message: its role and its first 100 characters",
    )
    level: Level = Field(default="info", description="the level to log at")


class LogResponseOptions(Options):
    """The options of `log_response`."""

    include_tokens: bool = Field(default=True, description="also log the total of tokens")
    level: Level = Field(default="info", description="the level to log at")


class StripProviderFieldsOptions(Options):
    """The options of `strip_provider_fields`."""

    providers: list[str] = Field(
        default=["groq", "cerebras", "together", "together_ai", "anyscale"],
        description="the providers that refuse fields they do not know",
    )


class RedactOptions(Options):
    """The options of `redact`."""

    kinds: list[Kind] = Field(
        default=["secrets", "email", "card"],
        description="what is looked for",
    )
    patterns: dict[str, str] = Field(
        default={},
        description="regular expressions of your own, by the name of what they find",
    )
    label: str = Field(
        default="[redacted:{kind}]",
        alias="with",
        description="what stands in place of what was found; {kind} names what it was",
    )
    fields_: list[str] | None = Field(
        default=None,
        alias="fields",
        description="where to look, such as args.body or messages[*].content; all unless said",
    )

    @field_validator("fields_")
    @classmethod
    def _fields_name_something(cls, given: list[str] | None) -> list[str] | None:
        if given is not None and not (given and all(map(path_of, given))):
            raise ValueError("paths, such as args.body or messages[*].content")
        return given

    @field_validator("patterns")
    @classmethod
    def _patterns_work(cls, given: dict[str, str]) -> dict[str, str]:
        for name, text in given.items():
            try:
                found = re.compile(text)
            except re.error as error:
                raise ValueError(f"a regular expression for {name!r} ({error})") from None
            if found.search(""):
                raise ValueError(f"a regular expression for {name!r} that cannot match nothing")
        return given

    @model_validator(mode="after")
    def _looks_for_something(self) -> Self:
        if not self.kinds and not self.patterns:
            raise ValueError("something to look for: give `kinds`, `patterns` or both")
        return self


class ToolPolicyOptions(Options):
    """The options of `tool_policy`."""

    allow: list[Glob] | None = Field(
        default=None,
        description="the tools that may be called; every other one is blocked",
    )
    deny: list[Glob] = Field(
        default=[],
        description="the tools that may not be called, also if `allow` names them",
    )
    reason: str | None = Field(default=None, description="what a refusal says")
    status: Status = 403

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.allow is None and not self.deny:
            raise ValueError("a policy: give `allow`, `deny` or both")
        return self


class RateLimitOptions(Options):
    """The options of `rate_limit`."""

    limit: int = Field(ge=1, description="how many are let through in the time of `per`")
    per: Seconds = Field(
        default=60.0,
        gt=0,
        allow_inf_nan=False,
        description="the time in seconds, or such as 1m, 1h, 1d",
    )
    by: list[Dimension] = Field(
        default=["user"],
        description="what is counted apart; nothing: all together",
    )


class SchemaCheckOptions(Options):
    """The options of `schema_check`."""

    json_schema: Schema | None = Field(
        default=None,
        alias="schema",
        description="the JSON Schema of the parameters, arguments or output",
    )
    schemas: dict[Glob, Schema] | None = Field(
        default=None,
        description="the JSON Schemas of tools' arguments, by the tools' names",
    )
    status: Status = 422

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.json_schema is None) == (self.schemas is None):
            raise ValueError("either `schema` or `schemas`")
        return self


class RequireToolsOptions(Options):
    """The options of `require_tools`."""

    tools: list[Glob] = Field(
        min_length=1,
        description="the tools that have to be called before an answer, all of them",
    )
    any: bool = Field(default=False, description="one of them is enough")
    successful: bool = Field(
        default=True,
        description="only calls that went well count; else also those that failed",
    )
    feedback: str | None = Field(
        default=None,
        min_length=1,
        description="what the model is told; {tools} names those that are missing",
    )


MODELS: dict[str, type[Options]] = {
    "log_request": LogRequestOptions,
    "log_response": LogResponseOptions,
    "strip_provider_fields": StripProviderFieldsOptions,
    "redact": RedactOptions,
    "tool_policy": ToolPolicyOptions,
    "rate_limit": RateLimitOptions,
    "schema_check": SchemaCheckOptions,
    "require_tools": RequireToolsOptions,
}
