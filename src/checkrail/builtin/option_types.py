"""What the options of built-in hooks are made of. Reading this page pulls in pydantic."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from checkrail.engine.matchers import compiled
from checkrail.regex import PatternError, read_pattern

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
        compiled(read_pattern(given))
    except (PatternError, re.error, TypeError, AttributeError) as error:
        raise ValueError(f"a glob, or a regular expression between slashes ({error})") from None
    return given


Seconds = Annotated[float, BeforeValidator(seconds, json_schema_input_type=float | str)]
Glob = Annotated[str, BeforeValidator(pattern, json_schema_input_type=str)]
Status = Annotated[int, Field(ge=400, le=599, description="the HTTP status of a refusal")]


class Options(BaseModel):
    """What the options of all built-in hooks share: nothing unknown, nothing guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
