"""The options of the built-in hooks, one model each. Reading this page pulls in pydantic."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from checkrail.builtin.option_types import Glob, Options, Seconds, Status
from checkrail.builtin.walk import path_of
from checkrail.regex import PatternError, compile_pattern

Level = Literal["debug", "info", "warning", "error"]
Kind = Literal["secrets", "email", "card"]
Dimension = Literal["key", "user", "agent", "tool", "session", "model"]
Spender = Literal["key", "user", "session", "agent", "model"]
Span = Literal["minute", "hour", "day", "week", "month", "run", "total"]
Schema = dict[str, Any] | bool


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
                found = compile_pattern(text)
            except PatternError as error:
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


class BudgetOptions(Options):
    """The options of `budget`."""

    tokens: int | None = Field(default=None, ge=1, description="how many tokens may be used")
    cost: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="how much may be spent, in USD",
    )
    per: Span = Field(
        default="day",
        description="when it begins anew: with each of these in UTC, with each run, or never",
    )
    by: list[Spender] = Field(
        default=["user"],
        description="what is counted apart; nothing: all together",
    )

    unknown_price: Literal["block", "allow"] = Field(
        default="block",
        description="what becomes of calls whose price is not known, where there is a cost",
    )

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.tokens is None and self.cost is None:
            raise ValueError("a limit: give `tokens`, `cost` or both")
        return self


class CacheOptions(Options):
    """The options of `cache`."""

    ttl: Seconds = Field(
        default=3600.0,
        gt=0,
        allow_inf_nan=False,
        description="how long an answer is kept, in seconds, or such as 90s, 1h, 1d",
    )
    max_entries: int = Field(default=1000, ge=1, description="how many answers are kept at most")
    shared: bool = Field(
        default=False,
        description="one user may get an answer that was given to another",
    )


class InjectSystemOptions(Options):
    """The options of `inject_system`."""

    text: str | None = Field(default=None, min_length=1, description="what is put in")
    file: str | None = Field(
        default=None,
        min_length=1,
        description="the file that has the text, from the folder of this one",
    )
    position: Literal["before", "after", "replace"] = Field(
        default="before",
        description="before or after the system message, or in its place",
    )

    @model_validator(mode="after")
    def _has_a_text(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("either `text` or `file`")
        return self


class Route(Options):
    """One rule of `route_model`: all that it says has to hold."""

    to: str = Field(min_length=1, description="the model that is asked instead")
    provider: str | None = Field(
        default=None,
        min_length=1,
        description="whose model that is; unless said, what stands before the slash in its name",
    )
    models: list[Glob] | None = Field(
        default=None, min_length=1, description="the models that were asked for"
    )
    users: list[Glob] | None = Field(default=None, min_length=1, description="who is asking")
    tools: bool | list[Glob] | None = Field(
        default=None,
        description="whether tools are offered to the model, or one of those that are",
    )
    max_characters: int | None = Field(
        default=None,
        ge=0,
        description="how long all messages may be together",
    )


class RouteModelOptions(Options):
    """The options of `route_model`."""

    rules: list[Route] = Field(min_length=1, description="tried in this order; the first one holds")


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
    "inject_system": InjectSystemOptions,
    "route_model": RouteModelOptions,
    "cache": CacheOptions,
    "budget": BudgetOptions,
}
