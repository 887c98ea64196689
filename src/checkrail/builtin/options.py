"""The options of the built-in hooks, one model each. Reading this page pulls in pydantic."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from checkrail.engine import matchers
from checkrail.regex import PatternError, compile_pattern, read_pattern

_KEY = r"[^.\[\]$'\"]+"
_PATH = re.compile(rf"{_KEY}(?:\.{_KEY}|\[(?:-?\d+|\*)\])*")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SIZES = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}
MINUTES = 24 * 60


def parse_seconds(given: Any) -> Any:
    """Parse a time: a number of seconds, or a text such as 90s, 1m, 1h or 1d."""
    if not isinstance(given, str):
        return given
    told = re.fullmatch(r"(\d+(?:\.\d+)?)\s?([smhd])", given)
    if told is None:
        raise ValueError("seconds, or a number with a unit, such as 90s, 1m, 1h or 1d")
    return float(told[1]) * UNITS[told[2]]


def check_pattern(given: str) -> str:
    """Check a glob, or a regular expression between slashes."""
    try:
        matchers.compile_pattern(read_pattern(given))
    except (PatternError, re.error, TypeError, AttributeError) as error:
        raise ValueError(f"a glob, or a regular expression between slashes ({error})") from None
    return given


def parse_bytes(given: Any) -> Any:
    """Parse a size: a number of bytes, or a text such as 500 kB, 10 MB or 1 GB."""
    if not isinstance(given, str):
        return given
    told = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMG]?B)", given)
    if told is None:
        raise ValueError("bytes, or a number with a unit, such as 500 kB, 10 MB or 1 GB")
    return int(float(told[1]) * SIZES[told[2].upper()])


def check_timezone(given: str) -> str:
    """Check that a time zone is known on this machine."""
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(given)
    except (OSError, ValueError, KeyError):
        known = "the name of a time zone, such as Europe/Berlin"
        raise ValueError(f"{known} (where no name is known, install tzdata)") from None
    return given


def parse_clock_time(given: Any) -> Any:
    """Parse a time of day, such as 22:00, into minutes."""
    told = re.fullmatch(r"([01]?\d|2[0-4]):([0-5]\d)", given) if isinstance(given, str) else None
    minutes = MINUTES + 1 if told is None else int(told[1]) * 60 + int(told[2])
    if minutes > MINUTES:
        raise ValueError("a time of day from 00:00 to 24:00")
    return minutes


def check_word(given: str) -> str:
    """Check a word: it has to have a letter or a digit, and at most one * at its end."""
    if not any(map(str.isalnum, given)) or "*" in given[:-1]:
        raise ValueError("a word, or the beginning of words with a * at its end")
    return given


Seconds = Annotated[float, BeforeValidator(parse_seconds, json_schema_input_type=float | str)]
Glob = Annotated[str, BeforeValidator(check_pattern, json_schema_input_type=str)]
Bytes = Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=int | str)]
Timezone = Annotated[str, AfterValidator(check_timezone)]
ClockTime = Annotated[int, BeforeValidator(parse_clock_time, json_schema_input_type=str)]
Word = Annotated[str, Field(max_length=100), AfterValidator(check_word)]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Status = Annotated[int, Field(ge=400, le=599, description="the HTTP status of a refusal")]


class Options(BaseModel):
    """What the options of all built-in hooks share: nothing unknown, nothing guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


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


Restored = Literal["tools", "text"]
Restore = Restored | Annotated[list[Restored], Field(min_length=1)]


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

    restore: Restore | None = Field(
        default=None,
        description="at the gateway, where secrets are put back: tools, or [tools, text]",
    )

    @field_validator("fields_")
    @classmethod
    def _fields_name_something(cls, given: list[str] | None) -> list[str] | None:
        if given is not None and not (given and all(map(_PATH.fullmatch, given))):
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
        if self.restore is not None and "label" in self.model_fields_set:
            raise ValueError("`with` or `restore`, but not both")
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


class ProviderToolsOptions(Options):
    """The options of `provider_tools`."""

    allow: list[Glob] | None = Field(
        default=None,
        description="the provider's tools that may be used; every other one is denied",
    )
    deny: list[Glob] = Field(
        default=[],
        description="those that may not be used, also if `allow` names them",
    )
    on_denied: Literal["block", "strip"] = Field(
        default="block",
        description="whether a request or an answer with one is blocked, or goes on without it",
    )
    reason: str | None = Field(default=None, description="what a refusal says")
    status: Status | None = Field(default=None, description="the HTTP status of a refusal")

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
    """One rule of `route_model`: all of its conditions have to hold."""

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


class GreetingOptions(Options):
    """The options of `greeting`."""

    text: str = Field(min_length=1, description="what stands before the first reply of a session")


class ProfanityOptions(Options):
    """The options of `profanity`."""

    words: list[Word] = Field(
        default=[],
        max_length=10_000,
        description="more words; one that ends with * stands for all that begin with it",
    )
    defaults: bool = Field(
        default=True, description="whether the common English words are looked for, too"
    )
    on_found: Literal["mask", "block"] = Field(
        default="mask", description="whether the words are masked, or the message is blocked"
    )
    mask: str = Field(default="***", alias="with", description="what stands in place of a word")
    reason: str = Field(default="Please put it in other words", description="what a refusal says")
    status: Status = 400

    @model_validator(mode="after")
    def _looks_for_something(self) -> Self:
        if not self.words and not self.defaults:
            raise ValueError("something to look for: give `words`, or leave out `defaults: false`")
        return self


class QuietHoursOptions(Options):
    """The options of `quiet_hours`."""

    timezone: Timezone = Field(description="where it is that late, such as Europe/Berlin")
    start: ClockTime = Field(alias="from", description="when they begin, such as 22:00")
    end: ClockTime = Field(alias="to", description="when they end, perhaps the day after")
    days: list[Day] = Field(
        default=["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
        min_length=1,
        description="the days on which they begin",
    )
    reply: str = Field(
        default="Nobody is here at this time. Please write again later.",
        min_length=1,
        description="what is replied to a message in these hours",
    )


class AllowUsersOptions(Options):
    """The options of `allow_users`."""

    allow: list[Glob] | None = Field(
        default=None, description="who may write; everybody else is refused"
    )
    deny: list[Glob] = Field(
        default=[], description="who may not write, also if `allow` names them"
    )
    reason: str = Field(default="You may not write here", description="what a refusal says")
    status: Status = 403

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.allow is None and not self.deny:
            raise ValueError("a policy: give `allow`, `deny` or both")
        return self


class AttachmentLimitsOptions(Options):
    """The options of `attachment_limits`."""

    max_count: int | None = Field(
        default=None, ge=0, description="how many attachments a message may have"
    )
    max_size: Bytes | None = Field(
        default=None, ge=0, description="how large each may be, in bytes, or such as 10 MB"
    )
    max_total: Bytes | None = Field(default=None, ge=0, description="how large all may be together")
    types: list[Glob] | None = Field(
        default=None, description="the content types that are taken, such as image/*"
    )
    unknown_size: Literal["block", "allow"] = Field(
        default="block",
        description="what becomes of attachments whose size is not known, where one is limited",
    )
    status: Status | None = Field(default=None, description="the HTTP status of a refusal")

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if {self.max_count, self.max_size, self.max_total} == {None} and self.types is None:
            raise ValueError("a limit: give `max_count`, `max_size`, `max_total` or `types`")
        return self


class SessionSummaryOptions(Options):
    """The options of `session_summary`."""

    agent: str = Field(
        pattern=r"^[A-Za-z0-9][\w.-]*$", description="the agent that writes the summary"
    )
    instructions: str = Field(
        default="Summarize this conversation in a few sentences.",
        min_length=1,
        description="what the agent is told before the conversation",
    )
    max_characters: int = Field(
        default=100_000,
        ge=1,
        description="how much of the conversation the agent is given, from its end",
    )
    timeout: Seconds = Field(
        default=300.0, gt=0, allow_inf_nan=False, description="how long the agent may take"
    )


MODELS: dict[str, type[Options]] = {
    "log_request": LogRequestOptions,
    "log_response": LogResponseOptions,
    "strip_provider_fields": StripProviderFieldsOptions,
    "redact": RedactOptions,
    "tool_policy": ToolPolicyOptions,
    "provider_tools": ProviderToolsOptions,
    "rate_limit": RateLimitOptions,
    "schema_check": SchemaCheckOptions,
    "require_tools": RequireToolsOptions,
    "inject_system": InjectSystemOptions,
    "route_model": RouteModelOptions,
    "cache": CacheOptions,
    "budget": BudgetOptions,
    "greeting": GreetingOptions,
    "profanity": ProfanityOptions,
    "quiet_hours": QuietHoursOptions,
    "allow_users": AllowUsersOptions,
    "attachment_limits": AttachmentLimitsOptions,
    "session_summary": SessionSummaryOptions,
}
