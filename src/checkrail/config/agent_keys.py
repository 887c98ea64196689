"""Keys of agents: which there are for each kind, and what may stand under each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.config.kinds import (
    Check,
    Choice,
    ListOf,
    anything,
    command,
    flag,
    mapping,
    seconds,
    secrets,
    text,
    texts,
)
from checkrail.config.schema import DEFAULTS
from checkrail.config.server_keys import TAG, Members, positive, reference

AUTONOMOUS, GRAPH_KIND, PROCEDURAL_KIND = KINDS = ("autonomous", "graph", "procedural")
"""Kinds of agents."""

POLICIES = ("resume", "fail", "restart")
"""What becomes of a run whose process died."""

_DEMANDS = ListOf(TAG, "a list of tags", most=8)
"""Tags that a runner must have: few, for runs are sorted by them."""

_ANY_KIND: dict[str, Check] = {
    "type": Choice(KINDS),
    "description": text,
    "parameters_schema": mapping,
    "output_schema": mapping,
    "hooks": anything,
    "tags": texts,
    "demands": _DEMANDS,
    "on_crash": Choice(POLICIES),
    "timeout_seconds": seconds,
    "enabled": flag,
}

AGENT: dict[str, Check] = {
    "model": anything,
    "system_prompt": text,
    "tools": anything,
    "mcp": anything,
    "max_iterations": positive,
    "model_timeout": seconds,
    **_ANY_KIND,
}
"""Keys of an autonomous agent."""

GRAPH = Members({"path": reference, **_ANY_KIND})
"""Keys of a graph."""

PROGRAM: dict[str, Check] = {
    "parameters_as": Choice(("stdin", "arguments")),
    "cwd": text,
    "env": secrets,
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


def kind_of_agent(given: Mapping[str, Any]) -> Any:
    """Return the kind of an agent: what it says, or else what its keys say."""
    if "type" in given:
        return given["type"]
    if "model" in given or not given.keys() & {"path", "command"}:
        return AUTONOMOUS
    return PROCEDURAL_KIND if "command" in given else GRAPH_KIND


def blueprint_of(data: Any) -> dict[str, Any] | None:
    """Return what a file says of an agent, if the file is the blueprint of one."""
    if not isinstance(data, dict) or "agents" in data:
        return None
    kind = kind_of_agent(data) if data.keys() & {"type", "model", "command"} else None
    if kind == GRAPH_KIND and "path" in data:
        known = {*GRAPH.keys}
    elif kind == PROCEDURAL_KIND:
        known = {*PROCEDURAL}
    elif kind == AUTONOMOUS or "model" in data:
        known = {*AGENT} | AGENT_WORDS.keys() - DEFAULTS.keys()
    else:
        return None
    return {key: item for key, item in data.items() if key in known - {"hooks"}}
