"""The JSON Schema of a project's file, made of the tables by which the file is read.

It lets pass whatever the loader lets pass. What only the loader can see, such as whether a function
is there, is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.config import server_keys as server
from checkrail.config.agent_keys import AGENT, GRAPH, PROCEDURAL
from checkrail.config.agent_models import MODEL_KEYS
from checkrail.config.agent_tools import SERVER_KEYS
from checkrail.config.gateway_reader import GATEWAY, PRICE, UPSTREAM
from checkrail.config.kinds import TEXT, Check, Schema, anything, schema_of, seconds, text
from checkrail.config.schema import (
    COMMON,
    DEFAULTS,
    ENV,
    OTHER_PARTS,
    OTHER_SERVERS,
    TOP,
    entry_keys,
    models,
)
from checkrail.config.script import CALL, REPLY
from checkrail.config.server_keys import nullable
from checkrail.config.server_reader import OUTBOUND
from checkrail.config.settings import FOLDERS
from checkrail.engine.points import ALIASES, HookPoint

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a project's file."""
    properties = _of_keys(TOP, _SECTIONS) | dict.fromkeys(OTHER_PARTS | OTHER_SERVERS, True)
    return {
        "$schema": DRAFT,
        "title": "A project of Checkrail",
        **_object(properties | {"$schema": {"type": "string"}}),
        "$defs": {
            "hook": {"allOf": [_ref("definition"), *_builtin_configs()]},
            "definition": _definition(),
            "hooks": _hooks(),
            "agent": _agent(),
            "model": _model(),
            **_shared_parts(),
        },
    }


def _object(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    named = {"type": "object", "properties": {key: properties[key] for key in sorted(properties)}}
    return {**named, "additionalProperties": False, **more}


def _by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _of_keys(keys: Mapping[str, Check], sections: Mapping[str, Schema]) -> dict[str, Any]:
    """Return the schemas of some keys; those that somebody else reads are among the sections."""
    missing = [key for key, check in keys.items() if check is anything and key not in sections]
    if missing:
        raise AssertionError(f"there is no schema for {', '.join(missing)}")
    return {key: sections.get(key) or schema_of(check) for key, check in keys.items()}


def _hooks() -> Schema:
    """Return the schema of `hooks`, of a file or of an agent."""
    one_or_more = {"anyOf": [_ref("hook"), {"type": "array", "items": _ref("hook")}]}
    points = dict.fromkeys((*map(str, HookPoint), *ALIASES), nullable(one_or_more))
    return _object({**points, "path": schema_of(text), "timeout": nullable(_SECONDS)})


def _definition() -> Schema:
    """Return the schema of what a hook says: every key of every type, as that type reads it."""
    fields: dict[str, Any] = {}
    for model in models().values():
        own = model.model_json_schema(ref_template="#/$defs/{model}")["properties"]
        fields |= {key: _written(item) for key, item in own.items() if key not in COMMON}
    keys = {key: fields.get(key) or schema_of(check) for key, check in entry_keys().items()}
    return _object(keys)


def _builtin_configs() -> list[Schema]:
    """Return the options of built-in hooks; in a definition they are looked at when it is used."""
    from checkrail.builtin import BUILTINS

    return [
        {
            "if": {"properties": {"builtin": {"const": name}}, "required": ["builtin"]},
            "then": {"properties": {"config": _options(builtin.config_model)}},
        }
        for name, builtin in BUILTINS.items()
    ]


def _options(model: Any) -> Schema:
    """Return the schema of a built-in hook's options; what it refers to has a place for all."""
    schema = model.model_json_schema(ref_template="#/$defs/{model}")
    found: Schema = _written({key: schema[key] for key in schema if key != "$defs"})
    return found


def _shared_parts() -> dict[str, Any]:
    """Return what the schemas of actions and built-in hooks refer to."""
    from checkrail.builtin import BUILTINS

    found: dict[str, Any] = {}
    for model in (*models().values(), *(each.config_model for each in BUILTINS.values())):
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        found |= {name: _written(item) for name, item in schema.get("$defs", {}).items()}
    return found


def _written(schema: Any) -> Any:
    """Let variables stand in every text: what they come to is checked when they are there."""
    if isinstance(schema, list):
        return [_written(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _written(item) for key, item in schema.items()}
    if schema.get("type") == "string":
        kept = {key: found[key] for key in ("type", "description", "default") if key in found}
        return {"anyOf": [found, _VARIABLE], **kept} if "enum" in found else kept
    return found


def _agent() -> Schema:
    """Return the schema of an agent of any kind, which says by its keys what it is."""
    keys = {**AGENT, **GRAPH.keys, **PROCEDURAL}
    tool = {"anyOf": [TEXT, _object({"agent": TEXT}, required=["agent"])]}
    mcp = _object({key: schema_of(check) for key, check in SERVER_KEYS.items()})
    sections = {
        "model": _ref("model"),
        "tools": nullable({"type": "array", "items": tool}),
        "mcp": nullable(_by_name(mcp)),
        "hooks": nullable(_ref("hooks")),
    }
    properties = _of_keys(keys, sections)
    return {"anyOf": [TEXT, _object({key: nullable(item) for key, item in properties.items()})]}


def _model() -> Schema:
    """Return the schema of a model: a name, a reference, or a mapping."""
    call = _object(_of_keys(CALL, {}), required=["tool"])
    calls = {"type": "array", "items": call}
    reply = {"anyOf": [{"type": "string"}, _object(_of_keys(REPLY, {"tool_calls": calls}))]}
    replies = nullable({"type": "array", "items": reply})
    return {"anyOf": [TEXT, _object(_of_keys(MODEL_KEYS, {"replies": replies}))]}


def _gateway() -> Schema:
    sections = {
        "upstreams": nullable(_by_name(nullable(_object(_of_keys(UPSTREAM, {}))))),
        "prices": nullable(_by_name(_object(_of_keys(PRICE, {}), required=["input", "output"]))),
    }
    return _object(_of_keys(GATEWAY, sections))


def _env() -> Schema:
    own = {key: nullable(schema_of(check)) for key, check in ENV.items()}
    variables = {"patternProperties": {r"^[A-Z_][A-Z0-9_]*$": _SCALAR}}
    return {"anyOf": [TEXT, _object(own, **variables)]}


_SECONDS = schema_of(seconds)
_OF_SERVER: Mapping[str, Check] = {
    "server": server.SERVER,
    "auth": server.AUTH,
    "http": server.HTTP,
    "store": server.STORE,
    "checkpointer": server.CHECKPOINTER,
    "database": text,
    "data_dir": text,
    "retention": server.RETENTION,
    "outbound": OUTBOUND,
    "limits": server.LIMITS,
    "approvals": server.APPROVALS,
    "agents_api": server.AGENTS_API,
    "dependencies": server.DEPENDENCIES,
}

_SECTIONS: Mapping[str, Schema] = {
    "hooks": _ref("hooks"),
    "definitions": nullable(_by_name(_ref("definition"))),
    "python_path": nullable(schema_of(FOLDERS)),
    "defaults": nullable(_object(_of_keys(DEFAULTS, {"model": _ref("model")}))),
    "env": nullable(_env()),
    "agents": _by_name(_ref("agent")),
    "graphs": nullable(_by_name(_ref("agent"))),
    "gateway": nullable(_gateway()),
    **{key: nullable(schema_of(check)) for key, check in _OF_SERVER.items()},
}
"""The keys of the file that a part of their own reads."""
