"""Agents that are tools of agents: whether each can be one, and whether calls come to an end."""

from __future__ import annotations

import re
from collections.abc import Mapping

from checkrail.config.agent_keys import AUTONOMOUS
from checkrail.config.agent_tools import ToolConfig
from checkrail.config.agents import AgentConfig
from checkrail.config.circles import circles
from checkrail.config.problems import Report

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""


def check_calls(agents: Mapping[str, AgentConfig], reports: Mapping[str, Report]) -> None:
    """Report agents that cannot be called, and those that call each other without end."""
    for agent in agents.values():
        for tool in agent.tools:
            if tool.agent is None:
                continue
            if tool.agent not in agents:
                reports[agent.name].unknown(tool.where, "agent", tool.agent, agents)
            else:
                _check_called(tool, agents[tool.agent], reports[agent.name])
    calls = {
        name: [(tool.where, tool.agent) for tool in agent.tools if tool.agent is not None]
        for name, agent in agents.items()
    }
    for name, where, way in circles(calls):
        reports[name].add(where, f"a circle: {way}", "agents that come to an end")


def _check_called(tool: ToolConfig, agent: AgentConfig, report: Report) -> None:
    if agent.kind != AUTONOMOUS:
        found = f"the agent {agent.name!r}, which is of type {agent.kind}"
        report.add(tool.where, found, "an autonomous agent: others cannot be tools yet")
    elif not TOOL_NAME.fullmatch(agent.name):
        expected = "a name of up to 64 letters of a to z, digits, - and _"
        report.add(tool.where, f"{agent.name!r}, which is no name for a tool", expected)
