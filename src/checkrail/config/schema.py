"""The schema of a file: which keys there are, and what may stand under each.

Keys that say how a hook is treated are in `COMMON`; those that say what it does belong to its type.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.config.problems import Report, Where
from checkrail.config.value_checks import (
    Check,
    WordCheck,
    accept_any,
    check_on_error,
    check_secret,
    check_secrets,
    count,
    flag,
    mapping,
    patterns,
    seconds,
    something,
    text,
    whole,
)
from checkrail.engine.matchers import FIELDS
from checkrail.engine.points import Lane

if TYPE_CHECKING:
    from pydantic import BaseModel

COMMON: dict[str, Check] = {
    "name": text,
    "$ref": text,
    "enabled": flag,
    "mode": WordCheck(("enforce", "shadow", "off"), older=("async",)),
    "lane": WordCheck(tuple(Lane)),
    "priority": whole,
    **dict.fromkeys(FIELDS, patterns),
    "when": text,
    "timeout": seconds,
    "timeout_seconds": seconds,
    "on_error": check_on_error,
    "max_retries": count,
    "background": flag,
    "optional": flag,
    "thread": flag,
    "stream": text,
    "config": mapping,
}
"""Keys of every hook."""

OLDER_KEYS = {"timeout_seconds": "timeout", "enabled": "mode"}
"""Keys of a hook that are accepted, and what they are called now."""

LOADED: dict[str, dict[str, Check]] = {
    "python": {"path": text, "module": text, "function": text},
    "builtin": {"builtin": text},
}
"""Keys of the types whose hooks are imported."""

VERBATIM = frozenset(
    {"name", "type", "$ref", "mode", "lane", "when", "module", "function", "builtin", "agent_name"}
)
"""Keys whose texts are names or expressions: no variable is put into them."""

TOP: dict[str, Check] = {
    "hooks": accept_any,
    "definitions": accept_any,
    "python_path": accept_any,
    "defaults": accept_any,
    "env": accept_any,
    "history": WordCheck(("full", "digest", "off")),
    "max_retries": count,
    "agents": accept_any,
    "graphs": accept_any,
    "prices": accept_any,
    "server": accept_any,
    "auth": accept_any,
    "http": accept_any,
    "store": accept_any,
    "checkpointer": accept_any,
    "database": accept_any,
    "data_dir": accept_any,
    "retention": accept_any,
    "outbound": accept_any,
    "limits": accept_any,
    "approvals": accept_any,
    "agents_api": accept_any,
    "dependencies": accept_any,
    "gateway": accept_any,
    "sessions": accept_any,
    "channels": accept_any,
}
"""Keys of the file itself; those from `server` to `dependencies` are for the run server."""

DEFAULTS: dict[str, Check] = {
    "timeout": seconds,
    "timeout_seconds": seconds,
    "on_error": check_on_error,
    "model": accept_any,
}
"""What holds for hooks and agents that do not say it themselves."""

OTHER_PARTS = frozenset(
    {
        "dashboard",
        "description",
        "models",
        "name",
        "observability",
        "output_schema",
        "parameters_schema",
        "runner",
        "runners",
        "telemetry",
        "type",
        "version",
    },
)
"""Keys that other parts read: left to them."""

OTHER_SERVERS = frozenset(
    {
        "$schema",
        "api_version",
        "base_image",
        "dockerfile_lines",
        "encryption",
        "image_distro",
        "keep_pkg_tools",
        "node_version",
        "pip_config_file",
        "pip_installer",
        "python_version",
        "redis",
        "ui",
        "ui_config",
        "webhooks",
        "worker",
    },
)
"""Keys that only the servers act on that a file may have been written for."""

OLD_MODULES = {
    "run_claude.hooks.builtin": "checkrail.builtin",
    "run_claude.hooks": "checkrail.styles",
    "aegra_api.hooks": "checkrail.hooks",
    "aegra_api.core.hooks": "checkrail.hooks",
}
"""Modules that files written for other servers name, and what they are called here."""


@functools.cache
def action_models() -> Mapping[str, type[BaseModel]]:
    """Return the fields of the types of actions that are not imported."""
    from checkrail.actions.types import ACTION_TYPES

    return {name: kind.fields for name, kind in ACTION_TYPES.items() if name not in LOADED}


@functools.cache
def key_owners() -> Mapping[str, str]:
    """Return, for every key that belongs to one type of hook, that type."""
    found = {key: name for name, keys in LOADED.items() for key in keys}
    for name, model in action_models().items():
        found |= {key: name for key in model.model_fields if key not in COMMON}
    return found


@functools.cache
def hook_types() -> WordCheck:
    """Return the types of hooks."""
    return WordCheck((*LOADED, *action_models()))


@functools.cache
def entry_keys() -> Mapping[str, Check]:
    """Return every key of a hook; the fields of actions are checked when the type is known."""
    imported = {key: check for keys in LOADED.values() for key, check in keys.items()}
    fields = dict.fromkeys(key_owners(), something) | dict.fromkeys(("replace", "stop"), accept_any)
    own: dict[str, Check] = {"headers": check_secrets, "secret": check_secret, "agent_name": text}
    return {"type": hook_types(), **COMMON, **fields, **imported, **own}


def find_module_rename(module: str) -> str | None:
    """Return what a module of another server is called here."""
    return OLD_MODULES.get(module)


def find_renames(package: str) -> dict[str, str]:
    """Return the modules of a package that have another name here."""
    root = package.partition(".")[0]
    return {old: new for old, new in OLD_MODULES.items() if old.partition(".")[0] == root}


def is_off(said: Mapping[str, Any]) -> bool:
    """Return whether a hook is switched off."""
    return said.get("enabled") is False or said.get("mode") == "off"


def note_older_spellings(said: Mapping[str, Any], where: Where, report: Report) -> None:
    """Note what a hook, or what holds for all hooks, says in older words."""
    for key, value in said.items():
        for place, written, current in _older_spellings(key, value):
            report.note((*where, *place), f"`{written}` is an older spelling", f"write {current}")


def _older_spellings(key: str, value: Any) -> Iterator[tuple[Where, str, str]]:
    """Yield where older words stand under a key, what they are, and what to write instead."""
    if key == "timeout_seconds":
        yield (key,), key, f"timeout: {value}"
    elif key == "enabled" and value is False:
        yield (key,), "enabled: false", "mode: off"
    elif key == "enabled":
        yield (key,), "enabled: true", "nothing: it is the default"
    elif key == "mode" and value == "async":
        yield (key,), "mode: async", "background: true"
    elif key == "on_error" and value == "ignore":
        yield (key,), "on_error: ignore", "on_error: continue"
    elif key == "on_error" and isinstance(value, dict):
        for kind in (kind for kind, what in value.items() if what == "ignore"):
            yield (key, kind), f"{kind}: ignore", f"{kind}: continue"
