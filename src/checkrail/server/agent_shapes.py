"""Agents and named hooks as clients see them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from checkrail.config import AgentConfig
from checkrail.engine.frozen import thaw
from checkrail.engine.hook import HookSpec
from checkrail.runs.admission import own_assistant
from checkrail.runs.catalogue import Entry
from checkrail.server.shapes import when
from checkrail.store.rows import Row

FILE, API = "file", "api"
_ADDRESS = re.compile(r"(https?://)(?:[^/?#@]*@)?([^/?#]*)")
_HIDDEN = "(not shown)"
_SECRET = ("secret", "headers", "env", "url", "base_url", "key", "api_key", "token")


def agent_json(
    name: str, entry: Entry | None, row: Row | None, problem: str | None, *, whole: bool
) -> Any:
    """Return an agent: as it is used, and as a request made it, where one did.

    What may be secret in its blueprint is for who sees it `whole`: its owner, and admins.
    """
    made = entry is None or entry.made_over_http
    kept = row if made and row is not None else {}
    config = AgentConfig(name, "", enabled=True) if entry is None else entry.config
    switched = True if row is None else row["enabled"]
    return {
        "name": name,
        "kind": config.kind,
        "description": config.description or None,
        "enabled": config.enabled and switched and entry is not None,
        "version": kept.get("version", 1),
        "source": API if made else FILE,
        "declared_in": None if made else config.source,
        "owner": kept.get("owner"),
        "model": None if config.model is None else config.model.label,
        "tools": [tool.label for tool in config.tools],
        "parameters_schema": _schema(config.parameters_schema),
        "output_schema": _schema(config.output_schema),
        "hooks": [hook_json(spec) for spec in config.hooks],
        "tags": [*config.tags],
        "demands": [*config.demands],
        "on_crash": config.on_crash,
        "timeout_seconds": config.timeout_seconds,
        "blueprint": _blueprint(kept.get("blueprint"), whole=whole),
        "problem": problem,
        "signing_secret": None,
        "assistant_id": own_assistant(name),
        "created_at": when(kept.get("created_at")),
        "updated_at": when(kept.get("updated_at")),
    }


def _schema(schema: Mapping[str, Any] | None) -> Any:
    return None if schema is None else thaw(schema)


def hook_json(spec: HookSpec) -> dict[str, Any]:
    """Return a hook of an agent, as it was declared and filled in."""
    return {
        "name": spec.name,
        "points": [*dict.fromkeys(str(place.point) for place in spec.places)],
        "type": spec.target_type,
        "target": _target(spec),
        "lane": None if spec.lane is None else str(spec.lane),
        "mode": spec.mode,
        "timeout_seconds": spec.timeout,
        "on_error": spec.on_error_text,
        "source": spec.source,
    }


def _target(spec: HookSpec) -> str:
    """Name what a hook calls; of an address only where it is, for the rest may be secret."""
    found = _ADDRESS.match(spec.target_name) if spec.target_type == "http" else None
    return spec.target_name if found is None else f"{found[1]}{found[2]}"


def _blueprint(said: Any, *, whole: bool) -> Any:
    """Return a blueprint as it was made, or without the values of what may be secret in it."""
    if whole or not isinstance(said, (Mapping, list)):
        return said
    if isinstance(said, list):
        return [_blueprint(each, whole=False) for each in said]
    return {
        key: _HIDDEN if key in _SECRET else _blueprint(value, whole=False)
        for key, value in said.items()
    }


def version_json(row: Row, *, whole: bool) -> dict[str, Any]:
    """Return a version of an agent; what may be secret is for who sees it `whole`."""
    same = {name: row[name] for name in ("name", "version", "owner")}
    blueprint = _blueprint(row["blueprint"], whole=whole)
    return same | {"blueprint": blueprint, "created_at": when(row["created_at"])}


def named_hook_json(name: str, row: Row) -> dict[str, Any]:
    """Return a named hook that was defined over HTTP."""
    return {
        "name": name,
        "source": API,
        "definition": row["definition"],
        "owner": row["owner"],
        "created_at": when(row["created_at"]),
        "updated_at": when(row["updated_at"]),
    }


def file_hook_json(name: str, definition: Any) -> dict[str, Any]:
    """Return a named hook of a file; what may be secret in it is not shown."""
    shown = definition
    if isinstance(definition, Mapping):
        shown = {key: _HIDDEN if key in _SECRET else said for key, said in definition.items()}
    nothing = dict.fromkeys(("owner", "created_at", "updated_at"))
    return {"name": name, "source": FILE, "definition": shown, **nothing}
