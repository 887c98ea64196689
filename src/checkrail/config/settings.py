"""Settings: what a file says about all hooks together."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.config.agent_keys import AGENT, find_blueprint
from checkrail.config.environment import Environment
from checkrail.config.hook_objects import NO_DEFAULTS, Defaults
from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.schema import (
    DEFAULTS,
    OTHER_PARTS,
    OTHER_SERVERS,
    TOP,
    note_older_spellings,
)
from checkrail.config.value_checks import ListCheck, read_members, text
from checkrail.engine.points import ALIASES, HookPoint
from checkrail.engine.records import History

if TYPE_CHECKING:
    from checkrail.config.agent_models import ModelConfig

FOLDERS = ListCheck(text, "a list of folders", or_one=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a file for all its hooks and agents; None where it has none."""

    history: History | None = None
    max_retries: int | None = None
    defaults: Defaults = NO_DEFAULTS
    default_model: ModelConfig | None = None
    python_path: tuple[Path, ...] = ()
    env_allow: tuple[str, ...] = ()


def read_top_level(data: Any, report: Report) -> dict[str, Any]:
    """Return the keys of a file that are read here; those of other parts are left to them."""
    if isinstance(data, Mapping):
        others = OTHER_PARTS.union(find_blueprint(data) or ())
        data = {
            key: value
            for key, value in data.items()
            if key not in others
            and not _is_misplaced(key, value, report)
            and not _is_foreign_key(key, report)
        }
    return read_members(data, TOP, (), report, also=sorted(OTHER_PARTS | AGENT.keys()))


def _is_foreign_key(key: str, report: Report) -> bool:
    """Note a key that only another server acts on; in our own files, names of editors are fine."""
    known = key in OTHER_SERVERS
    if not known and not (report.foreign and key not in TOP):
        return False
    if report.foreign or key != "$schema":
        report.note_unused((key,))
    return True


def _is_misplaced(key: str, value: Any, report: Report) -> bool:
    """Report a key that belongs one level deeper."""
    if key in DEFAULTS and DEFAULTS[key](value, (), Report("")):
        hint = f"it goes under `defaults`, as in defaults: {{{key}: …}}"
    elif key in (*HookPoint, *ALIASES):
        hint = f"points go under `hooks`, as in hooks: {{{key}: …}}"
    elif key in AGENT and key not in TOP:
        hint = f"it goes under the name of an agent, as in agents: {{support: {{{key}: …}}}}"
    else:
        return False
    report.add((key,), f"the key {key!r} at the top of the file", "", hint)
    return True


def read_settings(
    top: Mapping[str, Any], base: Path, report: Report, env_allow: tuple[str, ...] = ()
) -> Settings:
    """Read what holds for all hooks; what is wrong with it is reported."""
    return Settings(
        history=top.get("history"),
        max_retries=top.get("max_retries"),
        defaults=_read_defaults(top.get("defaults"), report),
        python_path=_read_python_path(top.get("python_path"), base, report),
        env_allow=env_allow,
    )


def _read_defaults(given: Any, report: Report) -> Defaults:
    said = read_members(given, DEFAULTS, ("defaults",), report)
    if {"timeout", "timeout_seconds"} <= said.keys():
        found = "both `timeout` and `timeout_seconds`"
        hint = "they are two names of one thing"
        report.add(("defaults", "timeout_seconds"), found, "one of them", hint)
    note_older_spellings(said, ("defaults",), report)
    timeout = said.get("timeout_seconds", said.get("timeout"))
    return Defaults(timeout=timeout, on_error=said.get("on_error"))


def _read_python_path(given: Any, base: Path, report: Report) -> tuple[Path, ...]:
    where = ("python_path",)
    if given is None or not FOLDERS(given, where, report):
        return ()
    if isinstance(given, str):
        return _existing_folder(given, where, base, report)
    found: tuple[Path, ...] = ()
    for number, item in enumerate(given):
        found += _existing_folder(item, (*where, number), base, report)
    return found


def _existing_folder(given: str, where: Where, base: Path, report: Report) -> tuple[Path, ...]:
    found = read_folder(given, where, base, report)
    if found is None:
        return ()
    if not _folder_exists(found):
        report.warn(where, "a folder that does not exist", "nothing can be imported from it")
    return (found,)


def read_folder(given: str, where: Where, base: Path, report: Report) -> Path | None:
    """Return a folder, whether it exists or not; an impossible name is reported."""
    try:
        found = Environment((), report).expand_folder(given, where, base)
        _folder_exists(found)
    except (OSError, RuntimeError, ValueError) as error:
        # With such a name among Python's folders, every later import would fail.
        reason = error.strerror if isinstance(error, OSError) else error
        report.add(where, f"{describe_value(given)}, which names no folder: {reason}", "a folder")
        return None
    return found


def _folder_exists(path: Path) -> bool:
    """Return whether a folder exists; an impossible name raises."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
