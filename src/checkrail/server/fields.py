"""Fields and parameters of requests: what a database could not keep is refused here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Header, Query
from pydantic import AfterValidator, BeforeValidator, Field

from checkrail.store.rows import searchable_filter

_DEEPEST = 64
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

Limit = Annotated[int, Field(ge=1, le=1000)]
Offset = Annotated[int, Field(ge=0, le=10**9)]
SortOrder = Literal["asc", "desc"]
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=255)]
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID")]
Action = Annotated[Literal["interrupt", "rollback"], Query()]
Status = Literal["pending", "running", "success", "error", "timeout", "interrupted"]
"""What clients read as the status of a run."""


def check_text(given: str) -> str:
    """Refuse text that PostgreSQL cannot keep, on SQLite too."""
    if "\0" in given:
        raise ValueError("text cannot hold the character NUL")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ValueError("text cannot hold half of a surrogate pair") from None
    return given


Text = Annotated[str, AfterValidator(check_text)]
Name = Annotated[str, Field(max_length=1000), AfterValidator(check_text)]


def check_json(given: Any) -> Any:
    """Refuse JSON that a database cannot keep as it is."""
    _check_value(given, 0)
    return given


def _check_value(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_text(key)
            _check_value(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_value(item, depth + 1)
    else:
        _check_number(value)


def _check_number(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("JSON has no NaN and no infinite numbers")
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        raise ValueError("whole numbers have at most 64 bits")


JsonObject = Annotated[dict[str, Any], AfterValidator(check_json)]
Metadata = JsonObject


def choice_validator(*names: str) -> BeforeValidator:
    """Return a validator that refuses what is none of some names."""

    def check_choice(given: Any) -> Any:
        if given is not None and given not in names:
            told = repr(given)[:100]
            raise ValueError(f"there is no {told} to choose; choose from {', '.join(names)}")
        return given

    return BeforeValidator(check_choice)


Searched = Annotated[dict[str, Any], AfterValidator(check_json), AfterValidator(searchable_filter)]
"""JSON that has to be within what is searched."""


def _check_config(given: dict[str, Any]) -> dict[str, Any]:
    for name in ("configurable", "metadata"):
        if given.get(name) is not None and not isinstance(given[name], Mapping):
            raise ValueError(f"config.{name} is a mapping")
    limit = given.get("recursion_limit")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ValueError("config.recursion_limit is a whole number, 1 or more")
    return given


RunConfig = Annotated[dict[str, Any], AfterValidator(check_json), AfterValidator(_check_config)]
"""The config of runs, kept for later."""


def to_seconds(moment: datetime | None) -> float | None:
    """Return a moment in seconds; one without a time zone is in UTC."""
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
