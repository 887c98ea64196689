"""The JSON Schema of a project's file, made of the tables by which the file is read.

It lets pass whatever the loader lets pass. What only the loader can see, such as whether a function
is there, is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.config.agent_keys import AGENT, GRAPH, PROCEDURAL
from checkrail.config.agent_models import MODEL_KEYS
from checkrail.config.agent_tools import SERVER_KEYS
from checkrail.config.environment import ENV
from checkrail.config.gateway_reader import GATEWAY, PRICE, UPSTREAM
from checkrail.config.schema import (
    COMMON,
    DEFAULTS,
    OLDER_KEYS,
    OTHER_PARTS,
    OTHER_SERVERS,
    TOP,
    action_models,
    entry_keys,
)
from checkrail.config.script import CALL, REPLY
from checkrail.config.server_keys import (
    AGENTS_API,
    APPROVALS,
    AUTH,
    CHECKPOINTER,
    DEPENDENCIES,
    HTTP,
    LIMITS,
    RETENTION,
    SERVER,
    STORE,
    allow_null,
)
from checkrail.config.server_reader import OUTBOUND
from checkrail.config.sessions import COMMON as COMMON_KEYS
from checkrail.config.sessions import SESSIONS
from checkrail.config.settings import FOLDERS
from checkrail.config.value_checks import (
    TEXT,
    Check,
    Schema,
    accept_any,
    find_schema,
    seconds,
    text,
)
from checkrail.engine.points import ALIASES, HookPoint

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a project's file."""
    properties = _key_schemas(TOP, _SECTIONS) | dict.fromkeys(OTHER_PARTS | OTHER_SERVERS, True)
    return {
        "$schema": DRAFT,
        "title": "A project of Checkrail",
        **_object_schema(properties | {"$schema": {"type": "string"}}),
        "$defs": {
            "hook": {"allOf": [_ref("definition"), *_builtin_configs()]},
            "definition": _definition_schema(),
            "hooks": _hooks_schema(),
            "agent": _agent_schema(),
            "model": _model_schema(),
            **_shared_parts(),
        },
    }


def _object_schema(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    named = {"type": "object", "properties": {key: properties[key] for key in sorted(properties)}}
    return {**named, "additionalProperties": False, **more}


def _schema_by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _key_schemas(keys: Mapping[str, Check], sections: Mapping[str, Schema]) -> dict[str, Any]:
    """Return the schemas of some keys; those that another reader handles are among the sections."""
    missing = [key for key, check in keys.items() if check is accept_any and key not in sections]
    if missing:
        raise AssertionError(f"there is no schema for {', '.join(missing)}")
    return {key: sections.get(key) or find_schema(check) for key, check in keys.items()}


def _hooks_schema() -> Schema:
    """Return the schema of `hooks`, of a file or of an agent."""
    one_or_more = {"anyOf": [_ref("hook"), {"type": "array", "items": _ref("hook")}]}
    points = dict.fromkeys((*map(str, HookPoint), *ALIASES), allow_null(one_or_more))
    return _object_schema({**points, "path": find_schema(text), "timeout": allow_null(_SECONDS)})


def _definition_schema() -> Schema:
    """Return the schema of a hook: every key of every type, as that type reads it."""
    fields: dict[str, Any] = {}
    for model in action_models().values():
        own = model.model_json_schema(ref_template="#/$defs/{model}")["properties"]
        fields |= {key: _allow_variables(item) for key, item in own.items() if key not in COMMON}
    keys = {key: fields.get(key) or find_schema(check) for key, check in entry_keys().items()}
    return _object_schema(_with_older(keys))


def _with_older(keys: Mapping[str, Schema]) -> dict[str, Any]:
    """Tell editors which keys are older spellings."""
    return {
        key: {**schema, "deprecated": True, "description": f"older: say {OLDER_KEYS[key]}"}
        if key in OLDER_KEYS
        else schema
        for key, schema in keys.items()
    }


def _builtin_configs() -> list[Schema]:
    """Return the options of built-in hooks; in a definition they are looked at when it is used."""
    from checkrail.builtin import BUILTINS

    return [
        {
            "if": {"properties": {"builtin": {"const": name}}, "required": ["builtin"]},
            "then": {"properties": {"config": _options_schema(builtin.config_model)}},
        }
        for name, builtin in BUILTINS.items()
    ]


def _options_schema(model: Any) -> Schema:
    """Return the schema of a built-in hook's options, with shared definitions moved out."""
    schema = model.model_json_schema(ref_template="#/$defs/{model}")
    found: Schema = _allow_variables({key: schema[key] for key in schema if key != "$defs"})
    return found


def _shared_parts() -> dict[str, Any]:
    """Return what the schemas of actions and built-in hooks refer to."""
    from checkrail.builtin import BUILTINS

    found: dict[str, Any] = {}
    for model in (*action_models().values(), *(each.config_model for each in BUILTINS.values())):
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        found |= {name: _allow_variables(item) for name, item in schema.get("$defs", {}).items()}
    return found


def _allow_variables(schema: Any) -> Any:
    """Allow variables in every text: their values are checked when they are known."""
    if isinstance(schema, list):
        return [_allow_variables(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _allow_variables(item) for key, item in schema.items()}
    if schema.get("type") == "string":
        kept = {key: found[key] for key in ("type", "description", "default") if key in found}
        return {"anyOf": [found, _VARIABLE], **kept} if "enum" in found else kept
    return found


def _agent_schema() -> Schema:
    """Return the schema of an agent of any kind, which its keys determine."""
    keys = {**AGENT, **GRAPH.keys, **PROCEDURAL}
    tool = {"anyOf": [TEXT, _object_schema({"agent": TEXT}, required=["agent"])]}
    mcp = _object_schema({key: find_schema(check) for key, check in SERVER_KEYS.items()})
    sections = {
        "model": _ref("model"),
        "tools": allow_null({"type": "array", "items": tool}),
        "mcp": allow_null(_schema_by_name(mcp)),
        "hooks": allow_null(_ref("hooks")),
    }
    properties = _key_schemas(keys, sections)
    return {
        "anyOf": [TEXT, _object_schema({key: allow_null(item) for key, item in properties.items()})]
    }


def _model_schema() -> Schema:
    """Return the schema of a model: a name, a reference, or a mapping."""
    call = _object_schema(_key_schemas(CALL, {}), required=["tool"])
    calls = {"type": "array", "items": call}
    reply = {
        "anyOf": [{"type": "string"}, _object_schema(_key_schemas(REPLY, {"tool_calls": calls}))]
    }
    replies = allow_null({"type": "array", "items": reply})
    return {"anyOf": [TEXT, _object_schema(_key_schemas(MODEL_KEYS, {"replies": replies}))]}


def _prices_schema() -> Schema:
    return _schema_by_name(_object_schema(_key_schemas(PRICE, {}), required=["input", "output"]))


def _gateway_schema() -> Schema:
    sections = {
        "upstreams": allow_null(
            _schema_by_name(allow_null(_object_schema(_key_schemas(UPSTREAM, {}))))
        ),
        "prices": allow_null(_prices_schema()),
    }
    return _object_schema(_key_schemas(GATEWAY, sections))


def _env_schema() -> Schema:
    own = {key: allow_null(find_schema(check)) for key, check in ENV.items()}
    variables = {"patternProperties": {r"^[A-Z_][A-Z0-9_]*$": _SCALAR}}
    return {"anyOf": [TEXT, _object_schema(own, **variables)]}


_SECONDS = find_schema(seconds)
_OF_SERVER: Mapping[str, Check] = {
    "server": SERVER,
    "auth": AUTH,
    "http": HTTP,
    "store": STORE,
    "checkpointer": CHECKPOINTER,
    "database": text,
    "data_dir": text,
    "retention": RETENTION,
    "outbound": OUTBOUND,
    "limits": LIMITS,
    "approvals": APPROVALS,
    "agents_api": AGENTS_API,
    "dependencies": DEPENDENCIES,
    "sessions": SESSIONS,
}

_CHANNELS: Schema = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {key: find_schema(check) for key, check in COMMON_KEYS.items()},
    },
}

_SECTIONS: Mapping[str, Schema] = {
    "channels": allow_null(_CHANNELS),
    "hooks": _ref("hooks"),
    "definitions": allow_null(_schema_by_name(_ref("definition"))),
    "python_path": allow_null(find_schema(FOLDERS)),
    "defaults": allow_null(
        _object_schema(_with_older(_key_schemas(DEFAULTS, {"model": _ref("model")})))
    ),
    "env": allow_null(_env_schema()),
    "agents": _schema_by_name(_ref("agent")),
    "graphs": allow_null(_schema_by_name(_ref("agent"))),
    "prices": allow_null(_prices_schema()),
    "gateway": allow_null(_gateway_schema()),
    **{key: allow_null(find_schema(check)) for key, check in _OF_SERVER.items()},
}
"""The keys of the file that a part of their own reads."""
