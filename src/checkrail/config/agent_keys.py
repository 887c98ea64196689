"""Keys of agents: which there are for each kind, and what may stand under each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.config.schema import DEFAULTS
from checkrail.config.server_keys import TAG, MappingCheck, positive, reference
from checkrail.config.value_checks import (
    Check,
    ListCheck,
    WordCheck,
    accept_any,
    check_secrets,
    command,
    flag,
    mapping,
    seconds,
    text,
    texts,
)

AUTONOMOUS, GRAPH_KIND, PROCEDURAL_KIND = KINDS = ("autonomous", "graph", "procedural")
"""Kinds of agents."""

POLICIES = ("resume", "fail", "restart")
"""What becomes of a run whose process died."""

_DEMANDS = ListCheck(TAG, "a list of tags", most=8)
"""Tags that a runner must have: few, for runs are sorted by them."""

_ANY_KIND: dict[str, Check] = {
    "type": WordCheck(KINDS),
    "description": text,
    "parameters_schema": mapping,
    "output_schema": mapping,
    "hooks": accept_any,
    "tags": texts,
    "demands": _DEMANDS,
    "on_crash": WordCheck(POLICIES),
    "timeout_seconds": seconds,
    "enabled": flag,
}

AGENT: dict[str, Check] = {
    "model": accept_any,
    "system_prompt": text,
    "tools": accept_any,
    "mcp": accept_any,
    "max_iterations": positive,
    "model_timeout": seconds,
    **_ANY_KIND,
}
"""Keys of an autonomous agent."""

GRAPH = MappingCheck({"path": reference, **_ANY_KIND})
"""Keys of a graph."""

PROGRAM: dict[str, Check] = {
    "parameters_as": WordCheck(("stdin", "arguments")),
    "cwd": text,
    "env": check_secrets,
}
"""Keys of a procedural agent that is a program."""

PROCEDURAL: dict[str, Check] = {"path": reference, "command": command, **PROGRAM, **_ANY_KIND}
"""Keys of a procedural agent."""

AGENT_WORDS = {
    **dict.fromkeys(("instructions", "prompt", "system", "system_message"), "system_prompt"),
    **dict.fromkeys(("llm", "model_name"), "model"),
    **dict.fromkeys(("functions", "handoffs", "subagents", "sub_agents"), "tools"),
    **dict.fromkeys(("mcpServers", "mcp_servers", "servers"), "mcp"),
    **dict.fromkeys(("output_type", "response_format", "schema"), "output_schema"),
    **dict.fromkeys(("iterations", "max_steps", "max_turns"), "max_iterations"),
    "timeout": "model_timeout",
    "kind": "type",
}
"""What keys of an agent are called elsewhere."""


def find_agent_kind(given: Mapping[str, Any]) -> Any:
    """Return the kind of an agent: as written, or as its keys imply."""
    if "type" in given:
        return given["type"]
    if "model" in given or not given.keys() & {"path", "command"}:
        return AUTONOMOUS
    return PROCEDURAL_KIND if "command" in given else GRAPH_KIND


def find_blueprint(data: Any) -> dict[str, Any] | None:
    """Return the agent in a file, if the file is the blueprint of one."""
    if not isinstance(data, dict) or "agents" in data:
        return None
    kind = find_agent_kind(data) if data.keys() & {"type", "model", "command"} else None
    if kind == GRAPH_KIND and "path" in data:
        known = {*GRAPH.keys}
    elif kind == PROCEDURAL_KIND:
        known = {*PROCEDURAL}
    elif kind == AUTONOMOUS or "model" in data:
        known = {*AGENT} | AGENT_WORDS.keys() - DEFAULTS.keys()
    else:
        return None
    return {key: item for key, item in data.items() if key in known - {"hooks"}}
