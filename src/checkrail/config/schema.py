"""The schema of a file: which keys there are, and what may stand under each.

Keys that say how a hook is treated are in `COMMON`; those that say what it does belong to its type.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checkrail.config.kinds import (
    Check,
    Choice,
    anything,
    count,
    flag,
    mapping,
    on_error,
    patterns,
    seconds,
    secret,
    secrets,
    something,
    text,
    texts,
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
    "mode": Choice(("enforce", "shadow", "off", "async")),
    "lane": Choice(tuple(Lane)),
    "priority": whole,
    **dict.fromkeys(FIELDS, patterns),
    "when": text,
    "timeout": seconds,
    "timeout_seconds": seconds,
    "on_error": on_error,
    "max_retries": count,
    "background": flag,
    "optional": flag,
    "thread": flag,
    "stream": text,
    "config": mapping,
}
"""Keys of every hook."""

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
    "hooks": anything,
    "definitions": anything,
    "python_path": anything,
    "defaults": anything,
    "env": anything,
    "history": Choice(("full", "digest", "off")),
    "max_retries": count,
    "agents": anything,
    "graphs": anything,
    "server": anything,
    "auth": anything,
    "http": anything,
    "store": anything,
    "checkpointer": anything,
    "database": anything,
    "data_dir": anything,
    "retention": anything,
    "outbound": anything,
    "limits": anything,
    "approvals": anything,
    "agents_api": anything,
    "dependencies": anything,
    "gateway": anything,
}
"""Keys of the file itself; those from `server` to `dependencies` are for the run server."""

DEFAULTS: dict[str, Check] = {
    "timeout": seconds,
    "timeout_seconds": seconds,
    "on_error": on_error,
    "model": anything,
}
"""What holds for hooks and agents that do not say it themselves."""

ENV: dict[str, Check] = {"allow": texts, "file": text}


OTHER_PARTS = frozenset(
    {
        "channels",
        "dashboard",
        "description",
        "models",
        "name",
        "observability",
        "output_schema",
        "parameters_schema",
        "runner",
        "runners",
        "sessions",
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
    "run_claude.hooks": "checkrail.styles.proxy",
    "aegra_api.hooks": "checkrail.hooks",
    "aegra_api.core.hooks": "checkrail.hooks",
}
"""Modules that files written for other servers name, and what they are called here."""


@functools.cache
def models() -> Mapping[str, type[BaseModel]]:
    """Return the fields of the types of actions that are not imported."""
    from checkrail.actions import ACTION_TYPES

    return {name: kind.fields for name, kind in ACTION_TYPES.items() if name not in LOADED}


@functools.cache
def owners() -> Mapping[str, str]:
    """Give, for every key that belongs to one type of hook, that type."""
    found = {key: name for name, keys in LOADED.items() for key in keys}
    for name, model in models().items():
        found |= {key: name for key in model.model_fields if key not in COMMON}
    return found


@functools.cache
def types() -> Choice:
    """Return the types of hooks."""
    return Choice((*LOADED, *models()))


@functools.cache
def entry_keys() -> Mapping[str, Check]:
    """Return every key of a hook; the fields of actions are checked when the type is known."""
    imported = {key: check for keys in LOADED.values() for key, check in keys.items()}
    fields = dict.fromkeys(owners(), something) | dict.fromkeys(("replace", "stop"), anything)
    own: dict[str, Check] = {"headers": secrets, "secret": secret, "agent_name": text}
    return {"type": types(), **COMMON, **fields, **imported, **own}


def new_name(module: str) -> str | None:
    """Return what a module of another server is called here."""
    return OLD_MODULES.get(module)


def renames(package: str) -> dict[str, str]:
    """Return the modules of a package that have another name here."""
    root = package.partition(".")[0]
    return {old: new for old, new in OLD_MODULES.items() if old.partition(".")[0] == root}


def is_off(said: Mapping[str, Any]) -> bool:
    """Return whether a hook is switched off."""
    return said.get("enabled") is False or said.get("mode") == "off"
