"""`env` in a file: which variables its texts may use, and which it sets itself."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkrail.config.dotenv import read_env
from checkrail.config.kinds import text, texts
from checkrail.config.problems import Report, described
from checkrail.config.schema import ENV

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LEAST_SECRET = 8
"""A shorter value is no secret, and taking it out would tear messages apart."""


@dataclass(frozen=True, slots=True)
class Variables:
    """What `env` says: patterns of `allowed` names, variables to set, and the file of them."""

    allowed: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    file: Path | None = None


def read_variables(given: Any, base: Path, report: Report) -> Variables:
    """Read `env`; what is wrong with it is reported, and what it sets is told to nobody."""
    if given is None:
        return Variables()
    said = {"file": given} if isinstance(given, str) else given
    if not isinstance(said, dict):
        report.add(("env",), f"found {described(given)}", "a mapping, or the path of a .env file")
        return Variables()
    allowed = said.get("allow", [])
    if not texts(allowed, ("env", "allow"), report):
        allowed = []
    file, values = _of_file(said.get("file"), base, report)
    values |= _of_mapping(said, report)
    for name, value in values.items():
        if not _can_be_set(value):
            report.add(("env", name), "a text that no variable can have", "plain text")
        elif len(value) >= _LEAST_SECRET:
            report.secrets[value] = f"${{{name}}}"
    usable = {name: value for name, value in values.items() if _can_be_set(value)}
    return Variables(tuple(allowed), usable, file)


def _can_be_set(value: str) -> bool:
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _of_mapping(said: Mapping[str, Any], report: Report) -> dict[str, str]:
    found = {}
    for key, value in said.items():
        where = ("env", key)
        if key in ENV:
            continue
        if not _is_variable(key, value, report):
            report.unknown(where, "key", key, ENV)
        else:
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _is_variable(key: str, value: Any, report: Report) -> bool:
    """Tell variables from our own keys: in our files they are written in capitals."""
    named = _NAME.fullmatch(key) is not None and (key.isupper() or report.foreign)
    return named and isinstance(value, (str, int, float))


def _of_file(given: Any, base: Path, report: Report) -> tuple[Path | None, dict[str, str]]:
    where = ("env",)
    if given is None or not text(given, ("env", "file"), report):
        return None, {}
    try:
        file = (base / given).resolve()
        values, wrong = read_env(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        report.warn(where, f"{described(given)}, which cannot be read: {reason}", "nothing is set")
        return None, {}
    if wrong:
        lines = ", ".join(map(str, wrong))
        report.warn(where, f"{file.name}: no NAME=value on line {lines}", "it is left out")
    return file, values
