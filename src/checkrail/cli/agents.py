"""The agents of a file: which model each asks, what it can call, and its own hooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.table import Table

from checkrail.cli.plan import hook_row
from checkrail.cli.show import cell, new_table
from checkrail.engine.points import HookPoint
from checkrail.engine.registry import HookRegistry

if TYPE_CHECKING:
    from checkrail.config import AgentConfig
    from checkrail.engine.hook import HookSpec

Plan = dict[str, list[dict[str, Any]]]


def plan_of(specs: Iterable[HookSpec]) -> tuple[Plan, list[str]]:
    """Return the hooks of one level by their points, in order, and those that are switched off."""
    specs = list(specs)
    registry = HookRegistry()
    registry.swap(specs)
    plan = {
        str(point): [hook_row(bound) for bound in registry.bound(point)]
        for point in HookPoint
        if registry.has(point)
    }
    return plan, [spec.name for spec in specs if spec.mode == "off"]


def agent_row(agent: AgentConfig) -> dict[str, Any]:
    """Tell of an agent what can be known before it runs, and no secret."""
    plan, off = plan_of(agent.hooks)
    return {
        "type": agent.kind,
        "model": agent.model.label if agent.model else None,
        "path": agent.path or None,
        "command": agent.command[0] if agent.command else None,
        "description": getattr(agent.description, "written", agent.description),
        "tools": [name for tool in agent.tools for name in tool.names or (tool.label,)],
        "mcp": [server.name for server in agent.mcp],
        "max_iterations": agent.max_iterations,
        "model_timeout": agent.model_timeout,
        "plan": plan,
        "off": off,
    }


def agents_table(rows: dict[str, dict[str, Any]]) -> Table:
    """Show the agents, one a line."""
    table = new_table("  agent", "type", "model", "calls", folded={"calls"})
    for name, row in rows.items():
        model = row["model"] or row["path"] or row["command"] or ""
        calls = [*row["tools"], *(f"{server} (MCP)" for server in row["mcp"])]
        table.add_row(cell(f"  {name}", "bold"), row["type"], cell(model), cell(", ".join(calls)))
    return table
