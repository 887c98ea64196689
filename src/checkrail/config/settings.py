"""Settings: what a file says about all hooks together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkrail.config.environment import Environment
from checkrail.config.kinds import ListOf, fitting, text
from checkrail.config.objects import NO_DEFAULTS, Defaults
from checkrail.config.problems import Report, described
from checkrail.config.schema import DEFAULTS, ENV, OTHER_PARTS, TOP
from checkrail.engine.records import History

_FOLDERS = ListOf(text, "a list of folders", or_one=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a file says about all hooks together; None where it says nothing."""

    history: History | None = None
    max_retries: int | None = None
    defaults: Defaults = NO_DEFAULTS
    python_path: tuple[Path, ...] = ()
    env_allow: tuple[str, ...] = ()


def top_level(data: Any, report: Report) -> dict[str, Any]:
    """Give the keys of a file that are read here; those of other parts are left to them."""
    if isinstance(data, Mapping):
        data = {
            key: value
            for key, value in data.items()
            if key not in OTHER_PARTS and not _is_misplaced(key, value, report)
        }
    return fitting(data, TOP, (), report, also=sorted(OTHER_PARTS))


def _is_misplaced(key: str, value: Any, report: Report) -> bool:
    """Report a key that belongs one level deeper."""
    if key in DEFAULTS and DEFAULTS[key](value, (), Report("")):
        kind, under = f"`{key}`", "defaults"
    elif key in (*HookPoint, *ALIASES):
        kind, under = f"the point `{key}`", "hooks"
    else:
        return False
    hint = f"points go under `hooks`: {{{key}: …}}"
    report.add((key,), f"{kind} at the top of the file", f"it under `{under}`", hint)
    return True


def read_settings(top: Mapping[str, Any], base: Path, report: Report) -> Settings:
    """Read what holds for all hooks; what is wrong with it is reported."""
    return Settings(
        history=top.get("history"),
        max_retries=top.get("max_retries"),
        defaults=_defaults(top.get("defaults"), report),
        python_path=_python_path(top.get("python_path"), base, report),
        env_allow=_env_allow(top.get("env"), report),
    )


def _defaults(given: Any, report: Report) -> Defaults:
    said = fitting(given, DEFAULTS, ("defaults",), report)
    if {"timeout", "timeout_seconds"} <= said.keys():
        found = "both `timeout` and `timeout_seconds`"
        hint = "they are two names of one thing"
        report.add(("defaults", "timeout_seconds"), found, "one of them", hint)
    timeout = said.get("timeout_seconds", said.get("timeout"))
    return Defaults(timeout=timeout, on_error=said.get("on_error"))


def _env_allow(given: Any, report: Report) -> tuple[str, ...]:
    if isinstance(given, str):
        found = f"{described(given)} for `env`, which is not read here"
        report.warn(("env",), found, "variables that hooks may use go under env.allow")
        return ()
    return tuple(fitting(given, ENV, ("env",), report).get("allow", ()))


def _python_path(given: Any, base: Path, report: Report) -> tuple[Path, ...]:
    where = ("python_path",)
    if given is None or not _FOLDERS(given, where, report):
        return ()
    environment = Environment((), report)
    if isinstance(given, str):
        return _folder(environment.folder(given, where, base), where, report)
    found: tuple[Path, ...] = ()
    for number, item in enumerate(given):
        place = (*where, number)
        found += _folder(environment.folder(item, place, base), place, report)
    return found


def _folder(found: Path, where: tuple[str | int, ...], report: Report) -> tuple[Path, ...]:
    if not found.is_dir():
        report.warn(where, "a folder that does not exist", "nothing can be imported from it")
    return (found,)
