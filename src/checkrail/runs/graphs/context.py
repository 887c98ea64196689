"""The context of a run: beside `configurable`, and as a graph's schema wants it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel
from typing_extensions import is_typeddict


def mirror_settings(
    config: Mapping[str, Any] | None, context: Any
) -> tuple[dict[str, Any] | None, Any]:
    """Return a config and a context of which each has the other's settings beside its own."""
    configurable = (config or {}).get("configurable") or {}
    if not isinstance(context or {}, Mapping) or not (context or configurable):
        return (None if config is None else dict(config)), context
    said = context or {}
    whole = {**(config or {}), "configurable": {**said, **configurable}}
    return whole, {**configurable, **said}


def graph_context(schema: Any, given: Any) -> Any:
    """Return a run's context for a graph: fields that its schema has, defaults for the others."""
    is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
    is_known = is_model or dataclasses.is_dataclass(schema) or (given and is_typeddict(schema))
    if not is_known or not isinstance(given or {}, Mapping):
        return given or None
    return {key: value for key, value in (given or {}).items() if _has_field(schema, key)}


def context_names(config: Mapping[str, Any] | None, context: Any) -> list[str]:
    """Return the settings that a request gives as its context alone."""
    configurable = (config or {}).get("configurable") or {}
    given = context if isinstance(context, Mapping) else {}
    return [name for name in given if name not in configurable]


def drop_unknown(
    configurable: Mapping[str, Any], names: Collection[str], known: Any
) -> Mapping[str, Any]:
    """Return `configurable` without those of these settings that a graph's context lacks."""
    if not names or not isinstance(known or {}, Mapping):
        return configurable
    unknown = {*names} - (known or {}).keys()
    return {key: value for key, value in configurable.items() if key not in unknown}


def _has_field(schema: Any, name: str) -> bool:
    if is_typeddict(schema):
        return name in schema.__required_keys__ | schema.__optional_keys__
    if dataclasses.is_dataclass(schema):
        return any(field.init and field.name == name for field in dataclasses.fields(schema))
    if schema.model_config.get("extra") == "allow" or name in schema.model_fields:
        return True
    return any(name in _field_names(field) for field in schema.model_fields.values())


def _field_names(field: Any) -> tuple[str, ...]:
    alias = field.validation_alias or field.alias
    return tuple(
        str(path if isinstance(path, str) else path.path[0])
        for path in getattr(alias, "choices", (alias,))
        if path is not None
    )
